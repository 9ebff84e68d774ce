//! The cost of a cut: terms in cycles, each with what it was made from, so that a choice can be explained.

use std::fmt;

/// A part of a cost.
#[derive(Clone, PartialEq, Debug)]
pub struct Term {
    /// What it is.
    pub name: &'static str,
    /// Cycles of the launch, of one SIMD where the number of SIMDs is not known.
    pub cycles: f64,
    /// What it was computed from.
    pub reason: String,
}

/// A cut that was looked at: what it costs, or why it is not possible.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate<C> {
    /// The cut.
    pub cut: C,
    /// The parts of its cost; none if it was refused.
    pub terms: Vec<Term>,
    /// Why it is refused.
    pub refused: Option<String>,
}

impl<C> Candidate<C> {
    pub(crate) fn refused(cut: C, reason: impl Into<String>) -> Candidate<C> {
        Candidate { cut, terms: Vec::new(), refused: Some(reason.into()) }
    }

    /// The sum of the terms; infinite for what is refused.
    pub fn cost(&self) -> f64 {
        match self.refused {
            Some(_) => f64::INFINITY,
            None => self.terms.iter().map(|t| t.cycles).sum(),
        }
    }

    /// The candidate with its cut as another type.
    pub fn map<D>(self, f: impl FnOnce(C) -> D) -> Candidate<D> {
        Candidate { cut: f(self.cut), terms: self.terms, refused: self.refused }
    }
}

/// Sorts candidates, the cheapest first; those that cost the same in the order given.
pub(crate) fn ranked<C>(mut candidates: Vec<Candidate<C>>) -> Vec<Candidate<C>> {
    candidates.sort_by(|a, b| a.cost().total_cmp(&b.cost()));
    candidates
}

impl<C: fmt::Debug> fmt::Display for Candidate<C> {
    /// One line for the cut and its cost, then one for each term.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refused {
            Some(reason) => return write!(f, "{:?}: not possible: {reason}", self.cut),
            None => write!(f, "{:?}: {:.0} cycles", self.cut, self.cost())?,
        }
        for t in &self.terms {
            write!(f, "\n    {:<10} {:>12.0}  {}", t.name, t.cycles, t.reason)?;
        }
        Ok(())
    }
}

/// How often the SIMDs of a chip go through a launch's waves, and what of it is waiting for the last ones.
pub(crate) struct Rounds {
    /// What one wave's cycles are multiplied by.
    pub factor: f64,
    /// Waves for each SIMD, if their number is known.
    per_simd: Option<f64>,
    /// Why.
    pub reason: String,
}

impl Rounds {
    pub fn of(waves: u64, simds: Option<u32>) -> Rounds {
        match simds {
            Some(n) => {
                let rounds = waves.div_ceil(u64::from(n));
                let per_simd = Some(waves as f64 / f64::from(n));
                Rounds { factor: rounds as f64, per_simd, reason: format!("{waves} waves on {n} SIMDs: {rounds} each") }
            }
            None => Rounds {
                factor: waves as f64,
                per_simd: None,
                reason: format!("{waves} waves; number of SIMDs not known"),
            },
        }
    }

    /// Waves of a SIMD that fill each other's waiting: as many as there are, up to what usually fits.
    pub fn beside(&self) -> f64 {
        const USUAL: f64 = 8.0;
        self.per_simd.map_or(USUAL, |n| n.clamp(1.0, USUAL))
    }
}
