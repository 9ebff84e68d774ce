//! Tables by position, made on the host for each step: cosines and sines of rotations, factors of attention's
//! temperature.

use hrx_ir::graph::{RopeSpec, Tensor};

/// The distinct tables of a program.
#[derive(Debug, Default)]
pub struct RopeTables {
    specs: Vec<RopeSpec>,
    /// Factor of the logarithm and positions of a step of each staircase.
    scales: Vec<(f32, u32)>,
}

/// Where in a session's tables those of a program are, in the order of their index in the program.
#[derive(Debug, Default)]
pub struct TableIndices {
    /// Of rotations.
    pub ropes: Vec<usize>,
    /// Of factors.
    pub scales: Vec<usize>,
}

/// The angles of a rotation at position 1, and what rotated elements are multiplied by.
#[derive(Clone, PartialEq, Debug)]
pub struct Frequencies {
    angles: Vec<f64>,
    magnitude: f64,
}

impl RopeTables {
    /// The table of a rotation, added where there is none yet. Rotations that differ in style alone share one.
    pub fn index_of(&mut self, spec: RopeSpec) -> usize {
        let plain = |s: &RopeSpec| RopeSpec { style: spec.style, head_dim: 0, start: 0, ..*s };
        index_in(&mut self.specs, spec, |s| plain(s) == plain(&spec))
    }

    /// The table of factors `1 + by * ln(floor(position / every) + 1)`, added where there is none yet.
    pub fn scale_index(&mut self, by: f32, every: u32) -> usize {
        index_in(&mut self.scales, (by, every), |s| *s == (by, every))
    }

    /// Adds the tables of a program.
    pub fn add(&mut self, program: &RopeTables) -> TableIndices {
        TableIndices {
            ropes: program.specs.iter().map(|&s| self.index_of(s)).collect(),
            scales: program.scales.iter().map(|&(by, every)| self.scale_index(by, every)).collect(),
        }
    }

    /// The rotations in the order of their index.
    pub fn specs(&self) -> &[RopeSpec] {
        &self.specs
    }

    /// The staircases in the order of their index.
    pub fn scales(&self) -> &[(f32, u32)] {
        &self.scales
    }

    /// The angles of each table, for a context of `n_ctx` positions. `factors` gives the elements of a weight.
    pub fn frequencies(&self, n_ctx: u32, factors: impl Fn(Tensor) -> Vec<f32>) -> Vec<Frequencies> {
        let of = |s: &RopeSpec| {
            let divisors = s.factors_for(n_ctx).map(&factors);
            let divisor = |i: u32| divisors.as_ref().map_or(1.0, |d| f64::from(d[i as usize]));
            let angles = (0..s.n_rot / 2).map(|i| s.frequency(i, divisor(i))).collect();
            Frequencies { angles, magnitude: f64::from(s.magnitude) }
        };
        self.specs.iter().map(of).collect()
    }
}

/// The first item that is the same, or the new one behind all.
fn index_in<T>(list: &mut Vec<T>, new: T, same: impl Fn(&T) -> bool) -> usize {
    match list.iter().position(same) {
        Some(i) => i,
        None => {
            list.push(new);
            list.len() - 1
        }
    }
}

/// Cosine and sine of each pair for positions, row by row.
pub fn angles(frequencies: &Frequencies, positions: impl Iterator<Item = u32>) -> impl Iterator<Item = [f32; 2]> {
    let Frequencies { angles, magnitude } = frequencies;
    positions.flat_map(move |p| {
        angles.iter().map(move |&f| {
            let (s, c) = (f64::from(p) * f).sin_cos();
            [(c * magnitude) as f32, (s * magnitude) as f32]
        })
    })
}

/// The factors of a staircase for positions.
pub fn position_scales((by, every): (f32, u32), positions: impl Iterator<Item = u32>) -> impl Iterator<Item = f32> {
    positions.map(move |p| {
        let step = (f64::from(p) / f64::from(every)).floor();
        (1.0 + f64::from(by) * (step + 1.0).ln()) as f32
    })
}
