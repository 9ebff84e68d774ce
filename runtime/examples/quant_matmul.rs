//! Multiplies with a quantised matrix, `quant_matmul [FORMAT]`, and compares with the naive product of the dequantised one.

use hrx::ir::tile::Elem;
use hrx::templates::WeightType;
use hrx::{KernelStore, ModelOptions, QuantMatmul};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let format = std::env::args().nth(1).unwrap_or_else(|| "Q4_K".into());
    let error = error_of(&format, &ModelOptions::default())?;
    println!("{format}: error {error:.1e} of the result's power");
    // Quantised weights are multiplied with activations of 8 bits, floats with activations as they are.
    let bound = if ["f32", "f16", "bf16"].contains(&format.to_lowercase().as_str()) { 1e-10 } else { 2e-4 };
    if error < bound { Ok(()) } else { Err(format!("more than {bound:e}").into()) }
}

/// The squared error of a product relative to the naive one's square.
pub fn error_of(format: &str, options: &ModelOptions) -> Result<f64, Box<dyn Error>> {
    let (n, k, rows) = (96, 512, 5);
    let store = KernelStore::open(options)?;
    let matmul = QuantMatmul::new(&store, format, n, k)?;
    // Weights as a file has them. Any bytes are a matrix; these are such that every float16 scale is finite.
    let weights: Vec<u8> = (0..matmul.weight_bytes()).map(|i| ((i * 2_654_435_761) >> 16) as u8 % 60).collect();
    let x: Vec<f32> = (0..rows * k).map(|i| (i as f32 * 0.61).sin()).collect();
    let mut y = vec![0f32; (rows * n) as usize];
    matmul.run(&weights, &x, &mut y)?;

    let matrix = dequantize(format, &weights)?;
    let (mut error, mut power) = (0.0, 0.0);
    for (x, y) in x.chunks(k as usize).zip(y.chunks(n as usize)) {
        for (row, &y) in matrix.chunks(k as usize).zip(y) {
            let dot: f64 = row.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
            error += (dot - f64::from(y)).powi(2);
            power += dot.powi(2);
        }
    }
    Ok(error / power)
}

fn dequantize(format: &str, bytes: &[u8]) -> Result<Vec<f32>, Box<dyn Error>> {
    let half = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]);
    Ok(match WeightType::from_name(format).ok_or("no such format")? {
        WeightType::Quant(f) => {
            let mut out = vec![0f32; bytes.len() / f.block_bytes as usize * f.block as usize];
            f.dequantize_row(bytes, &mut out);
            out
        }
        WeightType::Float(Elem::F32) => bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        WeightType::Float(Elem::F16) => bytes.chunks(2).map(|b| half::f16::from_bits(half(b)).to_f32()).collect(),
        WeightType::Float(_) => bytes.chunks(2).map(|b| half::bf16::from_bits(half(b)).to_f32()).collect(),
    })
}
