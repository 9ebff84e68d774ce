//! Barriers: between accesses of different waves to the same local memory, where one of them writes, and nowhere else.
//!
//! A local view whose first index is a carried value that alternates between p and 1 - p is a double buffer: accesses to
//! one half do not wait for those to the other.

use super::Builder;
use hrx_ir::tile::{Access, BinaryOp, Block, Kernel, Op, Shape, Value, ValueDef, View};
use std::collections::HashSet;

/// A part of a local view: all of it, or where the first index is this value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Part {
    view: View,
    first: Option<Value>,
}

/// Accesses since the last barrier.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Hazards {
    read: HashSet<Part>,
    written: HashSet<Part>,
    /// Whether scratch memory was used.
    scratch: bool,
}

impl Hazards {
    fn merge(&mut self, other: Hazards) {
        self.read.extend(other.read);
        self.written.extend(other.written);
        self.scratch |= other.scratch;
    }

    fn clear(&mut self) {
        self.read.clear();
        self.written.clear();
        self.scratch = false;
    }

    /// What these accesses are at the start of the next turn of a loop whose carried value is replaced by another.
    fn turned(self, k: &Kernel, body: Block) -> Hazards {
        let yields: Vec<Value> = match k.blocks[body].insts.last().map(|&i| &k.insts[i].op) {
            Some(Op::Yield { args }) => args.clone(),
            _ => Vec::new(),
        };
        let params = k.blocks[body].params.get(1..).unwrap_or_default();
        let turn = |p: Part| {
            let pair = params.iter().zip(&yields).find(|&(&a, &y)| complements(k, a, y));
            let first = match (p.first, pair) {
                (Some(v), Some((&a, &y))) if v == y => Some(a),
                (Some(v), Some((&a, &y))) if v == a => Some(y),
                _ => None,
            };
            Part { first, ..p }
        };
        Hazards {
            read: self.read.into_iter().map(turn).collect(),
            written: self.written.into_iter().map(turn).collect(),
            ..self
        }
    }

    /// Whether an access conflicts with those before it.
    fn conflicts(&self, k: &Kernel, part: Part, writes: bool) -> bool {
        let meets = |p: &&Part| {
            p.view == part.view && !matches!((p.first, part.first), (Some(a), Some(b)) if complements(k, a, b))
        };
        self.written.iter().any(|p| meets(&p)) || (writes && self.read.iter().any(|p| meets(&p)))
    }

    /// Notes an access; whether a barrier goes before it.
    fn access(&mut self, k: &Kernel, part: Part, writes: bool) -> bool {
        let barrier = self.conflicts(k, part, writes);
        if barrier {
            self.clear();
        }
        if writes {
            self.written.insert(part)
        } else {
            self.read.insert(part)
        };
        barrier
    }

    /// Goes through a block as code generation will; whether there is a barrier in it.
    fn walk(&mut self, k: &Kernel, block: Block) -> bool {
        let mut barriers = false;
        for &inst in &k.blocks[block].insts {
            barriers |= match &k.insts[inst].op {
                Op::Load { view, index, shape, .. } if is_local(k, *view) => {
                    self.access(k, part(*view, index, shape), false)
                }
                Op::Store { view, index, value, .. } if is_local(k, *view) => {
                    self.access(k, part(*view, index, &k.ty(*value).shape), true)
                }
                Op::For { body, .. } => {
                    let barrier = self.before_loop(k, *body);
                    if barrier {
                        self.clear();
                    }
                    let before = self.clone();
                    self.enter(k, *body);
                    let inside = self.walk(k, *body);
                    self.leave(before);
                    barrier || inside
                }
                _ => false,
            }
        }
        barriers
    }

    /// Whether one barrier before a loop spares all turns one: where only what was done before is in their way.
    fn before_loop(&self, k: &Kernel, body: Block) -> bool {
        let barriers = |mut h: Hazards| {
            h.enter(k, body);
            h.walk(k, body)
        };
        barriers(self.clone()) && !barriers(Hazards::default())
    }

    /// At the start of a loop's body: what came before it, or the turn before.
    fn enter(&mut self, k: &Kernel, body: Block) {
        loop {
            let mut once = self.clone();
            once.walk(k, body);
            let mut start = self.clone();
            start.merge(once.turned(k, body));
            if start == *self {
                return;
            }
            *self = start;
        }
    }

    /// Behind a loop, which may not have run.
    fn leave(&mut self, before: Hazards) {
        self.merge(before);
    }
}

/// Whether one of the values is 1 minus the other.
fn complements(k: &Kernel, a: Value, b: Value) -> bool {
    let is_one_minus = |v: Value, of: Value| match k.values[v].def {
        ValueDef::Result(inst, 0) => match k.insts[inst].op {
            Op::Binary { op: BinaryOp::Sub, args: [one, x] } => x == of && k.as_const_int(one) == Some(1),
            _ => false,
        },
        _ => false,
    };
    is_one_minus(a, b) || is_one_minus(b, a)
}

fn is_local(k: &Kernel, view: View) -> bool {
    k.views[view].access == Access::Local
}

fn part(view: View, index: &[Value], shape: &Shape) -> Part {
    let one = shape.rank() > 1 && shape.dims()[0] == 1;
    Part { view, first: index.first().copied().filter(|_| one) }
}

impl Builder<'_> {
    pub(super) fn before_load(&mut self, view: View, index: &[Value], shape: &Shape) {
        if self.hazards.access(self.k, part(view, index, shape), false) {
            self.e.barrier();
        }
    }

    pub(super) fn before_store(&mut self, view: View, index: &[Value], shape: &Shape) {
        if self.hazards.access(self.k, part(view, index, shape), true) {
            self.e.barrier();
        }
    }

    /// Before scratch memory is written: whoever still reads it has to be done.
    pub(super) fn before_scratch(&mut self) {
        if self.hazards.scratch {
            self.barrier();
        }
    }

    /// Between writing scratch memory and reading it.
    pub(super) fn scratch_written(&mut self) {
        self.barrier();
        self.hazards.scratch = true;
    }

    fn barrier(&mut self) {
        self.e.barrier();
        self.hazards.clear();
    }

    pub(super) fn enter_loop(&mut self, body: Block) {
        if self.hazards.before_loop(self.k, body) {
            self.barrier();
        }
        let before = self.hazards.clone();
        self.hazards.enter(self.k, body);
        // Whether the body uses scratch memory is known only when it has been built.
        self.hazards.scratch = true;
        self.loops.push(before);
    }

    pub(super) fn leave_loop(&mut self) {
        if let Some(before) = self.loops.pop() {
            self.hazards.leave(before);
        }
    }
}
