//! Attention of the queries of some tokens over a KV cache, with the online softmax (Milakov & Gimelshein 2018), cut in
//! one of three ways: [`vectors`] for processors, [`waves`] for GPUs, and [`tile`] for the matrix units of some.

mod cut;
mod join;
mod own;
mod parts;
mod tile;
mod vectors;
mod waves;
mod weigh;

pub use cut::{AttentionCut, AttentionSizes, AttentionTiling, TileAttention, WaveAttention};
pub use join::AttentionJoin;
pub use own::OwnHeads;

use crate::Template;
use crate::emit::load_index;
use crate::facts::{Output, Real, TemplateError};
use crate::row::{RowSink, check_output};
use crate::slot::{Interface, PANEL, Signature, Slot, declare, signature_of, value_block};
use hrx_ir::tile::{Access, Builder, Elem, Extent, Kernel, UnaryOp, Value, View};

/// Attention with grouped queries, causal by position.
///
/// Token t, at position p = `Positions[t]`, sees the positions 0..=p, with a `window` the last `window` of them. They must
/// have been stored before the launch.
///
/// With `sequences` the cache holds several of them behind one another, and p is a row of it: the token sees rows from
/// `Firsts[t]` on, a multiple of 64. Tokens of different sequences are in different programs then.
///
/// A sink is one more score of a head, without a value.
///
/// With `own` the launch has one token of each sequence, whose position has not been stored: X are queries before they are
/// turned, and there are, behind Sinks, with norms NormWeight and KeyNormWeight `f32 [head_dim]`, for a rotation Cos and Sin
/// `f32 [T, n_rot / 2]`, OwnKeys `f32 [T, kv_heads * head_dim]`, OwnValues `f32 [T, kv_heads * value_dim]`, and KeyStore and
/// ValueStore, the caches once more, which get the token's rows.
///
/// Slots: NTokens; NCtx (a multiple of 64); HeadStride; for values of another size than keys ValueStride; Positions
/// `i32 [T]`, each below NCtx, and with a [`TileAttention`] none below the one before; with `sequences` Firsts `i32 [T]`; X: the queries `f32 [T, heads * head_dim]`; KeyCache `[kv_heads, NCtx, head_dim]`; ValueCache
/// `[kv_heads, NCtx, value_dim]`, where values are not the first elements of keys; where a cut for vectors has panels,
/// PanelStride instead of the other strides, and both caches in panels; both finite everywhere; with `sinks`
/// Sinks `f32 [heads]`; Out `f32 [T, heads * value_dim]`, or OutCodes and OutScales. Where positions are cut into parts,
/// instead of Out: PartSums `f32 [T, heads * parts, value_dim]`, each part's sums of weighed values, and PartTotals
/// `f32 [T, heads * parts, 2]`, its largest score and its total.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Query heads: a multiple of `kv_heads`.
    pub heads: u32,
    /// Heads of the cache.
    pub kv_heads: u32,
    /// Elements of a key: a multiple of 8.
    pub head_dim: u32,
    /// Elements of a value: a multiple of 8.
    pub value_dim: u32,
    /// Whether a value is the first elements of its key.
    pub shared: bool,
    /// Whether heads have sinks.
    pub sinks: bool,
    /// Whether the cache holds several sequences.
    pub sequences: bool,
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
    /// Whether queries, keys and values come as products leave them, to be turned and stored here; of single tokens only.
    pub own: Option<OwnHeads>,
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
    firsts: Option<View>,
    queries: View,
    keys: View,
    values: View,
    sinks: Option<View>,
    own: Option<own::OwnArgs>,
    out: Sink,
}

/// Where results go.
#[derive(Clone, Copy)]
enum Sink {
    Rows(RowSink),
    /// `f32 [T, heads, value_dim]`.
    Heads(View),
    Parts {
        sums: View,
        totals: View,
    },
}

const FAMILY: &str = "attention";

impl Args {
    /// The first row of the cache that a token's sequence has.
    fn first_row(&self, b: &mut Builder, token: Value) -> Value {
        match self.firsts {
            Some(firsts) => load_index(b, firsts, token),
            None => b.index(0),
        }
    }

    /// The first of the rows up to `position` that the token sees.
    fn first_seen(&self, b: &mut Builder, token: Value, position: Value, window: Option<u32>) -> Value {
        let first = self.first_row(b, token);
        let Some(window) = window else { return first };
        let before = b.index(i64::from(window) - 1);
        let inside = b.sub(position, before);
        b.max(inside, first)
    }
}

impl Attention {
    /// Of such heads with nothing beside scores and their softmax: all positions are seen, the result is `f32`.
    pub fn new(sizes: &AttentionSizes, scale: Real, tiling: impl Into<AttentionCut>) -> Attention {
        let &AttentionSizes { heads, kv_heads, head_dim, value_dim, shared, cache } = sizes;
        Attention {
            heads,
            kv_heads,
            head_dim,
            value_dim,
            shared,
            sinks: false,
            sequences: false,
            cache,
            window: None,
            scale,
            softcap: None,
            output: Output::F32,
            own: None,
            tiling: tiling.into(),
        }
    }

    fn sizes(&self) -> AttentionSizes {
        let &Attention { heads, kv_heads, head_dim, value_dim, shared, cache, .. } = self;
        AttentionSizes { heads, kv_heads, head_dim, value_dim, shared, cache }
    }

