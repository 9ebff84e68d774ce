//! Several kernels in one launch, for chips on which a launch costs time and a small one leaves most of the chip idle.
//!
//! Products that read the same rows (queries, keys and values) and rotations of heads are the typical groups.

use crate::facts::TemplateError;
use crate::slot::{Signature, Slot};
use crate::{LinearCut, MatrixTiling, Request, Template};
use hrx_ir::tile::{Access, Content, Extent, Kernel, Param, Part, Value, View, side_by_side};

/// Kernels none of which reads what another one writes, in one launch: see [`side_by_side`].
///
/// Slots: those of the parts one behind another, without what parts share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    parts: Vec<Member>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member {
    request: Request,
    /// The place of each argument among the group's.
    args: Vec<usize>,
}

const FAMILY: &str = "group";

/// Kernels that may share a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupClass {
    /// Products of one token's row.
    Rows {
        /// Waves of their programs.
        waves: u32,
    },
    /// Products on a matrix unit: those of one cut use the same LDS.
    Matrix(MatrixTiling),
    /// Rotations of heads.
    Heads,
}

/// What an argument has to be for parts to share it.
#[derive(PartialEq)]
enum Kind {
    Scalar(Slot),
    View { slot: Slot, content: Content, access: Access, axes: Vec<[Place; 2]> },
}

/// An extent or stride: a number, or the scalar argument at a place of the group.
#[derive(PartialEq)]
enum Place {
    Const(u32),
    Arg(usize),
}

impl Group {
    /// A group of kernels whose arguments are these operands, and the group's operands. Parts share an operand that is
    /// the same kind of argument for them.
    pub fn new<T: Copy + PartialEq>(parts: &[(&Request, &[T])]) -> (Group, Vec<T>) {
        let mut whole: Vec<(T, Kind)> = Vec::new();
        let members = parts.iter().map(|&(request, operands)| {
            let args = Group::places(&request.signature(), operands, &mut whole);
            Member { request: request.clone(), args }
        });
        let group = Group { parts: members.collect() };
        (group, whole.into_iter().map(|(operand, _)| operand).collect())
    }

    /// The place of each argument of a part among those of all parts, which grow by the part's own.
    fn places<T: Copy + PartialEq>(s: &Signature, operands: &[T], whole: &mut Vec<(T, Kind)>) -> Vec<usize> {
        let mut place = |operand: T, kind: Kind| match whole.iter().position(|w| w.0 == operand && w.1 == kind) {
            Some(at) => at,
            None => {
                whole.push((operand, kind));
                whole.len() - 1
            }
        };
        // Scalars first: views refer to them.
        let mut places = vec![0; operands.len()];
        let mut scalars: Vec<(Value, usize)> = Vec::new();
        let params = || s.slots.iter().zip(&s.kernel.params).zip(operands).enumerate();
        for (i, ((&slot, param), &operand)) in params() {
            if let Param::Scalar(v) = *param {
                places[i] = place(operand, Kind::Scalar(slot));
                scalars.push((v, places[i]));
            }
        }
        let extent = |e: &Extent| match *e {
            Extent::Const(n) => Place::Const(n),
            Extent::Param(v) => {
                let of = scalars.iter().find(|(other, _)| *other == v);
                Place::Arg(of.map(|(_, at)| *at).expect("views are sized by parameters"))
            }
        };
        let axes = |m: View| {
            let d = &s.kernel.views[m];
            d.dims.iter().zip(&d.strides).map(|(d, s)| [extent(d), extent(s)]).collect()
        };
        for (i, ((&slot, param), &operand)) in params() {
            if let Param::View(m) = *param {
                let d = &s.kernel.views[m];
                let kind = Kind::View { slot, content: d.content, access: d.access, axes: axes(m) };
                places[i] = place(operand, kind);
            }
        }
        places
    }

    /// The kernels.
    pub fn parts(&self) -> impl Iterator<Item = &Request> {
        self.parts.iter().map(|p| &p.request)
    }

    /// What parts must have in common with others to share a launch with them, or none if a kernel is best left alone.
    pub fn class(request: &Request) -> Option<GroupClass> {
        match request {
            Request::Linear(l) if l.experts.is_none() => match l.tiling {
                LinearCut::Rows(t) => Some(GroupClass::Rows { waves: t.waves }),
                LinearCut::Matrix(t) => Some(GroupClass::Matrix(t)),
                LinearCut::Vectors(_) | LinearCut::Panels(_) => None,
            },
            Request::Rope(_) => Some(GroupClass::Heads),
            _ => None,
        }
    }

    fn whole(&self, kernels: &[Kernel]) -> Result<Kernel, TemplateError> {
        let parts: Vec<Part> =
            self.parts.iter().zip(kernels).map(|(p, kernel)| Part { kernel, args: &p.args }).collect();
        side_by_side(self.name(), &parts).map_err(|fact| TemplateError {
            family: FAMILY,
            fact,
            reason: "parts of a group agree in what they share",
        })
    }
}

/// A part's name beside the first one's: what differs, where that can be told from what it stands for.
fn short_name(first: &str, name: &str) -> String {
    // What a piece is of: `n576` is the number of `n`.
    let of = |piece: &str| piece.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let (a, b): (Vec<&str>, Vec<&str>) = (first.split('_').collect(), name.split('_').collect());
    let kinds: Vec<String> = a.iter().map(|p| of(p)).collect();
    let known = |p: &str| kinds.iter().filter(|k| **k == of(p)).count() == 1;
    let differ: Vec<(&str, &str)> = a.iter().copied().zip(b.iter().copied()).filter(|(a, b)| a != b).collect();
    if a.len() != b.len() || !differ.iter().all(|(a, b)| of(a) == of(b) && known(b)) {
        return name.to_owned();
    }
    match differ.as_slice() {
        [] => "same".to_owned(),
        differ => differ.iter().map(|(_, b)| *b).collect::<Vec<_>>().join("_"),
    }
}

impl Template for Group {
    fn name(&self) -> String {
        let names: Vec<String> = self.parts.iter().map(|p| p.request.name()).collect();
        let Some((first, rest)) = names.split_first() else { return FAMILY.to_owned() };
        let rest: String = rest.iter().map(|n| format!("_and_{}", short_name(first, n))).collect();
        let args: Vec<usize> = self.parts.iter().flat_map(|p| p.args.iter().copied()).collect();
        let shared = args.len() - args.iter().max().map_or(0, |m| m + 1);
        format!("{FAMILY}{shared}_{first}{rest}")
    }

    fn signature(&self) -> Signature {
        let parts: Vec<Signature> = self.parts.iter().map(|p| p.request.signature()).collect();
        let mut slots: Vec<Option<Slot>> = Vec::new();
        for (part, s) in self.parts.iter().zip(&parts) {
            for (&at, &slot) in part.args.iter().zip(&s.slots) {
                slots.resize(slots.len().max(at + 1), None);
                slots[at] = Some(slot);
            }
        }
        let kernels: Vec<Kernel> = parts.into_iter().map(|s| s.kernel).collect();
        let kernel = self.whole(&kernels).expect("places are those that `new` found");
        Signature { slots: slots.into_iter().flatten().collect(), kernel }
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        let kernels = self.parts.iter().map(|p| p.request.kernel()).collect::<Result<Vec<_>, _>>()?;
        self.whole(&kernels)
    }
}
