//! Attention of the queries of some tokens over a KV cache, with the online softmax (Milakov & Gimelshein 2018), cut in
//! one of two ways: [`vectors`] for processors and [`waves`] for GPUs.

mod cut;
mod vectors;
mod waves;

pub use cut::{AttentionCut, AttentionTiling, WaveAttention};

use crate::Template;
use crate::facts::{Output, Real, TemplateError};
use crate::row::{RowSink, check_output};
use crate::slot::{Interface, Slot, declare, slots_of};
use hrx_ir::tile::{Access, Builder, Elem, Kernel, Value, View};

/// Attention with grouped queries, causal by position.
///
/// Token t, at position p = `Positions[t]`, sees the positions 0..=p, with a `window` the last `window` of them. They must
/// have been stored before the launch.
///
/// Slots: NTokens; NCtx (a multiple of 64); HeadStride; Positions `i32 [T]`, each below NCtx; X: the queries
/// `f32 [T, heads * head_dim]`; KeyCache and ValueCache `[kv_heads, NCtx, head_dim]`, finite everywhere; Out
/// `f32 [T, heads * head_dim]`, or OutCodes and OutScales.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Query heads: a multiple of `kv_heads`.
    pub heads: u32,
    /// Heads of the cache.
    pub kv_heads: u32,
    /// Elements of a head: a multiple of 8.
    pub head_dim: u32,
    /// The cache's element type.
    pub cache: Elem,
    /// How many positions a token sees, itself included; all up to its own if absent.
    pub window: Option<u32>,
    /// What scores are multiplied by.
    pub scale: Real,
    /// The cap of cap * tanh(score / cap).
    pub softcap: Option<Real>,
    /// The form of the result.
    pub output: Output,
    /// How the work is cut.
    pub tiling: AttentionCut,
}

/// Lanes of a score's sum: a fact of the arithmetic, the same for all tilings.
const LANES: u32 = 8;
/// The score of a position that is not seen: its weight is 0 beside any other, and differences stay finite.
const UNSEEN: f64 = -1e30;

struct Args {
    n_tokens: Value,
    positions: View,
    queries: View,
    keys: View,
    values: View,
    out: RowSink,
}

const FAMILY: &str = "attention";

impl Attention {
    fn check(&self) -> Result<(), TemplateError> {
        let unless = |ok, fact: String, reason| TemplateError::unless(ok, FAMILY, fact, reason);
        let heads = format!("{} heads over {}", self.heads, self.kv_heads);
        let grouped = self.kv_heads > 0 && self.heads > 0 && self.heads.is_multiple_of(self.kv_heads);
        unless(grouped && self.heads <= 4096, heads, "each head of the cache has an equal share of at most 4096")?;
        let d = self.head_dim;
        unless(
            d > 0 && d.is_multiple_of(LANES) && d <= 1024,
            format!("head_dim = {d}"),
            "it is a multiple of 8, at most 1024",
        )?;
        check_output(FAMILY, self.output, d)?;
        unless(self.cache.is_float(), format!("a cache of {}", self.cache), "it is not a float")?;
        unless(self.window != Some(0), "window = 0".into(), "a token sees itself")?;
        self.tiling.check(self)
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let size = [i.index(Slot::NCtx), i.index(Slot::HeadStride)];
        let t = n_tokens.into();
        let cache = [self.kv_heads, self.head_dim];
        Args {
            n_tokens,
            positions: i.view(Slot::Positions, Elem::I32, &[t], Access::In),
            queries: i.view(Slot::X, Elem::F32, &[t, self.heads.into(), self.head_dim.into()], Access::In),
            keys: i.cache(Slot::KeyCache, self.cache, cache, size, Access::In),
            values: i.cache(Slot::ValueCache, self.cache, cache, size, Access::In),
            out: RowSink::declare(i, self.output, t, self.heads.saturating_mul(self.head_dim)),
        }
    }
}

impl Template for Attention {
    fn name(&self) -> String {
        let mut name = format!("{FAMILY}_{}_h{}_kv{}_d{}", self.cache, self.heads, self.kv_heads, self.head_dim);
        name += &self.tiling.tag();
        name += &format!("_scale{}", self.scale.tag());
        if let Some(w) = self.window {
            name += &format!("_w{w}");
        }
        if let Some(c) = self.softcap {
            name += &format!("_cap{}", c.tag());
        }
        name + self.output.tag()
    }

    fn slots(&self) -> Vec<Slot> {
        slots_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        self.check()?;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        match &self.tiling {
            AttentionCut::Vectors(t) => vectors::emit(&mut b, self, t, &a),
            AttentionCut::Waves(t) => waves::emit(&mut b, self, t, &a),
        }
        Ok(b.finish())
    }
}
