//! How far a golden model's logits may be from the reference.

use crate::golden::Model;
use crate::logits::Comparison;
use hrx::npy::Matrix;

/// A row's best token may be another one where the reference decides by less than this many times the root mean square
/// error of the row's logits. A margin is the difference of two logits, whose errors are about normal: 4 deviations.
const NOISE: f64 = 6.0;

/// What is further off than it may be: the median error, by the bound, or a best token that the reference decides clearly.
pub fn failures(name: &str, model: &Model, bound: f64, reference: &Matrix, found: &Comparison) -> Vec<String> {
    let mut failures = Vec::new();
    if found.median() > bound || found.median().is_nan() {
        failures.push(format!("{name}: median {:.2e}, bound {bound:.2e}", found.median()));
    }
    for &row in &found.top1_differs {
        let size = reference.row(row).iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / reference.cols as f64;
        let noise = (found.rows[row] * size).sqrt();
        let margin = model.top2_margin[row];
        if margin > NOISE * noise {
            failures.push(format!("{name}: row {row}, decided by {margin:.2e}, flips at an error of {noise:.2e}"));
        }
    }
    failures
}
