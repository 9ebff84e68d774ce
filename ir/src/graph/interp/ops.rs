//! Each operation in f64.

use super::{Arguments, InterpError, Matrix, Memory, WeightSource};
use crate::graph::tensor::{Graph, KvCache, Rows, Tensor};
use crate::graph::{Activation, Limit, NormKind, Op, RopeSpec};
use cranelift_entity::SecondaryMap;

/// One run of a graph. The graph is verified and the arguments are checked, so kinds and shapes fit.
pub(super) struct Step<'a> {
    pub(super) graph: &'a Graph,
    pub(super) weights: &'a dyn WeightSource,
    pub(super) args: Arguments<'a>,
    /// Activations that are still to be read.
    pub(super) values: SecondaryMap<Tensor, Matrix>,
    /// The context that rotations are chosen for.
    pub(super) n_ctx: u32,
    pub(super) memory: &'a mut Memory,
}

/// Attention's sizes and numbers.
struct Heads {
    n_head: usize,
    sinks: Option<Tensor>,
    scale: f64,
    window: Option<u32>,
    softcap: Option<f32>,
}

impl Step<'_> {
    /// The result of an operation; an empty matrix where that is a cache.
    pub(super) fn run(&mut self, op: &Op) -> Result<Matrix, InterpError> {
        match *op {
            Op::Embed { table, ids, scale } => self.embed(table, ids, scale),
            Op::Normalize { x, kind, group, eps } => Ok(self.normalize(x, kind, group, eps)),
            Op::RmsNorm { x, weight, eps } => self.rms_norm(x, weight, eps),
            Op::Linear { x, weight, bias } => self.linear(x, weight, bias),
            Op::Rope { x, spec, .. } => self.rope(x, &spec),
            Op::KvStore { k, v, cache, .. } => {
                self.kv_store(k, v, cache);
                Ok(Matrix::default())
            }
            Op::Attention { q, cache, n_head, sinks, scale, window, softcap, .. } => {
                let heads = Heads { n_head: n_head as usize, sinks, scale: f64::from(scale), window, softcap };
                self.attention(q, cache, &heads)
            }
            Op::Glu { gate, up, act, limit } => Ok(self.zip(gate, up, |g, u| gated(act, limit, g, u))),
            Op::Act { x, act } => Ok(self.map(x, |x| activate(act, x))),
            Op::Add { a, b } => self.spread(a, b, |a, b| a + b),
            Op::Mul { a, b } => self.spread(a, b, |a, b| a * b),
            Op::Scale { x, by } => Ok(self.map(x, |x| x * f64::from(by))),
            Op::SoftCap { x, cap } => Ok(self.map(x, |x| soft_cap(x, cap))),
            Op::PositionScale { x, by, every, .. } => {
                let mut y = self.values[x].clone();
                for (r, &p) in self.args.positions.iter().enumerate() {
                    let step = (f64::from(p) / f64::from(every)).floor();
                    let factor = 1.0 + f64::from(by) * (step + 1.0).ln();
                    y.row_mut(r).iter_mut().for_each(|x| *x *= factor);
                }
                Ok(y)
            }
            Op::Columns { x, group, start, len } => {
                let x = &self.values[x];
                let part = start as usize..(start + len) as usize;
                let data: Vec<f64> =
                    x.data.chunks_exact(group as usize).flat_map(|g| &g[part.clone()]).copied().collect();
                Ok(Matrix { rows: x.rows, cols: x.cols / group as usize * len as usize, data })
            }
            Op::Concat { a, b, groups } => {
                let (a, b) = (&self.values[a], &self.values[b]);
                let (n, m) = (a.cols / groups as usize, b.cols / groups as usize);
                let pairs = a.data.chunks_exact(n).zip(b.data.chunks_exact(m));
                let data = pairs.flat_map(|(a, b)| a.iter().chain(b)).copied().collect();
                Ok(Matrix { rows: a.rows, cols: a.cols + b.cols, data })
            }
            Op::Route { logits, bias, routing } => self.route(logits, bias, &routing),
            Op::ExpertLinear { x, weight, n_expert, routes, scale, bias } => {
                self.expert_linear(x, weight, n_expert, [routes, scale, bias])
            }
            Op::ExpertSum { x, routes } => Ok(self.expert_sum(x, routes)),
            Op::ShortConv { x, weight, bias, state, act } => self.short_conv(x, weight, bias, state, act),
            Op::Recurrence { q, k, v, decay, beta, state, key_heads } => {
                Ok(self.recurrence([q, k, v, decay], beta, state, key_heads))
            }
            Op::SelectRows { x, .. } => {
                let x = &self.values[x];
                let rows = self.args.output_rows.iter();
                let data = rows.clone().flat_map(|&r| x.row(r as usize)).copied().collect();
                Ok(Matrix { rows: rows.len(), cols: x.cols, data })
            }
        }
    }

    pub(super) fn weight_row(&self, t: Tensor, row: u32, out: &mut [f32]) -> Result<(), InterpError> {
        let name = self.graph.weight(t).map_or("", |w| &w.name);
        let fetched = self.weights.row(name, row, out);
        fetched.map_err(|problem| InterpError::Weight { name: name.into(), row, problem })
    }

    /// The only row of a weight.
    pub(super) fn vector(&self, t: Tensor) -> Result<Vec<f64>, InterpError> {
        let mut row = vec![0.0; self.graph.cols(t) as usize];
        self.weight_row(t, 0, &mut row)?;
        Ok(row.into_iter().map(f64::from).collect())
    }

    fn map(&self, x: Tensor, f: impl Fn(f64) -> f64) -> Matrix {
        let mut y = self.values[x].clone();
        y.data.iter_mut().for_each(|x| *x = f(*x));
        y
    }

    fn zip(&self, a: Tensor, b: Tensor, f: impl Fn(f64, f64) -> f64) -> Matrix {
        let mut y = self.values[a].clone();
        y.data.iter_mut().zip(&self.values[b].data).for_each(|(a, b)| *a = f(*a, *b));
        y
    }

    /// An operation with a second operand of fewer columns, or a weight's one row.
    fn spread(&self, a: Tensor, b: Tensor, f: impl Fn(f64, f64) -> f64) -> Result<Matrix, InterpError> {
        let mut y = self.values[a].clone();
        let vector = self.graph.weight(b).map(|_| self.vector(b)).transpose()?;
        for r in 0..y.rows {
            let b = vector.as_deref().unwrap_or_else(|| self.values[b].row(r));
            let times = y.cols / b.len();
            for (part, &b) in y.row_mut(r).chunks_exact_mut(times).zip(b) {
                part.iter_mut().for_each(|a| *a = f(*a, b));
            }
        }
        Ok(y)
    }

    fn normalize(&self, x: Tensor, kind: NormKind, group: u32, eps: f32) -> Matrix {
        let n = f64::from(group);
        let mut y = self.values[x].clone();
        for group in y.data.chunks_exact_mut(group as usize) {
            if kind == NormKind::Layer {
                let mean = group.iter().sum::<f64>() / n;
                group.iter_mut().for_each(|x| *x -= mean);
            }
            let mean = group.iter().map(|x| x * x).sum::<f64>() / n;
            let scale = (mean + f64::from(eps)).sqrt().recip();
            group.iter_mut().for_each(|x| *x *= scale);
        }
        y
    }

    fn embed(&self, table: Tensor, ids: Tensor, scale: f32) -> Result<Matrix, InterpError> {
        let of_tokens = self.graph.input(crate::graph::Input::Tokens) == Some(ids);
        let ids = if of_tokens { self.args.tokens } else { self.args.positions };
        let mut row = vec![0.0; self.graph.cols(table) as usize];
        let mut y = Matrix::zeros(ids.len(), row.len());
        for (r, &id) in ids.iter().enumerate() {
            self.weight_row(table, id as u32, &mut row)?;
            y.row_mut(r).iter_mut().zip(&row).for_each(|(y, &w)| *y = f64::from(w) * f64::from(scale));
        }
        Ok(y)
    }

    fn rms_norm(&self, x: Tensor, weight: Tensor, eps: f32) -> Result<Matrix, InterpError> {
        let w = self.vector(weight)?;
        let mut y = self.values[x].clone();
        for group in y.data.chunks_exact_mut(w.len()) {
            let mean = group.iter().map(|x| x * x).sum::<f64>() / w.len() as f64;
            let scale = (mean + f64::from(eps)).sqrt().recip();
            group.iter_mut().zip(&w).for_each(|(x, w)| *x *= scale * w);
        }
        Ok(y)
    }

    fn linear(&self, x: Tensor, weight: Tensor, bias: Option<Tensor>) -> Result<Matrix, InterpError> {
        let (x, shape) = (&self.values[x], self.graph.shape(weight));
        let Rows::Const(n_out) = shape.rows else { return Ok(Matrix::default()) };
        let bias = bias.map(|b| self.vector(b)).transpose()?;
        let mut y = Matrix::zeros(x.rows, n_out as usize);
        if x.rows == 0 {
            return Ok(y);
        }
        let mut row = vec![0.0f32; x.cols];
        for j in 0..n_out {
            self.weight_row(weight, j, &mut row)?;
            let w: Vec<f64> = row.iter().map(|&w| f64::from(w)).collect();
            let start = bias.as_ref().map_or(0.0, |b| b[j as usize]);
            for r in 0..x.rows {
                y.data[r * y.cols + j as usize] = start + dot(x.row(r), &w);
            }
        }
        Ok(y)
    }

    fn rope(&self, x: Tensor, spec: &RopeSpec) -> Result<Matrix, InterpError> {
        let pairs = spec.n_rot / 2;
        let factors = match spec.factors_for(self.n_ctx) {
            Some(f) => self.vector(f)?,
            None => vec![1.0; pairs as usize],
        };
        let magnitude = f64::from(spec.magnitude);
        let mut y = self.values[x].clone();
        for (r, &position) in self.args.positions.iter().enumerate() {
            for i in 0..pairs {
                let (sin, cos) = (f64::from(position) * spec.frequency(i, factors[i as usize])).sin_cos();
                let [a, b] = spec.style.pair(i, spec.n_rot).map(|e| (spec.start + e) as usize);
                for head in y.row_mut(r).chunks_exact_mut(spec.head_dim as usize) {
                    let (xa, xb) = (head[a] * magnitude, head[b] * magnitude);
                    (head[a], head[b]) = (xa * cos - xb * sin, xa * sin + xb * cos);
                }
            }
        }
        Ok(y)
    }

    /// The KV cache that a tensor is, before or after a store.
    fn cache(&self, cache: Tensor) -> KvCache {
        self.graph.cache(cache).unwrap_or(KvCache::new(u32::MAX, 1, 1))
    }

    fn kv_store(&mut self, k: Tensor, v: Option<Tensor>, cache: Tensor) {
        let cache = self.memory.caches.entry(self.cache(cache).layer).or_default();
        for (store, x) in [(&mut cache.k, Some(k)), (&mut cache.v, v)] {
            let Some(x) = x else { continue };
            let x = &self.values[x];
            for (r, &position) in self.args.positions.iter().enumerate() {
                let p = position as usize;
                store.resize(store.len().max(p + 1), Vec::new());
                store[p] = x.row(r).to_vec();
            }
        }
    }

    fn attention(&self, q: Tensor, cache: Tensor, h: &Heads) -> Result<Matrix, InterpError> {
        let kv = self.cache(cache);
        let (key_dim, value_dim) = (kv.head_dim as usize, kv.value_dim as usize);
        let q = &self.values[q];
        let mut y = Matrix::zeros(q.rows, h.n_head * value_dim);
        let sinks = h.sinks.map(|s| self.vector(s)).transpose()?;
        let Some(cache) = self.memory.caches.get(&kv.layer) else { return Ok(y) };
        for (r, &position) in self.args.positions.iter().enumerate() {
            let end = position as usize + 1;
            let start = h.window.map_or(0, |w| end.saturating_sub(w as usize));
            for head in 0..h.n_head {
                let kv_head = head / (h.n_head / kv.n_kv_head as usize);
                let query = &q.row(r)[head * key_dim..][..key_dim];
                let scores = cache.k[start..end].iter().map(|k| {
                    let s = dot(query, &k[kv_head * key_dim..][..key_dim]) * h.scale;
                    h.softcap.map_or(s, |cap| soft_cap(s, cap))
                });
                let scores: Vec<f64> = scores.collect();
                let sink = sinks.as_ref().map(|s| s[head]);
                let largest = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
                let total: f64 = weights.iter().sum::<f64>() + sink.map_or(0.0, |s| (s - largest).exp());
                let out = &mut y.row_mut(r)[head * value_dim..][..value_dim];
                for (i, w) in weights.iter().enumerate() {
                    let v = match kv.shared {
                        true => &cache.k[start + i][kv_head * key_dim..][..value_dim],
                        false => &cache.v[start + i][kv_head * value_dim..][..value_dim],
                    };
                    out.iter_mut().zip(v).for_each(|(o, v)| *o += w / total * v);
                }
            }
        }
        Ok(y)
    }
}

/// A dot product in eight partial sums: four times as fast as one, and no less exact.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a8.remainder().iter().zip(b8.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a8.zip(b8) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(s, (a, b))| *s += a * b);
    }
    rest + sums.iter().sum::<f64>()
}

fn soft_cap(x: f64, cap: f32) -> f64 {
    f64::from(cap) * (x / f64::from(cap)).tanh()
}

pub(super) fn activate(act: Activation, x: f64) -> f64 {
    match act {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluQuick => x / (1.0 + (-1.702 * x).exp()),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Activation::ReluSquared => x.max(0.0) * x.max(0.0),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
    }
}

fn gated(act: Activation, limit: Limit, gate: f64, up: f64) -> f64 {
    let bound = limit.bound().map_or(f64::INFINITY, f64::from);
    let up = up.clamp(-bound, bound);
    match limit {
        Limit::Off | Limit::Gate(_) => activate(act, gate.min(bound)) * up,
        Limit::Activated(_) => activate(act, gate).min(bound) * up,
        Limit::GatePlusOne(_) => activate(act, gate.min(bound)) * (up + 1.0),
    }
}
