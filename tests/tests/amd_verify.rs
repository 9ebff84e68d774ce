//! The final bytes of every kernel that generation with a model takes, run in the emulator and held to the interpreter:
//! nothing is too far from what `f64` gives, and the checks find nothing. The models are the goldens and the two published
//! ones. Every chip takes the goldens of the first architectures; the others take turns, day by day (`hrx_tests::turns`).
//! With `HRX_ALL=1` each takes all that there are.

use gfx_emu::verify::{Verifier, cases, inputs};
use hrx::exec::model_kernels;
use hrx::models::ModelGraph;
use hrx_compiler::Target;
use hrx_compiler::target::amd;
use hrx_templates::{Request, Template};
use hrx_tests::golden::{Golden, real_model_path};
use hrx_tests::turns;
use std::collections::HashSet;
use std::path::PathBuf;

/// The chips. Each has other goldens on a day.
const CHIPS: [&str; 4] = ["gfx1100", "gfx1151", "gfx1201", "gfx942"];

/// The parts that goldens take turns in.
const TURNS: u64 = 12;

/// Files of the models that a chip takes.
fn models(chip: &str) -> Vec<PathBuf> {
    let golden = if turns::all() { Golden::locate() } else { Golden::compact() };
    let shift = CHIPS.iter().position(|c| *c == chip).unwrap_or(0) * 3;
    let goldens = golden.models().expect("goldens").into_iter().enumerate();
    let mut paths: Vec<PathBuf> =
        goldens.filter(|(i, m)| m.is_due(i + shift, TURNS)).map(|(_, m)| golden.path(&m)).collect();
    let real = golden.published_models().expect("real models");
    paths.extend(real.into_iter().map(|m| real_model_path(&m.model)));
    paths
}

/// Every kernel of the models for a chip, in all its cases.
fn verified(chip: &str) {
    let chip = amd::find(chip).expect("a chip");
    let mut seen: HashSet<Request> = HashSet::new();
    let (mut kernels, mut launches, mut faults) = (0, 0, Vec::new());
    for path in models(chip.name) {
        let graph = ModelGraph::open(&path).unwrap_or_else(|e| panic!("{e}")).graph;
        for k in model_kernels(&graph, &Target::Amd(chip)).expect("lowered") {
            if !seen.insert(k.request.clone()) {
                continue;
            }
            kernels += 1;
            let verifier = match Verifier::new(&k.kernel, chip, 1) {
                Ok(verifier) => verifier,
                Err(e) => {
                    faults.push(e);
                    continue;
                }
            };
            for case in cases(&k.request) {
                launches += 1;
                let place = |what: &dyn std::fmt::Display| format!("{}, {}: {what}", k.kernel.name, case.name);
                let inputs = inputs(&k.kernel, &k.request.slots(), &case, 1);
                match inputs.and_then(|inputs| verifier.verify(&inputs)) {
                    Ok(verdict) => {
                        faults.extend(verdict.reports.iter().map(|r| place(r)));
                        faults.extend(verdict.difference.iter().map(|d| place(d)));
                    }
                    Err(e) => faults.push(place(&e)),
                }
            }
        }
    }
    println!("{}: {kernels} kernels, {launches} launches, {} faults", chip.name, faults.len());
    assert!(kernels > 80 && launches > 2 * kernels - 20, "{kernels} kernels, {launches} launches");
    assert!(faults.is_empty(), "{}: {} faults\n{}", chip.name, faults.len(), faults.join("\n"));
}

#[test]
fn gfx1100() {
    verified("gfx1100");
}

#[test]
fn gfx1151() {
    verified("gfx1151");
}

#[test]
fn gfx1201() {
    verified("gfx1201");
}

#[test]
fn gfx942() {
    verified("gfx942");
}
