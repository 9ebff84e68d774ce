//! Expands reads of runs of chunks into reads of blocks.

use super::expand::BlockReader;
use super::rewrite::Cursor;
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::{BinaryOp, BlockPart, CmpOp, Content, Extent, RunPart, Type, Value, View};

/// The value of a run's read. Blocks from the row's end on are read as its last one, and zeros taken instead.
pub(super) fn run(at: &mut Cursor, view: View, [row, chunk]: [Value; 2], part: RunPart, ty: Type) -> Value {
    let data = &at.k.views[view];
    let (Content::Quant(format), extent) = (data.content, data.dims[1]) else {
        unreachable!("the verifier holds run reads to quantised views")
    };
    let (rows, count, per_block) = (ty.shape.dims()[0], ty.shape.last() / part.of_chunk(format).1, format.chunks());
    // A chunk below 0 is an error of the kernel, which stays inside the view all the same.
    let chunk = at.binary_int(BinaryOp::Max, chunk, 0);
    let first = at.binary_int(BinaryOp::Shr, chunk, i64::from(per_block.ilog2()));
    let blocks = (0..count.div_ceil(per_block)).map(|n| {
        // How far the block's number is from that of the row's end, without a sum that could wrap.
        let end = match extent {
            Extent::Const(blocks) => at.int(i64::from(blocks.min(i32::MAX as u32)) - i64::from(n), first),
            Extent::Param(v) => at.binary_int(BinaryOp::Sub, v, i64::from(n)),
        };
        let inside = at.cmp(CmpOp::Lt, first, end);
        let last = at.binary_int(BinaryOp::Sub, end, 1);
        let block = at.binary(BinaryOp::Min, first, last);
        let block = at.binary_int(BinaryOp::Add, block, i64::from(n));
        let mut reader = BlockReader::new(at, view, [row, block], rows);
        let v = match count < per_block {
            true => chosen(&mut reader, part, count, chunk),
            false => reader.chunks(part, 0, per_block),
        };
        let zeros = at.zeros(at.k.ty(v));
        at.select(inside, v, zeros)
    });
    let blocks = blocks.collect();
    at.beside(blocks)
}

/// The part of a block that begins with a chunk, which is a multiple of `count`: one of several at static places.
fn chosen(reader: &mut BlockReader, part: RunPart, count: u32, chunk: Value) -> Value {
    let per_block = reader.format.chunks();
    let within = reader.at.binary_int(BinaryOp::And, chunk, i64::from(per_block) - 1);
    let mut v = reader.chunks(part, 0, count);
    for start in (count..per_block).step_by(count as usize) {
        let other = reader.chunks(part, start, count);
        let start = reader.at.int(i64::from(start), within);
        let is_other = reader.at.cmp(CmpOp::Ge, within, start);
        v = reader.at.select(is_other, other, v);
    }
    v
}

impl BlockReader<'_, '_> {
    /// A part of some chunks of the block.
    fn chunks(&mut self, part: RunPart, start: u32, count: u32) -> Value {
        let each = CHUNK / self.format.group;
        match part {
            RunPart::Codes => self.beside(start..start + count, BlockPart::Codes),
            RunPart::Values => self.beside(start..start + count, BlockPart::Values),
            RunPart::Scales => self.groups(BlockPart::Scales, start * each, count * each),
            RunPart::Offsets => self.groups(BlockPart::Offsets, start * each, count * each),
        }
    }

    fn beside(&mut self, chunks: std::ops::Range<u32>, part: fn(u32) -> BlockPart) -> Value {
        let parts = chunks.map(|c| self.part(part(c))).collect();
        self.at.beside(parts)
    }

    fn groups(&mut self, part: BlockPart, start: u32, count: u32) -> Value {
        let all = self.part(part);
        self.at.columns(all, start, count)
    }
}
