//! Tokenizers against llama.cpp's results in the golden data set.
//!
//! The data is found through `HRX_SHARED`, or as `../../shared` beside the checkout; real models (for the vocabularies that
//! are not in the data set) in the directory that `HRX_MODELS` names. What is not there is skipped and said so.

use std::path::{Path, PathBuf};

use hrx::gguf::Gguf;
use hrx::tokenizer::{StreamDecoder, Tokenizer, TokenizerError};
use serde_json::Value;

fn golden() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("HRX_SHARED").map_or(beside, PathBuf::from);
    let golden = shared.join("golden/tokenizers");
    if golden.is_dir() {
        return Some(golden);
    }
    println!("skipped: no directory {} (set HRX_SHARED)", golden.display());
    None
}

/// The tokenizer of `<name>`'s vocabulary file or of the real model of that name.
fn load(golden: &Path, name: &str) -> Option<Tokenizer> {
    let packed = golden.join(format!("ggml-vocab-{name}.gguf.zst"));
    let gguf = if packed.exists() {
        let bytes = zstd::decode_all(std::fs::File::open(packed).unwrap()).unwrap();
        Gguf::from_bytes(bytes).unwrap()
    } else {
        let Some(models) = std::env::var_os("HRX_MODELS") else {
            println!("skipped {name}: its vocabulary is in the real model (set HRX_MODELS)");
            return None;
        };
        let is_it = |path: &PathBuf| {
            let file = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            file.starts_with(&name.to_lowercase()) && file.ends_with(".gguf")
        };
        let path = std::fs::read_dir(models).unwrap().map(|e| e.unwrap().path()).find(is_it);
        let Some(path) = path else {
            println!("skipped {name}: no model of that name in HRX_MODELS");
            return None;
        };
        Gguf::open(&path).unwrap()
    };
    Some(Tokenizer::from_metadata(gguf.metadata()).unwrap())
}

