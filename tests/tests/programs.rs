//! Lowered graphs, their stages and their memory, held against what these promise.

use hrx::exec::lower::{Buf, BufData};
use hrx::exec::plan::{Plan, plan};
use hrx::exec::rope::RopeTables;
use hrx::exec::schedule::{by_stage, stages};
use hrx::exec::{Activations, Lowered, Mode, Operand, Step, StepKind, lower};
use hrx::gguf::Gguf;
use hrx::models::ModelGraph;
use hrx_ir::graph::{HIDDEN, LOGITS, Node, Rows};
use hrx_templates::{ArgMax, TargetShape, Template};
use hrx_tests::golden::Golden;
use proptest::prelude::*;
use std::collections::HashMap;
use std::ops::Range;

const AVX2: TargetShape = TargetShape { lanes: 8, registers: 16, byte_dot: false, packs: true, waves: None };
const AVX512: TargetShape = TargetShape { lanes: 16, registers: 32, byte_dot: false, packs: true, waves: None };
const MODES: [Mode; 3] = [Mode::Decode, Mode::Prefill, Mode::Logits];

/// What of two operands is the same memory.
fn buf(operand: &Operand) -> Option<Buf> {
    if let Operand::Buf(b) = operand { Some(*b) } else { None }
}

/// Every read comes in a later stage than the write of what it reads, every buffer is written once, and steps of one
/// stage share nothing that one of them writes.
fn check_stages(lowered: &Lowered, stages: &[usize]) {
    assert_eq!(stages.len(), lowered.steps.len());
    let mut written: HashMap<Operand, Vec<usize>> = HashMap::new();
    for (step, &stage) in lowered.steps.iter().zip(stages) {
        step.writes.iter().for_each(|&o| written.entry(o).or_default().push(stage));
    }
    for (operand, at) in &written {
        // A cache is written by one step a program, as is a buffer.
        assert_eq!(at.len(), 1, "{operand:?} is written at stages {at:?}");
    }
    for (number, (step, &stage)) in lowered.steps.iter().zip(stages).enumerate() {
        for read in &step.reads {
            match written.get(read) {
                Some(at) => assert!(at[0] < stage, "step {number} of stage {stage} reads {read:?}, written at {at:?}"),
                None => assert!(buf(read).is_none(), "step {number} reads {read:?}, which nothing writes"),
            }
        }
    }
    let all: Vec<usize> = by_stage(stages).into_iter().flatten().collect();
    let mut sorted = all.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..stages.len()).collect::<Vec<_>>(), "each step is in one stage");
    assert!(lowered.steps.iter().any(|s| s.writes.contains(&Operand::Buf(lowered.output))), "the output is written");
}

/// Buffers that are in use at one stage lie apart, and all lie in the arena.
fn check_plan(lowered: &Lowered, stages: &[usize], plan: &Plan, [tokens, outputs]: [u32; 2]) {
    let bytes = |b: Buf| {
        let d: &BufData = &lowered.bufs[b];
        let rows = match d.rows {
            Rows::Tokens => tokens,
            Rows::Outputs => outputs,
            Rows::Const(n) => n,
            Rows::Cached => panic!("an activation of cached rows"),
        };
        u64::from(rows) * u64::from(d.row_bytes)
    };
    let last = stages.iter().max().map_or(0, |m| m + 1);
    for stage in 0..last {
        // In use: written at or before this stage, and read or written at or after it.
        let mut used: Vec<(Range<u64>, Buf)> = Vec::new();
        for b in lowered.bufs.keys() {
            let touches = |s: &Step| s.reads.iter().chain(&s.writes).any(|o| buf(o) == Some(b));
            let when: Vec<usize> =
                lowered.steps.iter().zip(stages).filter(|(s, _)| touches(s)).map(|(_, &at)| at).collect();
            let (Some(&from), Some(&to)) = (when.iter().min(), when.iter().max()) else { continue };
            if from <= stage && (stage <= to || b == lowered.output) {
                let at = plan.offsets[b];
                assert!(at + bytes(b) <= plan.bytes, "{b} ends at {}, the arena at {}", at + bytes(b), plan.bytes);
                used.push((at..at + bytes(b), b));
            }
        }
        used.sort_by_key(|(range, _)| range.start);
        for pair in used.windows(2) {
            assert!(pair[0].0.end <= pair[1].0.start, "stage {stage}: {pair:?} overlap");
        }
    }
    assert!(plan.bytes <= plan.unshared);
}

