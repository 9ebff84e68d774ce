//! Quantised formats against gguf-py's values, and block loads against the formats.

use hrx_ir::quant::{CHUNK, FORMATS, Format};
use hrx_ir::tile::interp::{Arg, FaultKind, Memory, Options, run};
use hrx_ir::tile::{Access, BlockPart, Builder, Elem, Type};
use proptest::prelude::*;

/// Blocks of a format with the values gguf-py gives them. Written by tests/recipes/quant_cases.py.
struct Record {
    format: &'static Format,
    blocks: Vec<u8>,
    values: Vec<f32>,
}

fn records() -> Vec<Record> {
    let mut rest: &[u8] = include_bytes!("../data/quant_cases.bin");
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at_checked(n)?;
        rest = tail;
        Some(head)
    };
    let mut out = Vec::new();
    while let Some(name) = take(8) {
        let name = std::str::from_utf8(name).unwrap().trim_end_matches('\0');
        let format = Format::from_name(name).unwrap();
        let mut count = || u32::from_le_bytes(take(4).unwrap().try_into().unwrap()) as usize;
        let (blocks, values) = (count(), count());
        let blocks = take(blocks * format.block_bytes as usize).unwrap().to_vec();
        let values = take(4 * values).unwrap().chunks_exact(4);
        let values = values.map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        out.push(Record { format, blocks, values });
    }
    assert_eq!(out.len(), FORMATS.len(), "a record for every format");
    out
}

/// Reads a part of every block of a row, one program a block; `ty` is that of one block's part.
fn read_part(format: &'static Format, blocks: &[u8], part: BlockPart, ty: Type) -> Vec<f64> {
    let n = blocks.len() as u32 / format.block_bytes;
    let mut b = Builder::new("part");
    let x = b.quant_param(format, &[1.into(), n.into()]);
    let y = b.view_param(ty.elem, &[n.into(), ty.shape.last().into()], Access::Out);
    b.grid(0, hrx_ir::tile::GridExpr::constant(n));
    let (zero, pid) = (b.index(0), b.program_id(0));
    let tile = match part {
        BlockPart::Raw(at) => b.load_block_raw(x, [zero, pid], at, ty),
        _ => b.load_block(x, [zero, pid], part, 1),
    };
    b.store(y, &[pid, zero], tile, None);
    let kernel = b.finish();
    let mut memory = Memory::new();
    let x = memory.add(blocks.to_vec());
    let y = memory.add_uninit((n * ty.shape.last() * ty.elem.bytes()) as usize);
    run(&kernel, &[Arg::buffer(x), Arg::buffer(y)], &mut memory, &Options::default()).unwrap();
    memory.elems(y, ty.elem)
}

fn f32_type(n: u32) -> Type {
    Type::new(Elem::F32, &[1, n])
}

/// The element numbers of a chunk of every block, in the order of [`read_part`].
fn chunk_elements(r: &Record, chunk: u32) -> impl Iterator<Item = usize> {
    let (block, n) = (r.format.block, r.values.len() as u32);
    (0..n / block).flat_map(move |b| (0..CHUNK).map(move |i| (b * block + chunk * CHUNK + i) as usize))
}

#[test]
fn dequantisation_is_that_of_gguf_py_bit_for_bit() {
    for r in records() {
        let mut out = vec![0.0; r.values.len()];
        r.format.dequantize_row(&r.blocks, &mut out);
        for (i, (got, want)) in out.iter().zip(&r.values).enumerate() {
            assert_eq!(got.to_bits(), want.to_bits(), "{} element {i}: {got}, not {want}", r.format.name);
        }
    }
}

#[test]
fn block_values_are_the_dequantised_ones() {
    for r in records() {
        for c in 0..r.format.chunks() {
            let got = read_part(r.format, &r.blocks, BlockPart::Values(c), f32_type(CHUNK));
            for (i, got) in chunk_elements(&r, c).zip(got) {
                assert_eq!((got as f32).to_bits(), r.values[i].to_bits(), "{} element {i}", r.format.name);
            }
        }
    }
}

