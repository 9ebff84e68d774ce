//! Work on rows that no other kernel takes over: elementwise, norms of groups, parts put together anew.

use super::{Lowerer, Operand, activation, forms};
use hrx_ir::graph::{Node, NormKind, Op, Rows, Tensor};
use hrx_ir::quant::CHUNK;
use hrx_templates as kt;
use hrx_templates::{Output, Real, RowCut, Slot};

/// A norm of groups with what its root adds to it.
struct NormParts {
    x: Tensor,
    kind: NormKind,
    group: u32,
    eps: f32,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
}

pub(super) fn limit(l: hrx_ir::graph::Limit) -> kt::Limit {
    use hrx_ir::graph::Limit;
    match l {
        Limit::Off => kt::Limit::Off,
        Limit::Gate(x) => kt::Limit::Gate(Real(x)),
        Limit::Activated(x) => kt::Limit::Activated(Real(x)),
        Limit::GatePlusOne(x) => kt::Limit::GatePlusOne(Real(x)),
    }
}

impl Lowerer<'_> {
    /// One operation on each element of one or two tensors.
    pub(super) fn rowwise(&mut self, node: Node, t: Tensor, op: kt::RowOp, [x, y]: [Option<Tensor>; 2]) {
        let rows = self.rows(t);
        let k = self.graph.cols(t);
        let [x, y] = [x, y].map(|v| v.map(|v| self.f32(v)));
        let forms = forms(k.is_multiple_of(CHUNK));
        let cut = RowCut::choose(&self.shape, k);
        let request = |output| kt::Rowwise { k, op, indexed: false, output, cut }.into();
        self.produce(node, t, forms, request, &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X => x.map(Operand::Buf),
            Slot::Y => y.map(Operand::Buf),
            _ => None,
        });
    }

    /// A sum or product whose second operand may be a weight or have fewer columns.
    pub(super) fn combine(&mut self, node: Node, t: Tensor, combine: kt::Combine, [a, b]: [Tensor; 2]) {
        if let Some(parts) = self.norm_parts(node) {
            return self.group_norm(node, t, &parts);
        }
        let weight = self.graph.weight(b).is_some();
        let (k, groups) = (self.graph.cols(a), self.graph.cols(b));
        if !weight && k == groups {
            let op = if combine == kt::Combine::Add { kt::RowOp::Add } else { kt::RowOp::Mul };
            return self.rowwise(node, t, op, [Some(a), Some(b)]);
        }
        let y = if weight { Operand::Weight(b) } else { Operand::Buf(self.f32(b)) };
        self.spread(node, t, combine, weight, a, groups, y);
    }

    #[allow(clippy::too_many_arguments)]
    fn spread(
        &mut self,
        node: Node,
        t: Tensor,
        combine: kt::Combine,
        weight: bool,
        a: Tensor,
        groups: u32,
        y: Operand,
    ) {
        let rows = self.rows(t);
        let group = self.graph.cols(a) / groups;
        let cut = kt::Spread::cut(&self.shape, groups, group);
        let x = self.f32(a);
        let request = kt::Spread { combine, groups, group, weight, cut };
        self.produce(node, t, &[Output::F32], |_| request.clone().into(), &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X => Some(Operand::Buf(x)),
            Slot::Y | Slot::Weight(_) => Some(y),
            _ => None,
        });
    }

    /// Rows times a factor of their position.
    pub(super) fn position_scale(&mut self, node: Node, t: Tensor, x: Tensor, by: f32, every: u32) {
        let table = self.ropes.scale_index(by, every);
        self.spread(node, t, kt::Combine::Mul, false, x, 1, Operand::PositionScale(table));
    }

    /// Parts of one or two tensors.
    pub(super) fn regroup(
        &mut self,
        node: Node,
        t: Tensor,
        groups: u32,
        parts: kt::Parts,
        [x, y]: [Option<Tensor>; 2],
    ) {
        let rows = self.rows(t);
        let cut = RowCut::choose(&self.shape, self.graph.cols(t) / groups);
        let [x, y] = [x, y].map(|v| v.map(|v| self.f32(v)));
        let request = kt::Regroup { groups, parts, cut };
        self.produce(node, t, &[Output::F32], |_| request.clone().into(), &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X => x.map(Operand::Buf),
            Slot::Y => y.map(Operand::Buf),
            _ => None,
        });
    }

    /// The norm that a root is about, if it is about one.
    fn norm_parts(&self, node: Node) -> Option<NormParts> {
        match *self.graph.op(node) {
            Op::Normalize { x, kind, group, eps } => Some(NormParts { x, kind, group, eps, weight: None, bias: None }),
            Op::Mul { a, b } => {
                let part = self.graph.producer(a).filter(|n| self.parts.contains(n))?;
                Some(NormParts { weight: Some(b), ..self.norm_parts(part)? })
            }
            Op::Add { a, b } => {
                let part = self.graph.producer(a).filter(|n| self.parts.contains(n))?;
                Some(NormParts { bias: Some(b), ..self.norm_parts(part)? })
            }
            _ => None,
        }
    }

    /// A norm of groups without a weight.
    pub(super) fn normalize(&mut self, node: Node, t: Tensor) {
        if let Some(parts) = self.norm_parts(node) {
            self.group_norm(node, t, &parts);
        }
    }

    fn group_norm(&mut self, node: Node, t: Tensor, p: &NormParts) {
        let rows = self.rows(t);
        let request = kt::GroupNorm {
            groups: self.graph.cols(t) / p.group,
            group: p.group,
            centred: p.kind == NormKind::Layer,
            eps: Real(p.eps),
            weight: p.weight.is_some(),
            bias: p.bias.is_some(),
            cut: RowCut::choose(&self.shape, p.group),
        };
        let x = self.f32(p.x);
        let (weight, bias) = (p.weight, p.bias);
        self.produce(node, t, &[Output::F32], |_| request.clone().into(), &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X => Some(Operand::Buf(x)),
            Slot::NormWeight => weight.map(Operand::Weight),
            Slot::Bias => bias.map(Operand::Weight),
            _ => None,
        });
    }

    /// The wanted rows of a tensor.
    pub(super) fn select_rows(&mut self, node: Node, t: Tensor, [x, which]: [Tensor; 2]) {
        let (rows, k) = (self.rows(t), self.graph.cols(t));
        let (x, which) = (self.f32(x), self.input(which));
        let cut = RowCut::choose(&self.shape, k);
        let select = |output| kt::Rowwise { k, op: kt::RowOp::Copy, indexed: true, output, cut }.into();
        self.produce(node, t, forms(k.is_multiple_of(CHUNK)), select, &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::NRows => Some(Operand::RowCount(Rows::Tokens)),
            Slot::X => Some(Operand::Buf(x)),
            Slot::Rows => Some(which),
            _ => None,
        });
    }

    /// A convolution along the sequence.
    pub(super) fn short_conv(&mut self, node: Node, t: Tensor) {
        let Op::ShortConv { x, weight, bias, state, act } = *self.graph.op(node) else { return };
        let (rows, layer) = (self.rows(t), self.layer(state));
        let [program_cols, waves] = kt::ShortConv::cut(&self.shape);
        let request = kt::ShortConv {
            cols: self.graph.cols(t),
            taps: self.graph.cols(weight),
            bias: bias.is_some(),
            activation: act.map(activation),
            program_cols,
            waves,
        };
        let x = self.f32(x);
        self.produce(node, t, &[Output::F32], |_| request.clone().into(), &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X => Some(Operand::Buf(x)),
            Slot::Weight(_) => Some(Operand::Weight(weight)),
            Slot::Bias => bias.map(Operand::Weight),
            Slot::State => Some(Operand::ConvState(layer)),
            _ => None,
        });
    }

    /// A recurrence along the sequence.
    pub(super) fn recurrence(&mut self, node: Node, t: Tensor) {
        let Op::Recurrence { q, k, v, decay, beta, state, key_heads } = *self.graph.op(node) else { return };
        let Some(hrx_ir::graph::State::Recurrent(sizes)) = self.graph.state(state) else { return };
        let (rows, layer) = (self.rows(t), sizes.layer);
        let [columns, waves] = kt::Recurrence::cut(&self.shape, sizes.value_dim);
        let request = kt::Recurrence {
            heads: sizes.n_head,
            key_heads: self.graph.cols(q) / sizes.key_dim,
            share: match key_heads {
                hrx_ir::graph::KeyHeads::Blocked => kt::KeyHeads::Blocked,
                hrx_ir::graph::KeyHeads::Cyclic => kt::KeyHeads::Cyclic,
            },
            key_dim: sizes.key_dim,
            value_dim: sizes.value_dim,
            delta: beta.is_some(),
            columns,
            waves,
        };
        let [q, k, v, decay] = [q, k, v, decay].map(|t| self.f32(t));
        let beta = beta.map(|t| self.f32(t));
        self.produce(node, t, &[Output::F32], |_| request.clone().into(), &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::Queries => Some(Operand::Buf(q)),
            Slot::Keys => Some(Operand::Buf(k)),
            Slot::X => Some(Operand::Buf(v)),
            Slot::Decay => Some(Operand::Buf(decay)),
            Slot::Beta => beta.map(Operand::Buf),
            Slot::State => Some(Operand::Recurrent(layer)),
            _ => None,
        });
    }
}
