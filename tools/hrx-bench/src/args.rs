//! The command line.

use crate::against::Peer;
use crate::measure::{How, Test};
use crate::{compile, golden};
use clap::{Parser, Subcommand, ValueEnum};
use hrx::synthetic::Synthetic;
use hrx::{CacheChoice, Error, Model, ModelOptions};
use std::path::{Path, PathBuf};

/// Measures how fast a model reads prompts (pp) and generates (tg), as llama-bench does.
///
/// Each value of -p is a test that evaluates a prompt of so many tokens, each value of -n one that evaluates so many
/// tokens one at a time; both for each value of -d, -b and -t. Values are separated by commas; 0 leaves a test out.
/// Tokens are random but the same in each run, and nothing is sampled. Before each test there is a warm-up, which also
/// compiles kernels that are not in the cache.
#[derive(Parser, Debug)]
#[command(name = "hrx-bench", version, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    /// What else can be measured.
    #[command(subcommand)]
    pub verb: Option<Verb>,

    /// The model: a GGUF file, or the first part of a split one
    #[arg(value_name = "MODEL", required_unless_present_any = ["model_option", "synthetic"])]
    model: Option<PathBuf>,

    /// The model, for those used to giving it as an option
    #[arg(short = 'm', long = "model", value_name = "MODEL", conflicts_with = "model", hide = true)]
    model_option: Option<PathBuf>,

    /// Instead of a file a model of a published size, with random weights that are made in the device's memory: one of
    /// llama3.2-1b, llama3.1-8b, qwen3-0.6b, qwen3-8b, qwen3-32b, qwen3-30b-a3b, gpt-oss-20b, with one of q4_k_m, q8_0, q4_0,
    /// f16, mxfp4
    #[arg(long, value_name = "SHAPE:RECIPE", conflicts_with_all = ["model", "model_option"])]
    pub synthetic: Option<Synthetic>,

    /// Lengths of prompts
    #[arg(short = 'p', long, value_name = "N,...", value_delimiter = ',', default_value = "512")]
    n_prompt: Vec<u32>,

    /// Tokens to generate
    #[arg(short = 'n', long, value_name = "N,...", value_delimiter = ',', default_value = "128")]
    n_gen: Vec<u32>,

    /// Tokens that are in the context before a test begins
    #[arg(short = 'd', long, value_name = "N,...", value_delimiter = ',', default_value = "0")]
    n_depth: Vec<u32>,

    /// The most tokens of a prompt that are evaluated together
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "512",
        value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch_size: Vec<u32>,

    /// Sequences that are generated together: each value is a test for each value of -n
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    sequences: Vec<u32>,

    /// How often each test is measured
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repetitions: u32,

    /// Threads: one a core if nothing is said
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_values_t = [hrx::device::cores() as u32],
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Vec<u32>,

    /// The form of the report on standard output
    #[arg(short, long, value_enum, default_value_t = Form::Md)]
    pub output: Form,

    /// Where to run: cpu, cuda, cuda:N, hip, hip:N, emu:CHIP, or auto: an NVIDIA GPU if there is one, else the CPU
    #[arg(long, value_name = "DEVICE", default_value = hrx::device::AUTO)]
    pub device: String,

    /// How products with quantised weights read activations: f32 keeps 15 bits or more of them, q8 8 bits;
    /// auto is the fastest: q8 on a processor, f32 on a GPU
    #[arg(long, value_name = "auto|f32|q8", default_value = "f32")]
    pub activations: hrx::exec::Activations,

    /// Time kernels as well, in steps of their own: a table behind the others (a field of the JSON forms) with time by kernel,
    /// launches, and time between them; of tests with one sequence
    #[arg(long)]
    pub profile: bool,

    /// Time kernels, and write when each ran as a trace that Perfetto and Chrome show
    #[arg(long, value_name = "FILE.json")]
    pub trace: Option<PathBuf>,

    /// Another engine's bench command, run in turn with ours (ours, theirs, ours, theirs), one repetition of one test at a
    /// time; {model}, {p}, {n}, {d}, {b} and {t} stand for the test's, and its answer is llama-bench's JSON:
    /// "llama-bench -m {model} -p {p} -n {n} -d {d} -t {t} -r 1 -o json"
    #[arg(long, value_name = "CMD")]
    pub against: Option<Peer>,

    /// Don't measure how fast the device copies and multiplies, nor compare with that
    #[arg(long)]
    pub no_limits: bool,

    /// Measure at once, without a warm-up
    #[arg(long)]
    pub no_warmup: bool,

    /// Where compiled kernels are kept [default: $HRX_CACHE_DIR, else $XDG_CACHE_HOME/hrx, else ~/.cache/hrx]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,

    /// Compile all kernels, and keep none
    #[arg(long, conflicts_with = "cache_dir")]
    pub no_cache: bool,
}

/// What is measured instead of a model's speed.
#[derive(Subcommand, Debug)]
pub enum Verb {
    Compile(compile::Args),
    Golden(golden::Args),
}

/// The forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A Markdown table.
    Md,
    /// A list of objects.
    Json,
    /// An object a line.
    Jsonl,
    /// Lines of quoted values.
    Csv,
}

impl Args {
    /// The model's file.
    fn file(&self) -> &Path {
        // clap sees to it that there is one, or a synthetic model.
        self.model.as_deref().or(self.model_option.as_deref()).unwrap_or(Path::new(""))
    }

    /// The model as it was given.
    pub fn model_name(&self) -> String {
        self.synthetic.map_or_else(|| self.file().display().to_string(), |model| model.to_string())
    }

    /// Opens the model.
    pub fn open(&self, options: &ModelOptions) -> Result<Model, Error> {
        match &self.synthetic {
            Some(model) => Model::synthetic(model, options),
            None => Model::open(self.file(), options),
        }
    }

    /// How each is measured.
    pub fn how(&self) -> How {
        How {
            activations: self.activations,
            repetitions: self.repetitions,
            warm_up: !self.no_warmup,
            profile: self.profile || self.trace.is_some(),
        }
    }

    /// All tests for one number of threads, in llama-bench's order.
    pub fn tests(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        for &n_depth in &self.n_depth {
            for &n_batch in &self.batch_size {
                let test = Test { n_prompt: 0, n_gen: 0, n_depth, n_batch, n_seq: 1 };
                tests.extend(self.n_prompt.iter().map(|&n_prompt| Test { n_prompt, ..test }));
                for &n_seq in &self.sequences {
                    tests.extend(self.n_gen.iter().map(|&n_gen| Test { n_gen, n_seq, ..test }));
                }
            }
        }
        tests.retain(|test| test.tokens() > 0);
        tests
    }
}

/// Where kernels are kept, by the options.
pub fn cache(dir: Option<&PathBuf>, none: bool) -> CacheChoice {
    match (dir, none) {
        (_, true) => CacheChoice::Disabled,
        (Some(dir), false) => CacheChoice::Dir(dir.clone()),
        (None, false) => CacheChoice::Default,
    }
}
