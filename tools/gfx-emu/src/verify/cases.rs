//! The launches that a kernel is tried with: those that its model makes, and awkward ones beside them.

use hrx_templates::{Linear, LinearCut, Request};

/// A launch's sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What is special about it.
    pub name: &'static str,
    /// Rows of the launch.
    pub tokens: u32,
    /// Tokens of a launch with several rows for each.
    pub rows: u32,
    /// The first token's position; the others follow.
    pub position: u32,
    /// Positions that a KV cache has room for: a multiple of 64.
    pub n_ctx: u32,
}

impl Case {
    fn of(name: &'static str, tokens: u32, position: u32) -> Case {
        Case { name, tokens, rows: tokens + 2, position, n_ctx: (position + tokens).next_multiple_of(64) }
    }
}

/// The first position of a long context: behind every window of the models that are known, and no multiple of a tile.
const LONG: u32 = 1031;

/// The cases of a kernel: one token, several, and what is hard for its family.
pub fn cases(request: &Request) -> Vec<Case> {
    match request {
        // A row for each expert of a token.
        Request::Linear(Linear { experts: Some(e), .. }) if e.summed => [("one token", 1), ("three tokens", 3)]
            .map(|(name, rows)| Case { rows, ..Case::of(name, rows * e.used, 0) })
            .to_vec(),
        Request::Linear(l) => match l.tiling {
            LinearCut::Matrix(t) => {
                vec![Case::of("one token", 1, 0), Case::of("one token more than a tile", t.m + 1, 0)]
            }
            LinearCut::Rows(_) | LinearCut::Vectors(_) | LinearCut::Panels(_) => {
                vec![Case::of("one token", 1, 0), Case::of("three tokens", 3, 0)]
            }
        },
        Request::Attention(_) => vec![
            Case::of("the first token", 1, 0),
            Case::of("one token, long context", 1, LONG),
            Case::of("five tokens across the end of a tile", 5, 61),
        ],
        Request::Group(g) => g.parts().next().map(cases).unwrap_or_default(),
        Request::Rope(_) => vec![Case::of("the first token", 1, 0), Case::of("five tokens, long context", 5, LONG)],
        _ => vec![Case::of("one token", 1, 0), Case::of("five tokens", 5, 0)],
    }
}
