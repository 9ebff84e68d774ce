use crate::support::*;
use hrx_ir::quant::FORMATS;
use hrx_ir::tile::Elem;
use hrx_ir::tile::interp::Options;
use hrx_templates::{
    Activation, ArgMax, Embed, Limit, Output, Real, RmsNorm, RowCut, RowOp, Rowwise, Slot, Template, WeightType,
};
use proptest::prelude::*;

/// For vectors, and for waves: a piece longer than the rows, and one that leaves a rest.
const CUTS: [RowCut; 3] = [RowCut::VECTORS, RowCut { piece: 128, waves: 1 }, RowCut { piece: 64, waves: 2 }];

fn check_output(template: &impl Template, args: &[(Slot, Data)], output: Output, want: &[f64]) {
    for (options, tolerance) in [(Options::default(), 1e-6), (Options::exact(), 5e-6)] {
        let done = launch(template, args, &options);
        check_written(&template.name(), &done, output, want, tolerance);
    }
}

#[test]
fn rms_norm_is_its_formula() {
    CUTS.into_iter().for_each(check_rms_norm_is_its_formula);
}

fn check_rms_norm_is_its_formula(cut: RowCut) {
    let mut r = Random::new(1);
    let whole = [(2, 96, Output::F32), (3, 96, Output::Q8), (3, 96, Output::Q15)];
    for (t, k, output) in [(1, 7, Output::F32), (3, 45, Output::F32)].into_iter().chain(whole) {
        let norm = RmsNorm { k, eps: Real(1e-5), residual: false, indexed: false, output, cut };
        let k = k as usize;
        let (x, w) = (r.f32s(t * k), r.f32s(k));
        let mut args = vec![(Slot::NTokens, Data::Scalar(t as i32)), (Slot::X, f32s(&x)), (Slot::NormWeight, f32s(&w))];
        args.extend(written(output, t * k));
        let want = rms_norm(&x, &w, 1e-5);
        check_output(&norm, &args, output, &want);
        if output == Output::F32 {
            let residual = r.f32s(t * k);
            let sum: Vec<f64> = want.iter().zip(&residual).map(|(a, b)| a + b).collect();
            args.pop();
            args.extend([(Slot::Residual, f32s(&residual)), (Slot::Out, Data::Room(Elem::F32, t * k))]);
            check_output(&RmsNorm { residual: true, ..norm }, &args, output, &sum);
        }
    }
}

#[test]
fn rms_norm_reads_the_rows_it_is_told() {
    CUTS.into_iter().for_each(check_rms_norm_reads_the_rows_it_is_told);
}

fn check_rms_norm_reads_the_rows_it_is_told(cut: RowCut) {
    let mut r = Random::new(2);
    let (x, w) = (r.f32s(5 * 40), r.f32s(40));
    let norm = RmsNorm { k: 40, eps: Real(1e-6), residual: false, indexed: true, output: Output::F32, cut };
    let args = [
        (Slot::NTokens, Data::Scalar(3)),
        (Slot::NRows, Data::Scalar(5)),
        (Slot::X, f32s(&x)),
        (Slot::Rows, i32s(&[4, 0, 4])),
        (Slot::NormWeight, f32s(&w)),
        (Slot::Out, Data::Room(Elem::F32, 3 * 40)),
    ];
    let all = rms_norm(&x, &w, 1e-6);
    let want: Vec<f64> = [4, 0, 4].iter().flat_map(|&i| all[i * 40..(i + 1) * 40].to_vec()).collect();
    check_output(&norm, &args, Output::F32, &want);
}

#[test]
fn rowwise_operations_follow_their_formulas() {
    CUTS.into_iter().for_each(check_rowwise_operations_follow_their_formulas);
}

fn check_rowwise_operations_follow_their_formulas(cut: RowCut) {
    let mut r = Random::new(3);
    type Formula = fn(f64, f64) -> f64;
    let ops: [(RowOp, Formula); 6] = [
        (RowOp::Copy, |x, _| x),
        (RowOp::Scale(Real(2.5)), |x, _| 2.5 * x),
        (RowOp::Softcap(Real(30.0)), |x, _| 30.0 * (x / 30.0).tanh()),
        (RowOp::Add, |x, y| x + y),
        (RowOp::Glu(Activation::Silu, Limit::Off), |x, y| silu(x) * y),
        (RowOp::Glu(Activation::GeluTanh, Limit::Off), |x, y| gelu(x) * y),
    ];
    for (op, formula) in ops {
        for (t, k, output) in [(1, 5, Output::F32), (2, 70, Output::F32), (3, 64, Output::Q8)] {
            let n = t * k as usize;
            let x: Vec<f64> = r.f32s(n).iter().map(|v| rounded(Elem::F32, v * 40.0)).collect();
            let y = r.f32s(n);
            let mut args = vec![(Slot::NTokens, Data::Scalar(t as i32)), (Slot::X, f32s(&x)), (Slot::Y, f32s(&y))];
            args.extend(written(output, n));
            let want: Vec<f64> = x.iter().zip(&y).map(|(x, y)| formula(*x, *y)).collect();
            check_output(&Rowwise { k, op, indexed: false, output, cut }, &args, output, &want);
        }
    }
}

