//! Conversations through a pipe.

use crate::support::{command, json, ran, ran_with_input, small};
use std::path::PathBuf;

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

/// A template that shows all it is given, short.
const TEMPLATE: &str = "{% for t in tools or [] %}<{{ t.function.name }}>{% endfor %}\
    {% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}\
    {% endfor %}{% if enable_thinking %}<think>{% endif %}{{ style }}";

/// Files of a conversation, and runs with them.
struct Talk {
    dir: tempfile::TempDir,
}

impl Talk {
    fn new() -> Talk {
        Talk { dir: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path: PathBuf = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Tokens of the prompt of a run with these arguments, and what it says on standard error.
    fn prompt_tokens(&self, args: &[&str]) -> (u64, String) {
        let stats = self.dir.path().join("stats.json");
        let more = ["-n", "1", "--temp", "0", "--ignore-eos", "--stats", stats.to_str().unwrap()];
        let ran = ran(&mut command(&small(), &[args, &more].concat()));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        (json(&stats)["prompt_tokens"].as_u64().unwrap(), ran.err)
    }
}

#[test]
fn tools_switches_and_variables_reach_the_template() {
    let talk = Talk::new();
    let template = talk.file("t.jinja", TEMPLATE);
    let tools = talk.file("tools.json", r#"[{"name":"weather"},{"name":"clock"}]"#);
    let base = ["--chat", "-p", "Hi", "--chat-template", &template];
    let tokens = |more: &[&str]| {
        let (tokens, err) = talk.prompt_tokens(&[&base, more].concat());
        assert!(!err.contains("warning"), "{err}");
        tokens
    };
    let plain = tokens(&[]);
    assert!(tokens(&["--tools", &tools]) > plain);
    assert!(tokens(&["--think"]) > plain);
    assert_eq!(tokens(&["--no-think"]), plain);
    assert_eq!(tokens(&["--think", "--no-think"]), plain, "the last one counts");
    assert!(tokens(&["--template-var", "style=formal and long"]) > plain);
    assert!(tokens(&["--system", "Be brief."]) > plain);
    // The model's own form of turns has none of these.
    let args = ["--chat", "-p", "Hi", "--tools", &tools, "--no-think", "--template-var", "style=x"];
    let (_, err) = talk.prompt_tokens(&args);
    for words in ["doesn't mention tools", "has no switch for reasoning", "doesn't read the variable style"] {
        assert!(err.contains(&format!("warning: the chat template {words}")), "{err}");
    }
    assert!(err.contains("no chat template, as base models don't") && err.contains("--chat-template FILE"), "{err}");
}

#[test]
fn a_conversation_goes_on_from_a_file() {
    let talk = Talk::new();
    let template = talk.file("t.jinja", TEMPLATE);
    let called = r#"[{"role":"user","content":"Weather?"},
        {"role":"assistant","content":null,"tool_calls":[{"function":{"name":"weather","arguments":{}}}]},
        {"role":"tool","content":"20 degrees"}]"#;
    let called = talk.file("called.json", called);
    let (waits, _) = talk.prompt_tokens(&["--messages", &called, "--chat-template", &template, "--single-turn"]);
    let (asked, _) = talk.prompt_tokens(&["--messages", &called, "--chat-template", &template, "-p", "And now?"]);
    assert!(waits > 40 && asked > waits, "{waits} {asked}");
    // The same as if all of it had been said.
    let one = talk.file("one.json", r#"[{"role":"user","content":"Hi"}]"#);
    let from_file = talk.prompt_tokens(&["--messages", &one, "--chat-template", &template]).0;
    assert_eq!(from_file, talk.prompt_tokens(&["--chat", "-p", "Hi", "--chat-template", &template]).0);
}

#[test]
fn what_is_wrong_with_a_conversations_files_is_one_line() {
    let talk = Talk::new();
    let (bad, object) = (talk.file("bad.jinja", "x\n{{ messages | nosuch }}"), talk.file("o.json", "{}"));
    let unparsed = talk.file("unparsed.jinja", "{% frobnicate %}");
    for (args, words) in [
        (["--chat", "--chat-template", &bad], &["bad.jinja", "line 2", "nosuch", "`{{ messages | nosuch }}`"][..]),
        (["--chat", "--chat-template", &unparsed], &["unparsed.jinja", "line 1", "frobnicate"]),
        (["--chat", "--tools", &object], &["o.json", "number 1 of the list has no name"]),
        (["--chat", "--tools", "/nowhere/t.json"], &["/nowhere/t.json", "read", "No such file"]),
        (["--chat", "--messages", &object], &["o.json", "no list of messages"]),
    ] {
        let ran = ran(&mut command(&small(), &[&args[..], &["-p", "Hi"]].concat()));
        let error = ran.error();
        assert!(words.iter().all(|w| error.contains(w)), "{args:?}: {error}");
    }
}