#[test]
fn every_golden_in_every_mode() {
    let golden = Golden::locate();
    let models = golden.models().unwrap();
    for (_, model) in models.iter().enumerate().filter(|(i, m)| m.is_due(*i, 3)) {
        let gguf = Gguf::open(&golden.path(model)).unwrap();
        let graph = ModelGraph::from_gguf(&gguf).unwrap().graph;
        for name in [LOGITS, HIDDEN] {
            let output = graph.output(name).unwrap();
            let forms = [Activations::F32, Activations::Q8];
            for (mode, shape, activations) in
                MODES.into_iter().flat_map(|m| forms.map(|f| (m, f))).flat_map(|(m, f)| [(m, AVX2, f), (m, AVX512, f)])
            {
                let lowered = lower(&graph, output, &shape, StepKind { mode, activations, sequences: false });
                let stages = stages(&lowered.steps);
                check_stages(&lowered, &stages);
                let sizes: &[[u32; 2]] =
                    if mode == Mode::Decode { &[[1, 1]] } else { &[[1, 1], [7, 3], [64, 64], [512, 1]] };
                for &[tokens, outputs] in sizes {
                    let plan = plan(&lowered, &stages, tokens, outputs);
                    check_plan(&lowered, &stages, &plan, [tokens, outputs]);
                    assert!(plan.bytes < plan.unshared, "{}: nothing is shared", model.file);
                }
            }
        }
    }
}

/// The kernels of a step, stage by stage. What a model runs is meant to be read here when it changes.
#[test]
fn kernels_of_a_golden() {
    let golden = Golden::compact();
    let models = golden.models().unwrap();
    let model = models.iter().find(|m| m.file == "gemma3-Q4_0.gguf").unwrap();
    let graph = ModelGraph::from_gguf(&Gguf::open(&golden.path(model)).unwrap()).unwrap().graph;
    for (mode, name) in [(Mode::Decode, "decode"), (Mode::Prefill, "prefill")] {
        let lowered = lower(
            &graph,
            graph.output(LOGITS).unwrap(),
            &AVX2,
            StepKind { mode, activations: Activations::Q8, sequences: false },
        );
        let stages = by_stage(&stages(&lowered.steps));
        let text: Vec<String> = stages
            .iter()
            .enumerate()
            .map(|(at, steps)| {
                let names: Vec<String> = steps.iter().map(|&i| lowered.steps[i].request.name()).collect();
                format!("{at:3}  {}", names.join("\n     "))
            })
            .collect();
        insta::assert_snapshot!(format!("gemma3_{name}"), text.join("\n"));
    }
}

/// A step that reads some of the buffers before it and writes one.
#[derive(Clone, Debug)]
struct Made {
    reads: Vec<usize>,
    rows: Rows,
    row_bytes: u32,
}

fn made() -> impl Strategy<Value = Made> {
    let rows = prop_oneof![Just(Rows::Tokens), Just(Rows::Outputs), (1..5u32).prop_map(Rows::Const)];
    (prop::collection::vec(0..64usize, 0..4), rows, 1..5000u32).prop_map(|(reads, rows, row_bytes)| Made {
        reads,
        rows,
        row_bytes,
    })
}

fn lowered(made: &[Made]) -> Lowered {
    let mut bufs = cranelift_entity::PrimaryMap::new();
    let mut steps = Vec::new();
    for (i, m) in made.iter().enumerate() {
        let written = Operand::Buf(bufs.push(BufData { rows: m.rows, row_bytes: m.row_bytes }));
        let buf_at = |at: &usize| Operand::Buf(bufs.keys().nth(at % i).expect("an earlier one"));
        let reads: Vec<Operand> = if i == 0 { Vec::new() } else { m.reads.iter().map(buf_at).collect() };
        steps.push(Step {
            request: ArgMax { k: 1, cut: hrx_templates::RowCut::VECTORS }.into(),
            operands: Vec::new(),
            reads,
            writes: vec![written],
            node: Node::from_u32(0),
        });
    }
    let output = bufs.keys().next_back().expect("a step");
    Lowered { steps, bufs, ropes: RopeTables::default(), output }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_are_planned_apart(made in prop::collection::vec(made(), 1..40), tokens in 1..70u32, outputs in 1..70u32) {
        let lowered = lowered(&made);
        let stages = stages(&lowered.steps);
        check_stages(&lowered, &stages);
        check_plan(&lowered, &stages, &plan(&lowered, &stages, tokens, outputs), [tokens, outputs]);
    }
}
