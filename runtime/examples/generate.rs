//! Opens a model and continues a text, printing it as it comes: `generate MODEL.gguf TEXT`.

use hrx::sampler::SamplerOptions;
use hrx::{GenerateOptions, Generated, Model, ModelOptions, SessionOptions};
use std::error::Error;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(text)) = (args.next(), args.next()) else {
        return Err("usage: generate MODEL.gguf TEXT".into());
    };
    let done = generate(Path::new(&path), &text, &ModelOptions::default(), |piece| {
        print!("{piece}");
        let _ = std::io::stdout().flush();
    })?;
    println!();
    let rate = |n: usize, t: std::time::Duration| n as f64 / t.as_secs_f64();
    eprintln!(
        "prompt {:.1} tok/s, decode {:.1} tok/s",
        rate(done.prompt_tokens, done.prefill),
        rate(done.decode_steps, done.decode)
    );
    Ok(())
}

/// Continues a text by up to 48 tokens, the likeliest each time.
pub fn generate(
    path: &Path,
    text: &str,
    options: &ModelOptions,
    mut on_text: impl FnMut(&str),
) -> Result<Generated, Box<dyn Error>> {
    let model = Model::open(path, options)?;
    // The text's tokens, with those that the model wants around a text; control tokens in it are plain text.
    let prompt = model.tokenizer()?.encode(text, true, false)?;
    let mut session = model.session(&SessionOptions::default())?;
    let sampler = SamplerOptions::greedy();
    let options = GenerateOptions { max_tokens: Some(48), sampler, ..GenerateOptions::default() };
    let done = session.generate(&model, &prompt, &options, |piece| {
        on_text(piece);
        ControlFlow::Continue(())
    })?;
    // The session holds the prompt and all that was generated but the last token.
    let held = done.prompt_tokens + done.decode_steps;
    if session.used() as usize != held {
        return Err(format!("the session holds {} tokens, not {held}", session.used()).into());
    }
    Ok(done)
}
