//! Mixtures of experts: routes, products with chosen experts' matrices, their weighed sum.

use super::{Buf, BufData, Lowerer, Mode, Operand, PREFILL_TOKENS, activation, forms};
use hrx_ir::graph::{Limit, Node, Op, Routing, Rows, Scoring, Tensor};
use hrx_ir::quant::CHUNK;
use hrx_templates as kt;
use hrx_templates::{Output, Real, RowCut, Slot};

/// A product with experts as its kernel sees it.
pub(super) struct ExpertParts {
    pub(super) x: Tensor,
    weight: Tensor,
    n_expert: u32,
    pub(super) routes: Option<Tensor>,
    scale: Option<Tensor>,
    bias: Option<Tensor>,
    up: Option<(Tensor, kt::Activation)>,
}

fn scoring(scoring: Scoring) -> kt::Scoring {
    match scoring {
        Scoring::Softmax => kt::Scoring::Softmax,
        Scoring::Sigmoid => kt::Scoring::Sigmoid,
        Scoring::SoftmaxOfChosen => kt::Scoring::SoftmaxOfChosen,
    }
}

/// Whether products can choose experts by this router's logits, of so many experts.
pub(super) fn chosen_by_products(routing: &Routing, biased: bool, experts: u32) -> bool {
    !biased && routing.groups == [1, 1] && experts <= kt::Routing::MOST
}

fn product(op: &Op) -> Option<ExpertParts> {
    match *op {
        Op::ExpertLinear { x, weight, n_expert, routes, scale, bias } => {
            Some(ExpertParts { x, weight, n_expert, routes, scale, bias, up: None })
        }
        _ => None,
    }
}