fn unhex(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

/// Every case of `strings-<name>.json`; the failures, described.
fn check_strings(tokenizer: &Tokenizer, cases: &Value) -> Vec<String> {
    let mut failures = Vec::new();
    let mut check = |what: &str, text: &[u8], got: String, want: String| {
        if got != want {
            failures.push(format!("{what} of {:?}:\n  got  {got}\n  want {want}", String::from_utf8_lossy(text)));
        }
    };
    for item in cases["items"].as_array().unwrap() {
        let text = unhex(&item["hex"]);
        let modes =
            [("special_parse", true, true), ("nospecial_parse", false, true), ("nospecial_noparse", false, false)];
        for (mode, add, parse) in modes {
            let got = tokenizer.encode(&text, add, parse);
            if item.get("error").is_some() {
                assert!(matches!(got, Err(TokenizerError::CodePointTooLarge { .. })), "{got:?}");
                continue;
            }
            check(mode, &text, format!("{:?}", got.unwrap()), format!("{:?}", ids(&item[mode])));
        }
        if item.get("error").is_some() {
            continue;
        }
        let tokens = ids(&item["nospecial_noparse"]);
        for (token, piece) in tokens.iter().zip(item["pieces"].as_array().unwrap()) {
            let got = tokenizer.piece(*token, true);
            check("piece", &text, format!("{got:x?}"), format!("{:x?}", unhex(piece)));
        }
        let detok = unhex(&item["detok"]);
        check("detok", &text, format!("{:x?}", tokenizer.decode(&tokens, true)), format!("{detok:x?}"));
        let mut decoder = StreamDecoder::new(tokenizer, true);
        let mut streamed: String = tokens.iter().map(|t| decoder.push(*t)).collect();
        streamed += &decoder.finish();
        let joined: Vec<u8> = tokens.iter().flat_map(|t| tokenizer.piece(*t, true)).copied().collect();
        check("stream", &text, streamed, String::from_utf8_lossy(&joined).into_owned());
    }
    failures
}

#[test]
fn every_golden_string_is_encoded_and_decoded_alike() {
    let Some(golden) = golden() else { return };
    let mut names: Vec<_> = std::fs::read_dir(&golden)
        .unwrap()
        .filter_map(|e| {
            let name = e.unwrap().file_name().into_string().unwrap();
            Some(name.strip_prefix("strings-")?.strip_suffix(".json")?.to_owned())
        })
        .collect();
    names.sort();
    assert!(names.len() >= 12, "{names:?}");
    let mut failures = Vec::new();
    for name in &names {
        let Some(tokenizer) = load(&golden, name) else { continue };
        let text = std::fs::read_to_string(golden.join(format!("strings-{name}.json"))).unwrap();
        let cases: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(tokenizer.vocab_size() as u64, cases["n_vocab"].as_u64().unwrap(), "{name}");
        assert_eq!(tokenizer.bos().map(u64::from), cases["bos"].as_u64(), "{name}");
        assert_eq!(tokenizer.eos().map(u64::from), cases["eos"].as_u64(), "{name}");
        assert_eq!(tokenizer.adds_bos(), cases["add_bos"].as_bool().unwrap(), "{name}");
        assert_eq!(tokenizer.adds_eos(), cases["add_eos"].as_bool().unwrap(), "{name}");
        failures.extend(check_strings(&tokenizer, &cases).into_iter().map(|f| format!("{name}: {f}")));
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_input_file_gives_its_output_file() {
    let Some(golden) = golden() else { return };
    let mut compared = 0;
    for entry in std::fs::read_dir(&golden).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_prefix("ggml-vocab-").and_then(|f| f.strip_suffix(".gguf.inp")) else { continue };
        let Some(tokenizer) = load(&golden, name) else { continue };
        let input = std::fs::read_to_string(golden.join(&file)).unwrap();
        let output = std::fs::read_to_string(golden.join(file.replace(".inp", ".out"))).unwrap();
        for (text, line) in input.split("\n__ggml_vocab_test__\n").zip(output.lines()) {
            let want: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
            assert_eq!(tokenizer.encode(text, false, false).unwrap(), want, "{name}: {text:?}");
            compared += 1;
        }
    }
    assert!(compared > 400, "{compared}");
}

#[test]
fn generation_ends_where_the_models_say() {
    let Some(golden) = golden() else { return };
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("llama-bpe", &["<|eot_id|>", "<|end_of_text|>"], &["<|begin_of_text|>"]),
        ("qwen2", &["<|im_end|>", "<|endoftext|>"], &["<|im_start|>"]),
        ("phi-3", &["<|end|>", "<|endoftext|>"], &["<|user|>"]),
        ("gemma-4", &["<eos>", "<turn|>"], &["<bos>", "</s>"]),
        ("llama-spm", &["</s>"], &["<s>", "<unk>"]),
    ];
    for (name, ends, others) in cases {
        let tokenizer = load(&golden, name).unwrap();
        for (texts, is_end) in [(ends, true), (others, false)] {
            for text in *texts {
                let id = tokenizer.token(text).unwrap_or_else(|| panic!("{name}: no {text}"));
                assert_eq!(tokenizer.is_end_of_generation(id), is_end, "{name}: {text}");
            }
        }
    }
}

#[test]
fn a_prompt_shows_no_special_tokens_unless_asked() {
    let Some(golden) = golden() else { return };
    let tokenizer = load(&golden, "llama-bpe").unwrap();
    let tokens = tokenizer.encode("<|start_header_id|>user<|end_header_id|>", true, true).unwrap();
    assert_eq!(tokens.len(), 4);
    assert_eq!(tokenizer.decode(&tokens, false), b"user");
    assert_eq!(tokenizer.decode(&tokens, true), b"<|begin_of_text|><|start_header_id|>user<|end_header_id|>");
    assert_eq!(tokenizer.piece(u32::MAX, true), b"");
}

/// Not a comparison but a figure: with `HRX_MODELS`, prints how long tokenizers take to build and to encode.
#[test]
fn time_to_build() {
    let Some(models) = std::env::var_os("HRX_MODELS") else {
        println!("skipped: no models (set HRX_MODELS)");
        return;
    };
    for entry in std::fs::read_dir(models).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "gguf") {
            continue;
        }
        let start = std::time::Instant::now();
        let gguf = Gguf::open(&path).unwrap();
        let opened = start.elapsed();
        let tokenizer = Tokenizer::from_metadata(gguf.metadata()).unwrap();
        let built = start.elapsed() - opened;
        let prompt = "The quick brown fox jumps over 12 lazy dogs.\n".repeat(100);
        let encoding = std::time::Instant::now();
        let tokens = tokenizer.encode(&prompt, true, false).unwrap();
        println!(
            "{}: open {opened:.1?}, build {built:.1?} for {} tokens, encode {:.1?} for {} bytes ({} tokens)",
            path.file_name().unwrap_or_default().to_string_lossy(),
            tokenizer.vocab_size(),
            encoding.elapsed(),
            prompt.len(),
            tokens.len()
        );
        assert_eq!(tokenizer.decode(&tokens[usize::from(tokenizer.adds_bos())..], true), prompt.as_bytes());
    }
}
