//! Tables of cosines and sines for rotary positions, made on the host for each step.

use hrx_ir::graph::{RopeSpec, Tensor};

/// The distinct rotations of a program.
#[derive(Debug, Default)]
pub struct RopeTables {
    specs: Vec<RopeSpec>,
}

impl RopeTables {
    /// The table of a rotation, added where there is none yet. Rotations that differ in style alone share one.
    pub fn index_of(&mut self, spec: RopeSpec) -> usize {
        let same = |s: &RopeSpec| {
            (s.n_rot, s.freq_base, s.freq_scale, s.factors)
                == (spec.n_rot, spec.freq_base, spec.freq_scale, spec.factors)
        };
        match self.specs.iter().position(same) {
            Some(i) => i,
            None => {
                self.specs.push(spec);
                self.specs.len() - 1
            }
        }
    }

    /// The rotations in the order of their index.
    pub fn specs(&self) -> &[RopeSpec] {
        &self.specs
    }

    /// The angle of each pair at position 1, by table. `factors` gives the elements of a weight.
    pub fn frequencies(&self, factors: impl Fn(Tensor) -> Vec<f32>) -> Vec<Vec<f64>> {
        let of = |s: &RopeSpec| {
            let divisors = s.factors.map(&factors);
            (0..s.n_rot / 2)
                .map(|i| {
                    let power = f64::from(s.freq_base).powf(-2.0 * f64::from(i) / f64::from(s.n_rot));
                    let divisor = divisors.as_ref().map_or(1.0, |d| f64::from(d[i as usize]));
                    f64::from(s.freq_scale) * power / divisor
                })
                .collect()
        };
        self.specs.iter().map(of).collect()
    }
}

/// Cosines and sines for positions, row by row: `[positions, pairs]` each.
pub fn angles(frequencies: &[f64], positions: &[i32], cos: &mut Vec<f32>, sin: &mut Vec<f32>) {
    cos.clear();
    sin.clear();
    for &p in positions {
        for &f in frequencies {
            let (s, c) = (f64::from(p) * f).sin_cos();
            cos.push(c as f32);
            sin.push(s as f32);
        }
    }
}
