//! How the work of a product is cut.

use super::{FAMILY, Linear, MatrixTiling, PanelTiling, RowsTiling};
use crate::cost::Candidate;
use crate::facts::{Output, TargetShape, TemplateError, WeightType};
use crate::packed::Panels;
use crate::row::PIECE;
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::Elem;

/// How the work of a [`Linear`] is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinearCut {
    /// For a processor's vectors.
    Vectors(LinearTiling),
    /// For a processor's vectors and packed matrices.
    Panels(PanelTiling),
    /// For waves and one token at a time.
    Rows(RowsTiling),
    /// For a matrix unit and many tokens.
    Matrix(MatrixTiling),
}

impl From<LinearTiling> for LinearCut {
    fn from(t: LinearTiling) -> LinearCut {
        LinearCut::Vectors(t)
    }
}

impl From<PanelTiling> for LinearCut {
    fn from(t: PanelTiling) -> LinearCut {
        LinearCut::Panels(t)
    }
}

impl From<RowsTiling> for LinearCut {
    fn from(t: RowsTiling) -> LinearCut {
        LinearCut::Rows(t)
    }
}

impl From<MatrixTiling> for LinearCut {
    fn from(t: MatrixTiling) -> LinearCut {
        LinearCut::Matrix(t)
    }
}

/// A cut for vectors. The result does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinearTiling {
    /// Tokens of a program.
    pub tokens: u32,
    /// Outputs that are summed together: the accumulators are `rows * tokens * 8` lanes of f32.
    pub rows: u32,
    /// Outputs of a program: a multiple of 32 and of `rows`.
    pub program_rows: u32,
    /// Steps along K that are unrolled, of 32 elements each (K-quants: always a block of 256; floats: 8 elements each).
    pub unroll: u32,
}

impl LinearTiling {
    /// A tiling for launches of about this many tokens.
    pub fn choose(shape: &TargetShape, tokens: u32) -> LinearTiling {
        // Half the registers accumulate; the others hold codes, scales and products.
        let accumulator = super::dot::LANES.div_ceil(shape.lanes.max(1));
        let budget = (shape.registers / 2 / accumulator).max(1);
        let power = |n: u32| 1 << n.max(1).ilog2();
        let tokens = power(tokens.min(budget / 2).min(4));
        let rows = power((budget / tokens).min(4));
        LinearTiling { tokens, rows, program_rows: PIECE, unroll: 2 }
    }
}

/// Tokens of the launch that a cut for many tokens is chosen for.
const PROMPT: u32 = 512;

/// Tokens of the launch that a cut for the rows of experts is chosen for: more than those of a prompt, since a weight of
/// which a longer prompt has to make several tiles is brought to local memory for each, and what a shorter one leaves of
/// a tile empty costs products alone.
const EXPERTS_PROMPT: u32 = 1024;

/// Whether weights are multiplied as they are, since nothing shorter holds them.
fn is_exact(weight: WeightType) -> bool {
    weight == WeightType::Float(Elem::F32)
}

impl LinearCut {
    /// The cut for a matrix `[n, k]` and launches of about this many tokens. `matrices` are multiplied at once.
    pub fn choose(shape: &TargetShape, [n, k]: [u32; 2], weight: WeightType, tokens: u32, matrices: u32) -> LinearCut {
        if shape.waves.is_none() {
            return LinearTiling::choose(shape, tokens).into();
        }
        // Without dot products of f16 pairs a tile is long code that spills.
        let paired = shape.waves.is_some_and(|w| w.product_instructions * shape.lanes < 4096);
        let many = tokens >= 16 && k.is_multiple_of(CHUNK);
        if many && is_exact(weight) {
            MatrixTiling::EXACT.into()
        } else if many && paired {
            MatrixTiling::choose(shape, [n, k], [1, PROMPT], matrices).into()
        } else {
            RowsTiling::choose(shape, [n, k], weight, matrices).into()
        }
    }

    /// The cut for the rows that go to each of `count` experts where a token has `used` of them, or none where programs
    /// have one row each.
    pub fn grouped(
        shape: &TargetShape,
        nk: [u32; 2],
        weight: WeightType,
        matrices: u32,
        [count, used]: [u32; 2],
    ) -> Option<LinearCut> {
        let rows = (EXPERTS_PROMPT * used.min(count)).div_ceil(count.max(1)).max(16);
        match LinearCut::choose(shape, nk, weight, rows, matrices) {
            LinearCut::Rows(_) | LinearCut::Panels(_) => None,
            LinearCut::Matrix(t) if is_exact(weight) => Some(t.into()),
            LinearCut::Matrix(_) => Some(MatrixTiling::choose(shape, nk, [count, rows], matrices).into()),
            vectors => Some(vectors),
        }
    }

    /// The cut for the rows of a token's `used` experts.
    pub fn of_experts(
        shape: &TargetShape,
        [n, k]: [u32; 2],
        weight: WeightType,
        matrices: u32,
        used: u32,
    ) -> LinearCut {
        // They are beside one another, as rows of one matrix are.
        match LinearCut::choose(shape, [n.saturating_mul(used), k], weight, 1, matrices) {
            LinearCut::Rows(t) if t.fixed => t.into(),
            _ => LinearCut::choose(shape, [n, k], weight, 1, matrices),
        }
    }

    /// The cut for rows that are the sum of a token's experts'.
    pub fn of_sum(shape: &TargetShape, nk: [u32; 2], weight: WeightType) -> LinearCut {
        if let Some(t) = RowsTiling::of_sum(shape, nk[1], weight) {
            return t.into();
        }
        match LinearCut::choose(shape, nk, weight, 1, 1) {
            // Each program has a row of every expert to stage: more of smaller ones.
            LinearCut::Rows(t) if t.fixed => RowsTiling { rows: t.rows / 2, waves: t.waves / 2, ..t }.into(),
            cut => cut,
        }
    }

