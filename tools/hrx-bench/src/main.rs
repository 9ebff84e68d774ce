//! hrx-bench: how fast prompts are read and texts are generated, in llama-bench's measures.
//!
//! * [`args`]: the command line. [`measure`]: one test. [`record`]: what is reported of it, with llama-bench's field
//!   names. [`report`]: records as a table, JSON or CSV. [`profile`]: time by kernel. [`limits`]: how fast the device copies and multiplies.
//! * [`against`]: another engine's bench command in turn with ours. [`compile`]: how long compiling takes. [`golden`]: how far logits are from reference logits.

mod against;
mod args;
mod compile;
mod golden;
mod limits;
mod measure;
mod profile;
mod record;
mod report;
mod stats;

use args::{Args, Verb, cache};
use clap::Parser;
use hrx::ModelOptions;
use hrx::templates::TemplateError;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Why nothing more is measured.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Hrx(#[from] hrx::Error),
    #[error("can't write to standard output: {0}")]
    Output(#[from] std::io::Error),
    #[error(transparent)]
    Golden(#[from] hrx_golden::golden::GoldenError),
    #[error(transparent)]
    Against(#[from] against::AgainstError),
    #[error("the trace can't be written to {}: {}", .0.display(), .1)]
    Trace(PathBuf, std::io::Error),
    #[error("no model there has {0} in its name")]
    NoGolden(String),
    #[error("can't make a temporary directory: {0}")]
    Temporary(std::io::Error),
}

impl From<TemplateError> for Failure {
    fn from(e: TemplateError) -> Failure {
        Failure::Hrx(e.into())
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(code) => code,
        // The reader has seen enough.
        Err(Failure::Output(e)) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            let text: Vec<String> = failure.to_string().lines().map(|l| l.trim().to_owned()).collect();
            // Where standard error fails there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: {}", text.join("; "));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    match &args.verb {
        Some(Verb::Compile(args)) => return compile::run(args, &mut out),
        Some(Verb::Golden(args)) => return golden::run(args, &mut out),
        None => {}
    }
    let mut report = report::start(args.output, &mut out)?;
    let mut trace = profile::Trace::default();
    for &threads in &args.threads {
        let options = ModelOptions {
            device: args.device.clone(),
            threads: threads as usize,
            cache: cache(args.cache_dir.as_ref(), args.no_cache),
            ..ModelOptions::default()
        };
        let model = args.open(&options)?;
        // How fast an emulator is says nothing.
        let emulated = args.device.starts_with("emu");
        let limits = if args.no_limits || emulated { None } else { Some(limits::measure(model.kernels())?) };
        for test in args.tests() {
            // Several sequences are no test of another engine's.
            let (samples, against) = match args.against.as_ref().filter(|_| test.n_seq == 1) {
                Some(peer) => {
                    let (samples, against) = against::run(&model, args, peer, &test, threads)?;
                    (samples, Some(against))
                }
                None => (measure::run(&model, &test, args.how())?, None),
            };
            let mut record = record::Record::new(&model, args, threads, &test, &samples, limits.as_ref());
            record.against = against;
            report.add(&record, &mut out)?;
            if let Some(steps) = &samples.steps {
                trace.add(&record.test(), steps);
            }
        }
    }
    report.finish(&mut out)?;
    if let Some(path) = &args.trace {
        trace.write(path).map_err(|e| Failure::Trace(path.clone(), e))?;
    }
    Ok(ExitCode::SUCCESS)
}
