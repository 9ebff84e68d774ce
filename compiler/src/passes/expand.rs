//! Expands reads of quantised blocks, and of runs of their chunks, into byte operations, by the format's description.
//!
//! After this pass the only block reads left are raw ones.

use super::rewrite::{Cursor, rewrite};
use super::runs::run;
use hrx_ir::quant::{Bytes, CHUNK, Format, Scales};
use hrx_ir::tile::{BinaryOp, BlockPart, CmpOp, Content, Elem, Kernel, Op, Shape, Type, UnaryOp, Value, View};

/// Expands every block read of the kernel but the raw ones.
pub fn expand_blocks(k: &mut Kernel) {
    rewrite(k, |at, inst| match at.k.insts[inst].op {
        Op::LoadBlock { part: BlockPart::Raw(_), .. } => None,
        Op::LoadBlock { view, index, part, ty } => {
            Some(BlockReader::new(at, view, index, ty.shape.dims()[0]).part(part))
        }
        Op::LoadRun { view, index, part, ty } => Some(run(at, view, index, part, ty)),
        _ => None,
    });
}

/// Appends the expansion of reads of one block of some rows.
pub(super) struct BlockReader<'c, 'k> {
    pub(super) at: &'c mut Cursor<'k>,
    view: View,
    index: [Value; 2],
    rows: u32,
    pub(super) format: &'static Format,
}

impl<'c, 'k> BlockReader<'c, 'k> {
    pub(super) fn new(at: &'c mut Cursor<'k>, view: View, index: [Value; 2], rows: u32) -> BlockReader<'c, 'k> {
        let Content::Quant(format) = at.k.views[view].content else {
            unreachable!("the verifier holds block reads to quantised views")
        };
        BlockReader { at, view, index, rows, format }
    }

    /// `n` fields of a type from byte `at` of each row's block.
    fn raw(&mut self, at: u32, elem: Elem, n: u32) -> Value {
        let ty = Type::new(elem, &[self.rows, n]);
        self.at.push(Op::LoadBlock { view: self.view, index: self.index, part: BlockPart::Raw(at), ty })
    }

    pub(super) fn part(&mut self, part: BlockPart) -> Value {
        match part {
            BlockPart::Codes(chunk) => self.codes(chunk),
            BlockPart::Scales => self.scales(&(self.format.scales)()),
            BlockPart::Offsets => self.offsets(),
            BlockPart::Values(chunk) => self.values(chunk),
            BlockPart::Raw(_) => unreachable!("raw reads stay"),
        }
    }

    fn codes(&mut self, chunk: u32) -> Value {
        let v = self.bytes(&(self.format.codes)(chunk));
        if self.format.signed { self.at.bitcast(v, Elem::I8) } else { v }
    }

    /// A byte expression as operations on `u8 [rows, n]`.
    fn bytes(&mut self, e: &Bytes) -> Value {
        match e {
            Bytes::Raw { at, len } => self.raw(*at, Elem::U8, *len),
            Bytes::Bits { at, len } => self.bits(*at, *len, 0),
            Bytes::Shl(inner, n) => {
                if let Bytes::Bits { at, len } = **inner {
                    return self.bits(at, len, *n);
                }
                self.with_constant(BinaryOp::Shl, inner, i64::from(*n))
            }
            Bytes::Shr(inner, n) => self.with_constant(BinaryOp::Shr, inner, i64::from(*n)),
            Bytes::And(inner, m) => self.with_constant(BinaryOp::And, inner, i64::from(*m)),
            Bytes::Or(a, b) => {
                let (a, b) = (self.bytes(a), self.bytes(b));
                self.at.binary(BinaryOp::Or, a, b)
            }
            Bytes::Concat(a, b) => {
                let args = [self.bytes(a), self.bytes(b)];
                self.at.push(Op::Concat { args, axis: 1 })
            }
        }
    }

