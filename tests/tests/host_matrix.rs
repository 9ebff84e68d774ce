//! What kernels for matrix units use, compiled, against the interpreter: reads of runs, products, padded local memory.

use hrx_ir::quant::FORMATS;
use hrx_ir::tile::{Access, Builder, Elem, GridExpr, RunPart};
use hrx_tests::host::{Input, check};
use proptest::prelude::*;

/// Pseudo-random bytes.
fn bytes(n: u32, seed: u32) -> Vec<u8> {
    (0..n).map(|i| (seed.wrapping_mul(i * 2 + 1) >> 13) as u8).collect()
}

#[test]
fn runs_of_every_format() {
    let (rows, blocks) = (3, 3);
    for format in FORMATS {
        for &part in RunPart::ALL {
            for chunks in [1, 4, 16] {
                let mut b = Builder::new("run");
                let extent = b.scalar_param(Elem::I32);
                let content = hrx_ir::tile::Content::Quant(format);
                let dims = [rows.into(), extent.into()];
                let view = b.strided_param(content, &dims, &[extent.into(), 1.into()], Access::In);
                let multiple = chunks.min(format.chunks());
                let starts = blocks * format.chunks() / multiple + 1;
                let (elem, each) = part.of_chunk(format);
                let width = each * chunks;
                let out = b.view_param(elem, &[(starts * rows).into(), width.into()], Access::Out);
                b.grid(0, GridExpr::constant(starts));
                let (pid, by, count, zero) =
                    (b.program_id(0), b.index(multiple.into()), b.index(rows.into()), b.index(0));
                let (chunk, at) = (b.mul(pid, by), b.mul(pid, count));
                let v = b.load_run(view, [zero, chunk], part, rows, chunks);
                b.store(out, &[at, zero], v, None);
                let kernel = b.finish();
                let data = bytes(rows * blocks * format.block_bytes, 0x2545_F491);
                let room = Input::Room((starts * rows * width * elem.bytes()) as usize);
                check(&kernel, &[Input::I32(blocks as i32), Input::Bytes(data), room])
                    .unwrap_or_else(|e| panic!("{} {part:?} of {chunks} chunks: {e}", format.name));
            }
        }
    }
}

/// The factors' and the sums' types of products.
const PRODUCTS: [(Elem, Elem); 3] = [(Elem::F16, Elem::F32), (Elem::BF16, Elem::F32), (Elem::I8, Elem::I32)];

/// Two products in a row, the sums of the first going into the second through padded local memory.
fn product(elem: Elem, sum: Elem, [m, n, k]: [u32; 3], seed: u32) -> Result<(), String> {
    let mut b = Builder::new("product");
    let mut view = |e: Elem, r: u32, c: u32, access| b.view_param(e, &[r.into(), c.into()], access);
    let (x, y, z) = (view(elem, m, k, Access::In), view(elem, n, k, Access::In), view(sum, m, n, Access::InOut));
    let scratch = b.local_padded(sum, &[m, n], 4);
    let zero = b.index(0);
    let at = [zero, zero];
    let (a, c, sums) = (b.load(x, &at, &[m, k], None), b.load(y, &at, &[n, k], None), b.load(z, &at, &[m, n], None));
    let first = b.mma(a, c, sums);
    b.store(scratch, &at, first, None);
    let again = b.load(scratch, &at, &[m, n], None);
    let second = b.mma(a, c, again);
    b.store(z, &at, second, None);
    let kernel = b.finish();
    hrx_ir::tile::verify(&kernel).map_err(|e| e.to_string())?;
    let input = |e: Elem, r: u32, c: u32, salt: u32| Input::Bytes(bytes(r * c * e.bytes(), seed ^ salt));
    let inputs = [input(elem, m, k, 0), input(elem, n, k, 0x55AA_1234), input(sum, m, n, 0x1234_5678)];
    check(&kernel, &inputs).map(drop)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20) })]

    // Larger tiles make code that LLVM takes seconds for, whatever is done with them.
    #[test]
    fn products_add_in_order(which in 0..3usize, m in 4..6u32, n in 4..6u32, k in 4..7u32, seed: u32) {
        let (elem, sum) = PRODUCTS[which];
        if let Err(e) = product(elem, sum, [m, n, k].map(|shift| 1 << shift), seed) {
            panic!("{elem} [{m}, {n}, {k}]: {e}");
        }
    }
}
