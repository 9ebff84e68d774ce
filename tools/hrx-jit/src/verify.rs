//! `hrx-jit verify`: the final bytes of kernels, run in the emulator and held to the interpreter.

use crate::Outcome;
use crate::input::is_gguf;
use crate::output::pick;
use gfx_emu::verify::{Case, Verdict, Verifier, cases, inputs};
use hrx::compiler::Target;
use hrx::compiler::target::Chip;
use hrx::compiler::target::amd::{self, CHIPS};
use hrx::exec::model_kernels;
use hrx::ir::tile::{Kernel, parse_module, verify};
use hrx::models::ModelGraph;
use hrx::templates::{Slot, Template};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One of each kind of code that is generated: the default.
const TYPICAL: &str = "gfx1100,gfx1151,gfx1201,gfx942";

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file, or a file with kernels in tile IR
    file: PathBuf,
    /// Only this kernel: its name, or a part that no other name has
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// The GPUs: `all`, or names as LLVM has them
    #[arg(long, value_name = "all|NAME,...", default_value = TYPICAL, value_parser = chips_parser)]
    target: Chips,
    /// Where inputs and the order of waves come from
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
struct Chips(Vec<&'static Chip>);

fn chips_parser(names: &str) -> Result<Chips, String> {
    if names == "all" {
        return Ok(Chips(CHIPS.iter().collect()));
    }
    let find = |name: &str| amd::find(name).ok_or_else(|| format!("{name:?} is no GPU; see `hrx-jit targets`"));
    names.split(',').map(find).collect::<Result<_, _>>().map(Chips)
}

/// A kernel with the launches that it is tried with.
struct Subject {
    kernel: Kernel,
    slots: Vec<Slot>,
    cases: Vec<Case>,
}

/// Verifies each kernel for each GPU. Exit code 1 says that something is wrong.
pub fn run(args: &Args) -> Outcome {
    let mut rows = Vec::new();
    let mut wrong = 0_usize;
    let mut out = std::io::stdout().lock();
    for &chip in &args.target.0 {
        for subject in subjects(args, chip)? {
            let row = Row::of(&subject, chip, args.seed);
            wrong += usize::from(!row.faults.is_empty());
            if !args.json {
                writeln!(out, "{}", row.text())?;
            }
            rows.push(row);
        }
    }
    if args.json {
        let all = json!({
            "file": args.file, "seed": args.seed, "wrong": wrong, "kernels": rows.iter().map(Row::json).collect::<Vec<_>>()
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    } else {
        let chips = args.target.0.len();
        writeln!(out, "{} kernels for {chips} GPUs: {wrong} wrong; emulated, not run on a GPU", rows.len())?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The kernels to verify for a chip.
fn subjects(args: &Args, chip: &'static Chip) -> Result<Vec<Subject>, Box<dyn std::error::Error>> {
    let all = if is_gguf(&args.file)? {
        let graph = ModelGraph::open(&args.file)?.graph;
        let of_model = model_kernels(&graph, &Target::Amd(chip))?.into_iter();
        of_model
            .map(|k| Subject { cases: cases(&k.request), slots: k.request.slots(), kernel: k.kernel })
            .collect::<Vec<_>>()
    } else {
        from_text(&args.file)?
    };
    let Some(wanted) = &args.kernel else { return Ok(all) };
    let names: Vec<&str> = all.iter().map(|s| s.kernel.name.as_str()).collect();
    let at = pick(&names, wanted, &args.file.display().to_string())?;
    Ok(all.into_iter().nth(at).into_iter().collect())
}

/// Kernels of a text: every integer is taken for a number of rows.
fn from_text(path: &Path) -> Result<Vec<Subject>, String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| format!("can't read {name}: {e}"))?;
    let kernels = parse_module(&text).map_err(|e| format!("{name}: {e}"))?;
    if kernels.is_empty() {
        return Err(format!("{name}: there is no kernel in it"));
    }
    let subject = |kernel: Kernel| {
        verify(&kernel).map_err(|e| format!("{name}: {e}"))?;
        let sizes = [("1 row", 1), ("5 rows", 5), ("67 rows", 67)];
        let cases =
            sizes.map(|(name, tokens)| Case { name, tokens, rows: tokens + 2, position: 0, n_ctx: 64 }).to_vec();
        let slots = kernel.params.iter().map(|_| Slot::NTokens).collect();
        Ok(Subject { kernel, slots, cases })
    };
    kernels.into_iter().map(subject).collect()
}

/// What came of a kernel.
struct Row {
    kernel: String,
    chip: &'static str,
    cases: usize,
    /// Wave instructions of all cases.
    instructions: u64,
    /// The largest error, relative to the largest element of its buffer.
    worst: f64,
    /// What is wrong, a line each.
    faults: Vec<String>,
}

impl Row {
    fn of(subject: &Subject, chip: &'static Chip, seed: u64) -> Row {
        let kernel = &subject.kernel;
        let mut row = Row {
            kernel: kernel.name.clone(),
            chip: chip.name,
            cases: 0,
            instructions: 0,
            worst: 0.0,
            faults: Vec::new(),
        };
        let verifier = match Verifier::new(kernel, chip, seed) {
            Ok(verifier) => verifier,
            Err(e) => {
                row.faults.push(e);
                return row;
            }
        };
        for case in &subject.cases {
            let verdict = inputs(kernel, &subject.slots, case, seed).and_then(|inputs| verifier.verify(&inputs));
            match verdict {
                Ok(verdict) => row.add(case, &verdict),
                Err(e) => row.faults.push(format!("{}: {e}", case.name)),
            }
        }
        row
    }

    fn add(&mut self, case: &Case, verdict: &Verdict) {
        self.cases += 1;
        self.instructions += verdict.counters.total();
        self.worst = self.worst.max(verdict.worst.map_or(0.0, |w| w.error));
        self.faults.extend(verdict.reports.iter().map(|r| format!("{}: {r}", case.name)));
        self.faults.extend(verdict.difference.iter().map(|d| format!("{}: {d}", case.name)));
    }

    fn text(&self) -> String {
        let verdict = if self.faults.is_empty() { "ok" } else { "WRONG" };
        let mut text = format!(
            "{:9} {verdict:5} {} cases, {:>9} wave instructions, error {:.1e}  {}",
            self.chip, self.cases, self.instructions, self.worst, self.kernel
        );
        self.faults.iter().for_each(|f| text += &format!("\n    {f}"));
        text
    }

    fn json(&self) -> Value {
        json!({
            "kernel": self.kernel, "target": self.chip, "cases": self.cases, "wave_instructions": self.instructions,
            "worst_error": self.worst, "faults": self.faults,
        })
    }
}
