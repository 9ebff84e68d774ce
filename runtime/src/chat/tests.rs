use serde_json::Value as Json;

use super::*;
use crate::tokenizer::TokenizerConfig;

fn template(source: &str) -> Result<ChatTemplate, ChatError> {
    let tokens = vec![("bos_token", "<s>".to_owned()), ("eos_token", "</s>".to_owned())];
    ChatTemplate::parse(&[(DEFAULT, source)], tokens)
}

/// Differences from a recording of tests/recipes/chat_cases.py.
fn compare(recording: &str) -> Vec<String> {
    let recording: Json = serde_json::from_str(recording).unwrap();
    let mut differences = Vec::new();
    for case in recording["cases"].as_array().unwrap() {
        let source = recording["templates"][case["template"].as_str().unwrap()].as_str().unwrap();
        let conversation = &recording["conversations"][case["conversation"].as_str().unwrap()];
        let messages: Vec<Message> = serde_json::from_value(conversation["messages"].clone()).unwrap();
        let options: RenderOptions = serde_json::from_value(conversation["options"].clone()).unwrap();
        let got = template(source).and_then(|t| t.render(&messages, &options));
        match (got, case["expected"].as_str()) {
            (Ok(got), Some(expected)) if got == expected => {}
            (Err(_), None) => {}
            (got, expected) => {
                let name = format!("{} on {}", case["template"], case["conversation"]);
                differences.push(format!("{name}\n  got  {got:?}\n  want {expected:?} {}", case["error"]))
            }
        }
    }
    differences
}

