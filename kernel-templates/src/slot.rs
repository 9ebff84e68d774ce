//! What the arguments of a kernel are.

use hrx_ir::quant::Format;
use hrx_ir::tile::{Access, Builder, Content, Elem, Extent, Kernel, Value, View};

/// The role of one argument. Shapes are those of the family that lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// `i32`: T, the rows of the launch.
    NTokens,
    /// `i32`: rows of X where the launch reads only some of them.
    NRows,
    /// `i32`: positions that a KV cache has room for.
    NCtx,
    /// `i32`: elements from one head of a KV cache to the next: NCtx times the head's size.
    HeadStride,
    /// Input rows, `f32`.
    X,
    /// Second input rows, `f32`.
    Y,
    /// Codes of Q8 or Q15 input rows, `i8`.
    XCodes,
    /// Scales of Q8 or Q15 input rows, `f32`.
    XScales,
    /// Weights of an RMS norm, `f32`.
    NormWeight,
    /// A weight matrix: 0 is the only one or the gate's, 1 the one that the gate multiplies.
    Weight(u8),
    /// Bias of each output, `f32`.
    Bias,
    /// The experts of each row and their weights, `f32 [T, 2 * used]`.
    Routes,
    /// A router's logits, `f32 [T, experts]`.
    Logits,
    /// What a product has chosen by them: as Routes.
    Choice,
    /// For each expert the rows that go to it, `i32 [experts, T]`.
    ExpertRows,
    /// How many rows go to each expert, `i32`.
    Counts,
    /// A factor of each expert, `f32`.
    ExpertScale,
    /// What is kept from launch to launch, `f32`.
    State,
    /// Queries of a recurrence, `f32`.
    Queries,
    /// Keys of a recurrence, `f32`.
    Keys,
    /// Logarithms of the decay of a recurrence, `f32 [T, heads]`.
    Decay,
    /// Strengths of a recurrence's updates, `f32 [T, heads]`.
    Beta,
    /// A score of each query head without a key, `f32`.
    Sinks,
    /// `i32`: elements from one head of a KV cache's values to the next.
    ValueStride,
    /// Sums of weighed values of each part of a token's positions, `f32`.
    PartSums,
    /// The largest score and the total of each part of a token's positions, `f32`.
    PartTotals,
    /// The tokens' own keys, which are not in the cache yet, `f32`.
    OwnKeys,
    /// The tokens' own values, `f32`.
    OwnValues,
    /// Weights of an RMS norm of keys, `f32`.
    KeyNormWeight,
    /// The cache of keys where the tokens' own are stored.
    KeyStore,
    /// The cache of values where the tokens' own are stored.
    ValueStore,
    /// Rows added to the result, `f32`.
    Residual,
    /// `i32 [T]`: which rows of X to read.
    Rows,
    /// `i32 [T]`: position of each token.
    Positions,
    /// The first row of a cache that belongs to each token's sequence.
    Firsts,
    /// Cosines of rotary angles, `f32 [T, n_rot / 2]`.
    Cos,
    /// Sines of rotary angles, `f32 [T, n_rot / 2]`.
    Sin,
    /// `i32`: elements from one panel of a KV cache to the next, of all heads and layers that share its memory.
    PanelStride,
    /// Cached keys `[kv_heads, NCtx, head_dim]`, head stride HeadStride; in panels `[NCtx / 64, kv_heads, head_dim, 64]`.
    KeyCache,
    /// Cached values `[kv_heads, NCtx, head_dim]`, head stride HeadStride; in panels
    /// `[NCtx / 64, kv_heads, head_dim / B, 64, B]`, B being the largest power of two up to 64 that divides head_dim.
    ValueCache,
    /// The cache that is written: keys or values.
    Cache,
    /// `i32 [T]`: token ids.
    Ids,
    /// An embedding table.
    Table,
    /// Output rows, `f32` (indices: `i32`).
    Out,
    /// Codes of Q8 or Q15 output rows, `i8`.
    OutCodes,
    /// Scales of Q8 or Q15 output rows, `f32`.
    OutScales,
}

/// Positions of a panel of a KV cache. One head's keys are in it as rows of 64 positions, one for each element; its
/// values as rows of one position, each of a [block](value_block) of elements, block after block. So both are read from
/// end to end, in vectors that need no lane of another. Panels of all heads and layers that have the same positions lie
/// beside one another: memory is touched as positions come.
pub(crate) const PANEL: u32 = 64;

/// Elements of values that are a row of a panel.
pub(crate) fn value_block(value_dim: u32) -> u32 {
    1 << value_dim.trailing_zeros().min(PANEL.trailing_zeros())
}

/// Declares a kernel's parameters, keeping the slot of each.
pub(crate) struct Interface<'a> {
    b: &'a mut Builder,
    slots: Vec<Slot>,
}

impl Interface<'_> {
    pub fn index(&mut self, slot: Slot) -> Value {
        self.slots.push(slot);
        self.b.scalar_param(Elem::I32)
    }

    pub fn view(&mut self, slot: Slot, elem: Elem, dims: &[Extent], access: Access) -> View {
        self.slots.push(slot);
        self.b.view_param(elem, dims, access)
    }

    pub fn strided(&mut self, slot: Slot, elem: Elem, dims: &[Extent], strides: &[Extent], access: Access) -> View {
        self.slots.push(slot);
        self.b.strided_param(Content::Elem(elem), dims, strides, access)
    }

    pub fn quant(&mut self, slot: Slot, format: &'static Format, dims: &[Extent]) -> View {
        self.slots.push(slot);
        self.b.quant_param(format, dims)
    }

    /// A KV cache `[heads, n_ctx, head_dim]` whose heads are `head_stride` elements apart, and positions `row`.
    pub fn cache(
        &mut self,
        slot: Slot,
        elem: Elem,
        [heads, head_dim, row]: [u32; 3],
        [n_ctx, head_stride]: [Value; 2],
        access: Access,
    ) -> View {
        let dims = [heads.into(), n_ctx.into(), head_dim.into()];
        self.strided(slot, elem, &dims, &[head_stride.into(), row.into(), 1.into()], access)
    }

    /// A KV cache in [panels](PANEL) of rows of `width` elements, `panel_stride` elements from one to the next: its second
    /// axis, of which a 64th is there.
    pub fn panels(
        &mut self,
        slot: Slot,
        elem: Elem,
        [heads, dim, width]: [u32; 3],
        [n_ctx, panel_stride]: [Value; 2],
        access: Access,
    ) -> View {
        let of_head = PANEL * dim;
        let dims = [heads.into(), n_ctx.into(), (of_head / width).into(), width.into()];
        self.strided(slot, elem, &dims, &[of_head.into(), panel_stride.into(), width.into(), 1.into()], access)
    }
}

/// Declares parameters on `b` by `declare`.
pub(crate) fn declare<R>(b: &mut Builder, declare: impl FnOnce(&mut Interface) -> R) -> R {
    declare(&mut Interface { b, slots: Vec::new() })
}

/// A kernel's arguments.
#[derive(Clone, Debug)]
pub struct Signature {
    /// What each is, in the order of the parameters.
    pub slots: Vec<Slot>,
    /// A kernel with the parameters alone, and no body.
    pub kernel: Kernel,
}

/// What `declare` declares.
pub(crate) fn signature_of<R>(declare: impl FnOnce(&mut Interface) -> R) -> Signature {
    let mut b = Builder::new("signature");
    let mut i = Interface { b: &mut b, slots: Vec::new() };
    declare(&mut i);
    let slots = i.slots;
    Signature { slots, kernel: b.finish() }
}
