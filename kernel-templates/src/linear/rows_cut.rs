//! How the rows of a product with one token are cut for waves, by a model of what a cut costs.

use crate::cost::{Candidate, Rounds, Term, ranked};
use crate::facts::{TargetShape, WeightType};
use hrx_ir::quant::{CHUNK, Format};

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
        let n = nk[0];
        if let (WeightType::Quant(format), true) = (weight, fixed_rows(shape, nk[1])) {
            return fixed_candidates(shape, nk, format);
        }
        let few = shape.waves.is_some_and(|w| w.fixed_rows) && n <= FEW_ROWS;
        if let (WeightType::Float(_), true, true) = (weight, few, nk[1].is_multiple_of(MOST_CHUNKS * CHUNK)) {
            let cut = RowsTiling { rows: 2, chunks: MOST_CHUNKS, waves: FIXED_WAVES, fixed: false };
            let reason = format!("{n} rows are too few for the chip: waves share each of them");
            return vec![Candidate { cut, refused: None, terms: vec![Term { name: "programs", cycles: 0.0, reason }] }];
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

impl RowsTiling {
    /// Whether rows of `f32` of this length are made numbers for products with quantised weights.
    pub fn makes_numbers(shape: &TargetShape, weight: WeightType, k: u32) -> bool {
        matches!(weight, WeightType::Quant(_)) && fixed_rows(shape, k)
    }

    /// The cut for rows that are each the sum of several experts': a wave has a row whole, so that all of them are asked
    /// for together; none where rows are longer.
    pub(super) fn of_sum(shape: &TargetShape, k: u32, weight: WeightType) -> Option<RowsTiling> {
        let WeightType::Quant(format) = weight else { return None };
        let chunks = k.div_ceil(CHUNK).next_power_of_two();
        let lanes = chunks * lanes_of_chunk(format.block_bytes.div_ceil(format.chunks()));
        (fixed_rows(shape, k) && lanes <= shape.lanes).then(|| {
            let waves = FIXED_WAVES / 2;
            RowsTiling { rows: shape.lanes / lanes * waves * 2, chunks, waves, fixed: true }
        })
    }
}

/// Rows of floats that are so few that a row's products are shared out among waves, on chips that make numbers of others.
const FEW_ROWS: u32 = 256;

/// The most chunks of a step.
const MOST_CHUNKS: u32 = 64;

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
