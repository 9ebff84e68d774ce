//! What of a chip the lane form depends on.

use crate::target::amd::{self, Dot4, MatrixOp, MatrixType};
use crate::target::nvidia;

/// What of a chip, whoever makes it, the lane form depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The chip's name.
    pub name: &'static str,
    /// Lanes of a wave.
    pub wave: u32,
    /// Most bytes of LDS of a workgroup.
    pub lds: u32,
    /// Dot products of four bytes.
    pub dot4: Dot4,
    /// Whether there is a dot product of two `f16` pairs added to an `f32`.
    pub dot2: bool,
    /// Whether lanes load matrices from LDS together ([`super::ir::Op::LoadMatrices`]).
    pub matrix_loads: bool,
    /// The SIMDs of the typical board, where loads of weights are to go ahead of what needs them: where
    /// the compiler of the chip's code leaves them in their turn.
    pub loads_ahead: Option<u32>,
    /// The instructions of the matrix unit.
    pub matrix_ops: &'static [MatrixOp],
}

impl Facts {
    /// The matrix instructions for such factors and sums, those with most work first.
    pub fn matrix_products(&self, factor: MatrixType, acc: MatrixType) -> Vec<&'static MatrixOp> {
        let wanted = |op: &&MatrixOp| (op.a, op.b, op.acc) == (factor, factor, acc);
        let mut ops: Vec<_> = self.matrix_ops.iter().filter(wanted).collect();
        ops.sort_by_key(|op| std::cmp::Reverse(op.flops()));
        ops
    }
}

impl From<&'static amd::Chip> for Facts {
    fn from(c: &'static amd::Chip) -> Facts {
        Facts {
            name: c.name,
            wave: c.wave,
            lds: c.lds,
            dot4: c.dot4,
            dot2: c.dot2,
            matrix_loads: false,
            loads_ahead: None,
            matrix_ops: c.matrix_ops,
        }
    }
}

impl From<&'static nvidia::Chip> for Facts {
    fn from(c: &'static nvidia::Chip) -> Facts {
        Facts {
            name: c.name,
            wave: nvidia::WARP,
            lds: c.most_shared.value,
            dot4: Dot4::Mixed,
            dot2: false,
            matrix_loads: true,
            loads_ahead: Some(c.board.multiprocessors.value * nvidia::PARTITIONS.value),
            matrix_ops: c.matrix_ops,
        }
    }
}
