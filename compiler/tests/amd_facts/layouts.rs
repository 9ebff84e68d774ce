//! Fragment layouts, checked as permutations and against the types of LLVM's operands.

use hrx_compiler::target::amd::{Bit, CHIPS, Chip, Fragment, MatrixOp};
use std::collections::HashMap;

fn each_op(check: impl Fn(&Chip, &MatrixOp)) {
    for chip in CHIPS {
        for op in chip.matrix_ops {
            check(chip, op);
        }
    }
}

fn count(fragment: &Fragment, which: impl Fn(Bit) -> bool) -> u32 {
    fragment.lane.iter().chain(fragment.element).filter(|&&bit| which(bit)).count() as u32
}

/// Every element of the tile is held, each by as many lanes as the layout repeats it for.
fn covers(
    op: &MatrixOp,
    fragment: &Fragment,
    (rows, columns): (u32, u32),
    at: impl Fn(u32, u32) -> Option<(u32, u32)>,
) {
    assert_eq!(1 << fragment.lane.len(), op.wave, "{op}: lanes");
    let mut held: HashMap<(u32, u32), u32> = HashMap::new();
    for lane in 0..op.wave {
        for element in 0..1 << fragment.element.len() {
            if let Some(place) = at(lane, element) {
                *held.entry(place).or_default() += 1;
            }
        }
    }
    let repeats = 1 << count(fragment, |b| b == Bit::Repeat);
    for row in 0..rows {
        for column in 0..columns {
            assert_eq!(held.get(&(row, column)), Some(&repeats), "{op}: ({row}, {column})");
        }
    }
    assert_eq!(held.len() as u32, rows * columns, "{op}: elements outside the tile");
}

#[test]
fn fragments_are_bijections() {
    each_op(|_, op| {
        covers(op, &op.layout.factor, (op.m, op.k), |l, e| Some(op.a_at(l, e)));
        covers(op, &op.layout.factor, (op.k, op.n), |l, e| Some(op.b_at(l, e)));
        covers(op, &op.layout.result, (op.m, op.n), |l, e| op.d_at(l, e));
        let foreign = |bit| matches!(bit, Bit::M(_) | Bit::N(_) | Bit::Unused);
        assert_eq!(count(&op.layout.factor, foreign), 0, "{op}: a factor has rows, columns and k");
        let foreign = |bit| matches!(bit, Bit::Outer(_) | Bit::K(_) | Bit::Repeat);
        assert_eq!(count(&op.layout.result, foreign), 0, "{op}: a result has rows and columns");
    });
}

#[test]
fn elements_fill_the_operands() {
    each_op(|chip, op| {
        let bits = op.factor_elements() * op.a.bits();
        assert_eq!(bits, op.factor.scalar.bits() * op.factor.count, "{} {op}: A and B", chip.name);
        assert_eq!(op.a.bits(), op.b.bits(), "{} {op}", chip.name);
        let bits = op.result_elements() * op.acc.bits();
        assert_eq!(bits, op.result.scalar.bits() * op.result.count, "{} {op}: C and D", chip.name);
    });
}

/// The positions that GPUOpen's and ROCm's articles print, by hand.
#[test]
fn layouts_are_those_of_the_articles() {
    let op = |chip: &str, mnemonic: &str| {
        let chip = hrx_compiler::target::amd::find(chip).expect("is there");
        *chip.matrix_ops.iter().find(|op| op.mnemonic == mnemonic).expect("is there")
    };
    // RDNA 3: a lane has a row of A and every second row of a column of D.
    let wmma = op("gfx1100", "v_wmma_f32_16x16x16_f16");
    for lane in 0..32 {
        assert!((0..16).all(|e| wmma.a_at(lane, e) == (lane % 16, e)));
        assert!((0..16).all(|e| wmma.b_at(lane, e) == (e, lane % 16)));
        assert!((0..8).all(|e| wmma.d_at(lane, e) == Some((2 * e + lane / 16, lane % 16))));
    }
    let half = op("gfx1100", "v_wmma_f16_16x16x16_f16");
    assert_eq!((half.d_at(20, 6), half.d_at(20, 7)), (Some((7, 4)), None));
    // RDNA 4: halves of rows, and eight rows of D in a run.
    let wmma = op("gfx1201", "v_wmma_f32_16x16x16_f16");
    for lane in 0..32 {
        assert!((0..8).all(|e| wmma.a_at(lane, e) == (lane % 16, 8 * (lane / 16) + e)));
        assert!((0..8).all(|e| wmma.d_at(lane, e) == Some((8 * (lane / 16) + e, lane % 16))));
    }
    // CDNA: 16x16x16 and 32x32x16 of the article on CDNA 3, and the 8-bit 32x32x64 of CDNA 4.
    let mfma = op("gfx942", "v_mfma_f32_16x16x16_f16");
    for lane in 0..64 {
        assert!((0..4).all(|e| mfma.a_at(lane, e) == (lane % 16, 4 * (lane / 16) + e)));
        assert!((0..4).all(|e| mfma.d_at(lane, e) == Some((4 * (lane / 16) + e, lane % 16))));
    }
    let mfma = op("gfx942", "v_mfma_f32_32x32x16_fp8_fp8");
    for lane in 0..64 {
        assert!((0..8).all(|e| mfma.b_at(lane, e) == (8 * (lane / 32) + e, lane % 32)));
        let row = |e: u32| e % 4 + 8 * (e / 4) + 4 * (lane / 32);
        assert!((0..16).all(|e| mfma.d_at(lane, e) == Some((row(e), lane % 32))));
    }
    let mfma = op("gfx950", "v_mfma_f32_32x32x64_f8f6f4");
    for lane in 0..64 {
        let k = |e: u32| 16 * (lane / 32) + 32 * (e / 16) + e % 16;
        assert!((0..32).all(|e| mfma.a_at(lane, e) == (lane % 32, k(e))));
    }
}
