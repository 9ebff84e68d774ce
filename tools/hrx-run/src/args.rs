//! The command line.

use clap::{ArgGroup, Parser};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Only generated text goes to standard output, exactly as the model gives it (on a terminal a line end is added); the \
prompt is not repeated. Progress, warnings and timings go to standard error.

Exit codes: 0 done; 1 an error, in one line on standard error; 2 wrong usage; 130 stopped with Ctrl-C.

MODEL is a file, or the name of a model that Ollama (smollm2:135m), Hugging Face's libraries or llama.cpp (ORG/REPO,
ORG/REPO:QUANT, ORG/REPO/FILE.gguf) or LM Studio have already downloaded. Nothing is downloaded here.

Examples:
  hrx-run smollm2:135m --chat
  hrx-run model.gguf --explain
  hrx-run model.gguf --chat --tools tools.json --no-think
  hrx-run model.gguf -p \"The capital of France is\" -n 32
  hrx-run model.gguf --chat --system \"Answer in one sentence.\"
  hrx-run model.gguf --tokens 1,504,1463 --prefill 2 --logits out.npy";

/// Runs a GGUF model with kernels that are generated and compiled for this machine.
///
/// The first run of a model compiles its kernels, which takes a moment; later runs find them in the cache.
#[derive(Parser, Debug)]
#[command(name = "hrx-run", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(group = ArgGroup::new("conversation").args(["chat", "messages"]).multiple(true))]
#[command(group = ArgGroup::new("input").args(["prompt", "file", "chat", "messages", "tokens", "list_devices", "explain"]).required(true).multiple(true))]
pub struct Args {
    /// The model: a GGUF file, the first part of a split one, or the name of a model on this machine (see below)
    #[arg(value_name = "MODEL", required_unless_present_any = ["model_option", "list_devices"])]
    model: Option<PathBuf>,

    /// The model, for those used to giving it as an option
    #[arg(short = 'm', long = "model", value_name = "MODEL", conflicts_with = "model", hide = true)]
    model_option: Option<PathBuf>,

    /// Continue this text. Special tokens spelled in it, such as <|im_start|>, are special tokens. With --chat, the
    /// first message
    #[arg(short, long, value_name = "TEXT", help_heading = "Input", allow_hyphen_values = true)]
    pub prompt: Option<OsString>,

    /// Like -p, with the text from a file (- for standard input), less one line end at its end
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt", help_heading = "Input")]
    pub file: Option<PathBuf>,

    /// Hold a conversation, with the model's chat template. On a terminal lines can be edited and come back with the
    /// arrow keys; Ctrl-C stops an answer, Ctrl-D ends the program, /clear starts over. Otherwise each line of standard
    /// input is a message. With -p or -f and no terminal there is one message, that one
    #[arg(long, alias = "conversation", help_heading = "Input")]
    pub chat: bool,

    /// Begin a conversation with the messages of a JSON file, as OpenAI's interface has them: a list of objects with role,
    /// content, tool_calls and so on. If the last one is the assistant's, or -p is given, the next line answers it; else it
    /// is answered first. Means --chat
    #[arg(long, value_name = "FILE.json", help_heading = "Conversation")]
    pub messages: Option<PathBuf>,

    /// End a conversation after the first answer
    #[arg(long, requires = "conversation", help_heading = "Conversation")]
    pub single_turn: bool,

