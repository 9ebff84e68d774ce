//! Mixtures of experts in f64.

use super::ops::{Step, dot};
use super::{InterpError, Matrix};
use crate::graph::tensor::{Rows, Tensor};
use crate::graph::{Routing, Scoring};

/// The least sum that weights are divided by.
const LEAST_SUM: f64 = 1.0 / 16384.0;

impl Step<'_> {
    pub(super) fn route(&self, logits: Tensor, bias: Option<Tensor>, r: &Routing) -> Result<Matrix, InterpError> {
        let logits = &self.values[logits];
        let bias = match bias {
            Some(b) => self.vector(b)?,
            None => vec![0.0; logits.cols],
        };
        let mut y = Matrix::zeros(logits.rows, 2 * r.n_used as usize);
        for row in 0..logits.rows {
            let scores = scores(r.scoring, logits.row(row));
            let ranked: Vec<f64> = scores.iter().zip(&bias).map(|(s, b)| s + b).collect();
            let chosen = best(&masked(&ranked, r.groups), r.n_used as usize);
            let mut weights: Vec<f64> = chosen.iter().map(|&e| scores[e]).collect();
            if r.scoring == Scoring::SoftmaxOfChosen {
                weights = softmax(&weights);
            }
            if r.normalize {
                let sum = weights.iter().sum::<f64>().max(LEAST_SUM);
                weights.iter_mut().for_each(|w| *w /= sum);
            }
            let weights = weights.iter().map(|w| w * f64::from(r.scale));
            let pairs = chosen.iter().map(|&e| e as f64).chain(weights);
            y.row_mut(row).iter_mut().zip(pairs).for_each(|(y, x)| *y = x);
        }
        Ok(y)
    }

    /// The optional operands are routes, scale and bias.
    pub(super) fn expert_linear(
        &self,
        x: Tensor,
        weight: Tensor,
        n_expert: u32,
        [routes, scale, bias]: [Option<Tensor>; 3],
    ) -> Result<Matrix, InterpError> {
        let (x, shape) = (&self.values[x], self.graph.shape(weight));
        let Rows::Const(rows) = shape.rows else { return Ok(Matrix::default()) };
        let (k, n) = (shape.cols as usize, (rows / n_expert) as usize);
        let used = routes.map_or(n_expert as usize, |r| self.values[r].cols / 2);
        let scale = scale.map(|s| self.vector(s)).transpose()?;
        let mut y = Matrix::zeros(x.rows, used * n);
        let (mut row, mut bias_row) = (vec![0.0f32; k], vec![0.0f32; n]);
        for e in 0..n_expert as usize {
            // The places of a result that this expert computes.
            let is_chosen = |r: usize, slot: usize| match routes {
                Some(t) => self.values[t].row(r)[slot] == e as f64,
                None => slot == e,
            };
            let pairs = (0..x.rows).flat_map(|r| (0..used).map(move |s| (r, s)));
            let places: Vec<(usize, usize)> = pairs.filter(|&(r, s)| is_chosen(r, s)).collect();
            if places.is_empty() {
                continue;
            }
            if let Some(bias) = bias {
                self.weight_row(bias, e as u32, &mut bias_row)?;
            }
            for (j, &bias) in bias_row.iter().enumerate() {
                self.weight_row(weight, (e * n + j) as u32, &mut row)?;
                let w: Vec<f64> = row.iter().map(|&w| f64::from(w)).collect();
                for &(r, slot) in &places {
                    let from = if x.cols == k { 0 } else { slot * k };
                    let product = dot(&x.row(r)[from..from + k], &w);
                    let scaled = product * scale.as_ref().map_or(1.0, |s| s[e]);
                    y.row_mut(r)[slot * n + j] = scaled + f64::from(bias);
                }
            }
        }
        Ok(y)
    }

    pub(super) fn expert_sum(&self, x: Tensor, routes: Tensor) -> Matrix {
        let (x, routes) = (&self.values[x], &self.values[routes]);
        let used = routes.cols / 2;
        let n = x.cols / used;
        let mut y = Matrix::zeros(x.rows, n);
        for r in 0..x.rows {
            for (slot, part) in x.row(r).chunks_exact(n).enumerate() {
                let weight = routes.row(r)[used + slot];
                y.row_mut(r).iter_mut().zip(part).for_each(|(y, x)| *y += weight * x);
            }
        }
        y
    }
}

fn scores(scoring: Scoring, logits: &[f64]) -> Vec<f64> {
    match scoring {
        Scoring::Softmax => softmax(logits),
        Scoring::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
        Scoring::SoftmaxOfChosen => logits.to_vec(),
    }
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = x.iter().map(|x| (x - largest).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.into_iter().map(|e| e / sum).collect()
}

/// The indices of the n largest, in falling order; the earlier one of two equal ones first.
fn best(x: &[f64], n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|&a, &b| x[b].total_cmp(&x[a]).then(a.cmp(&b)));
    order.truncate(n);
    order
}

/// Scores, those outside the open groups at minus infinity.
fn masked(scores: &[f64], [groups, open]: [u32; 2]) -> Vec<f64> {
    if groups == 1 {
        return scores.to_vec();
    }
    let size = scores.len() / groups as usize;
    let of_group = |g: &[f64]| best(g, 2).iter().map(|&i| g[i]).sum::<f64>();
    let sums: Vec<f64> = scores.chunks_exact(size).map(of_group).collect();
    let open = best(&sums, open as usize);
    let keep = |(i, &s): (usize, &f64)| if open.contains(&(i / size)) { s } else { f64::NEG_INFINITY };
    scores.iter().enumerate().map(keep).collect()
}
