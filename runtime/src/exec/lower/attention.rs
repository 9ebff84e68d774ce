//! Attention, rotary positions and the KV cache.

use super::{BufData, CACHE_ELEM, Lowerer, Mode, Operand, PREFILL_TOKENS, forms};
use hrx_ir::graph::{Graph, KvCache, Node, Op, RopeSpec, RopeStyle, Rows, Tensor};
use hrx_ir::quant::CHUNK;
use hrx_templates as kt;
use hrx_templates::{Output, Real, Request, Slot, TargetShape};

/// What of an attention its cut is chosen by.
fn sizes(graph: &Graph, op: &Op) -> Option<kt::AttentionSizes> {
    let Op::Attention { cache, n_head: heads, n_kv_head: kv_heads, head_dim, .. } = *op else { return None };
    let KvCache { value_dim, shared, .. } = graph.cache(cache)?;
    Some(kt::AttentionSizes { heads, kv_heads, head_dim, value_dim, shared, cache: CACHE_ELEM })
}

/// Whether the kernel of an attention of single tokens can turn queries and keys, and store keys and values.
pub(super) fn turns_own_heads(graph: &Graph, op: &Op, shape: &TargetShape) -> bool {
    let cut = sizes(graph, op).map(|sizes| kt::AttentionCut::choose(shape, &sizes, 1));
    cut.is_some_and(|cut| matches!(cut, kt::AttentionCut::Tile(t) if t.parts > 1))
}

/// A rotation of heads with the norm before it: what is turned, and how.
struct Turned {
    x: Tensor,
    spec: Option<RopeSpec>,
    norm: Option<(Tensor, f32)>,
}

impl Turned {
    fn rotation(spec: Option<RopeSpec>) -> kt::Rotation {
        match spec.map(|s| s.style) {
            None => kt::Rotation::None,
            Some(RopeStyle::Normal) => kt::Rotation::Normal,
            Some(RopeStyle::Neox) => kt::Rotation::Neox,
        }
    }
}

