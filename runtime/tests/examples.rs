//! The examples run and their results are right. Each is a module here.

use hrx::ModelOptions;
use std::path::PathBuf;

#[allow(dead_code, reason = "what only main needs")]
#[path = "../examples/call_kernel.rs"]
mod call_kernel;

#[allow(dead_code, reason = "what only main needs")]
#[path = "../examples/embed.rs"]
mod embed;

#[allow(dead_code, reason = "what only main needs")]
#[path = "../examples/generate.rs"]
mod generate;

#[allow(dead_code, reason = "what only main needs")]
#[path = "../examples/quant_matmul.rs"]
mod quant_matmul;

/// A model of the compact golden set.
fn model(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/models").join(format!("{name}.gguf"))
}

/// The CPU, with nothing left in the user's cache.
fn options() -> ModelOptions {
    ModelOptions { cache: hrx::CacheChoice::Disabled, ..ModelOptions::default() }
}

#[test]
fn call_kernel_computes_softmax() {
    call_kernel::run(&options()).expect("right");
}

#[test]
fn quant_matmul_is_near_the_naive_product_in_every_format() {
    for format in hrx::templates::WeightType::names() {
        let error = quant_matmul::error_of(format, &options()).expect("runs");
        let float = ["f32", "f16", "bf16"].contains(&format);
        assert!(error < if float { 1e-10 } else { 4e-4 }, "{format}: {error:e}");
        // Activations of 8 bits leave a trace, or they were not what the kernel read.
        assert!(float || error > 1e-9, "{format}: {error:e}");
    }
}

#[test]
fn generate_streams_what_it_returns() {
    let mut text = String::new();
    let done =
        generate::generate(&model("llama-Q8_0"), "hello world", &options(), |piece| text += piece).expect("generates");
    let opened = hrx::Model::open(model("llama-Q8_0"), &options()).expect("opens");
    assert!(!done.tokens.is_empty());
    // A random model's tokens are no text: what is not UTF-8 is replaced.
    let bytes = opened.tokenizer().expect("a tokenizer").decode(&done.tokens, false);
    assert_eq!(text, String::from_utf8_lossy(&bytes));
}

#[test]
fn embed_tells_texts_apart() {
    let cosines =
        embed::cosines(&model("llama-Q8_0"), &["one text", "another text", "one text"], &options()).expect("embeds");
    assert!((cosines[0] - 1.0).abs() < 1e-5 && cosines[2] == cosines[0], "{cosines:?}");
    assert!(cosines[1] < 0.9999, "{cosines:?}");
}