    /// The system message of a conversation
    #[arg(
        long,
        value_name = "TEXT",
        requires = "conversation",
        alias = "system-prompt",
        help_heading = "Conversation"
    )]
    pub system: Option<String>,

    /// Tools that the model may call: a JSON file with a list of them, as OpenAI's interface has it. Calls are printed as
    /// the model writes them; nothing is called
    #[arg(long, value_name = "FILE.json", requires = "conversation", help_heading = "Conversation")]
    pub tools: Option<PathBuf>,

    /// Have the model reason before it answers, where its template has a switch for that
    #[arg(long, requires = "conversation", overrides_with = "no_think", help_heading = "Conversation")]
    think: bool,

    /// Have the model answer at once, where its template has a switch for that
    #[arg(long, requires = "conversation", overrides_with = "think", help_heading = "Conversation")]
    no_think: bool,

    /// Use the Jinja template of a file in place of the model's
    #[arg(long, value_name = "FILE", requires = "conversation", help_heading = "Conversation")]
    pub chat_template: Option<PathBuf>,

    /// Set a variable of the template, as reasoning_effort=high. What is no JSON is a text. May be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "conversation", value_parser = parse_variable,
        help_heading = "Conversation")]
    pub template_var: Vec<(String, serde_json::Value)>,

    /// Evaluate these token ids, separated by commas or spaces, in place of a text; no token is added to them
    #[arg(
        long,
        value_name = "IDS",
        value_parser = parse_tokens,
        conflicts_with_all = ["prompt", "file", "chat", "messages"],
        help_heading = "Input"
    )]
    pub tokens: Option<Tokens>,

    /// Evaluate the first N of --tokens in one prefill and the others one at a time [default: all in one prefill]
    // clap lets `requires` pass if something given conflicts with what is required, so these conflicts are said, too.
    #[arg(long, value_name = "N", requires = "tokens", conflicts_with_all = ["prompt", "file", "chat"],
        help_heading = "Input")]
    pub prefill: Option<usize>,

    /// The most tokens to generate; -1: until the model ends its text or the context is full [default: -1, but 0 with
    /// --tokens or --logits, which then only evaluate their input]
    #[arg(
        short = 'n',
        long = "predict",
        alias = "n-predict",
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(-1..=i64::from(u32::MAX)),
        help_heading = "Generation"
    )]
    n_predict: Option<i64>,

    /// How products with quantised weights read activations: f32 keeps 15 bits or more of them, q8 8 bits as llama.cpp does;
    /// auto is the fastest: q8 on a processor, f32 on a GPU
    #[arg(long, value_name = "auto|f32|q8", default_value = "f32", help_heading = "Execution")]
    pub activations: hrx::exec::Activations,

    /// Generate on when the model ends its text
    #[arg(long, help_heading = "Generation")]
    pub ignore_eos: bool,

    /// End the text before this one. May be given several times
    #[arg(
        long,
        value_name = "TEXT",
        alias = "reverse-prompt",
        allow_hyphen_values = true,
        help_heading = "Generation"
    )]
    pub stop: Vec<String>,

    /// Print control tokens as they are spelled
    #[arg(long, help_heading = "Generation")]
    pub special: bool,

    /// Divides logits before a token is drawn; 0 always takes the likeliest [default: 0.8; these defaults give way to those
    /// that Ollama has for a model of its own]
    #[arg(long, alias = "temperature", value_name = "T", value_parser = parse_temperature,
        allow_negative_numbers = true, help_heading = "Sampling")]
    pub temp: Option<f32>,

    /// Draw from the K likeliest tokens; 0 for all [default: 40]
    #[arg(long, value_name = "K", help_heading = "Sampling")]
    pub top_k: Option<usize>,

    /// Draw from the fewest tokens whose probabilities add up to P; 1 for all [default: 0.95]
    #[arg(long, value_name = "P", value_parser = parse_share, allow_negative_numbers = true,
        help_heading = "Sampling")]
    pub top_p: Option<f32>,

    /// Draw from tokens with at least P times the greatest probability; 0 for all [default: 0.05]
    #[arg(long, value_name = "P", value_parser = parse_share, allow_negative_numbers = true,
        help_heading = "Sampling")]
    pub min_p: Option<f32>,

    /// Makes tokens of the recent text less likely; 1 changes nothing [default: 1]
    #[arg(long, value_name = "R", value_parser = parse_penalty, allow_negative_numbers = true,
        help_heading = "Sampling")]
    pub repeat_penalty: Option<f32>,

    /// How many recent tokens --repeat-penalty looks at; 0 for none
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Sampling")]
    pub repeat_last_n: usize,

    /// The same seed gives the same text [default: another one each time, given in --stats and -v]
    #[arg(short, long, value_name = "S", allow_negative_numbers = true, value_parser = parse_seed,
        help_heading = "Sampling")]
    pub seed: Option<Seed>,

    /// Tokens that the context has room for; 0 for as many as the model was trained with [default: those, at most 4096]
    #[arg(short, long, value_name = "CTX", help_heading = "Execution")]
    pub ctx_size: Option<u32>,

    /// The most tokens of a prompt that are evaluated together
    #[arg(short, long, value_name = "N", default_value_t = 512,
        value_parser = clap::value_parser!(u32).range(1..=65536), help_heading = "Execution")]
    pub batch_size: u32,

    /// Threads; 0 for one a core
    #[arg(short, long, value_name = "THREADS", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=1024), help_heading = "Execution")]
    threads: u32,

    /// Where to run: cpu, cpu:x86-64-v3 (with code of AVX2 alone), cuda or hip (the first GPU of NVIDIA's or AMD's that can be used), cuda:N or hip:N (the GPU of that
    /// number), emu:CHIP, as emu:gfx1100 (the emulator of a chip), or auto: an NVIDIA GPU if there is one, else the CPU; see
    /// --list-devices
    #[arg(long, value_name = "DEVICE", default_value = hrx::device::AUTO, help_heading = "Execution")]
    pub device: String,

    /// Print the devices there are, and end
    #[arg(long, help_heading = "Execution")]
    pub list_devices: bool,

    /// Where compiled kernels are kept [default: $HRX_CACHE_DIR, else $XDG_CACHE_HOME/hrx, else ~/.cache/hrx]
    #[arg(long, value_name = "DIR", help_heading = "Execution")]
    pub cache_dir: Option<PathBuf>,

    /// Compile all kernels, and keep none
    #[arg(long, conflicts_with = "cache_dir", help_heading = "Execution")]
    pub no_cache: bool,

    /// Say what the model is made of, which kernels it runs, what memory it takes and whether that fits, and end
    #[arg(long, conflicts_with_all = ["prompt", "file", "chat", "messages", "tokens"], help_heading = "Reports")]
    pub explain: bool,

    /// Print --explain as JSON
    #[arg(long, requires = "explain", conflicts_with_all = ["prompt", "file", "chat", "messages", "tokens"],
        help_heading = "Reports")]
    pub json: bool,

    /// Write the numbers of the run to a JSON file: times (first_token_ms counts from the start of the process), speeds,
    /// kernels, memory, and facts of the model
    #[arg(long, value_name = "FILE.json", help_heading = "Reports")]
    pub stats: Option<PathBuf>,

    /// Write the logits of every position that is evaluated to a NumPy file: float32 [positions, vocabulary]
    #[arg(long, value_name = "FILE.npy", conflicts_with_all = ["chat", "messages"], help_heading = "Reports")]
    pub logits: Option<PathBuf>,

    /// Say more: each kernel with its hash and where it came from, memory by kind
    #[arg(short, long, help_heading = "Reports")]
    pub verbose: bool,
}

