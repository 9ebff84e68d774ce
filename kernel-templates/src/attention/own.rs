//! A token's own queries, key and value as products leave them: a launch that attends turns them, and stores key and value.
//!
//! The own position is no part of the loop over the cache. The last of the parts begins with it: its score is the
//! largest, its weight 1, its value the sum.

use super::{Args, Attention, FAMILY, TileAttention};
use crate::emit::{scaled, softcap};
use crate::facts::{Real, TemplateError};
use crate::linear::PAD;
use crate::slot::{Interface, Slot};
use crate::turn::{Rotation, Turning};
use hrx_ir::tile::{Access, BinaryOp, Builder, CmpOp, Elem, Extent, ReduceOp, Shape, Value, View};

/// What is done to a token's own heads before they meet the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnHeads {
    /// The first element of a head that turns, in queries and keys.
    pub start: u32,
    /// Elements of a head that turn: even; 0 for no rotation.
    pub n_rot: u32,
    /// Which of them turn together.
    pub rotation: Rotation,
    /// The eps of RMS norms of each head, of queries and of keys.
    pub norms: [Option<Real>; 2],
}

/// The parameters that own heads add.
pub(super) struct OwnArgs {
    norms: [Option<View>; 2],
    angles: Option<[View; 2]>,
    keys: View,
    values: View,
    stores: [View; 2],
}

/// Where a part's program is.
pub(super) struct Place {
    pub token: Value,
    /// Its first head, and the one of the cache.
    pub first: Value,
    pub kv_head: Value,
    /// The token's position.
    pub position: Value,
    /// Which part of the positions.
    pub part: Value,
}

/// A token's own heads, turned.
pub(super) struct Own {
    /// Queries in local memory, scaled, `f16 [group, head_dim]`.
    queries: View,
    /// Their scores for the own position in local memory, `f32 [group, 1]`.
    scores: View,
    /// Values as they came, and where in them the head's is.
    values: View,
    at: [Value; 2],
    /// Whether this part has the own position.
    here: Value,
}

impl OwnHeads {
    /// What is done to queries (0) or keys (1).
    fn turning(&self, head_dim: u32, which: usize) -> Turning {
        let &OwnHeads { start, n_rot, rotation, norms } = self;
        Turning { head_dim, start, n_rot, rotation, norm: norms[which] }
    }

    pub(super) fn check(&self, l: &Attention) -> Result<(), TemplateError> {
        self.turning(l.head_dim, 0).check(FAMILY)?;
        let parts = l.tiling.parts() > 1 && matches!(l.tiling, super::AttentionCut::Tile(_));
        let fact = format!("own heads with {:?}", l.tiling);
        TemplateError::unless(parts && !l.shared, FAMILY, fact, "only parts of one token on a matrix unit have them")
    }

    pub(super) fn declare(&self, i: &mut Interface, l: &Attention, t: Extent, sizes: [[Value; 2]; 2]) -> OwnArgs {
        let [heads, key, value] = [l.kv_heads, l.head_dim, l.value_dim];
        let norms = [(Slot::NormWeight, 0), (Slot::KeyNormWeight, 1)];
        let norm = |i: &mut Interface, slot| i.view(slot, Elem::F32, &[1.into(), key.into()], Access::In);
        OwnArgs {
            norms: norms.map(|(slot, which)| self.norms[which].map(|_| norm(i, slot))),
            angles: self.turning(key, 0).declare(i, t),
            keys: i.view(Slot::OwnKeys, Elem::F32, &[t, heads.into(), key.into()], Access::In),
            values: i.view(Slot::OwnValues, Elem::F32, &[t, heads.into(), value.into()], Access::In),
            stores: [
                i.cache(Slot::KeyStore, l.cache, [heads, key, key], sizes[0], Access::Out),
                i.cache(Slot::ValueStore, l.cache, [heads, value, value], sizes[1], Access::Out),
            ],
        }
    }

    pub(super) fn tag(&self) -> String {
        let rotation = match self.rotation {
            Rotation::None => String::new(),
            Rotation::Normal => format!("normal{}", self.n_rot),
            Rotation::Neox => format!("neox{}", self.n_rot),
        };
        let start = if self.start == 0 { String::new() } else { format!("from{}", self.start) };
        let norm = |name, eps: Option<Real>| eps.map_or(String::new(), |eps| format!("{name}{}", eps.tag()));
        format!("_own{rotation}{start}{}{}", norm("qnorm", self.norms[0]), norm("knorm", self.norms[1]))
    }
}

