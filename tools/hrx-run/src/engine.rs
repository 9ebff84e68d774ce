//! A model with one session, and what a run does with it.

use crate::args::{Args, Seed};
use crate::clock::Clock;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::stats::{self, Totals, ms};
use hrx::names::{Defaults, Found, Keeper, Places};
use hrx::npy::{NpyError, NpyWriter};
use hrx::sampler::SamplerOptions;
use hrx::{
    CacheChoice, Event, GenerateOptions, Generated, Model, ModelOptions, Outputs, Session, SessionOptions, Stop,
};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An open model with its session.
pub struct Engine<'a> {
    args: &'a Args,
    clock: Clock,
    /// Where progress and warnings go.
    pub console: Arc<Console>,
    /// The model.
    pub model: Model,
    /// The one sequence of the run.
    pub session: Session,
    /// Ctrl-C.
    pub interrupt: Interrupt,
    /// Where text goes.
    pub output: Output,
    /// What was done so far.
    pub totals: Totals,
    /// What the model's name stands for.
    pub found: Found,
    options: GenerateOptions,
    load: Duration,
    ready: Duration,
}

/// A text as it was generated.
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Its tokens and times.
    pub done: Generated,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
}

impl<'a> Engine<'a> {
    /// Opens the model and makes the session. `prepare` gets the model at the same time on another thread: for what needs
    /// the tokenizer, which takes as long to make as a session does.
    ///
    /// # Errors
    /// If the model can't be opened, the context does not fit, or `prepare` fails.
    pub fn open<T: Send>(
        args: &'a Args,
        clock: Clock,
        console: &Arc<Console>,
        prepare: impl FnOnce(&Model) -> Result<T, Failure> + Send,
    ) -> Result<(Engine<'a>, T), Failure> {
        let interrupt = Interrupt::install();
        let start = Instant::now();
        console.spinner("opening the model");
        let found = Places::from_env().find(args.model()).map_err(hrx::Error::from)?;
        let model = Model::open(&found.path, &model_options(args, console))?;
        let load = start.elapsed();

        console.spinner("making kernels");
        let n_train = model.config().n_ctx_train;
        if let Some(n) = args.ctx_size.filter(|&n| n > n_train) {
            console.warn(&format!("-c {n}: the model was trained with contexts of {n_train} tokens"));
        }
        let session_options = session_options(args, &model);
        let (session, prepared) = std::thread::scope(|scope| {
            let prepared = scope.spawn(|| prepare(&model));
            let session = model.session(&session_options);
            (session, prepared.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let (session, prepared) = (session?, prepared?);
        console.clear();
        let engine = Engine {
            args,
            clock,
            console: Arc::clone(console),
            model,
            session,
            interrupt,
            output: Output::new(),
            totals: Totals::default(),
            options: generate_options(args, &found.defaults),
            found,
            load,
            ready: clock.elapsed(),
        };
        if args.verbose {
            engine.describe();
        }
        Ok((engine, prepared))
    }

    /// Evaluates tokens and generates after them, as the command line says. Text goes to standard output as it comes.
    ///
    /// # Errors
    /// If the tokens don't fit the context, the device fails or logits can't be written.
    pub fn answer(&mut self, tokens: &[u32], mut logits: Option<&mut NpyWriter>) -> Result<Answer, Failure> {
        let mut text = String::new();
        let mut npy: Result<(), NpyError> = Ok(());
        let Engine { session, model, console, interrupt, output, totals, clock, options, .. } = self;
        interrupt.watch();
        console.prompt_bar(tokens.len());
        let done = session.generate_with(model, tokens, options, |event| {
            match event {
                Event::Prompt(done, total) if done == total => console.clear(),
                Event::Prompt(done, _) => console.position(done),
                Event::Row(row) => {
                    if let (Some(writer), true) = (logits.as_deref_mut(), npy.is_ok()) {
                        npy = writer.row(row);
                    }
                    if npy.is_err() {
                        return ControlFlow::Break(());
                    }
                }
                Event::Text(piece) => {
                    text.push_str(piece);
                    output.write(piece)?;
                    totals.first_token.get_or_insert_with(|| clock.elapsed());
                }
            }
            if interrupt.pressed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        console.clear();
        interrupt.unwatch();
        npy?;
        let done = done?;
        totals.add(&done);
        // The text may have been complete when the key was pressed.
        let interrupted = done.stop == Stop::Caller && interrupt.pressed();
        if interrupted {
            totals.stop = Some("interrupted");
        }
        Ok(Answer { text, done, interrupted })
    }

    /// Says the times on standard error and writes the file of `--stats`.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn report(&self) -> Result<(), Failure> {
        let (kernels, totals) = (self.model.kernels().stats(), &self.totals);
        self.console.line(&format!(
            "opened in {:.0} ms; {} kernels in {:.0} ms: {} from the cache, {} compiled",
            ms(self.load),
            kernels.kernels,
            ms(kernels.total),
            kernels.hits,
            kernels.misses
        ));
        let speed = |rate: Option<f64>| rate.map(|r| format!(" ({r:.1} tok/s)")).unwrap_or_default();
        let first = totals.first_token.map(|t| format!("; first text after {:.0} ms", ms(t))).unwrap_or_default();
        self.console.line(&format!(
            "{} prompt tokens{}, {} generated{}{first}",
            totals.prompt_tokens,
            speed(totals.prefill_rate()),
            totals.generated_tokens,
            speed(totals.decode_rate()),
        ));
        match &self.args.stats {
            Some(path) => stats::write(path, &self.stats()),
            None => Ok(()),
        }
    }

    fn stats(&self) -> Value {
        let (session, model) = (&self.session, &self.model);
        let (kernels, summary, config) = (model.kernels().stats(), model.summary(), model.config());
        let (launches, stages) = session.decode_launches();
        let info = model.kernels().device().info();
        let mut report = json!({
            "load_ms": ms(self.load),
            "compile_ms": ms(kernels.compile),
            "assemble_ms": ms(kernels.assemble),
            "kernels_ms": ms(kernels.total),
            "kernels": kernels.kernels,
            "cache_hits": kernels.hits,
            "cache_misses": kernels.misses,
            "before_main_ms": self.clock.before_main().map(ms),
            "ready_ms": ms(self.ready),
        });
        let more = json!({
            "total_ms": ms(self.clock.elapsed()),
            "peak_memory_bytes": stats::peak_memory(),
            "kv_cache_bytes": session.kv_bytes(),
            "activation_bytes": session.activation_bytes(),
            "threads": self.threads(),
            "device": info.name,
            "device_description": info.description,
            "launches_per_token": launches,
            "stages_per_token": stages,
            "n_ctx": session.n_ctx(),
            "n_batch": session.n_batch(),
            "seed": self.options.sampler.seed,
            "model": {
                "file": self.found.path,
                "file_bytes": summary.file_bytes,
                "name": summary.name,
                "architecture": summary.architecture,
                "file_type": summary.file_type,
                "n_params": summary.n_params,
                "tensor_bytes": summary.tensor_bytes,
                "n_vocab": config.n_vocab,
                "n_embd": config.n_embd,
                "n_layer": config.n_layer,
                "n_head": config.n_head.max(),
                "n_kv_head": config.n_kv_head.max(),
                "n_ctx_train": config.n_ctx_train,
            },
        });
        for part in [self.totals.fields(), more] {
            if let (Value::Object(all), Value::Object(part)) = (&mut report, part) {
                all.extend(part);
            }
        }
        report
    }

    fn threads(&self) -> usize {
        match self.args.threads() {
            0 => hrx::device::cores(),
            n => n,
        }
    }

    fn describe(&self) {
        let line = |text: String| self.console.line(&text);
        let summary = self.model.summary();
        if self.found.keeper != Keeper::File {
            line(format!("{} of {}: {}", self.found.name, self.found.keeper.name(), self.found.path.display()));
        }
        line(format!(
            "model: {} {}, {:.1} M parameters, {}",
            summary.architecture,
            summary.file_type,
            summary.n_params as f64 / 1e6,
            summary.name.as_deref().unwrap_or("no name")
        ));
        let device = self.model.kernels().device().info();
        line(format!("device: {}: {}", device.name, device.description));
        for kernel in self.model.kernels().reports() {
            let mut from = kernel.compile.map_or("cache".into(), |time| format!("compiled in {:.1} ms", ms(time)));
            if let Some(time) = kernel.assemble {
                from += &format!(", assembled in {:.1} ms", ms(time));
            }
            line(format!("kernel: {} {} {} bytes, {from}", kernel.name, kernel.key, kernel.bytes));
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        line(format!(
            "memory: weights {:.1} MiB ({}), KV cache {:.1} MiB for {} tokens, activations {:.1} MiB",
            mib(summary.tensor_bytes),
            if self.model.kernels().device().copies_data() { "copied to the device" } else { "mapped from the file" },
            mib(self.session.kv_bytes()),
            self.session.n_ctx(),
            mib(self.session.activation_bytes())
        ));
        line(format!("threads: {}; seed: {}", self.threads(), self.options.sampler.seed));
    }
}

/// How the model is opened.
pub fn model_options(args: &Args, console: &Arc<Console>) -> ModelOptions {
    let warn = Arc::clone(console);
    ModelOptions {
        device: args.device.clone(),
        threads: args.threads(),
        cache: match (&args.cache_dir, args.no_cache) {
            (_, true) => CacheChoice::Disabled,
            (Some(dir), false) => CacheChoice::Dir(dir.clone()),
            (None, false) => CacheChoice::Default,
        },
        warn: Arc::new(move |text: &str| warn.warn(text)),
    }
}

/// How its session is made.
pub fn session_options(args: &Args, model: &Model) -> SessionOptions {
    SessionOptions {
        n_ctx: match args.ctx_size {
            None => 0,
            Some(0) => model.config().n_ctx_train,
            Some(n) => n,
        },
        n_batch: args.batch_size,
        outputs: if args.logits.is_some() { Outputs::All } else { Outputs::Last },
        activations: args.activations,
        sequences: 1,
    }
}

/// What the command line says, else the model's keeper, else what is usual.
fn generate_options(args: &Args, defaults: &Defaults) -> GenerateOptions {
    let usual = SamplerOptions::default();
    GenerateOptions {
        max_tokens: args.max_tokens(),
        sampler: SamplerOptions {
            temperature: args.temp.or(defaults.temperature).unwrap_or(usual.temperature),
            top_k: args.top_k.or(defaults.top_k).unwrap_or(usual.top_k),
            top_p: args.top_p.or(defaults.top_p).unwrap_or(usual.top_p),
            min_p: args.min_p.or(defaults.min_p).unwrap_or(usual.min_p),
            repeat_penalty: args.repeat_penalty.or(defaults.repeat_penalty).unwrap_or(usual.repeat_penalty),
            penalty_last_n: args.repeat_last_n,
            seed: match args.seed {
                Some(Seed::Fixed(seed)) => seed,
                Some(Seed::Random) | None => some_seed(),
            },
        },
        ignore_eos: args.ignore_eos,
        special: args.special,
        prefill: args.prefill,
        // An explicit wish to go on is for these, too.
        stop: if args.ignore_eos { args.stop.clone() } else { [&args.stop[..], &defaults.stop].concat() },
    }
}

/// Another number for each run.
fn some_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // The standard library's hash keys are random. Half of the bits are enough, and shorter to type.
    RandomState::new().hash_one(std::process::id()) >> 32
}
