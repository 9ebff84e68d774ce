//! What is done to heads before attention: a norm of each, and rotary positions (Su et al. 2021).
//!
//! A rotation turns pairs of elements: `(a, b)` becomes `(a cos - b sin, b cos + a sin)`. With the partner of each
//! element brought to its place that is `x * C + partner * S`, S being negative for the first of a pair; only which
//! elements are partners differs between the two kinds.

use crate::facts::{Real, TemplateError};
use crate::norm::inverse_of_squares;
use crate::slot::{Interface, Slot};
use hrx_ir::tile::{Access, BinaryOp, Builder, Elem, Extent, Type, UnaryOp, Value, View};

/// Which elements of a head turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rotation {
    /// No rotation: values.
    None,
    /// Neighbours: 2i and 2i + 1.
    Normal,
    /// Halves of the rotated part: i and i + n_rot / 2.
    Neox,
}

/// A norm of each head, if there is one, then a rotation of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turning {
    /// Elements of a head.
    pub head_dim: u32,
    /// The first element of a head that turns.
    pub start: u32,
    /// Elements of a head that turn: even; 0 for no rotation.
    pub n_rot: u32,
    /// Which of them turn together.
    pub rotation: Rotation,
    /// The eps of an RMS norm of each head, if there is one.
    pub norm: Option<Real>,
}

impl Turning {
    pub(crate) fn check(&self, family: &'static str) -> Result<(), TemplateError> {
        let unless = |ok, fact: String, reason| TemplateError::unless(ok, family, fact, reason);
        let (rot, fact) = (self.n_rot, format!("n_rot = {} ({:?})", self.n_rot, self.rotation));
        let none = self.rotation == Rotation::None;
        unless(none == (rot == 0), fact.clone(), "only a rotation turns elements")?;
        let inside = self.start.checked_add(rot).is_some_and(|end| end <= self.head_dim);
        unless(rot.is_multiple_of(2) && inside, fact, "it is an even part of the head")
    }

    /// Declares cosines and sines `f32 [T, n_rot / 2]` for a rotation.
    pub(crate) fn declare(&self, i: &mut Interface, t: Extent) -> Option<[View; 2]> {
        let angles = [t, (self.n_rot / 2).into()];
        (self.rotation != Rotation::None)
            .then(|| [Slot::Cos, Slot::Sin].map(|s| i.view(s, Elem::F32, &angles, Access::In)))
    }

    /// Some heads `[heads, head_dim]`, normed by a weight `f32 [1, head_dim]` and turned by [factors](Turning::factors).
    pub(crate) fn heads(
        &self,
        b: &mut Builder,
        mut x: Value,
        weight: Option<View>,
        factors: Option<[Value; 2]>,
    ) -> Value {
        if let (Some(eps), Some(weight)) = (self.norm, weight) {
            let zero = b.index(0);
            let squares = b.mul(x, x);
            let inverse = inverse_of_squares(b, squares, self.head_dim, eps.f64());
            let w = b.load(weight, &[zero, zero], &[1, self.head_dim], None);
            let y = b.mul(x, inverse);
            x = b.mul(y, w);
        }
        factors.map_or(x, |factors| self.rotate(b, x, factors))
    }

    /// What each element and its partner are multiplied by: C and S, `[1, n_rot]`.
    pub(crate) fn factors(&self, b: &mut Builder, angles: [View; 2], token: Value) -> [Value; 2] {
        let (half, zero) = (self.n_rot / 2, b.index(0));
        let [cos, sin] = angles.map(|view| b.load(view, &[token, zero], &[1, half], None));
        if self.rotation == Rotation::Neox {
            let minus = b.unary(UnaryOp::Neg, sin);
            return [b.concat(cos, cos, 1), b.concat(minus, sin, 1)];
        }
        let [cos, sin] = [cos, sin].map(|v| b.repeat(v, 2));
        let ty = Type::new(Elem::I32, &[self.n_rot]);
        let (iota, one, two) = (b.iota(self.n_rot), b.int(1, ty), b.int(2, ty));
        let odd = b.binary(BinaryOp::And, iota, one);
        let sign = b.mul(odd, two);
        let sign = b.sub(sign, one);
        let sign = b.convert(sign, Elem::F32);
        let sign = b.reshape(sign, &[1, self.n_rot]);
        [cos, b.mul(sin, sign)]
    }

    /// Each element's partner in its place.
    fn partners(&self, b: &mut Builder, x: Value) -> Value {
        let half = self.n_rot / 2;
        if self.rotation == Rotation::Neox {
            let (first, second) = (b.slice(x, 1, 0, half), b.slice(x, 1, half, half));
            return b.concat(second, first, 1);
        }
        let rows = b.ty(x).shape.dims()[0];
        let pairs = b.reshape(x, &[rows * half, 2]);
        let (first, second) = (b.slice(pairs, 1, 0, 1), b.slice(pairs, 1, 1, 1));
        let swapped = b.concat(second, first, 1);
        b.reshape(swapped, &[rows, self.n_rot])
    }

    fn rotate(&self, b: &mut Builder, x: Value, [c, s]: [Value; 2]) -> Value {
        let (start, rot) = (self.start, self.n_rot);
        let rest = self.head_dim - start - rot;
        let turning = b.slice(x, 1, start, rot);
        let partners = self.partners(b, turning);
        let from_partner = b.mul(partners, s);
        let mut turned = b.fma(turning, c, from_partner);
        if start > 0 {
            let before = b.slice(x, 1, 0, start);
            turned = b.concat(before, turned, 1);
        }
        if rest == 0 {
            return turned;
        }
        let still = b.slice(x, 1, start + rot, rest);
        b.concat(turned, still, 1)
    }
}
