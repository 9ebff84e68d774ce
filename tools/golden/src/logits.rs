//! How far logits are from a reference.

use hrx::npy::Matrix;

/// The rows of a matrix, in order.
pub fn rows(matrix: &Matrix) -> impl Iterator<Item = &[f32]> {
    (0..matrix.rows).map(|index| matrix.row(index))
}

/// Normalised mean square error of one row: mean of the squared differences over the mean of the
/// squared reference. Infinite if a value is not finite or the reference is all zeros but the row
/// is not, so that no bound is ever met by accident.
///
/// # Panics
/// If the lengths differ.
pub fn nmse(row: &[f32], reference: &[f32]) -> f64 {
    assert_eq!(row.len(), reference.len(), "rows of different width");
    let square = |x: f64| x * x;
    let pairs = || row.iter().zip(reference).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    let error: f64 = pairs().map(|(a, b)| square(a - b)).sum();
    let scale: f64 = pairs().map(|(_, b)| square(b)).sum();
    match error / scale {
        ratio if ratio.is_finite() => ratio,
        _ if error == 0.0 => 0.0,
        _ => f64::INFINITY,
    }
}

/// Index of the largest value; the first of equals. NaN is never the largest.
pub fn argmax(row: &[f32]) -> usize {
    let better = |best: usize, i: usize| {
        if row[i] > row[best] || row[best].is_nan() { i } else { best }
    };
    (0..row.len()).fold(0, better)
}

/// The result of holding logits against a reference, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// [`nmse`] of each row.
    pub rows: Vec<f64>,
    /// Rows whose [`argmax`] differs.
    pub top1_differs: Vec<usize>,
}

impl Comparison {
    /// Compares all rows.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn of(actual: &Matrix, reference: &Matrix) -> Self {
        let shapes = [actual, reference].map(|matrix| (matrix.rows, matrix.cols));
        assert_eq!(shapes[0], shapes[1], "matrices of different shapes");
        let pairs = || rows(actual).zip(rows(reference));
        let differs = |(i, (a, b))| (argmax(a) != argmax(b)).then_some(i);
        Self {
            rows: pairs().map(|(a, b)| nmse(a, b)).collect(),
            top1_differs: pairs().enumerate().filter_map(differs).collect(),
        }
    }

    /// Median over the rows: of an even number, the mean of the middle two. NaN without rows.
    pub fn median(&self) -> f64 {
        let mut sorted = self.rows.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        match n {
            0 => f64::NAN,
            _ => (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
        }
    }

    /// The worst row; NaN without rows.
    pub fn max(&self) -> f64 {
        self.rows.iter().copied().fold(f64::NAN, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nmse_of_known_rows() {
        assert_eq!(nmse(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert_eq!(nmse(&[0.0, 0.0], &[1.0, 2.0]), 1.0);
        assert_eq!(nmse(&[3.0, 5.0], &[3.0, 4.0]), 1.0 / 25.0);
        assert_eq!(nmse(&[0.0], &[0.0]), 0.0);
        for (row, reference) in [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::INFINITY, 1.0), (1.0, 0.0)] {
            assert_eq!(nmse(&[row], &[reference]), f64::INFINITY, "{row} {reference}");
        }
    }

    #[test]
    fn argmax_of_ties_and_nan() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(argmax(&[f32::NAN, -1.0, f32::NAN, 0.0]), 3);
        assert_eq!(argmax(&[f32::NEG_INFINITY; 2]), 0);
    }

    #[test]
    fn comparison_by_row() {
        let matrix = |values: &[f32]| Matrix { rows: 4, cols: 2, data: values.to_vec() };
        let reference = matrix(&[0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        let actual = matrix(&[0.0, 1.0, 0.0, 0.0, 2.0, 1.0, 1.0, f32::NAN]);
        let comparison = Comparison::of(&actual, &reference);
        assert_eq!(comparison.rows, [0.0, 1.0, 4.0, f64::INFINITY]);
        assert_eq!(comparison.top1_differs, [2]);
        assert_eq!((comparison.median(), comparison.max()), (2.5, f64::INFINITY));
    }
}
