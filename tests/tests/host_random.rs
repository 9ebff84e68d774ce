//! Random kernels, compiled and run, against the interpreter.

use hrx_ir::tile::random::{Options, random_kernel};
use hrx_ir::tile::{Access, Extent, Kernel, Param};
use hrx_tests::host::{Input, check};
use proptest::prelude::*;

/// Inputs for a random kernel with this many rows. Floats are any bits: NaNs, infinities and subnormals among them.
fn inputs(k: &Kernel, rows: u32, seed: u32) -> Vec<Input> {
    let input = |p: &Param| match *p {
        Param::Scalar(_) => Input::I32(rows as i32),
        Param::View(m) => {
            let d = &k.views[m];
            let Extent::Const(n) = d.dims[1] else { panic!("a row's length is constant") };
            let bytes = (rows * n * d.content.unit_bytes()) as usize;
            if d.access == Access::Out {
                return Input::Room(bytes);
            }
            let byte = |i: usize| (seed.wrapping_mul(i as u32 * 2 + 1) >> 13) as u8;
            Input::Bytes((0..bytes).map(byte).collect())
        }
    };
    k.params.iter().map(input).collect()
}

/// A few hundred, or as many as `PROPTEST_CASES` says.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn compiled_kernels_do_what_they_mean(
        words in prop::collection::vec(any::<u32>(), 0..120), rows in 1..10u32, seed: u32,
    ) {
        let k = random_kernel(&words, Options { approximate: false, ..Options::default() });
        if let Err(e) = check(&k, &inputs(&k, rows, seed)) {
            panic!("{e}\n{k}");
        }
    }
}