#[test]
fn quantising_is_the_definition_to_the_bit() {
    CUTS.into_iter().for_each(check_quantising_is_the_definition_to_the_bit);
}

fn check_quantising_is_the_definition_to_the_bit(cut: RowCut) {
    let mut r = Random::new(4);
    let mut x = r.f32s(4 * 32);
    // A block of zeros, ties, and a block whose largest element is negative.
    x[..32].fill(0.0);
    x[32..64].iter_mut().enumerate().for_each(|(i, v)| *v = (i as f64 - 16.0) * 0.5);
    x[32] = 127.0;
    x[64] = -3.0;
    for output in [Output::Q8, Output::Q15] {
        let copy = Rowwise { k: 64, op: RowOp::Copy, indexed: false, output, cut };
        let mut args = vec![(Slot::NTokens, Data::Scalar(2)), (Slot::X, f32s(&x))];
        args.extend(written(output, x.len()));
        let done = launch(&copy, &args, &Options::exact());
        let (codes, scales) = to_blocks(output, &x);
        assert_eq!(done.elems(Slot::OutCodes), codes);
        assert_eq!(done.elems(Slot::OutScales), scales);
    }
}

#[test]
fn embedding_rows_are_dequantised() {
    CUTS.into_iter().for_each(check_embedding_rows_are_dequantised);
}

fn check_embedding_rows_are_dequantised(cut: RowCut) {
    let mut r = Random::new(5);
    let ids = [2, 0, 2, 1];
    let lookup =
        |table: &[f64], k: usize| ids.iter().flat_map(|&i| table[i * k..(i + 1) * k].to_vec()).collect::<Vec<_>>();
    let ids32 = ids.map(|i| i as i32);
    for f in FORMATS {
        let k = 3 * f.block;
        let bytes = r.blocks(f, 3 * 3);
        let mut table = vec![0f32; 3 * k as usize];
        f.dequantize_row(&bytes, &mut table);
        let table: Vec<f64> = table.into_iter().map(f64::from).collect();
        let embed = Embed { rows: 3, k, table: WeightType::Quant(f), scale: None, cut };
        let mut args =
            vec![(Slot::NTokens, Data::Scalar(4)), (Slot::Ids, i32s(&ids32)), (Slot::Table, Data::Bytes(bytes))];
        args.extend(written(Output::F32, 4 * k as usize));
        let want = lookup(&table, k as usize);
        check_output(&embed, &args, Output::F32, &want);
        // Without a scale it is the reference's dequantisation, bit for bit.
        assert_eq!(launch(&embed, &args, &Options::exact()).elems(Slot::Out), want, "{}", f.name);
    }
    for e in [Elem::F32, Elem::F16, Elem::BF16] {
        let table = r.values(e, 3 * 41);
        let embed = Embed { rows: 3, k: 41, table: WeightType::Float(e), scale: Some(Real(6.5)), cut };
        let mut args = vec![(Slot::NTokens, Data::Scalar(4)), (Slot::Ids, i32s(&ids32))];
        args.push((Slot::Table, Data::Elems(e, table.clone())));
        args.extend(written(Output::F32, 4 * 41));
        let want: Vec<f64> = lookup(&table, 41).into_iter().map(|v| 6.5 * v).collect();
        check_output(&embed, &args, Output::F32, &want);
    }
}

fn argmax(rows: &[Vec<f64>], cut: RowCut) -> Vec<f64> {
    let k = rows[0].len();
    let args = [
        (Slot::NTokens, Data::Scalar(rows.len() as i32)),
        (Slot::X, f32s(&rows.concat())),
        (Slot::Out, Data::Room(Elem::I32, rows.len())),
    ];
    launch(&ArgMax { k: k as u32, cut }, &args, &Options::exact()).elems(Slot::Out)
}

#[test]
fn argmax_passes_over_nans_and_takes_the_lowest_of_equals() {
    CUTS.into_iter().for_each(check_argmax);
}

fn check_argmax(cut: RowCut) {
    let mut rows = vec![vec![-5.0; 70]; 5];
    rows[0][69] = -4.0;
    rows[1][33] = 1.0;
    rows[1][34] = 1.0;
    rows[1][65] = 1.0;
    rows[2][0] = f64::NAN;
    rows[2][40] = 0.0;
    rows[3].fill(f64::NEG_INFINITY);
    rows[4].fill(f64::NAN);
    assert_eq!(argmax(&rows, cut), [69.0, 33.0, 40.0, 0.0, 0.0]);
}

proptest! {
    #[test]
    fn argmax_is_the_first_largest(values in prop::collection::vec(-4i32..4, 1..100)) {
        let row: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
        let largest = values.iter().max();
        let want = values.iter().position(|v| Some(v) == largest).map(|i| i as f64);
        prop_assert_eq!(argmax(&[row], RowCut::VECTORS).first().copied(), want);
    }
}
