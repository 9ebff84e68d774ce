//! hrx-bench: how fast prompts are read and texts are generated, in llama-bench's measures.
//!
//! * [`args`]: the command line. [`measure`]: one test. [`record`]: what is reported of it, with llama-bench's field
//!   names. [`report`]: records as a table, JSON or CSV.
//! * [`compile`]: how long compiling takes.

mod args;
mod compile;
mod measure;
mod record;
mod report;
mod stats;

use args::{Args, Verb};
use clap::Parser;
use hrx::templates::TemplateError;
use hrx::{CacheChoice, Model, ModelOptions};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Why nothing more is measured.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Hrx(#[from] hrx::Error),
    #[error("can't write to standard output: {0}")]
    Output(#[from] std::io::Error),
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
    if let Some(Verb::Compile(args)) = &args.verb {
        return compile::run(args, &mut out);
    }
    let mut report = report::start(args.output, &mut out)?;
    for &threads in &args.threads {
        let options = ModelOptions {
            device: args.device.clone(),
            threads: threads as usize,
            cache: match (&args.cache_dir, args.no_cache) {
                (_, true) => CacheChoice::Disabled,
                (Some(dir), false) => CacheChoice::Dir(dir.clone()),
                (None, false) => CacheChoice::Default,
            },
            ..ModelOptions::default()
        };
        let model = Model::open(args.model(), &options)?;
        for test in args.tests() {
            let samples = measure::run(&model, &test, args.activations, args.repetitions, !args.no_warmup)?;
            report.add(&record::Record::new(&model, args, threads, &test, &samples), &mut out)?;
        }
    }
    report.finish(&mut out)?;
    Ok(ExitCode::SUCCESS)
}