    fn check(&self) -> Result<(), TemplateError> {
        let unless = |ok, fact: String, reason| TemplateError::unless(ok, FAMILY, fact, reason);
        let heads = format!("{} heads over {}", self.heads, self.kv_heads);
        let grouped = self.kv_heads > 0 && self.heads > 0 && self.heads.is_multiple_of(self.kv_heads);
        unless(grouped && self.heads <= 4096, heads, "each head of the cache has an equal share of at most 4096")?;
        for (name, d) in [("head_dim", self.head_dim), ("value_dim", self.value_dim)] {
            let fits = d > 0 && d.is_multiple_of(LANES) && d <= 1024;
            unless(fits, format!("{name} = {d}"), "it is a multiple of 8, at most 1024")?;
        }
        let inside = !self.shared || self.value_dim <= self.head_dim;
        unless(
            inside,
            format!("values of {} in keys of {}", self.value_dim, self.head_dim),
            "they are a part of them",
        )?;
        check_output(FAMILY, self.output, self.value_dim)?;
        unless(self.cache.is_float(), format!("a cache of {}", self.cache), "it is not a float")?;
        unless(self.window != Some(0), "window = 0".into(), "a token sees itself")?;
        self.own.map_or(Ok(()), |own| own.check(self))?;
        self.tiling.check(self)
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let panels = matches!(&self.tiling, AttentionCut::Vectors(t) if t.panels);
        let stride = if panels { Slot::PanelStride } else { Slot::HeadStride };
        let (n_ctx, stride) = (i.index(Slot::NCtx), i.index(stride));
        let own = !self.shared && self.value_dim != self.head_dim && !panels;
        let value_stride = if own { i.index(Slot::ValueStride) } else { stride };
        let t = n_tokens.into();
        let heads = self.kv_heads;
        let (key, value) = (self.head_dim, self.value_dim);
        let positions = i.view(Slot::Positions, Elem::I32, &[t], Access::In);
        let firsts = self.sequences.then(|| i.view(Slot::Firsts, Elem::I32, &[t], Access::In));
        let queries = i.view(Slot::X, Elem::F32, &[t, self.heads.into(), key.into()], Access::In);
        let keys = match panels {
            true => i.panels(Slot::KeyCache, self.cache, [heads, key, PANEL], [n_ctx, stride], Access::In),
            false => i.cache(Slot::KeyCache, self.cache, [heads, key, key], [n_ctx, stride], Access::In),
        };
        let values = match self.shared {
            true => keys,
            false if panels => {
                let dims = [heads, value, value_block(value)];
                i.panels(Slot::ValueCache, self.cache, dims, [n_ctx, stride], Access::In)
            }
            false => i.cache(Slot::ValueCache, self.cache, [heads, value, value], [n_ctx, value_stride], Access::In),
        };
        Args {
            n_tokens,
            positions,
            firsts,
            queries,
            keys,
            values,
            sinks: self.sinks.then(|| i.view(Slot::Sinks, Elem::F32, &[1.into(), self.heads.into()], Access::In)),
            own: self.own.map(|own| own.declare(i, self, t, [[n_ctx, stride], [n_ctx, value_stride]])),
            out: match self.tiling.parts() {
                1 if matches!(self.tiling, AttentionCut::Tile(_)) => {
                    Sink::Heads(i.view(Slot::Out, Elem::F32, &[t, self.heads.into(), value.into()], Access::Out))
                }
                1 => Sink::Rows(RowSink::declare(i, self.output, t, self.heads.saturating_mul(value))),
                parts => {
                    let [sums, totals] = part_views(i, t, [self.heads, value, parts], Access::Out);
                    Sink::Parts { sums, totals }
                }
            },
        }
    }
}

impl Template for Attention {
    fn name(&self) -> String {
        let mut name = format!("{FAMILY}_{}_h{}_kv{}_d{}", self.cache, self.heads, self.kv_heads, self.head_dim);
        if self.shared || self.value_dim != self.head_dim {
            name += &format!("{}{}", if self.shared { "_in" } else { "_v" }, self.value_dim);
        }
        name += if self.sinks { "_sinks" } else { "" };
        name += if self.sequences { "_seqs" } else { "" };
        name += &self.own.map_or(String::new(), |own| own.tag());
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

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        self.check()?;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        match &self.tiling {
            AttentionCut::Vectors(t) => vectors::emit(&mut b, self, t, &a),
            AttentionCut::Waves(t) => waves::emit(&mut b, self, t, &a),
            AttentionCut::Tile(t) => tile::emit(&mut b, self, t, &a),
        }
        Ok(b.finish())
    }
}

/// Declares what is written of parts: sums, and largest scores with totals.
fn part_views(i: &mut Interface, t: Extent, [heads, d, parts]: [u32; 3], access: Access) -> [View; 2] {
    let rows = heads.saturating_mul(parts).into();
    [(Slot::PartSums, d), (Slot::PartTotals, 2)].map(|(slot, n)| i.view(slot, Elem::F32, &[t, rows, n.into()], access))
}

/// What a head's sums are to be multiplied by, and its total, both `[1, 1]`, once its sink is among its scores.
fn with_sink(b: &mut Builder, largest: Value, total: Value, sink: Value) -> [Value; 2] {
    let top = b.max(largest, sink);
    let change = b.sub(largest, top);
    let shrink = b.unary(UnaryOp::Exp, change);
    let below = b.sub(sink, top);
    let weight = b.unary(UnaryOp::Exp, below);
    [shrink, b.fma(total, shrink, weight)]
}