    /// The cuts that [`LinearCut::choose`] chooses from, the chosen one first; only that one for vectors.
    pub fn candidates(
        shape: &TargetShape,
        [n, k]: [u32; 2],
        weight: WeightType,
        tokens: u32,
        matrices: u32,
    ) -> Vec<Candidate<LinearCut>> {
        let only = |cut| vec![Candidate { cut, terms: Vec::new(), refused: None }];
        match LinearCut::choose(shape, [n, k], weight, tokens, matrices) {
            cut @ (LinearCut::Vectors(_) | LinearCut::Panels(_)) => only(cut),
            cut @ LinearCut::Matrix(MatrixTiling::EXACT) if is_exact(weight) => only(cut),
            LinearCut::Rows(_) => RowsTiling::candidates(shape, [n, k], weight, matrices)
                .into_iter()
                .map(|c| c.map(LinearCut::from))
                .collect(),
            LinearCut::Matrix(_) => MatrixTiling::candidates(shape, [n, k], [1, PROMPT], matrices)
                .into_iter()
                .map(|c| c.map(LinearCut::from))
                .collect(),
        }
    }

    /// Tokens of a program.
    pub(super) fn tokens(&self) -> u32 {
        match self {
            LinearCut::Vectors(t) => t.tokens,
            LinearCut::Panels(t) => t.tokens,
            LinearCut::Rows(_) => 1,
            LinearCut::Matrix(t) => t.m,
        }
    }

    /// Outputs of a program.
    pub fn program_rows(&self) -> u32 {
        match self {
            LinearCut::Vectors(t) => t.program_rows,
            LinearCut::Panels(t) => t.program_rows,
            LinearCut::Rows(t) => t.rows,
            LinearCut::Matrix(t) => t.n,
        }
    }

    /// Checks the cut for a product; gives the outputs of a program.
    pub(super) fn check(&self, l: &Linear) -> Result<u32, TemplateError> {
        let unless = |ok, reason| TemplateError::unless(ok, FAMILY, format!("{self:?}"), reason);
        let power = |n: u32, low: u32, high: u32| n.is_power_of_two() && (low..=high).contains(&n);
        match self {
            LinearCut::Vectors(t) => {
                let small = t.tokens > 0 && t.rows > 0 && t.unroll > 0;
                let small = small && t.tokens <= 64 && t.rows <= 64 && t.unroll <= 64;
                unless(small, "tokens, rows and unroll are 1 to 64")?;
                let whole = t.program_rows > 0 && t.program_rows.is_multiple_of(PIECE);
                let whole = whole && t.program_rows.is_multiple_of(t.rows) && t.program_rows <= 1024;
                unless(whole, "program_rows is a multiple of 32 and of rows, at most 1024")?;
            }
            LinearCut::Panels(t) => {
                unless(power(t.rows, 8, PIECE), "a tile has 8, 16 or 32 rows")?;
                unless((1..=64).contains(&t.tokens), "tokens are 1 to 64")?;
                let whole = t.program_rows > 0 && t.program_rows.is_multiple_of(PIECE) && t.program_rows <= 1024;
                unless(whole, "program_rows is a multiple of 32, at most 1024")?;
                unless(l.norm.is_none(), "panels have no norm")?;
                let rows = l.n.saturating_mul(l.experts.map_or(1, |e| e.count));
                for weight in l.weight_types() {
                    t.panels.check(FAMILY, weight, [rows, l.k])?;
                    let form = Panels::input(weight, l.input) == Some(l.input);
                    unless(form, "packed blocks are multiplied by Q8 or Q15, packed floats by f32")?;
                }
            }
            LinearCut::Rows(t) => {
                unless(power(t.rows, 1, 1024), "rows is a power of two up to 1024")?;
                unless(power(t.chunks, 1, 64), "chunks is a power of two up to 64")?;
                unless(power(t.waves, 1, 16), "waves is a power of two up to 16")?;
                let output = l.output == Output::F32 || t.rows.is_multiple_of(CHUNK);
                unless(output, "Q8 or Q15 output is made of blocks of 32 rows")?;
            }
            LinearCut::Matrix(t) => {
                unless(power(t.m, 16, 256) && power(t.n, 16, 256), "m and n are powers of two from 16 to 256")?;
                unless(power(t.k, 32, 128), "k is 32, 64 or 128")?;
                unless(power(t.waves, 1, 16), "waves is a power of two up to 16")?;
                unless(l.k.is_multiple_of(CHUNK), "rows are whole chunks of 32")?;
                unless(l.input == Output::F32, "a matrix unit's tile is made of f32 rows")?;
                unless(l.output == Output::F32, "a tile is written as f32")?;
            }
        }
        Ok(self.program_rows())
    }

    pub(super) fn tag(&self) -> String {
        match self {
            LinearCut::Vectors(t) => {
                let mut tag = format!("_t{}r{}", t.tokens, t.rows);
                if t.program_rows != PIECE {
                    tag += &format!("_p{}", t.program_rows);
                }
                if t.unroll != 1 {
                    tag += &format!("_u{}", t.unroll);
                }
                tag
            }
            LinearCut::Panels(t) => {
                format!("_t{}x{}{}_p{}", t.tokens, t.rows, t.panels.tag(), t.program_rows)
            }
            LinearCut::Rows(t) => {
                format!("_rows{}c{}w{}{}", t.rows, t.chunks, t.waves, if t.fixed { "f" } else { "" })
            }
            LinearCut::Matrix(t) => format!("_tile{}x{}x{}w{}", t.m, t.n, t.k, t.waves),
        }
    }
}