impl Own {
    /// Turns a token's own queries from head `first` on and its key, and stores the key and the value if `leads`, one of the
    /// programs that share a head of the cache, and this part are the ones to do so.
    pub(super) fn turned(
        b: &mut Builder,
        (l, t, a): (&Attention, &TileAttention, &Args),
        at: Place,
        leads: Option<Value>,
    ) -> Option<Own> {
        let (heads, own) = l.own.zip(a.own.as_ref())?;
        let Place { token, first, kv_head, position, part } = at;
        let (zero, last) = (b.index(0), b.index(i64::from(t.parts) - 1));
        let here = b.cmp(CmpOp::Eq, part, last);
        let stores = leads.map_or(here, |leads| b.binary(BinaryOp::And, here, leads));
        let [of_queries, of_keys] = [0, 1].map(|which| heads.turning(l.head_dim, which));
        let factors = own.angles.map(|angles| of_queries.factors(b, angles, token));
        let load = |b: &mut Builder, view: View, head: Value, [heads, d]: [u32; 2]| {
            let v = b.load(view, &[token, head, zero], &[1, heads, d], None);
            b.reshape(v, &[heads, d])
        };
        let key = load(b, own.keys, kv_head, [1, l.head_dim]);
        let key = of_keys.heads(b, key, own.norms[1], factors);
        let value = load(b, own.values, kv_head, [1, l.value_dim]);
        let [key, _] = [(key, own.stores[0]), (value, own.stores[1])].map(|(v, to)| {
            let v = b.convert(v, l.cache);
            let d = b.ty(v).shape.last();
            let row = b.reshape(v, &[1, 1, d]);
            b.store(to, &[kv_head, position, zero], row, Some(stores));
            b.convert(v, Elem::F32)
        });
        let q = load(b, a.queries, first, [t.group, l.head_dim]);
        let q = of_queries.heads(b, q, own.norms[0], factors);
        let q = scaled(b, l.scale.f64(), q);
        let q = b.convert(q, Elem::F16);
        let queries = b.local_padded(Elem::F16, &[t.group, l.head_dim], PAD);
        b.store(queries, &[zero, zero], q, None);
        let q = b.convert(q, Elem::F32);
        let products = b.mul(q, key);
        let mut score = b.reduce(ReduceOp::Sum, products, 1);
        if let Some(cap) = l.softcap {
            score = softcap(b, cap.f64(), score);
        }
        let scores = b.local(Elem::F32, &[t.group, 1]);
        b.store(scores, &[zero, zero], score, None);
        Some(Own { queries, scores, values: own.values, at: [token, kv_head], here })
    }

    /// A piece of the queries `f16 [rows, d]`, whose rows are these ones.
    pub(super) fn queries(&self, b: &mut Builder, places: Value, [start, d]: [u32; 2]) -> Value {
        let (rows, start) = (b.ty(places).shape.last(), b.index(i64::from(start)));
        b.load(self.queries, &[places, start], &[rows, d], None)
    }

    /// The state of rows before the first position of the cache: the largest score and the total, `[rows, 1]`.
    pub(super) fn begin(&self, b: &mut Builder, places: Value, nothing: Value) -> [Value; 2] {
        let (rows, zero) = (b.ty(places).shape.last(), b.index(0));
        let score = b.load(self.scores, &[places, zero], &[rows, 1], None);
        let (none, one) = (b.float(0.0, &[rows, 1]), b.float(1.0, &[rows, 1]));
        [b.select(self.here, score, nothing), b.select(self.here, one, none)]
    }

    /// The same of a piece of the sums, `[rows, d]` from element `start` on.
    pub(super) fn sum(&self, b: &mut Builder, l: &Attention, rows: u32, [start, d]: [u32; 2]) -> Value {
        let start = b.index(i64::from(start));
        let value = b.load(self.values, &[self.at[0], self.at[1], start], &[1, 1, d], None);
        let value = b.convert(value, l.cache);
        let value = b.convert(value, Elem::F32);
        let value = b.reshape(value, &[1, d]);
        let none = b.float(0.0, &[1, d]);
        let own = b.select(self.here, value, none);
        b.broadcast(own, Shape::new(&[rows, d]))
    }
}