/// Token ids. (A type of its own, because clap takes a `Vec` for an option given several times.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens(pub Vec<u32>);

/// Where random numbers start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// Somewhere else each time.
    Random,
    /// Here.
    Fixed(u64),
}

impl Args {
    /// The model's file or name.
    pub fn model(&self) -> &Path {
        // clap sees to it that there is one where it is needed.
        self.model.as_deref().or(self.model_option.as_deref()).unwrap_or(Path::new(""))
    }

    /// Whether a conversation is held.
    pub fn converses(&self) -> bool {
        self.chat || self.messages.is_some()
    }

    /// Whether the model is to reason, if that is said.
    pub fn reasons(&self) -> Option<bool> {
        (self.think || self.no_think).then_some(self.think)
    }

    /// Threads; 0 for one a core.
    pub fn threads(&self) -> usize {
        self.threads as usize
    }

    /// The most tokens to generate.
    pub fn max_tokens(&self) -> Option<usize> {
        let only_evaluate = self.tokens.is_some() || self.logits.is_some();
        // Negative: no limit.
        usize::try_from(self.n_predict.unwrap_or(if only_evaluate { 0 } else { -1 })).ok()
    }
}

fn parse_tokens(text: &str) -> Result<Tokens, String> {
    let ids = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|part| !part.is_empty());
    let parse = |id: &str| id.parse().map_err(|_| format!("`{id}` is no token id"));
    match ids.map(parse).collect::<Result<Vec<u32>, _>>()? {
        ids if ids.is_empty() => Err("there is no token id in it".into()),
        ids => Ok(Tokens(ids)),
    }
}

fn parse_variable(text: &str) -> Result<(String, serde_json::Value), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let json = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            Ok((name.into(), json))
        }
        _ => Err("it must be NAME=VALUE".into()),
    }
}

fn parse_seed(text: &str) -> Result<Seed, String> {
    match text {
        "-1" => Ok(Seed::Random),
        _ => text
            .parse()
            .map(Seed::Fixed)
            .map_err(|_| format!("it must be a whole number from 0 to {}, or -1", u64::MAX)),
    }
}

fn parse_number(text: &str, range: &str, fits: impl Fn(f32) -> bool) -> Result<f32, String> {
    text.parse().ok().filter(|&x: &f32| x.is_finite() && fits(x)).ok_or_else(|| format!("it must be a number {range}"))
}

fn parse_temperature(text: &str) -> Result<f32, String> {
    parse_number(text, "from 0", |x| x >= 0.0)
}

fn parse_share(text: &str) -> Result<f32, String> {
    parse_number(text, "from 0 to 1", |x| (0.0..=1.0).contains(&x))
}

fn parse_penalty(text: &str) -> Result<f32, String> {
    parse_number(text, "above 0", |x| x >= f32::MIN_POSITIVE)
}
