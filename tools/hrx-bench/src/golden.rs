//! How far the logits of small models are from reference logits, on any device: the tests' judgement, as a program.

use crate::Failure;
use crate::args::cache;
use clap::ValueEnum;
use hrx::exec::Activations;
use hrx::{Model, ModelOptions};
use hrx_golden::golden::Golden;
use hrx_golden::logits::Comparison;
use hrx_golden::{Feeding, anchors, feeding, golden, together};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Holds the logits of all models of a folder of reference data to it.
///
/// The prompt is one prefill, then tokens come one at a time. NMSE is each row's mean square error over the reference's
/// mean square. The median over the rows may be 1.25 times that of llama.cpp's own run, and 1e-6 for weights of F32 and
/// F16; a best token may be another one only where the reference decides by little. Ends with 1 if a model fails.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder with models/index.json
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Where to run: cpu, cuda, cuda:N, hip, hip:N, emu:CHIP, or auto: an NVIDIA GPU if there is one, else the CPU
    #[arg(long, value_name = "DEVICE", default_value = hrx::device::AUTO)]
    device: String,

    /// Only models whose names have one of these in them
    #[arg(long, value_name = "TEXT,...", value_delimiter = ',')]
    only: Vec<String>,

    /// How products with quantised weights read activations: f32 keeps 15 bits or more of them, q8 8 bits
    #[arg(long, value_name = "f32|q8", default_value = "f32")]
    activations: Activations,

    /// Instead of comparing with reference logits, generate from eight prompts, each alone and then so many of them at a
    /// time, and hold the logits to those alone, to the bit; models that keep states other than a KV cache are left out
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=8))]
    sequences: Vec<u32>,

    /// Threads of the CPU; 0 for one a core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    threads: usize,

    /// The form of the report on standard output
    #[arg(short, long, value_enum, default_value_t = Form::Md)]
    output: Form,

    /// Where compiled kernels are kept [default: $HRX_CACHE_DIR, else $XDG_CACHE_HOME/hrx, else ~/.cache/hrx]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,

    /// Compile all kernels, and keep none
    #[arg(long, conflicts_with = "cache_dir")]
    no_cache: bool,
}

impl Args {
    fn model_options(&self) -> ModelOptions {
        ModelOptions {
            device: self.device.clone(),
            threads: self.threads,
            cache: cache(self.cache_dir.as_ref(), self.no_cache),
            ..ModelOptions::default()
        }
    }
}

/// The forms of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A Markdown table.
    Md,
    /// An object a line.
    Jsonl,
}

/// What came of one model.
#[derive(Debug, Serialize)]
struct Row {
    /// Its name.
    model: String,
    /// The device.
    device: String,
    /// The median over the rows' NMSE; none if the model did not run.
    median_nmse: Option<f64>,
    /// The worst row's.
    max_nmse: Option<f64>,
    /// The median of llama.cpp's own run.
    reference_nmse: f64,
    /// What the median may be.
    bound: f64,
    /// Rows whose best token is another one.
    best_differs: Option<usize>,
    /// Rows of logits.
    rows: usize,
    /// Time of opening, compiling and running, in milliseconds.
    ms: f64,
    /// What is wrong; nothing if it passes.
    failures: Vec<String>,
}

const HEADER: &str = "\
| model                          | median NMSE | llama.cpp |    bound | ratio | worst row | best differs |       ms |      |
| ------------------------------ | ----------: | --------: | -------: | ----: | --------: | -----------: | -------: | ---- |
";

