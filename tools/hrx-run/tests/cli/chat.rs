//! Conversations through a pipe.

use crate::support::{command, json, ran, ran_with_input, small};

/// So long that evaluating it twice would show.
const LONG: &str = "Please tell me everything that you know about lighthouses and the sea";

#[test]
fn each_line_is_answered_and_the_cache_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stats.json");
    let tokens = |input: String, more: &[&str]| {
        let mut args = vec!["--chat", "-n", "4", "--temp", "0", "--ignore-eos", "--stats", file.to_str().unwrap()];
        args.extend(more);
        let ran = ran_with_input(&mut command(&small(), &args), input.as_bytes());
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.err.contains("warning: the file has no chat template"), "{}", ran.err);
        let stats = json(&file);
        (stats["prompt_tokens"].as_u64().unwrap(), stats["generated_tokens"].as_u64().unwrap(), ran.out)
    };
    let (one, generated, text) = tokens(format!("{LONG}\n"), &[]);
    assert_eq!(generated, 4);
    let (both, generated, texts) = tokens(format!("{LONG}\n\nx\n"), &[]);
    assert_eq!(generated, 8, "an empty line is no message");
    assert!(texts.starts_with(&text) && texts.len() > text.len());
    assert!(one < both && both < 2 * one, "{one} tokens, then {both}: only new ones are evaluated");
    let (again, generated, texts) = tokens(format!("{LONG}\n/clear\n{LONG}\n/exit\n{LONG}\n"), &[]);
    assert_eq!((again, generated), (one + 1, 8), "all but the last token of the prompt are still in the cache");
    assert_eq!(texts, [&text[..], &text[..]].concat());
    let (with_system, ..) = tokens(format!("{LONG}\n"), &["--system", "Be brief."]);
    assert!(with_system > one);
}

#[test]
fn a_prompt_is_the_one_message_without_a_terminal() {
    let args = ["--chat", "-n", "4", "--temp", "0", "--ignore-eos"];
    let from_pipe = ran_with_input(&mut command(&small(), &args), b"Hi\n").text();
    let from_option = ran(&mut command(&small(), &[&args[..], &["-p", "Hi"]].concat())).text();
    assert_eq!(from_pipe, from_option);
    let single = [&args[..], &["--single-turn"]].concat();
    assert_eq!(ran_with_input(&mut command(&small(), &single), b"Hi\nand more\n").text(), from_pipe);
}

#[test]
fn a_full_context_says_what_to_do() {
    let args = ["--chat", "-n", "4", "-c", "40"];
    let ran = ran_with_input(&mut command(&small(), &args), format!("{LONG}\n").as_bytes());
    let error = ran.error();
    assert!(error.contains("the context of 40 tokens is full") && error.contains("/clear") && error.contains("-c"));
}
