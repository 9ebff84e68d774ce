//! Opens a model and continues a text, printing it as it comes: `generate MODEL.gguf TEXT`.

use hrx::{GenerateOptions, Model, ModelOptions, SessionOptions};
use std::io::Write;
use std::ops::ControlFlow;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(text)) = (args.next(), args.next()) else {
        return Err("usage: generate MODEL.gguf TEXT".into());
    };
    let model = Model::open(path, &ModelOptions::default())?;
    let prompt = model.tokenizer()?.encode(&text, true, false)?;
    let mut session = model.session(&SessionOptions::default())?;
    let mut options = GenerateOptions { max_tokens: Some(48), ..GenerateOptions::default() };
    options.sampler = hrx::sampler::SamplerOptions::greedy();
    let done = session.generate(&model, &prompt, &options, |piece| {
        print!("{piece}");
        let _ = std::io::stdout().flush();
        ControlFlow::Continue(())
    })?;
    println!();
    let rate = |n: usize, t: std::time::Duration| n as f64 / t.as_secs_f64();
    eprintln!(
        "prompt {:.1} tok/s, decode {:.1} tok/s",
        rate(done.prompt_tokens, done.prefill),
        rate(done.decode_steps, done.decode)
    );
    eprintln!("{:?}, launches and stages a token: {:?}", model.kernels().stats(), session.decode_launches());
    Ok(())
}