    fn with_constant(&mut self, op: BinaryOp, inner: &Bytes, n: i64) -> Value {
        let v = self.bytes(inner);
        self.at.binary_int(op, v, n)
    }

    /// Bits spread to bytes of 0 or `1 << shift`: each byte eight times, each copy masked with its own bit.
    fn bits(&mut self, at: u32, len: u32, shift: u8) -> Value {
        let n = 8 * len;
        let raw = self.raw(at, Elem::U8, len);
        let copies = self.at.push(Op::Repeat { arg: raw, times: 8 });
        let place = self.at.push(Op::Iota { ty: Type::new(Elem::U8, &[n]) });
        let bit = self.at.binary_int(BinaryOp::And, place, 7);
        let one = self.at.int(1, bit);
        let mask = self.at.binary(BinaryOp::Shl, one, bit);
        let mask = self.at.push(Op::Reshape { arg: mask, shape: Shape::new(&[1, n]) });
        let mask = self.at.broadcast(mask, Shape::new(&[self.rows, n]));
        let masked = self.at.binary(BinaryOp::And, copies, mask);
        let zero = self.at.int(0, masked);
        let set = self.at.cmp(CmpOp::Ne, masked, zero);
        let bit = self.at.int(1 << shift, masked);
        self.at.select(set, bit, zero)
    }

    fn scales(&mut self, s: &Scales) -> Value {
        let shape = Shape::new(&[self.rows, self.format.groups()]);
        match s {
            Scales::One { at, negate } => {
                let half = self.raw(*at, Elem::F16, 1);
                let mut d = self.at.convert(half, Elem::F32);
                if *negate {
                    d = self.at.unary(UnaryOp::Neg, d);
                }
                self.at.broadcast(d, shape)
            }
            Scales::Scaled { at, by, signed } => {
                let half = self.raw(*at, Elem::F16, 1);
                let d = self.at.convert(half, Elem::F32);
                let d = self.at.broadcast(d, shape);
                let mut by = self.bytes(by);
                if *signed {
                    by = self.at.bitcast(by, Elem::I8);
                }
                let by = self.at.convert(by, Elem::F32);
                self.at.binary(BinaryOp::Mul, d, by)
            }
        }
    }

    fn offsets(&mut self) -> Value {
        let f = self.format;
        let zero_part = (f.zero != 0).then(|| {
            let scale = self.scales(&(f.scales)());
            let zero = self.at.float(f64::from(f.zero), scale);
            self.at.binary(BinaryOp::Mul, scale, zero)
        });
        let min = f.mins.map(|mins| self.scales(&mins()));
        match (zero_part, min) {
            (Some(z), Some(m)) => self.at.binary(BinaryOp::Add, z, m),
            (Some(v), None) | (None, Some(v)) => v,
            (None, None) => self.at.zeros(Type::new(Elem::F32, &[self.rows, f.groups()])),
        }
    }

    /// The part of a per-group value that belongs to a chunk, spread over its elements.
    fn spread(&mut self, groups: Value, chunk: u32) -> Value {
        let n = CHUNK / self.format.group;
        let part = self.at.columns(groups, chunk * n, n);
        self.at.push(Op::Repeat { arg: part, times: self.format.group })
    }

    fn values(&mut self, chunk: u32) -> Value {
        let f = self.format;
        let codes = self.codes(chunk);
        let mut x = self.at.convert(codes, Elem::F32);
        if f.zero != 0 {
            let zero = self.at.float(f64::from(f.zero), x);
            x = self.at.binary(BinaryOp::Sub, x, zero);
        }
        let scales = self.scales(&(f.scales)());
        let scales = self.spread(scales, chunk);
        x = self.at.binary(BinaryOp::Mul, scales, x);
        if let Some(mins) = f.mins {
            let mins = self.scales(&mins());
            let mins = self.spread(mins, chunk);
            x = self.at.binary(BinaryOp::Sub, x, mins);
        }
        x
    }
}