impl Lowerer<'_> {
    /// The product that a root is about, if it is about one.
    pub(super) fn expert_parts(&self, node: Node) -> Option<ExpertParts> {
        match *self.graph.op(node) {
            Op::Glu { gate, up, act, limit: Limit::Off } => {
                let (gate, up) = (product(self.part_op(gate)?)?, product(self.part_op(up)?)?);
                Some(ExpertParts { up: Some((up.weight, activation(act))), ..gate })
            }
            _ => product(self.graph.op(node)),
        }
    }

    /// Whether products with experts' matrices can norm the row that a token's experts share.
    pub(super) fn experts_norm(&self, x: Tensor, weight: Tensor) -> bool {
        let k = self.graph.cols(weight);
        let shared = self.graph.cols(x) == k;
        shared && kt::RowsTiling::makes_numbers(&self.shape, self.weight_type(weight), k)
    }

    /// The logits by which products choose their token's experts, and how, where the router is a part of them.
    pub(super) fn routing(&self, routes: Tensor) -> Option<(Tensor, kt::Routing)> {
        let Some(&Op::Route { logits, routing, .. }) = self.part_op(routes) else { return None };
        let scoring = scoring(routing.scoring);
        Some((logits, kt::Routing { scoring, normalize: routing.normalize, scale: Real(routing.scale) }))
    }

    /// Products with the matrices of chosen experts.
    pub(super) fn expert_linear(&mut self, node: Node, t: Tensor, p: &ExpertParts) {
        let graph = self.graph;
        let rows = self.rows(t);
        let (k, used) = (graph.cols(p.weight), p.routes.map_or(p.n_expert, |r| graph.cols(r) / 2));
        let n = graph.cols(t) / used;
        let weight = self.weight_type(p.weight);
        let matrices = if p.up.is_some() { 2 } else { 1 };
        // With one token, or few outputs, there is nothing to group.
        let many = match self.mode {
            Mode::Decode => false,
            Mode::Prefill => rows == Rows::Tokens,
            Mode::Logits => true,
        };
        let panels = self.expert_panels(p, if many { PREFILL_TOKENS } else { 1 });
        let grouped = p.routes.filter(|_| many).and_then(|routes| {
            let cut = match panels {
                Some((panels, _)) => panels.into(),
                None => kt::LinearCut::grouped(&self.shape, [n, k], weight, matrices, [p.n_expert, used])?,
            };
            Some((cut, self.expert_rows(node, routes, p.n_expert)))
        });
        let norm = self.norm_into(p.x);
        // The first product chooses; those that read its result find what it has chosen.
        let routing = p.routes.filter(|_| p.up.is_some()).and_then(|routes| self.routing(routes));
        let experts = kt::Experts {
            grouped: grouped.is_some(),
            count: p.n_expert,
            used,
            routed: p.routes.is_some(),
            // With one expert there is no difference.
            own: graph.cols(p.x) != k,
            scale: p.scale.is_some(),
            summed: false,
            routing: routing.map(|r| r.1),
        };
        let single = || match self.expert_panels(p, 1) {
            Some((panels, _)) => panels.into(),
            None => kt::LinearCut::of_experts(&self.shape, [n, k], weight, matrices, used),
        };
        let tiling = grouped.map_or_else(single, |(cut, _)| cut);
        let input = self.expert_input(p);
        let packed = panels.is_some();
        let matrix = |t| if packed { Operand::Packed(t) } else { Operand::Weight(t) };
        let gated = p.up.map(|(up, activation)| kt::Gated { up: self.weight_type(up), activation });
        let request = |output| kt::Linear {
            input,
            output,
            gated: gated.clone(),
            norm: norm.map(|(_, _, eps)| Real(eps)),
            experts: Some(experts),
            bias: p.bias.is_some(),
            ..kt::Linear::new(n, k, weight, tiling)
        };
        let x = match norm {
            Some((input, ..)) => vec![self.f32(input)],
            None => self.places[&(self.resolve(p.x), input)].clone(),
        };
        let routes = p.routes.map(|routes| match routing {
            Some((logits, _)) => [self.f32(logits), self.make(routes, Output::F32)[0]],
            None => [self.f32(routes); 2],
        });
        let (weight, up, scale, bias) = (p.weight, p.up.map(|u| u.0), p.scale, p.bias);
        // A program stores whole blocks of an expert's outputs.
        let of_program = tiling.program_rows();
        let forms = forms(packed && n.is_multiple_of(of_program) && of_program.is_multiple_of(CHUNK));
        self.produce(node, t, forms, |output| request(output).into(), &|s| match s {
            Slot::NTokens => Some(Operand::RowsTimes(rows, used)),
            Slot::NRows => Some(Operand::RowCount(rows)),
            Slot::X | Slot::XCodes => Some(Operand::Buf(x[0])),
            Slot::XScales => x.get(1).copied().map(Operand::Buf),
            Slot::NormWeight => norm.map(|(_, w, _)| Operand::Weight(w)),
            Slot::Routes | Slot::Logits => routes.map(|r| Operand::Buf(r[0])),
            Slot::Choice => routes.map(|r| Operand::Buf(r[1])),
            Slot::ExpertRows => grouped.map(|(_, [rows, _])| Operand::Buf(rows)),
            Slot::Counts => grouped.map(|(_, [_, counts])| Operand::Buf(counts)),
            Slot::ExpertScale => scale.map(Operand::Weight),
            Slot::Weight(0) => Some(matrix(weight)),
            Slot::Weight(_) => up.map(matrix),
            Slot::Bias => bias.map(Operand::Weight),
            _ => None,
        });
    }

    /// Rows and columns of one expert's matrix.
    fn expert_shape(&self, p: &ExpertParts) -> Option<[u32; 2]> {
        let Rows::Const(rows) = self.graph.shape(p.weight).rows else { return None };
        Some([rows / p.n_expert, self.graph.cols(p.weight)])
    }

    /// The cut for packed matrices of experts and the form of their activations, where the target's vectors have them and these can be packed.
    fn expert_panels(&self, p: &ExpertParts, tokens: u32) -> Option<(kt::PanelTiling, Output)> {
        let [n, k] = self.expert_shape(p)?;
        let matrices: Vec<Tensor> = [Some(p.weight), p.up.map(|(up, _)| up)].into_iter().flatten().collect();
        let input = self.packed_input(&matrices, [n.checked_mul(p.n_expert)?, k])?;
        let whole = n.is_multiple_of(kt::Panels::ROWS);
        let cut =
            whole.then(|| kt::PanelTiling::choose(&self.shape, [n, k], input, tokens, matrices.len() as u32))??;
        Some((cut, input))
    }

    /// The form in which a product with experts reads its rows.
    pub(super) fn expert_input(&self, p: &ExpertParts) -> Output {
        self.expert_panels(p, 1).map_or(Output::F32, |(_, input)| input)
    }

    /// For each expert the rows that go to it, and their counts: made once for all products of the same routes.
    fn expert_rows(&mut self, node: Node, routes: Tensor, experts: u32) -> [Buf; 2] {
        if let Some(&made) = self.expert_rows.get(&(routes, experts)) {
            return made;
        }
        let (rows, used) = (self.rows(routes), self.graph.cols(routes) / 2);
        let from = self.f32(routes);
        let list = self.bufs.push(BufData { rows, row_bytes: 4 * experts });
        let counts = self.bufs.push(BufData { rows: Rows::Const(1), row_bytes: 4 * experts });
        self.step(node, kt::ExpertRows { experts, used }.into(), &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::Routes => Some(Operand::Buf(from)),
            Slot::Out => Some(Operand::Buf(list)),
            Slot::Counts => Some(Operand::Buf(counts)),
            _ => None,
        });
        self.expert_rows.insert((routes, experts), [list, counts]);
        [list, counts]
    }

    /// A router.
    pub(super) fn route(&mut self, node: Node, t: Tensor) {
        let Op::Route { logits, bias, routing } = *self.graph.op(node) else { return };
        let (rows, experts) = (self.rows(t), self.graph.cols(logits));
        let request = kt::Route {
            experts,
            used: routing.n_used,
            scoring: scoring(routing.scoring),
            bias: bias.is_some(),
            normalize: routing.normalize,
            scale: Real(routing.scale),
            groups: routing.groups,
            cut: kt::Route::cut(experts),
        };
        let x = self.f32(logits);
        self.produce(node, t, &[Output::F32], |_| request.clone().into(), &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X => Some(Operand::Buf(x)),
            Slot::Bias => bias.map(Operand::Weight),
            _ => None,
        });
    }

    /// Products with experts whose results are weighed and summed, with a residual added where one is given.
    fn summed_experts(&mut self, node: Node, t: Tensor, p: &ExpertParts, routes: Tensor, residual: Option<Tensor>) {
        let graph = self.graph;
        let rows = self.rows(t);
        let (n, k, used) = (graph.cols(t), graph.cols(p.weight), graph.cols(routes) / 2);
        let weight = self.weight_type(p.weight);
        let experts = kt::Experts { own: true, summed: true, ..kt::Experts::routed(p.n_expert, used) };
        let request = kt::Linear {
            input: Output::F32,
            experts: Some(experts),
            residual: residual.is_some(),
            ..kt::Linear::new(n, k, weight, kt::LinearCut::of_sum(&self.shape, [n, k], weight))
        };
        let (x, routes, residual) = (self.f32(p.x), self.f32(routes), residual.map(|r| self.f32(r)));
        let matrix = p.weight;
        self.produce(node, t, &[Output::F32], |_| request.clone().into(), &|s| match s {
            Slot::NTokens => Some(Operand::RowsTimes(rows, used)),
            Slot::NRows => Some(Operand::RowCount(rows)),
            Slot::X => Some(Operand::Buf(x)),
            Slot::Routes => Some(Operand::Buf(routes)),
            Slot::Weight(0) => Some(Operand::Weight(matrix)),
            Slot::Residual => residual.map(Operand::Buf),
            _ => None,
        });
    }

    /// The weighed sum of experts' results, with a residual added where one is given.
    pub(super) fn expert_sum(&mut self, node: Node, t: Tensor, [x, routes]: [Tensor; 2], residual: Option<Tensor>) {
        if let Some(products) = self.part_op(x).and_then(product) {
            return self.summed_experts(node, t, &products, routes, residual);
        }
        let (rows, k) = (self.rows(t), self.graph.cols(t));
        let used = self.graph.cols(routes) / 2;
        let cut = RowCut::choose(&self.shape, k);
        let request = kt::ExpertSum { k, used, residual: residual.is_some(), cut };
        let (x, routes, residual) = (self.f32(x), self.f32(routes), residual.map(|r| self.f32(r)));
        self.produce(node, t, &[Output::F32], |_| request.clone().into(), &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X => Some(Operand::Buf(x)),
            Slot::Routes => Some(Operand::Buf(routes)),
            Slot::Residual => residual.map(Operand::Buf),
            _ => None,
        });
    }
}
