//! How the work of a product is cut.

use super::{FAMILY, Linear, PanelTiling};
use crate::cost::{Candidate, Rounds, Term, ranked};
use crate::facts::{Output, TargetShape, TemplateError, WeightType};
use crate::packed::Panels;
use crate::row::PIECE;
use hrx_ir::quant::{CHUNK, Format};
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
    /// Whether rows of `f32` that are multiplied by quantised weights are brought to local memory first, as numbers of 15
    /// bits. Other products are the same with it.
    pub fixed: bool,
}

impl RowsTiling {
    /// The cut for `matrices` matrices `[n, k]`: the cheapest of [`RowsTiling::candidates`].
    pub fn choose(shape: &TargetShape, nk: [u32; 2], weight: WeightType, matrices: u32) -> RowsTiling {
        let mut found = RowsTiling::candidates(shape, nk, weight, matrices).into_iter().filter(|c| c.refused.is_none());
        // One chunk of one row a lane is possible whatever the sizes.
        found.next().map_or(RowsTiling { rows: shape.lanes, chunks: 1, waves: 1, fixed: false }, |c| c.cut)
    }

    /// All cuts with their costs, the cheapest first.
    pub fn candidates(
        shape: &TargetShape,
        nk: [u32; 2],
        weight: WeightType,
        matrices: u32,
    ) -> Vec<Candidate<RowsTiling>> {
        if let (WeightType::Quant(format), true) = (weight, fixed_rows(shape, nk[1])) {
            return fixed_candidates(shape, nk, format);
        }
        let mut out = Vec::new();
        for chunks in [1, 2, 4, 8, 16, 32] {
            for waves in [4, 2, 8, 1] {
                for registers in [1, 2, 4] {
                    out.push(rows_cost(shape, nk, weight, matrices, [chunks, waves, registers]));
                }
            }
        }
        ranked(out)
    }
}

/// Instructions of a lane for the codes of a chunk's 32 elements (unpacked, widened, multiplied), and for its scales.
const CHUNK_WORK: f64 = 100.0;
/// Instructions of a lane for the activations of a chunk: loads, their sum, the norm.
const INPUT_WORK: f64 = 110.0;
/// Instructions of a step that do not depend on how much it does.
const STEP_WORK: f64 = 14.0;
/// Cycles from asking for memory to having it, which the other waves of a SIMD fill.
const LATENCY: f64 = 600.0;
/// Instructions of an access to the end of a row that may reach beyond it, for each row of a lane and for the activations.
const MASKED: f64 = 28.0;
/// Instructions that LLVM compiles within the time that a decoding kernel may take.
const LONGEST_ROWS: f64 = 600.0;
/// Bytes of memory that are fetched together.
const SECTOR: u32 = 64;
/// Cycles of the memory unit for each of them.
const SECTOR_CYCLES: f64 = 4.0;
/// The fewest bytes of a row that a step reads, where the row has more.
const SHORTEST: u32 = 32;

/// Whether a row of x comes to local memory as numbers, of which each element takes two and a half bytes.
fn fixed_rows(shape: &TargetShape, k: u32) -> bool {
    shape.waves.is_some_and(|w| w.fixed_rows && 3 * k < w.lds)
}

/// Waves of a program that brings its row to local memory: they share that work.
const FIXED_WAVES: u32 = 8;

/// Chunks of a step from which on it pays that steps divide the row.
const FEW_CHUNKS: u32 = 8;

/// Cuts for rows of numbers. What a step does is little against waiting for its weights, so what counts is that they are
/// many beside one another, and of one row lie together. The first has as many rows a lane as leave enough programs to
/// share out.
fn fixed_candidates(shape: &TargetShape, [n, k]: [u32; 2], format: &Format) -> Vec<Candidate<RowsTiling>> {
    let lanes_of_chunk = lanes_of_chunk(format.block_bytes.div_ceil(format.chunks()));
    let most = shape.lanes / lanes_of_chunk;
    let chunks_of_row = k.div_ceil(CHUNK);
    let dividing = 1 << chunks_of_row.trailing_zeros();
    let chunks = if dividing >= FEW_CHUNKS { most.min(dividing) } else { most.min(chunks_of_row.next_power_of_two()) };
    let simds = shape.waves.and_then(|w| w.simds).unwrap_or(1);
    let cut = |registers: u32| {
        let rows = shape.lanes / (chunks * lanes_of_chunk) * FIXED_WAVES * registers;
        let cut = RowsTiling { rows, chunks, waves: FIXED_WAVES, fixed: true };
        let programs = n.div_ceil(rows);
        if registers > 1 && 8 * programs < 3 * simds {
            return Candidate::refused(cut, format!("{programs} programs are too few for {simds} SIMDs"));
        }
        let steps = chunks_of_row.div_ceil(chunks);
        let reason = format!("{programs} programs, {steps} steps of {registers} rows a lane");
        Candidate { cut, refused: None, terms: vec![Term { name: "programs", cycles: f64::from(programs), reason }] }
    };
    ranked([4, 2, 1].map(cut).into())
}

