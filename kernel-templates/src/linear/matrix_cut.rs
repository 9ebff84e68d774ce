//! How a product with many tokens is cut for a matrix unit, by a model of what a cut costs.

use super::matrix::PAD;
use crate::cost::{Candidate, Rounds, Term, ranked};
use crate::facts::TargetShape;

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
    pub(super) const EXACT: MatrixTiling = MatrixTiling { m: 16, n: 32, k: 32, waves: 2 };

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
    let local = 2 * (cut.m + matrices * cut.n) * (cut.k + PAD) * 2;
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
