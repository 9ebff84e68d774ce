//! Compiles a kernel from its text and calls it: the softmax of each row of a matrix, checked against plain Rust.

use hrx::{CallableKernel, KernelArg, KernelStore, ModelOptions};
use std::error::Error;

/// A program a row: `v1` is the row. Rows are shifted by their maximum, so that nothing overflows.
const SOFTMAX: &str = "
    kernel @softmax(v0: i32, m0: in f32[v0, 64], m1: out f32[v0, 64])
        grid (v0, 1, 1) ids (v1, v2, v3) {
      v4: i32 = const 0
      v5: f32[1, 64] = load m0[v1, v4]
      v6: f32[1, 1] = reduce_max v5 axis 1
      v7: f32[1, 64] = repeat v6 times 64
      v8: f32[1, 64] = sub v5, v7
      v9: f32[1, 64] = exp v8
      v10: f32[1, 1] = reduce_sum v9 axis 1
      v11: f32[1, 64] = repeat v10 times 64
      v12: f32[1, 64] = div v9, v11
      store m1[v1, v4], v12
    }";

fn main() -> Result<(), Box<dyn Error>> {
    // The device is the CPU; compiled kernels are kept in the user's cache.
    run(&ModelOptions::default())
}

/// Calls the kernel and checks what it computed.
pub fn run(options: &ModelOptions) -> Result<(), Box<dyn Error>> {
    let (rows, cols) = (100, 64);
    let x: Vec<f32> = (0..rows * cols).map(|i| (i as f32 * 0.37).sin() * 20.0).collect();
    let mut y = vec![0f32; x.len()];

    let store = KernelStore::open(options)?;
    let softmax = CallableKernel::from_text(&store, SOFTMAX)?;
    // SAFETY: each program loads and stores the one row of its id, and the grid has as many programs as rows; `launch`
    // checks that both slices have as many elements as `[rows, 64]`.
    unsafe { softmax.launch([KernelArg::i32(rows as i32), KernelArg::read(&x), KernelArg::write(&mut y)])? };

    let mut worst = 0f64;
    for (x, y) in x.chunks(cols).zip(y.chunks(cols)) {
        let max = x.iter().copied().fold(f32::MIN, f32::max);
        let exp: Vec<f64> = x.iter().map(|&v| f64::from(v - max).exp()).collect();
        let sum: f64 = exp.iter().sum();
        for (e, &y) in exp.iter().zip(y) {
            worst = worst.max((e / sum - f64::from(y)).abs());
        }
    }
    println!("softmax of {rows} rows of {cols}: at most {worst:.1e} from plain Rust");
    if worst < 1e-6 { Ok(()) } else { Err("the kernel's result is wrong".into()) }
}