/// Lanes that one chunk of so many bytes keeps busy: each takes 16 bytes of codes.
fn lanes_of_chunk(bytes: u32) -> u32 {
    (bytes.div_ceil(16).next_power_of_two() / 2).max(1)
}

/// The cost of a cut in which each wave's lanes have `registers` rows each.
fn rows_cost(
    shape: &TargetShape,
    [n, k]: [u32; 2],
    weight: WeightType,
    matrices: u32,
    [chunks, waves, registers]: [u32; 3],
) -> Candidate<RowsTiling> {
    let chunks_of_row = k.div_ceil(CHUNK);
    let chunk_bytes = match weight {
        WeightType::Quant(f) => f.block_bytes.div_ceil(f.chunks()),
        WeightType::Float(e) => CHUNK * e.bytes(),
    };
    let lanes_of_chunk = lanes_of_chunk(chunk_bytes);
    let rows_of_wave = shape.lanes / (chunks * lanes_of_chunk).min(shape.lanes);
    let rows = rows_of_wave * waves * registers;
    let cut = RowsTiling { rows, chunks, waves, fixed: false };
    if chunks * lanes_of_chunk > shape.lanes {
        return Candidate::refused(cut, format!("{chunks} chunks are more than {} lanes read", shape.lanes));
    }
    if rows > 256 {
        return Candidate::refused(cut, format!("{rows} rows are more than a program stores"));
    }
    if chunks > chunks_of_row.next_power_of_two() {
        return Candidate::refused(cut, format!("a row has {chunks_of_row} chunks"));
    }
    let segment = chunks * chunk_bytes;
    if segment < SHORTEST && chunks < chunks_of_row {
        return Candidate::refused(cut, format!("{segment} bytes of a row a step: lanes would read apart"));
    }
    let steps = f64::from(chunks_of_row.div_ceil(chunks));
    let programs = u64::from(n.div_ceil(rows));
    let rounds = Rounds::of(programs * u64::from(waves), shape.waves.and_then(|w| w.simds));
    let per_lane = CHUNK_WORK / f64::from(lanes_of_chunk);
    let step = f64::from(registers) * per_lane + INPUT_WORK / f64::from(lanes_of_chunk) + STEP_WORK;
    let ends = 150.0 + f64::from(registers) * (20.0 + 4.0 * f64::from(chunks.trailing_zeros()));
    // A part of a row that does not fill its sectors makes the memory unit go over more of them.
    let sectors = f64::from(segment.div_ceil(SECTOR) + u32::from(!segment.is_multiple_of(SECTOR)));
    let lines = f64::from(rows_of_wave * registers) * sectors;
    let whole = chunks_of_row.is_multiple_of(chunks);
    let rest = if whole { 0.0 } else { MASKED * f64::from(registers + 2) };
    let code =
        f64::from(matrices) * (f64::from(registers) * per_lane) + INPUT_WORK / f64::from(lanes_of_chunk) + ends + rest;
    let longest = shape.waves.map_or(1, |w| w.code_factor);
    if code > LONGEST_ROWS * f64::from(longest) {
        return Candidate::refused(cut, format!("about {code:.0} instructions take LLVM too long"));
    }
    let beside = rounds.beside();
    // The wave's chunks of the activations, once for all its rows.
    let inputs = f64::from(chunks * CHUNK) * 4.0;
    let cache = shape.waves.and_then(|w| w.cache_bytes);
    let term = |name, cycles: f64, reason: String| Term { name, cycles: cycles * rounds.factor, reason };
    Candidate {
        cut,
        refused: None,
        terms: vec![
            term("work", steps * step, format!("{steps} steps of {step:.0} instructions; {}", rounds.reason)),
            term("ends", ends, format!("norm before and sum over {chunks} chunks behind, {registers} rows a lane")),
            term(
                "memory",
                steps * lines * SECTOR_CYCLES,
                format!("{segment} bytes of a row a step: {lines:.0} sectors of {SECTOR} bytes"),
            ),
            term(
                "inputs",
                cache.map_or(0.0, |bytes| steps * inputs / f64::from(bytes)),
                match cache {
                    Some(bytes) => format!("{inputs} bytes of activations a step, {bytes} a cycle"),
                    None => "the cache's rate is not known".into(),
                },
            ),
            term(
                "waiting",
                steps * LATENCY / beside,
                format!("{steps} steps, {beside:.0} waves of a SIMD beside one another"),
            ),
            term(
                "rest",
                steps * rest,
                match whole {
                    true => format!("{chunks} divide the row's {chunks_of_row} chunks"),
                    false => format!("{chunks} do not divide the row's {chunks_of_row} chunks: every access is masked"),
                },
            ),
        ],
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
    /// The cut for `f32` weights, which have no matrix unit: routers are small, and one program has few of their outputs.
    const EXACT: MatrixTiling = MatrixTiling { m: 16, n: 32, k: 32, waves: 2 };

    /// The cut for `matrices` matrices `[n, k]` of each of some groups and about this many tokens in each: the cheapest of
    /// [`MatrixTiling::candidates`].
    pub fn choose(shape: &TargetShape, nk: [u32; 2], [groups, tokens]: [u32; 2], matrices: u32) -> MatrixTiling {
        let mut found =
            MatrixTiling::candidates(shape, nk, [groups, tokens], matrices).into_iter().filter(|c| c.refused.is_none());
        found.next().map_or(MatrixTiling { m: 16, n: 16, k: 32, waves: 1 }, |c| c.cut)
    }

    /// All cuts with their costs, the cheapest first.
    pub fn candidates(
        shape: &TargetShape,
        nk: [u32; 2],
        groups_tokens: [u32; 2],
        matrices: u32,
    ) -> Vec<Candidate<MatrixTiling>> {
        let mut out = Vec::new();
        for m in [64, 32, 128, 16] {
            for n in [64, 128, 32, 16] {
                for k in [32, 64] {
                    for waves in [4, 8, 2] {
                        out.push(matrix_cost(shape, nk, groups_tokens, matrices, MatrixTiling { m, n, k, waves }));
                    }
                }
            }
        }
        ranked(out)
    }
}

/// Instructions for an element of a weight on its way to local memory, and of an activation.
const STAGE_WEIGHT: f64 = 4.5;
const STAGE_INPUT: f64 = 2.0;
/// Instructions for an output behind the products.
const FINISH: f64 = 14.0;
/// Instructions that LLVM compiles within the time that a kernel may take.
const LONGEST_CODE: f64 = 620.0;
/// Most lanes of a workgroup whose waves have a register file each.
const WIDEST_GROUP: u32 = 256;
/// Cycles that a step waits for memory and at its barrier.
const STEP_WAIT: f64 = 500.0;

fn matrix_cost(
    shape: &TargetShape,
    [n, k]: [u32; 2],
    [groups, tokens]: [u32; 2],
    matrices: u32,
    cut: MatrixTiling,
) -> Candidate<MatrixTiling> {
    let Some(w) = shape.waves else { return Candidate::refused(cut, "vectors have no matrix unit") };
    let lanes = f64::from(shape.lanes * cut.waves);
    let local = 2 * (cut.m + matrices * cut.n) * (cut.k + super::matrix::PAD) * 2;
    let most = w.lds.min(hrx_ir::tile::MAX_LOCAL_BYTES as u32);
    if local > most {
        return Candidate::refused(cut, format!("{local} bytes of LDS, a workgroup has {most}"));
    }
    // The waves of a larger workgroup share SIMDs, and with them the registers.
    if shape.lanes * cut.waves > WIDEST_GROUP {
        return Candidate::refused(cut, format!("{} lanes are more than four SIMDs hold", shape.lanes * cut.waves));
    }
    let outputs = f64::from(cut.m * cut.n * matrices) / lanes;
    if outputs < 4.0 * f64::from(matrices) {
        return Candidate::refused(cut, format!("{} waves are more than its products", cut.waves));
    }
    let registers = (outputs as u32 + 70).next_multiple_of(w.register_granule);
    if registers > shape.registers {
        return Candidate::refused(cut, format!("about {registers} registers, a lane has {}", shape.registers));
    }
    let stage =
        f64::from(cut.k) * (STAGE_WEIGHT * f64::from(matrices * cut.n) + STAGE_INPUT * f64::from(cut.m)) / lanes;
    // A gate's function costs as much as all else.
    let finish = FINISH * outputs * if matrices > 1 { 1.3 } else { 1.0 };
    let products = f64::from(cut.m * cut.n * cut.k * matrices) / 4096.0 / f64::from(cut.waves);
    let code = 1.6 * stage + finish + products * f64::from(1 + w.product_instructions) + 200.0;
    if code > LONGEST_CODE * f64::from(w.code_factor) {
        return Candidate::refused(cut, format!("about {code:.0} instructions take LLVM too long"));
    }
    let steps = f64::from(k.div_ceil(cut.k));
    let programs = u64::from(n.div_ceil(cut.n)) * u64::from(tokens.div_ceil(cut.m)) * u64::from(groups);
    let rounds = Rounds::of(programs * u64::from(cut.waves), w.simds);
    // Waves of one SIMD fill each other's waiting.
    let beside = f64::from((w.register_file / registers).min(w.max_waves).max(1));
    let wait = STEP_WAIT / beside;
    let multiply = products * f64::from(w.product_cycles);
    let term = |name, cycles: f64, reason: String| Term { name, cycles: cycles * rounds.factor, reason };
    Candidate {
        cut,
        refused: None,
        terms: vec![
            term(
                "products",
                steps * multiply,
                format!(
                    "{steps} steps of {products:.0} products a wave at {} cycles; {}",
                    w.product_cycles, rounds.reason
                ),
            ),
            term("staging", steps * stage, format!("{stage:.0} instructions a step bring both factors to LDS")),
            term("waiting", steps * wait, format!("about {registers} registers: {beside} waves beside one another")),
            term("outputs", finish, format!("{outputs} outputs a lane")),
        ],
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
                    let form = Panels::input(weight) == Some(l.input);
                    unless(form, "packed blocks are multiplied by Q8, packed floats by f32")?;
                }
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
