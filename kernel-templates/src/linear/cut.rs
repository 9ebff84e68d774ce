//! How the work of a product is cut.

use super::{FAMILY, Linear};
use crate::facts::{Output, RowCut, TargetShape, TemplateError, WeightType};
use crate::row::PIECE;
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::Elem;

/// How the work of a [`Linear`] is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinearCut {
    /// For a processor's vectors.
    Vectors(LinearTiling),
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

/// A cut for waves: a program has some rows of the matrix and one token. A row's sum depends on `chunks` and not on the
/// rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowsTiling {
    /// Outputs of a program: a power of two.
    pub rows: u32,
    /// Chunks of 32 elements that a step along K takes: a power of two up to 64.
    pub chunks: u32,
    /// Waves of a program.
    pub waves: u32,
}

impl RowsTiling {
    /// The cut for a matrix `[n, k]`. A step along K is the longest that divides the row, as long as it has at least 32
    /// bytes of it: lanes read memory that lies together, and the next step goes on where it ended. Where no such step
    /// divides the row, the one with at least 64 bytes that wastes the fewest lanes at its end.
    pub fn choose(shape: &TargetShape, n: u32, k: u32, weight: WeightType) -> RowsTiling {
        let chunks_of_row = k.div_ceil(CHUNK);
        let chunk_bytes = match weight {
            WeightType::Quant(f) => f.block_bytes.div_ceil(f.chunks()),
            WeightType::Float(e) => CHUNK * e.bytes(),
        };
        // Lanes that one chunk keeps busy: each takes 16 bytes of codes.
        let lanes_of_chunk = chunk_bytes.div_ceil(16).next_power_of_two() / 2;
        let longest = (shape.lanes / lanes_of_chunk.max(1)).clamp(1, 32);
        let whole = (1 << chunks_of_row.trailing_zeros().min(6)).min(longest);
        let least = if whole * chunk_bytes >= 32 && k.is_multiple_of(CHUNK) {
            whole
        } else {
            64u32.div_ceil(chunk_bytes).next_power_of_two().min(longest)
        };
        let waste = |c: u32| chunks_of_row.div_ceil(c) * c;
        let mut chunks = least;
        let mut c = least;
        while c <= longest {
            // A longer step may waste a sixteenth more.
            if waste(c) * 16 <= waste(chunks) * 17 {
                chunks = c;
            }
            c *= 2;
        }
        let rows_of_wave = (shape.lanes / (chunks * lanes_of_chunk.max(1))).max(1);
        let waves = 4;
        let registers = match n {
            0..2048 => 1,
            2048..16384 => 2,
            _ => 4,
        };
        RowsTiling { rows: (rows_of_wave * waves * registers).min(256), chunks, waves }
    }
}

/// A cut for a matrix unit: a program makes `m` tokens by `n` outputs, and steps along K by `k` elements, which it brings
/// to local memory as `f16` while it multiplies those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixTiling {
    /// Tokens: a power of two from 16.
    pub m: u32,
    /// Outputs: a power of two from 16.
    pub n: u32,
    /// Elements of K: 32, 64 or 128.
    pub k: u32,
    /// Waves of a program.
    pub waves: u32,
}

impl MatrixTiling {
    /// The cut for launches of many tokens.
    pub fn choose(shape: &TargetShape, n: u32, matrices: u32) -> MatrixTiling {
        let waves = if shape.lanes == 64 { 4 } else { 8 };
        // Two matrices at once have half the outputs each; few outputs want more programs.
        let (n, waves) = match (matrices, n) {
            (1, 4096..) => (128, waves),
            (1, _) => (64, waves / 2),
            _ => (32, waves / 2),
        };
        MatrixTiling { m: 64, n, k: 32, waves }
    }
}

impl LinearCut {
    /// The cut for a matrix `[n, k]` and launches of about this many tokens. `matrices` are multiplied at once.
    pub fn choose(shape: &TargetShape, [n, k]: [u32; 2], weight: WeightType, tokens: u32, matrices: u32) -> LinearCut {
        if !shape.waves {
            return LinearTiling::choose(shape, tokens).into();
        }
        // f32 weights are multiplied as they are.
        let exact = weight == WeightType::Float(Elem::F32);
        if tokens >= 16 && !exact && k.is_multiple_of(CHUNK) {
            MatrixTiling::choose(shape, n, matrices).into()
        } else {
            RowsTiling::choose(shape, n, k, weight).into()
        }
    }

    /// Tokens of a program.
    pub(super) fn tokens(&self) -> u32 {
        match self {
            LinearCut::Vectors(t) => t.tokens,
            LinearCut::Rows(_) => 1,
            LinearCut::Matrix(t) => t.m,
        }
    }

    /// Outputs of a program.
    pub fn program_rows(&self) -> u32 {
        match self {
            LinearCut::Vectors(t) => t.program_rows,
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
            LinearCut::Rows(t) => {
                unless(power(t.rows, 1, 1024), "rows is a power of two up to 1024")?;
                unless(power(t.chunks, 1, 64), "chunks is a power of two up to 64")?;
                unless(power(t.waves, 1, 16), "waves is a power of two up to 16")?;
                let output = l.output == Output::F32 || t.rows.is_multiple_of(CHUNK);
                unless(output, "Q8 output is made of blocks of 32 rows")?;
            }
            LinearCut::Matrix(t) => {
                unless(power(t.m, 16, 256) && power(t.n, 16, 256), "m and n are powers of two from 16 to 256")?;
                unless(power(t.k, 32, 128), "k is 32, 64 or 128")?;
                unless(power(t.waves, 1, 16), "waves is a power of two up to 16")?;
                let exact =
                    [Some(l.weight), l.gated.as_ref().map(|g| g.up)].contains(&Some(WeightType::Float(Elem::F32)));
                unless(!exact, "f32 weights do not fit the f16 of a matrix unit")?;
                unless(l.k.is_multiple_of(CHUNK), "rows are whole chunks of 32")?;
                unless(l.input == Output::F32, "a matrix unit's tile is made of f32 rows")?;
                unless(l.output == Output::F32, "a tile is written as f32")?;
            }
        }
        Ok(self.program_rows())
    }

    /// The piece of a row's norm.
    pub(super) fn norm_piece(&self, k: u32) -> u32 {
        match self {
            LinearCut::Vectors(_) => PIECE,
            _ => RowCut::piece_on_waves(k),
        }
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
            LinearCut::Rows(t) => format!("_rows{}c{}w{}", t.rows, t.chunks, t.waves),
            LinearCut::Matrix(t) => format!("_tile{}x{}x{}w{}", t.m, t.n, t.k, t.waves),
        }
    }
}
