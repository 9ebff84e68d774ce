//! How products with packed matrices are cut.

use crate::facts::{Output, TargetShape};
use crate::packed::Panels;
use crate::row::PIECE;

/// A cut for vectors and matrices that are packed for them. The result does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PanelTiling {
    /// How matrices are packed.
    pub panels: Panels,
    /// Outputs of a tile: 8, 16 or 32. For each of a program's tokens their sums are in registers.
    pub rows: u32,
    /// Tokens of a program.
    pub tokens: u32,
    /// Outputs of a program: a multiple of 32.
    pub program_rows: u32,
}

/// Outputs of a program: with many tokens a part of the matrix that stays in a core's cache, with one few enough that
/// threads have equal shares.
const MOST_ROWS: u32 = 256;
const ROWS_OF_ONE: u32 = 64;

impl PanelTiling {
    /// A tiling for a matrix `[n, k]`, `matrices` of them at once, this form of activations, and launches of about so many
    /// tokens; none where a
    /// target's vectors don't have packed matrices.
    pub fn choose(
        shape: &TargetShape,
        [n, k]: [u32; 2],
        input: Output,
        tokens: u32,
        matrices: u32,
    ) -> Option<PanelTiling> {
        let panels = Panels::of(shape)?;
        let rows = |most: u32| n.div_ceil(n.div_ceil(most)).next_multiple_of(PIECE);
        if tokens == 1 {
            return Some(PanelTiling { panels, rows: PIECE, tokens: 1, program_rows: rows(ROWS_OF_ONE) });
        }
        // Half of the registers are sums, two for each token where numbers have two bytes. Of products with bytes there are
        // as many sums in floats, but these are needed once in a chunk and may be in memory meanwhile.
        let vectors = if input == Output::Q8 && shape.registers >= 32 { 2 } else { 1 };
        let tile = (shape.lanes * vectors).clamp(8, PIECE);
        let sums = if input == Output::Q15 { 2 } else { 1 };
        let mut many = (shape.registers * shape.lanes / 2 / tile / sums).clamp(1, 16);
        let program_rows = rows(MOST_ROWS / matrices.max(1));
        let fits = |tokens: u32| local_bytes(tokens, program_rows, k, matrices) <= hrx_ir::tile::MAX_LOCAL_BYTES;
        while many > 1 && !fits(many) {
            many /= 2;
        }
        Some(PanelTiling { panels, rows: tile, tokens: many, program_rows })
    }
}

/// The most local memory that a program takes: the sums of its outputs, and two numbers for each group of activations.
fn local_bytes(tokens: u32, program_rows: u32, k: u32, matrices: u32) -> u64 {
    let of_token = 4 * program_rows + 2 * 4 * (k / 16) + 64;
    u64::from(tokens) * u64::from(matrices) * u64::from(of_token)
}