#[test]
fn prompts_are_those_of_transformers() {
    let mut differences = compare(include_str!("../../tests/chat-cases.json"));
    if let Some(more) = std::env::var_os("HRX_CHAT_CASES") {
        differences.extend(compare(&std::fs::read_to_string(more).unwrap()));
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

/// A vocabulary of these special tokens.
fn tokenizer(tokens: &[&str]) -> Tokenizer {
    let config = TokenizerConfig {
        model: "llama",
        tokens: tokens.iter().map(|t| t.as_bytes()).collect(),
        scores: vec![0.0; tokens.len()],
        token_types: vec![3; tokens.len()],
        add_space_prefix: Some(false),
        ..TokenizerConfig::default()
    };
    Tokenizer::new(&config).unwrap()
}

#[test]
fn a_file_without_a_template_gets_the_one_of_its_tokens() {
    let messages = [Message::new("system", "S"), Message::new("user", "Hi "), Message::new("assistant", "Yo")];
    let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
    // Metadata of other types than text are nobody's template.
    let mut file = crate::gguf::write::Builder::new();
    file.value("general.languages", vec!["en"]).value("general.alignment", 32u32);
    let metadata = crate::gguf::Gguf::from_bytes(file.to_bytes().unwrap()).unwrap();
    for (special, name, prompt) in [
        (
            "<|im_start|>",
            "chatml",
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n\
             <|im_start|>assistant\n",
        ),
        (
            "<start_of_turn>",
            "gemma",
            "<s><start_of_turn>user\nS\n\nHi<end_of_turn>\n<start_of_turn>model\nYo<end_of_turn>\n<start_of_turn>model\n",
        ),
        ("<other>", "plain", "system: S\nuser: Hi \nassistant: Yo\nassistant:"),
    ] {
        let tokenizer = tokenizer(&["<unk>", "<s>", "</s>", special]);
        let template = ChatTemplate::from_metadata(metadata.metadata(), &tokenizer).unwrap();
        assert!(template.is_fallback());
        assert_eq!(template.names(), [name]);
        assert_eq!(template.render(&messages, &options).unwrap(), prompt);
        assert!(template.render(&[], &options).is_ok());
    }
}

#[test]
fn errors_say_which_template_and_line() {
    let broken = template("a\nb {% if %}").unwrap_err().to_string();
    assert!(broken.starts_with("chat template 'default' line 2: "), "{broken}");
    let raised = template("\n\n{{ raise_exception('no system role') }}").unwrap();
    let raised = raised.render(&[], &RenderOptions::default()).unwrap_err().to_string();
    assert!(raised.contains("line 3") && raised.contains("no system role"), "{raised}");
    let missing = template("{{ messages[0].role.nothing.at_all }}").unwrap();
    let missing = missing.render(&[Message::new("user", "x")], &RenderOptions::default()).unwrap_err();
    assert!(missing.to_string().contains("undefined"), "{missing}");
}

#[test]
fn an_error_quotes_what_cannot_be_rendered() {
    for (source, words) in [
        ("a\n{{ messages | nosuch }}", &["line 2", "nosuch", "in `{{ messages | nosuch }}`"][..]),
        ("{% frobnicate x %}", &["line 1", "frobnicate", "in `{% frobnicate x %}`"]),
        ("x\n\n{{ 'a'.nosuch() }} {{ 1 }}", &["line 3", "nosuch", "in `{{ 'a'.nosuch() }}`"]),
        ("{{ x is nosuch }}", &["line 1", "nosuch"]),
        ("{{ nosuch(1) }}", &["line 1", "nosuch"]),
        ("{%- for x in\n   nosuch() -%}\n{% endfor %}", &["nosuch"]),
        ("{{ 'unfinished", &["line 1"]),
    ] {
        let rendered = template(source).and_then(|t| t.render(&[], &RenderOptions::default()));
        let error = rendered.unwrap_err().to_string();
        assert!(words.iter().all(|w| error.contains(w)), "{source}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let long = template(&format!("{{{{ nosuch('{}') }}}}", "é".repeat(500))).unwrap();
    assert!(long.render(&[], &RenderOptions::default()).unwrap_err().to_string().len() < 500);
}

#[test]
fn a_template_says_what_it_reads() {
    let plain = template("{{ messages }}").unwrap();
    assert!(!plain.reads_tools() && plain.reasoning_switch().is_none());
    let more = template("{% if tools %}{{ enable_thinking }}{% endif %}{% set thinking = 1 %}{{ thinking }}").unwrap();
    assert!(more.reads_tools());
    assert_eq!(more.reasoning_switch(), Some("enable_thinking"));
}

#[test]
fn messages_keep_what_json_says_of_content() {
    for json in [
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}"#,
        r#"{"role":"assistant","reasoning_content":"hm"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"Hi"}]}"#,
        r#"{"role":"user","content":"Hi"}"#,
    ] {
        let message: Message = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), json);
    }
    let answer = Message::answer("<think>\nhm\n</think>\n\nYes.");
    assert_eq!((answer.content.as_str(), &answer.more["reasoning_content"]), (Some("Yes."), &Json::from("hm")));
    assert_eq!(Message::answer("Yes."), Message::new("assistant", "Yes."));
}

#[test]
fn tools_take_the_variant_for_tools_unless_another_is_selected() {
    let sources = [(DEFAULT, "plain"), (TOOL_USE, "tools"), ("rag", "rag")];
    let mut template = ChatTemplate::parse(&sources, Vec::new()).unwrap();
    let with_tools = RenderOptions { tools: Some(Json::Array(Vec::new())), ..RenderOptions::default() };
    assert_eq!(template.render(&[], &RenderOptions::default()).unwrap(), "plain");
    assert_eq!(template.render(&[], &with_tools).unwrap(), "tools");
    template.select("rag").unwrap();
    assert_eq!(template.render(&[], &with_tools).unwrap(), "rag");
    let unknown = template.select("none").unwrap_err().to_string();
    assert!(unknown.contains("'none'") && unknown.contains("default, tool_use, rag"), "{unknown}");
}

#[test]
fn a_prompt_begins_with_one_beginning_of_sequence() {
    let tokenizer = tokenizer(&["<unk>", "<s>", "</s>", "<t>"]);
    for prompt in ["<t>", "<s><t>"] {
        assert_eq!(encode_prompt(&tokenizer, prompt).unwrap(), [1, 3], "{prompt}");
    }
}

#[test]
fn a_template_that_does_not_end_or_prints_without_end_is_refused() {
    let lists = |step: &str, show: &str| {
        format!(
            "{{% set n = namespace(x=[1]) %}}{{% for i in range(400) %}}{{% set n.x = {step} %}}{{% endfor %}}{show}"
        )
    };
    let forever = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}".to_owned();
    for (source, words) in [
        (forever, "fuel"),
        (
            "{% set n = namespace(x=[]) %}{% for a in range(99999) %}{% for b in range(99999) %}{% set n.x = [n.x] %}\
             {% endfor %}{% endfor %}"
                .to_owned(),
            "fuel",
        ),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(), "recursion"),
        (lists("[n.x]", "{{ n.x }}"), "more than 200 levels"),
        (lists("{'k': n.x}", "{{ n.x | tojson }}"), "more than 200 levels"),
        (
            "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}"
                .into(),
            "values",
        ),
        ("{{ 'x' * 99999999999 }}".to_owned(), "too large"),
        (format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000)), "recursion"),
        ("{{ messages | tojson(indent=99999999999999999999) }}".to_owned(), "line 1"),
    ] {
        let rendered = template(&source).and_then(|t| t.render(&[], &RenderOptions::default()));
        let error = rendered.unwrap_err().to_string();
        assert!(error.contains(words) && error.lines().count() == 1, "{}: {error}", &source[..source.len().min(80)]);
    }
}

#[test]
fn a_fault_of_the_engine_is_an_error() {
    for source in ["{{ messages[::-1][0] }}", "{{ ''[::-2] }}"] {
        let error = template(source).unwrap().render(&[], &RenderOptions::default()).unwrap_err().to_string();
        assert_eq!(error, "chat template 'default': the template engine failed at something in it");
    }
    let reversed =
        template("{% for m in messages[::-1] %}{{ m.role }}{% else %}none{% endfor %}{{ 'abc'[::-1] }}").unwrap();
    assert_eq!(reversed.render(&[], &RenderOptions::default()).unwrap(), "nonecba");
}
