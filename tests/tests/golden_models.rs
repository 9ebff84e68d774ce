//! Whole models through the executor, against reference logits: every golden of the architectures and types that run.
//!
//! `HRX_UPDATE=1` writes the measured distances to docs/measured/goldens.md.

use hrx::Model;
use hrx::exec::Activations;
use hrx::gguf::Gguf;
use hrx::npy::Matrix;
use hrx_tests::anchors;
use hrx_tests::golden::{self, Golden};
use hrx_tests::logits::Comparison;
use hrx_tests::models::{Feeding, logits, options, widened, with_experts_apart};
use std::fmt::Write;

/// A model to compare, and what it is called.
struct Case<'a> {
    name: String,
    golden: &'a golden::Model,
    model: Model,
}

/// Every golden that runs, and one with its F16 weights as F32, which no golden has.
fn cases<'a>(golden: &Golden, models: &'a [golden::Model], threads: usize) -> Vec<Case<'a>> {
    let mut out = Vec::new();
    for m in models.iter().filter(|m| m.is_readable()) {
        let name = m.file.trim_end_matches(".gguf").to_owned();
        let gguf = Gguf::open(&golden.path(m)).unwrap_or_else(|e| panic!("{e}"));
        if name == "llama-linear-F16" {
            let wide = Gguf::from_bytes(widened(&gguf).expect("a file")).expect("a valid file");
            let model = Model::from_gguf(wide, &options(threads)).unwrap_or_else(|e| panic!("{e}"));
            out.push(Case { name: "llama-linear-F32".into(), golden: m, model });
        }
        let model = Model::from_gguf(gguf, &options(threads)).unwrap_or_else(|e| panic!("{name}: {e}"));
        out.push(Case { name, golden: m, model });
    }
    out
}

fn run(case: &Case, feeding: &Feeding) -> Matrix {
    let m = case.golden;
    logits(&case.model, m.n_ctx as u32, &m.all_tokens(), feeding).unwrap_or_else(|e| panic!("{}: {e}", case.name))
}

/// The forms of activations, each with what it is called in the documentation.
const FORMS: [(Activations, &str); 2] =
    [(Activations::F32, "f32 activations (the default)"), (Activations::Q8, "8-bit activations (`--activations q8`)")];

#[test]
fn every_golden_is_as_close_as_its_anchor() {
    let mut text = String::new();
    for (activations, title) in FORMS {
        let table = hold_to_anchors(activations);
        writeln!(text, "## With {title}\n\n{table}").unwrap();
    }
    println!("{text}");
    if std::env::var_os("HRX_UPDATE").is_some_and(|v| v == "1") {
        write_measured(text.trim_end());
    }
}

