//! Linear layers with what their kernels take over, and the norms before them.

use super::{Lowerer, Mode, Operand, PREFILL_TOKENS, activation, forms};
use hrx_ir::graph::{Limit, Node, Op, Rows, Tensor};
use hrx_ir::quant::CHUNK;
use hrx_templates as kt;
use hrx_templates::{Output, Real, Request, Slot};

/// A linear layer as its kernel sees it: the product, and what its root adds to it.
pub(super) struct LinearParts {
    pub(super) x: Tensor,
    pub(super) weight: Tensor,
    up: Option<(Tensor, kt::Activation)>,
    bias: Option<Tensor>,
    pub(super) residual: Option<Tensor>,
    scale: Option<f32>,
    softcap: Option<f32>,
}

impl LinearParts {
    fn matrices(&self) -> Vec<Tensor> {
        [Some(self.weight), self.up.map(|(up, _)| up)].into_iter().flatten().collect()
    }
}

impl Lowerer<'_> {
    /// The linear layer that a root is about, if it is about one.
    pub(super) fn linear_parts(&self, node: Node) -> Option<LinearParts> {
        let plain = |t: Tensor| match self.part_op(t) {
            Some(&Op::Linear { x, weight, bias }) => {
                Some(LinearParts { x, weight, up: None, bias, residual: None, scale: None, softcap: None })
            }
            _ => None,
        };
        match *self.graph.op(node) {
            Op::Linear { x, weight, bias } => {
                Some(LinearParts { x, weight, up: None, bias, residual: None, scale: None, softcap: None })
            }
            Op::Glu { gate, up, act, limit: Limit::Off } => match (plain(gate), plain(up)) {
                (Some(g), Some(u)) => Some(LinearParts { up: Some((u.weight, activation(act))), ..g }),
                _ => None,
            },
            Op::Add { a, b } => match (plain(a), plain(b)) {
                (Some(l), _) => Some(LinearParts { residual: Some(b), ..l }),
                (None, Some(l)) => Some(LinearParts { residual: Some(a), ..l }),
                _ => None,
            },
            Op::Scale { x, by } => plain(x).map(|l| LinearParts { scale: Some(by), ..l }),
            Op::SoftCap { x, cap } => plain(x).map(|l| LinearParts { softcap: Some(cap), ..l }),
            _ => None,
        }
    }

    /// The norm whose result is `x`, if it goes into the kernels that read it: on waves, where there is one token, and all
    /// readers are linear layers, or products with experts that make numbers of their row anyway. A processor's threads meet
    /// in less time than each program would norm in, and other products with experts take longer with the squares than a
    /// launch does.
    pub(super) fn norm_into(&self, x: Tensor) -> Option<(Tensor, Tensor, f32)> {
        let x = self.resolve(x);
        let linear_only = || {
            self.graph.users(x).iter().all(|&n| match *self.graph.op(n) {
                Op::Linear { .. } => true,
                Op::ExpertLinear { x, weight, .. } => self.experts_norm(x, weight),
                _ => false,
            })
        };
        match self.graph.producer_op(x) {
            Some(&Op::RmsNorm { x: input, weight, eps })
                if self.shape.waves.is_some()
                    && self.mode == Mode::Decode
                    && x != self.output
                    && linear_only()
                    && self.graph.cols(weight) == self.graph.cols(input) =>
            {
                Some((input, weight, eps))
            }
            _ => None,
        }
    }

    /// A norm of whole rows or of each head, with a residual added where one is given.
    pub(super) fn norm(&mut self, node: Node, t: Tensor, [x, weight]: [Tensor; 2], eps: f32, residual: Option<Tensor>) {
        if residual.is_none() && self.norm_into(t).is_some() {
            return;
        }
        let graph = self.graph;
        let rows = self.rows(t);
        let (k, group) = (graph.cols(t), graph.cols(weight));
        let residual = residual.map(|r| self.f32(r));
        let x = self.f32(x);
        let forms = forms(residual.is_none() && k.is_multiple_of(CHUNK) && group == k);
        let cut = kt::RowCut::choose(&self.shape, k);
        let program_heads = self.program_heads(k / group);
        let request = |output| match k == group {
            true => kt::RmsNorm { k, eps: Real(eps), residual: residual.is_some(), indexed: false, output, cut }.into(),
            // Each head: the walk over heads without a rotation.
            false => kt::Rope {
                heads: k / group,
                head_dim: group,
                start: 0,
                n_rot: 0,
                rotation: kt::Rotation::None,
                norm: Some(Real(eps)),
                scale: None,
                output: kt::RopeOutput::F32,
                program_heads,
            }
            .into(),
        };
        self.produce(node, t, forms, request, &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X => Some(Operand::Buf(x)),
            Slot::NormWeight => Some(Operand::Weight(weight)),
            Slot::Residual => residual.map(Operand::Buf),
            _ => None,
        });
    }

    /// The form in which a layer's product reads its activations.
    pub(super) fn layer_input(&self, l: &LinearParts) -> Output {
        self.packed_input(&l.matrices(), self.shape_of(l)).unwrap_or_else(|| self.linear_input(l.weight))
    }

    /// Outputs and inputs of a layer.
    fn shape_of(&self, l: &LinearParts) -> [u32; 2] {
        let shape = self.graph.shape(l.weight);
        match shape.rows {
            Rows::Const(n) => [n, shape.cols],
            _ => unreachable!("matrices are weights"),
        }
    }

    /// The cut for a layer's matrices where they are packed: where the target's vectors have that and all of them can be.
    fn panels(&self, l: &LinearParts, tokens: u32) -> Option<kt::PanelTiling> {
        let (matrices, nk) = (l.matrices(), self.shape_of(l));
        let input = self.packed_input(&matrices, nk)?;
        kt::PanelTiling::choose(&self.shape, nk, input, tokens, matrices.len() as u32)
    }

    /// The form in which products with matrices `[n, k]` read activations if these are packed; none if they can't be packed
    /// for it.
    pub(super) fn packed_input(&self, matrices: &[Tensor], nk: [u32; 2]) -> Option<Output> {
        let panels = kt::Panels::of(&self.shape)?;
        let input = kt::Panels::input(self.weight_type(*matrices.first()?), self.activations)?;
        let fit = |&t: &Tensor| {
            let weight = self.weight_type(t);
            kt::Panels::input(weight, input) == Some(input) && panels.bytes(weight, nk).is_some()
        };
        matrices.iter().all(fit).then_some(input)
    }

    /// One product with all that comes before and after it.
    pub(super) fn linear(&mut self, node: Node, t: Tensor, l: &LinearParts) {
        let graph = self.graph;
        let rows = self.rows(t);
        let norm = self.norm_into(l.x);
        let weight = self.weight_type(l.weight);
        let input = self.layer_input(l);
        let (n, k) = (graph.cols(t), graph.cols(l.x));
        // Few outputs want the kernel that decode uses.
        let many = match self.mode {
            Mode::Decode => false,
            Mode::Prefill => rows == Rows::Tokens,
            Mode::Logits => true,
        };
        let tokens = if many { PREFILL_TOKENS } else { 1 };
        let matrices = if l.up.is_some() { 2 } else { 1 };
        let panels = self.panels(l, tokens);
        let tiling = panels
            .map_or_else(|| kt::LinearCut::choose(&self.shape, [n, k], weight, tokens, matrices), kt::LinearCut::from);
        let matrix = |t| if panels.is_some() { Operand::Packed(t) } else { Operand::Weight(t) };
        let gated = l.up.map(|(up, activation)| kt::Gated { up: self.weight_type(up), activation });
        let request = |output| {
            Request::from(kt::Linear {
                input,
                gated: gated.clone(),
                norm: norm.map(|(_, _, eps)| Real(eps)),
                bias: l.bias.is_some(),
                scale: l.scale.map(Real),
                softcap: l.softcap.map(Real),
                residual: l.residual.is_some(),
                output,
                ..kt::Linear::new(n, k, weight, tiling)
            })
        };
        let x = match norm {
            Some((input, ..)) => vec![self.f32(input)],
            None => {
                let x = self.resolve(l.x);
                self.places[&(x, input)].clone()
            }
        };
        let residual = l.residual.map(|r| self.f32(r));
        // A program stores whole blocks, and all of them.
        let of_program = tiling.program_rows();
        let forms = forms(l.residual.is_none() && n.is_multiple_of(of_program) && of_program.is_multiple_of(CHUNK));
        self.produce(node, t, forms, request, &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X | Slot::XCodes => Some(Operand::Buf(x[0])),
            Slot::XScales => x.get(1).copied().map(Operand::Buf),
            Slot::NormWeight => norm.map(|(_, w, _)| Operand::Weight(w)),
            Slot::Weight(0) => Some(matrix(l.weight)),
            Slot::Weight(_) => l.up.map(|(up, _)| matrix(up)),
            Slot::Bias => l.bias.map(Operand::Weight),
            Slot::Residual => residual.map(Operand::Buf),
            _ => None,
        });
    }
}
