//! Attention, rotary positions and the KV cache.

use super::{BufData, CACHE_ELEM, Lowerer, Mode, Operand, PREFILL_TOKENS, forms};
use hrx_ir::graph::{KvCache, Node, Op, RopeSpec, RopeStyle, Rows, Tensor};
use hrx_ir::quant::CHUNK;
use hrx_templates as kt;
use hrx_templates::{Output, Real, Request, Slot};

impl Lowerer<'_> {
    /// Attention over a layer's cache.
    pub(super) fn attention(&mut self, node: Node) {
        let graph = self.graph;
        let t = graph.result(node);
        let rows = self.rows(t);
        let Op::Attention { q, cache, n_head, sinks, n_kv_head, head_dim, scale, window, softcap, .. } =
            *graph.op(node)
        else {
            return;
        };
        let KvCache { value_dim, shared, .. } = self.kv_cache(cache);
        let tokens = if self.mode == Mode::Decode { 1 } else { PREFILL_TOKENS };
        let sizes =
            kt::AttentionSizes { heads: n_head, kv_heads: n_kv_head, head_dim, value_dim, shared, cache: CACHE_ELEM };
        let sequences = self.sequences;
        let tiling = kt::AttentionCut::choose(&self.shape, &sizes, tokens).within(window);
        let attention = move |output| kt::Attention {
            heads: n_head,
            kv_heads: n_kv_head,
            head_dim,
            value_dim,
            shared,
            sinks: sinks.is_some(),
            sequences,
            cache: CACHE_ELEM,
            window,
            scale: Real(scale),
            softcap: softcap.map(Real),
            output,
            tiling,
        };
        let q = self.f32(q);
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
        let (x, norm) = match self.part_op(x) {
            Some(&Op::RmsNorm { x, weight, eps }) if spec.is_some() => (x, Some((weight, eps))),
            _ => (x, None),
        };
        let rotation = match spec.map(|s| s.style) {
            None => kt::Rotation::None,
            Some(RopeStyle::Normal) => kt::Rotation::Normal,
            Some(RopeStyle::Neox) => kt::Rotation::Neox,
        };
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