/// A table of all goldens. Panics where one is further off than it may be.
fn hold_to_anchors(activations: Activations) -> String {
    let golden = Golden::locate();
    let models = golden.models().unwrap();
    let mut table = String::from(
        "| model | median NMSE | llama.cpp | ratio | worst row | llama.cpp | best token differs | llama.cpp |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut failures = Vec::new();
    let cases = cases(&golden, &models, 0);
    for case in &cases {
        let m = case.golden;
        let found = Comparison::of(&run(case, &Feeding::prompt(m.n_prompt, activations)), &golden.logits(m).unwrap());
        let anchor = &m.anchor.default;
        let ratio = found.median() / anchor.nmse_pos_median;
        writeln!(
            table,
            "| {} | {:.2e} | {:.2e} | {ratio:.2} | {:.2e} | {:.2e} | {} | {} |",
            case.name,
            found.median(),
            anchor.nmse_pos_median,
            found.max(),
            anchor.nmse_pos_max,
            found.top1_differs.len(),
            anchor.top1_disagree
        )
        .unwrap();
        failures.extend(anchors::failures(&case.name, m, m.nmse_bound(), &golden.logits(m).unwrap(), &found));
    }
    assert!(failures.is_empty(), "{}\n{table}", failures.join("\n"));
    table
}

fn write_measured(tables: &str) {
    let target = hrx_compiler::Target::host().expect("a host").name();
    let text = format!(
        "# Golden models against the float32 reference\n\n\
         On `{target}`: the prompt in one prefill, then 16 tokens (of the own models, which tests/golden/README.md tells, 8) one at a time. NMSE is each row's mean \
         square error over the reference's mean square; llama.cpp's figures are those of the reference data \
         (`anchor.default`). The bound is 1.25 times llama.cpp's median, and 1e-6 for F32 and F16 weights.\n\n\
         To repeat: `HRX_UPDATE=1 cargo test -p hrx-tests --test golden_models every_golden`.\n\n{tables}\n"
    );
    let path = golden::repository().join("docs/measured/goldens.md");
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("docs/measured");
    std::fs::write(&path, text).expect("docs/measured/goldens.md");
}

/// The first place where two runs differ in any bit.
fn first_difference(a: &Matrix, b: &Matrix) -> Option<String> {
    assert_eq!((a.rows, a.cols), (b.rows, b.cols));
    let at = a.data.iter().zip(&b.data).position(|(x, y)| x.to_bits() != y.to_bits())?;
    Some(format!("row {}, column {}: {} and {}", at / a.cols, at % a.cols, a.data[at], b.data[at]))
}

/// Results do not depend on how a sequence is cut into steps. Most goldens take turns, day by day (`hrx_tests::turns`).
#[test]
fn batches_change_no_bit() {
    let golden = Golden::locate();
    let models = golden.models().unwrap();
    let due = models.into_iter().enumerate().filter(|(i, m)| m.is_due(*i, 10));
    let models: Vec<golden::Model> = due.map(|(_, m)| m).collect();
    let cases = cases(&golden, &models, 0);
    for (case, (activations, _)) in cases.iter().flat_map(|c| FORMS.map(|f| (c, f))) {
        let n = case.golden.n_prompt;
        let one = run(case, &Feeding::prompt(n, activations));
        let variants = [
            (1, vec![n]),
            (7, vec![n]),
            (32, vec![n]),
            (512, vec![1, 3, 16, 2, n]),
            (512, vec![]),
            (512, vec![n + case.golden.n_decode]),
        ];
        for feeding in variants.map(|(n_batch, calls)| Feeding { n_batch, calls, activations }) {
            let difference = first_difference(&one, &run(case, &feeding));
            assert_eq!(difference, None, "{}: {feeding:?}", case.name);
        }
    }
}

/// Results depend neither on the number of threads nor on the run.
#[test]
fn threads_change_no_bit() {
    let golden = Golden::locate();
    let models = golden.models().unwrap();
    let wanted = |m: &&golden::Model| ["qwen2-Q4_K_M.gguf", "gemma3-Q4_0.gguf"].contains(&m.file.as_str());
    let some: Vec<golden::Model> = models.iter().filter(wanted).cloned().collect();
    assert_eq!(some.len(), 2);
    let mut first: Vec<Option<Matrix>> = some.iter().map(|_| None).collect();
    for threads in [1, 2, 4] {
        let cases = cases(&golden, &some, threads);
        for run_number in 0..16 {
            for (case, first) in cases.iter().zip(&mut first) {
                let now = run(case, &Feeding::prompt(case.golden.n_prompt, Activations::default()));
                let first = first.get_or_insert_with(|| now.clone());
                assert_eq!(first_difference(first, &now), None, "{}, {threads} threads, run {run_number}", case.name);
            }
        }
    }
}

/// Files with a tensor for each expert, which Mixtral's first ones are, give what those with stacks give.
#[test]
fn experts_apart_change_no_bit() {
    let golden = Golden::compact();
    let models = golden.models().unwrap();
    let wanted = |m: &&golden::Model| ["olmoe-F16.gguf", "qwen3moe-Q5_0.gguf"].contains(&m.file.as_str());
    let some: Vec<golden::Model> = models.iter().filter(wanted).cloned().collect();
    assert_eq!(some.len(), 2);
    for case in cases(&golden, &some, 0) {
        let gguf = Gguf::open(&golden.path(case.golden)).unwrap();
        let gguf = Gguf::from_bytes(with_experts_apart(&gguf).expect("a file")).expect("a valid file");
        assert!(gguf.tensor("blk.0.ffn_up_exps.weight").is_none() && gguf.tensor("blk.0.ffn_up.7.weight").is_some());
        let model = Model::from_gguf(gguf, &options(0)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let apart = Case { name: case.name.clone(), golden: case.golden, model };
        for (activations, _) in FORMS {
            let feeding = Feeding::prompt(case.golden.n_prompt, activations);
            assert_eq!(first_difference(&run(&case, &feeding), &run(&apart, &feeding)), None, "{}", case.name);
        }
    }
}