#[test]
fn codes_scales_and_offsets_make_the_values() {
    for r in records() {
        let f = r.format;
        let scales = read_part(f, &r.blocks, BlockPart::Scales, f32_type(f.groups()));
        let offsets = read_part(f, &r.blocks, BlockPart::Offsets, f32_type(f.groups()));
        assert_eq!(offsets.iter().any(|&x| x != 0.0), f.has_offset(), "{}", f.name);
        for c in 0..f.chunks() {
            let codes = read_part(f, &r.blocks, BlockPart::Codes(c), Type::new(f.code_elem(), &[1, CHUNK]));
            for (i, code) in chunk_elements(&r, c).zip(codes) {
                let g = i / f.group as usize;
                let (got, want) = (scales[g] * code - offsets[g], f64::from(r.values[i]));
                let bound = (scales[g] * code).abs() + offsets[g].abs();
                assert!((got - want).abs() <= bound * 2f64.powi(-23), "{} element {i}: {got}, not {want}", f.name);
            }
        }
    }
}

#[test]
fn raw_parts_are_bytes() {
    let blocks: Vec<u8> = (0..36).collect();
    let q4_0 = Format::from_name("q4_0").unwrap();
    let u8s = read_part(q4_0, &blocks, BlockPart::Raw(2), Type::new(Elem::U8, &[1, 3]));
    assert_eq!(u8s, [2.0, 3.0, 4.0, 20.0, 21.0, 22.0]);
    let u16s = read_part(q4_0, &blocks, BlockPart::Raw(0), Type::new(Elem::U16, &[1, 1]));
    assert_eq!(u16s, [256.0, f64::from(0x1312)]);
    let mut one = vec![0; 18];
    one[1] = 0x3c;
    let f16s = read_part(q4_0, &one, BlockPart::Raw(0), Type::new(Elem::F16, &[1, 1]));
    assert_eq!(f16s, [1.0]);
}

#[test]
fn rows_may_be_gathered_and_are_bounded() {
    let q8_0 = Format::from_name("q8_0").unwrap();
    let kernel = {
        let mut b = Builder::new("rows");
        let rows = b.view_param(Elem::I32, &[2.into()], Access::In);
        let x = b.quant_param(q8_0, &[3.into(), 2.into()]);
        let y = b.view_param(Elem::I8, &[2.into(), CHUNK.into()], Access::Out);
        let (zero, one) = (b.index(0), b.index(1));
        let ids = b.load(rows, &[zero], &[2], None);
        let codes = b.load_block(x, [ids, one], BlockPart::Codes(0), 2);
        b.store(y, &[zero, zero], codes, None);
        b.finish()
    };
    // Each block's codes are its number.
    let blocks: Vec<u8> = (0..6).flat_map(|n| [n; 34]).collect();
    let run = |ids: [f64; 2], len: usize| {
        let mut memory = Memory::new();
        let ids = memory.add_elems(Elem::I32, &ids);
        let x = memory.add(blocks[..len].to_vec());
        let y = memory.add_uninit(64);
        let args = [Arg::buffer(ids), Arg::buffer(x), Arg::buffer(y)];
        let done = run(&kernel, &args, &mut memory, &Options::default());
        done.map(|_| memory.elems(y, Elem::I8)).map_err(|f| f.kind)
    };
    assert_eq!(run([2.0, 0.0], 6 * 34), Ok([[5.0; 32], [1.0; 32]].concat()));
    assert!(matches!(run([0.0, 3.0], 6 * 34), Err(FaultKind::OutOfBounds { axis: 0, extent: 3, .. })));
    assert!(matches!(run([0.0, 2.0], 6 * 34 - 1), Err(FaultKind::OutsideBuffer { byte: 170, len: 203, .. })));
}

proptest! {
    #[test]
    fn any_bytes_are_a_block(seed in proptest::collection::vec(any::<u8>(), 292), which in 0..FORMATS.len()) {
        let f = &FORMATS[which];
        let block = &seed[..f.block_bytes as usize];
        let mut out = vec![0.0; f.block as usize];
        f.dequantize_row(block, &mut out);
        for c in 0..f.chunks() {
            let got = read_part(f, block, BlockPart::Values(c), f32_type(CHUNK));
            for (got, want) in got.iter().zip(&out[(c * CHUNK) as usize..]) {
                prop_assert!(*got as f32 == *want || got.is_nan() && want.is_nan());
            }
        }
        prop_assert_eq!(f.scale_values(block).len(), f.groups() as usize);
        prop_assert_eq!(f.min_values(block).len(), f.groups() as usize);
    }
}
