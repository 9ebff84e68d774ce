//! Checks that a kernel is well formed, so that the interpreter and the compiler need not.
//!
//! What they may rely on afterwards, for all that is reachable from the kernel's interface and body:
//! * every reference is inside its arena, and every value's [`ValueDef`] says where it is defined;
//! * every value is defined once, before its uses, in the same block or one around it;
//! * instructions and their result types follow [`result_type`], loops the rules in `insts.rs`;
//! * each block is the body of one loop, ends in its only `yield`, and loops nest at most [`MAX_NESTING`] deep;
//! * views, parameters and the grid follow the rules in `interface.rs`.
//!
//! All violations are reported, not only the first.

mod insts;
mod interface;
mod report;

pub use report::{VerifyError, VerifyErrors};

use super::kernel::{Extent, Kernel, Value, ValueDef};
use super::print::Place;
use super::types::{Elem, MAX_TILE, Type};
use super::typing::result_type;
use super::walk::MAX_NESTING;
use std::collections::HashSet;

/// The most local memory of one program, in bytes: what one workgroup has of it on every GPU that we target.
pub const MAX_LOCAL_BYTES: u64 = 64 << 10;

/// The most waves of one program: what one workgroup has of them on every GPU that we target, of 64 lanes each.
pub const MAX_WAVES: u32 = 16;

/// The kind of rule that a kernel breaks. Tests match by it rather than by the message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// The kernel's name.
    Name,
    /// Parameters and program ids.
    Param,
    /// Launch grid and waves.
    Grid,
    /// Views.
    View,
    /// Amount of local memory.
    Local,
    /// References outside an arena, and definitions that disagree with what lists them.
    Entity,
    /// Where blocks and instructions may stand.
    Block,
    /// Depth of nesting.
    Nesting,
    /// Definition before use.
    Dominance,
    /// Types of operands and results.
    Type,
    /// Values of literals.
    Literal,
    /// Loops.
    Loop,
    /// Where yields stand and what they yield.
    Yield,
}

impl Rule {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Name => "name",
            Rule::Param => "param",
            Rule::Grid => "grid",
            Rule::View => "view",
            Rule::Local => "local",
            Rule::Entity => "entity",
            Rule::Block => "block",
            Rule::Nesting => "nesting",
            Rule::Dominance => "dominance",
            Rule::Type => "type",
            Rule::Literal => "literal",
            Rule::Loop => "loop",
            Rule::Yield => "yield",
        }
    }
}

/// Checks a kernel.
///
/// # Errors
/// All rules that it breaks, in the order of its text.
pub fn verify(k: &Kernel) -> Result<(), VerifyErrors> {
    let mut v = Verifier { k, found: Vec::new(), visible: vec![false; k.values.len()], refused: HashSet::new() };
    v.interface();
    if k.blocks.is_valid(k.body) {
        v.insts();
    } else {
        v.fail(Rule::Entity, Place::Name, None, "the kernel's body is outside its arena".into());
    }
    if v.found.is_empty() { Ok(()) } else { Err(VerifyErrors::new(k, v.found)) }
}

/// A violation, with the arena's names for values and views.
struct Found {
    rule: Rule,
    place: Place,
    /// The name of what is wrong within the line, to point at.
    focus: Option<String>,
    message: String,
}

struct Verifier<'a> {
    k: &'a Kernel,
    found: Vec<Found>,
    /// By value: whether it is defined at this point.
    visible: Vec<bool>,
    /// Values whose definition is at fault: what uses them is not looked at any further.
    refused: HashSet<Value>,
}

impl Verifier<'_> {
    fn fail(&mut self, rule: Rule, place: Place, focus: Option<String>, message: String) {
        self.found.push(Found { rule, place, focus, message });
    }

    fn is_visible(&self, v: Value) -> bool {
        self.visible.get(v.as_u32() as usize).is_some_and(|&b| b)
    }

    /// Makes a value visible if it is in its arena, says that it is defined here, and has a type of a legal size.
    fn define(&mut self, v: Value, def: ValueDef, place: Place) -> bool {
        let (rule, message) = match self.k.values.get(v) {
            None => (Rule::Entity, format!("{v} is outside its arena")),
            Some(d) if d.def != def => (Rule::Entity, format!("{v} is recorded as {:?}, not as defined here", d.def)),
            Some(d) if !is_small(d.ty) => (Rule::Type, format!("a tile has 1 to {MAX_TILE} elements, got {}", d.ty)),
            Some(_) => {
                self.visible[v.as_u32() as usize] = true;
                return true;
            }
        };
        self.refused.insert(v);
        // The operation's own rule, where that has been reported, says the same of a result that is too large.
        let said = self.found.last().is_some_and(|f| f.place == place && f.rule == Rule::Type);
        if rule != Rule::Type || !said {
            self.fail(rule, place, Some(v.to_string()), message);
        }
        false
    }

    /// Whether an extent is a constant or a scalar `i32` parameter.
    fn is_extent(&self, e: &Extent) -> bool {
        match e {
            Extent::Const(_) => true,
            Extent::Param(v) => {
                self.k.values.get(*v).is_some_and(|d| {
                    d.ty == Type::scalar(Elem::I32) && self.k.params.contains(&super::Param::Scalar(*v))
                })
            }
        }
    }
}

/// Whether a type has a legal number of elements.
fn is_small(ty: Type) -> bool {
    let count = |n: u64, &d: &u32| n.checked_mul(u64::from(d)).filter(|n| (1..=MAX_TILE).contains(n));
    ty.shape.dims().iter().try_fold(1, count).is_some()
}
