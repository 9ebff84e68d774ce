//! Convolutions and recurrences along the sequence in f64.

use super::ops::{Step, activate};
use super::{InterpError, Matrix};
use crate::graph::tensor::{Rows, State, Tensor};
use crate::graph::{Activation, KeyHeads};

impl Step<'_> {
    /// What a state holds; zeros before the first step.
    fn taken(&mut self, state: Tensor) -> Matrix {
        let shape = self.graph.shape(state);
        let Rows::Const(rows) = shape.rows else { return Matrix::default() };
        let empty = || Matrix::zeros(rows as usize, shape.cols as usize);
        self.memory.states.remove(&state).unwrap_or_else(empty)
    }

    pub(super) fn short_conv(
        &mut self,
        x: Tensor,
        weight: Tensor,
        bias: Option<Tensor>,
        state: Tensor,
        act: Option<Activation>,
    ) -> Result<Matrix, InterpError> {
        let before = self.taken(state);
        let (x, taps) = (&self.values[x], before.rows + 1);
        let history: Vec<&[f64]> =
            (0..before.rows).map(|r| before.row(r)).chain((0..x.rows).map(|r| x.row(r))).collect();
        let bias = match bias {
            Some(b) => self.vector(b)?,
            None => vec![0.0; x.cols],
        };
        let mut y = Matrix::zeros(x.rows, x.cols);
        let mut row = vec![0.0f32; taps];
        for (c, bias) in bias.iter().enumerate() {
            self.weight_row(weight, c as u32, &mut row)?;
            for t in 0..x.rows {
                let products = row.iter().zip(&history[t..]).map(|(&w, x)| f64::from(w) * x[c]);
                let sum = bias + products.sum::<f64>();
                y.row_mut(t)[c] = act.map_or(sum, |a| activate(a, sum));
            }
        }
        let data = history[x.rows..].concat();
        let after = Matrix { rows: before.rows, cols: x.cols, data };
        self.memory.states.insert(state, after);
        Ok(y)
    }

    pub(super) fn recurrence(
        &mut self,
        [q, k, v, decay]: [Tensor; 4],
        beta: Option<Tensor>,
        state: Tensor,
        key_heads: KeyHeads,
    ) -> Matrix {
        let Some(State::Recurrent(sizes)) = self.graph.state(state) else { return Matrix::default() };
        let mut s = self.taken(state);
        let (dk, dv, heads) = (sizes.key_dim as usize, sizes.value_dim as usize, sizes.n_head as usize);
        let [q, k, v, decay] = [q, k, v, decay].map(|t| &self.values[t]);
        let n_key = q.cols / dk;
        let mut y = Matrix::zeros(v.rows, v.cols);
        for t in 0..v.rows {
            for h in 0..heads {
                let key_head = match key_heads {
                    KeyHeads::Blocked => h / (heads / n_key),
                    KeyHeads::Cyclic => h % n_key,
                };
                let (q, k) = (&q.row(t)[key_head * dk..][..dk], &k.row(t)[key_head * dk..][..dk]);
                let matrix = &mut s.data[h * dk * dv..][..dk * dv];
                let a = decay.row(t)[h].exp();
                matrix.iter_mut().for_each(|x| *x *= a);
                let product = |matrix: &[f64], by: &[f64], j: usize| {
                    by.iter().enumerate().map(|(i, x)| x * matrix[i * dv + j]).sum::<f64>()
                };
                let mut u = v.row(t)[h * dv..][..dv].to_vec();
                if let Some(beta) = beta {
                    let beta = self.values[beta].row(t)[h];
                    u.iter_mut().enumerate().for_each(|(j, u)| *u = beta * (*u - product(matrix, k, j)));
                }
                for (row, k) in matrix.chunks_exact_mut(dv).zip(k) {
                    row.iter_mut().zip(&u).for_each(|(s, u)| *s += k * u);
                }
                let out = &mut y.row_mut(t)[h * dv..][..dv];
                out.iter_mut().enumerate().for_each(|(j, y)| *y = product(matrix, q, j));
            }
        }
        self.memory.states.insert(state, s);
        y
    }
}