/// Runs all models and reports.
pub fn run(args: &Args, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let set = Golden::at(&args.dir);
    let wanted = |m: &golden::Model| args.only.is_empty() || args.only.iter().any(|text| m.name().contains(text));
    let models: Vec<golden::Model> = set.models()?.into_iter().filter(|m| m.is_readable() && wanted(m)).collect();
    if models.is_empty() {
        return Err(Failure::NoGolden(args.only.join(" or ")));
    }
    if !args.sequences.is_empty() {
        return together(args, &set, &models, out);
    }
    if args.output == Form::Md {
        out.write_all(HEADER.as_bytes())?;
    }
    let mut failed = 0;
    for model in &models {
        let row = judge(args, &set, model)?;
        failed += usize::from(!row.failures.is_empty());
        match args.output {
            Form::Jsonl => {
                let line = serde_json::to_string(&row).map_err(std::io::Error::from)?;
                writeln!(out, "{line}")?;
            }
            Form::Md => write_row(&row, out)?,
        }
        out.flush()?;
    }
    if args.output == Form::Md {
        writeln!(out, "\n{} models, {} failed; device {}", models.len(), failed, args.device)?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What came of the sequences of one model.
#[derive(Debug, Serialize)]
struct Together {
    /// Its name.
    model: String,
    /// How many sequences were evaluated together.
    sequences: Vec<u32>,
    /// Rows of logits that are not those of the sequence alone, or why the model did not run.
    failures: Vec<String>,
}

/// Holds the sequences of all models to what each gets alone.
fn together(args: &Args, set: &Golden, models: &[golden::Model], out: &mut impl Write) -> Result<ExitCode, Failure> {
    let groups: Vec<usize> = args.sequences.iter().map(|&n| n as usize).collect();
    let (mut held, mut failed) = (0, 0);
    for model in models {
        let opened = Model::open(set.path(model), &args.model_options());
        if opened.as_ref().is_ok_and(|m| m.graph().is_recurrent()) {
            continue;
        }
        let failures = match opened.and_then(|m| together::differences(&m, &groups, args.activations)) {
            Ok(found) => found.iter().map(|d| d.to_string()).collect(),
            Err(e) => vec![e.to_string().replace('\n', "; ")],
        };
        held += 1;
        failed += usize::from(!failures.is_empty());
        let row = Together { model: model.name().into(), sequences: args.sequences.clone(), failures };
        match args.output {
            Form::Jsonl => writeln!(out, "{}", serde_json::to_string(&row).map_err(std::io::Error::from)?)?,
            Form::Md => {
                writeln!(out, "| {:30} | {:4} |", row.model, if row.failures.is_empty() { "ok" } else { "FAIL" })?;
                row.failures.iter().try_for_each(|failure| writeln!(out, "|   {failure}"))?;
            }
        }
        out.flush()?;
    }
    if args.output == Form::Md {
        let groups: Vec<String> = args.sequences.iter().map(u32::to_string).collect();
        let groups = groups.join(", ");
        writeln!(out, "\n{held} models, {groups} sequences at a time, {failed} failed; device {}", args.device)?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_row(row: &Row, out: &mut impl Write) -> std::io::Result<()> {
    let number = |n: Option<f64>| n.map_or("-".into(), |n| format!("{n:.2e}"));
    let ratio = row.median_nmse.map_or("-".into(), |n| format!("{:.2}", n / row.reference_nmse));
    let differs = row.best_differs.map_or("-".into(), |n| n.to_string());
    let verdict = if row.failures.is_empty() { "ok" } else { "FAIL" };
    writeln!(
        out,
        "| {:30} | {:>11} | {:>9} | {:>8} | {ratio:>5} | {:>9} | {differs:>12} | {:>8.0} | {verdict:4} |",
        row.model,
        number(row.median_nmse),
        number(Some(row.reference_nmse)),
        number(Some(row.bound)),
        number(row.max_nmse),
        row.ms,
    )?;
    row.failures.iter().try_for_each(|failure| writeln!(out, "|   {failure}"))
}

/// Runs one model. That it can't be run is what is wrong with it, and not the end of all.
fn judge(args: &Args, set: &Golden, model: &golden::Model) -> Result<Row, Failure> {
    let reference = set.logits(model)?;
    let start = Instant::now();
    let options = args.model_options();
    let mut device = args.device.clone();
    let ran = Model::open(set.path(model), &options).and_then(|opened| {
        device = opened.kernels().device().info().name;
        let feeding = Feeding::prompt(model.n_prompt, args.activations);
        feeding::logits(&opened, model.n_ctx as u32, &model.all_tokens(), &feeding)
    });
    // Other devices multiply batches by matrix instructions.
    let bound = if device == "cpu" { model.nmse_bound() } else { model.nmse_bound_of_f16() };
    let mut row = Row {
        model: model.name().into(),
        device,
        median_nmse: None,
        max_nmse: None,
        reference_nmse: model.anchor.default.nmse_pos_median,
        bound,
        best_differs: None,
        rows: reference.rows,
        ms: 0.0,
        failures: Vec::new(),
    };
    match ran {
        Ok(logits) => {
            let found = Comparison::of(&logits, &reference);
            row.failures = anchors::failures(model.name(), model, bound, &reference, &found);
            (row.median_nmse, row.max_nmse) = (Some(found.median()), Some(found.max()));
            row.best_differs = Some(found.top1_differs.len());
        }
        Err(e) => row.failures.push(format!("{}: {}", model.name(), e.to_string().replace('\n', "; "))),
    }
    row.ms = start.elapsed().as_secs_f64() * 1e3;
    Ok(row)
}
