//! Reads of runs of chunks against the formats' descriptions.

use hrx_ir::quant::{CHUNK, FORMATS, Format};
use hrx_ir::tile::interp::{Arg, Memory, Options, run};
use hrx_ir::tile::{Access, Builder, Elem, RunPart};
use proptest::prelude::*;

/// What a part of one chunk of a block is.
fn chunk_part(format: &Format, part: RunPart, block: &[u8], chunk: u32) -> Vec<f64> {
    let of_chunk = |all: Vec<f32>| {
        let each = all.len() as u32 / format.chunks();
        all[(chunk * each) as usize..][..each as usize].iter().map(|&x| x.into()).collect()
    };
    match part {
        RunPart::Codes => format.code_values(block, chunk).into_iter().map(f64::from).collect(),
        RunPart::Scales => of_chunk(format.scale_values(block)),
        RunPart::Offsets => {
            let pairs = format.scale_values(block).into_iter().zip(format.min_values(block));
            of_chunk(pairs.map(|(scale, min)| format.offset(scale, min)).collect())
        }
        RunPart::Values => {
            let mut all = vec![0.0; format.block as usize];
            format.dequantize_row(block, &mut all);
            of_chunk(all)
        }
    }
}

/// Reads a run of each of some rows.
fn read(format: &'static Format, blocks: &[u8], part: RunPart, ids: &[u32], first: i32, chunks: u32) -> Vec<f64> {
    const ROW: u32 = 3;
    let rows = blocks.len() as u32 / format.block_bytes / ROW;
    let (count, (elem, each)) = (ids.len() as u32, part.of_chunk(format));
    let mut b = Builder::new("run");
    let chunk = b.scalar_param(Elem::I32);
    let table = b.view_param(Elem::I32, &[count.into()], Access::In);
    let x = b.quant_param(format, &[rows.into(), ROW.into()]);
    let y = b.view_param(elem, &[count.into(), (each * chunks).into()], Access::Out);
    let zero = b.index(0);
    let ids_tile = b.load(table, &[zero], &[count], None);
    let tile = b.load_run(x, [ids_tile, chunk], part, count, chunks);
    b.store(y, &[zero, zero], tile, None);
    let kernel = b.finish();
    let mut memory = Memory::new();
    let table = memory.add_elems(Elem::I32, &ids.iter().map(|&i| i.into()).collect::<Vec<f64>>());
    let x = memory.add(blocks.to_vec());
    let y = memory.add_uninit((count * each * chunks * elem.bytes()) as usize);
    let args = [Arg::I32(first), Arg::buffer(table), Arg::buffer(x), Arg::buffer(y)];
    run(&kernel, &args, &mut memory, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    memory.elems(y, elem)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_are_the_chunks_of_their_rows_and_zeros_behind_them(
        seed: u32, which in 0..FORMATS.len(), part in 0..4usize, shift in 0..7u32, step in 0..30i32,
        ids in prop::sample::subsequence(vec![0u32, 1, 2, 3], 1..=4),
    ) {
        let (format, part, chunks) = (&FORMATS[which], RunPart::ALL[part], 1u32 << shift);
        let byte = |i: u32| (seed.wrapping_mul(2 * i + 1) >> 13) as u8;
        let blocks: Vec<u8> = (0..12 * format.block_bytes).map(byte).collect();
        let first = step * chunks.min(format.chunks()) as i32;
        let got = read(format, &blocks, part, &ids, first, chunks);
        let block = |row: u32, n: u32| &blocks[((3 * row + n) * format.block_bytes) as usize..][..format.block_bytes as usize];
        let mut want: Vec<f64> = Vec::new();
        for &row in &ids {
            for chunk in first as u32..first as u32 + chunks {
                let (n, within) = (chunk / format.chunks(), chunk % format.chunks());
                want.extend(match n {
                    0..3 => chunk_part(format, part, block(row, n), within),
                    _ => vec![0.0; part.of_chunk(format).1 as usize],
                });
            }
        }
        prop_assert_eq!(got.len(), want.len());
        let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
        prop_assert!(got.iter().zip(&want).all(same), "{} {:?}: {:?}, not {:?}", format.name, part, got, want);
    }
}

#[test]
fn a_chunk_gives_as_many_numbers_as_it_has_groups() {
    for f in FORMATS {
        assert_eq!(RunPart::Codes.of_chunk(f), (f.code_elem(), CHUNK));
        assert_eq!(RunPart::Scales.of_chunk(f).1 * f.chunks(), f.groups(), "{}", f.name);
        // Runs begin at multiples of a power of two, so that is what a block has to hold.
        assert!(f.chunks().is_power_of_two(), "{}", f.name);
    }
}