impl Lowerer<'_> {
    /// What a tensor is where its rotation, and a norm before that, are parts of the kernel that reads it.
    fn turned(&self, t: Tensor) -> Turned {
        match self.part_op(t) {
            Some(&Op::Rope { x, spec, .. }) => {
                let (x, norm) = self.head_norm(x);
                Turned { x, spec: Some(spec), norm }
            }
            _ => Turned { x: t, spec: None, norm: None },
        }
    }

    /// The norm of each head that is a part, with what it is of.
    fn head_norm(&self, x: Tensor) -> (Tensor, Option<(Tensor, f32)>) {
        match self.part_op(x) {
            Some(&Op::RmsNorm { x, weight, eps }) => (x, Some((weight, eps))),
            _ => (x, None),
        }
    }

    /// Attention over a layer's cache.
    pub(super) fn attention(&mut self, node: Node) {
        let graph = self.graph;
        let t = graph.result(node);
        let rows = self.rows(t);
        let Op::Attention { q, cache, n_head, sinks, head_dim, scale, window, softcap, .. } = *graph.op(node) else {
            return;
        };
        let Some(sizes) = sizes(graph, graph.op(node)) else {
            unreachable!("the graph's verifier holds caches to states")
        };
        let value_dim = sizes.value_dim;
        let tokens = if self.mode == Mode::Decode { 1 } else { PREFILL_TOKENS };
        let sequences = self.sequences;
        let tiling = kt::AttentionCut::choose(&self.shape, &sizes, tokens).within(window);
        // The store into the cache is a part where the token's own heads come as products leave them.
        let own = match self.part_op(cache) {
            Some(&Op::KvStore { k, v: Some(v), .. }) => Some((self.turned(q), self.turned(k), self.f32(v))),
            _ => None,
        };
        let heads = own.as_ref().map(|(q, k, _)| kt::OwnHeads {
            start: q.spec.map_or(0, |s| s.start),
            n_rot: q.spec.map_or(0, |s| s.n_rot),
            rotation: Turned::rotation(q.spec),
            norms: [q.norm, k.norm].map(|norm| norm.map(|(_, eps)| Real(eps))),
        });
        let attention = move |output| kt::Attention {
            sinks: sinks.is_some(),
            sequences,
            window,
            softcap: softcap.map(Real),
            output,
            own: heads,
            ..kt::Attention::new(&sizes, Real(scale), tiling)
        };
        let q = self.f32(own.as_ref().map_or(q, |(q, ..)| q.x));
        let own = own.map(|(q, k, v)| {
            let table = q.spec.map(|s| self.ropes.index_of(s));
            (table, [q.norm, k.norm].map(|norm| norm.map(|(weight, _)| weight)), [self.f32(k.x), v])
        });
        let layer = self.layer(cache);
        // A program writes whole heads.
        let forms = forms(
            value_dim.is_multiple_of(CHUNK) && (tiling.parts() > 1 || !matches!(tiling, kt::AttentionCut::Tile(_))),
        );
        let operands = move |s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::NCtx => Some(Operand::NCtx),
            Slot::HeadStride => Some(Operand::HeadStride(head_dim)),
            Slot::PanelStride => Some(Operand::PanelStride),
            Slot::ValueStride => Some(Operand::HeadStride(value_dim)),
            Slot::Positions => Some(Operand::CacheRows),
            Slot::Firsts => Some(Operand::Firsts),
            Slot::X => Some(Operand::Buf(q)),
            Slot::Sinks => sinks.map(Operand::Weight),
            Slot::KeyCache => Some(Operand::Keys(layer)),
            Slot::ValueCache => Some(Operand::Values(layer)),
            Slot::KeyStore => Some(Operand::Keys(layer)),
            Slot::ValueStore => Some(Operand::Values(layer)),
            Slot::NormWeight => own.and_then(|(_, norms, _)| norms[0]).map(Operand::Weight),
            Slot::KeyNormWeight => own.and_then(|(_, norms, _)| norms[1]).map(Operand::Weight),
            Slot::Cos => own.and_then(|(table, ..)| table).map(Operand::Cos),
            Slot::Sin => own.and_then(|(table, ..)| table).map(Operand::Sin),
            Slot::OwnKeys => own.map(|(.., [keys, _])| Operand::Buf(keys)),
            Slot::OwnValues => own.map(|(.., [_, values])| Operand::Buf(values)),
            _ => None,
        };
        if tiling.parts() == 1 {
            return self.produce(node, t, forms, |output| attention(output).into(), &operands);
        }
        let part = kt::Attention { sinks: false, ..attention(Output::F32) };
        let mut buf = |of_part: u32| self.bufs.push(BufData { rows, row_bytes: 4 * n_head * tiling.parts() * of_part });
        let (sums, totals) = (buf(value_dim), buf(2));
        let operands = move |s| match s {
            Slot::PartSums => Some(Operand::Buf(sums)),
            Slot::PartTotals => Some(Operand::Buf(totals)),
            s => operands(s),
        };
        self.step(node, part.clone().into(), &operands);
        let shape = self.shape;
        let join = |output| kt::AttentionJoin::of(&part, &shape, sinks.is_some(), output).into();
        self.produce(node, t, forms, join, &operands);
    }

    /// A rotation (or none: `spec` absent) of heads, with the norm of each head where that is a part of it.
    pub(super) fn rope(
        &mut self,
        node: Node,
        x: Tensor,
        spec: Option<RopeSpec>,
        head_dim: u32,
        output: kt::RopeOutput,
        add: impl FnOnce(&mut Self, Request, &dyn Fn(Slot) -> Option<Operand>),
    ) {
        let graph = self.graph;
        let heads = graph.cols(x) / head_dim;
        let (x, norm) = if spec.is_some() { self.head_norm(x) } else { (x, None) };
        let rotation = Turned::rotation(spec);
        let table = spec.map(|s| self.ropes.index_of(s));
        let request = kt::Rope {
            heads,
            head_dim,
            start: spec.map_or(0, |s| s.start),
            n_rot: spec.map_or(0, |s| s.n_rot),
            rotation,
            norm: norm.map(|(_, eps)| Real(eps)),
            scale: None,
            output,
            program_heads: self.program_heads(heads),
        };
        let rows = self.rows(graph.result(node));
        let rows = if rows == Rows::Cached { Rows::Tokens } else { rows };
        let x = self.f32(x);
        add(self, request.into(), &move |s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::NCtx => Some(Operand::NCtx),
            Slot::HeadStride => Some(Operand::HeadStride(head_dim)),
            Slot::PanelStride => Some(Operand::PanelStride),
            Slot::X => Some(Operand::Buf(x)),
            Slot::NormWeight => norm.map(|(w, _)| Operand::Weight(w)),
            Slot::Cos => table.map(Operand::Cos),
            Slot::Sin => table.map(Operand::Sin),
            _ => None,
        });
    }

    /// Keys and values into the cache, keys rotated on the way where the rotation is a part.
    pub(super) fn kv_store(&mut self, node: Node, k: Tensor, v: Option<Tensor>, cache: Tensor) {
        let layer = self.layer(cache);
        let KvCache { head_dim, value_dim, shared, .. } = self.kv_cache(cache);
        let forms = match kt::AttentionSizes::in_panels(&self.shape, shared) {
            true => [kt::RopeOutput::KeyPanels(CACHE_ELEM), kt::RopeOutput::ValuePanels(CACHE_ELEM)],
            false => [kt::RopeOutput::Cache(CACHE_ELEM); 2],
        };
        let (k, spec) = match self.part_op(k) {
            Some(&Op::Rope { x, spec, .. }) => (x, Some(spec)),
            _ => (k, None),
        };
        let keys = (k, spec, head_dim, Operand::Keys(layer), forms[0]);
        let values = v.map(|v| (v, None, value_dim, Operand::Values(layer), forms[1]));
        for (x, spec, head_dim, place, output) in std::iter::once(keys).chain(values) {
            self.rope(node, x, spec, head_dim, output, |l, request, of| {
                l.step(node, request, &|s| match s {
                    Slot::Cache => Some(place),
                    Slot::Positions => Some(Operand::CacheRows),
                    _ => of(s),
                })
            });
        }
    }

    /// The cache that a tensor is.
    fn kv_cache(&self, cache: Tensor) -> KvCache {
        match self.graph.cache(cache) {
            Some(c) => c,
            None => unreachable!("the graph's verifier holds caches to states"),
        }
    }
}
