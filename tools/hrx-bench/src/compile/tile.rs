//! A product of `f16` matrices as the command line says its tiles.

use hrx::exec::ModelKernel;
use hrx::ir::tile::Elem;
use hrx::templates::{Linear, MatrixTiling, Template, TemplateError, WeightType};
use std::str::FromStr;

/// Rows and columns of the matrix of weights. They decide neither how much code there is nor how long it takes.
const SIZE: u32 = 4096;

/// A tile: `64x64x32w4`.
#[derive(Clone, Copy, Debug)]
pub struct Tile(MatrixTiling);

impl FromStr for Tile {
    type Err = String;

    fn from_str(text: &str) -> Result<Tile, String> {
        let numbers: Option<Vec<u32>> = text.split(['x', 'w']).map(|n| n.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[m, n, k, waves]) => Ok(Tile(MatrixTiling { m, n, k, waves })),
            _ => Err(format!("a tile is MxNxKwWAVES, as 64x64x32w4, not {text:?}")),
        }
    }
}

impl Tile {
    /// The kernel.
    ///
    /// # Errors
    /// If a size is none that the template takes.
    pub fn kernel(&self) -> Result<ModelKernel, TemplateError> {
        let linear = Linear::new(SIZE, SIZE, WeightType::Float(Elem::F16), self.0);
        let kernel = linear.kernel()?;
        Ok(ModelKernel { request: linear.into(), kernel, decode: 0, prefill: 1 })
    }
}
