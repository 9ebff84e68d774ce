//! Templates that files bring along.

use crate::support::{command, ran, ran_with_input, with_metadata};

const TEMPLATE: &str = "tokenizer.chat_template";
const SHORT: [&str; 7] = ["--chat", "-n", "4", "--temp", "0", "-p", "Hi"];

#[test]
fn a_models_template_is_used_and_its_variant_for_tools() {
    let dir = tempfile::tempdir().unwrap();
    let tools = dir.path().join("tools.json");
    std::fs::write(&tools, r#"[{"name":"clock"}]"#).unwrap();
    let all = "{% for m in messages %}{{ m.content }}{% endfor %}";
    let with_tools = "{{ raise_exception('tools: ' ~ tools[0].function.name) }}";
    let file = with_metadata(dir.path(), &[(TEMPLATE, all), ("tokenizer.chat_template.tool_use", with_tools)]);
    let plain = ran(&mut command(&file, &SHORT));
    assert!(!plain.err.contains("warning"), "{}", plain.err);
    // Without turns a conversation's first answer is the continuation of a text, as a line.
    let text = ran(&mut command(&file, &["-p", "Hi", "-n", "4", "--temp", "0"])).text();
    assert_eq!(plain.text(), text + "\n");
    let args = [&SHORT[..], &["--tools", tools.to_str().unwrap()]].concat();
    let refused = ran(&mut command(&file, &args));
    assert!(refused.error().contains("chat template 'tool_use' line 1") && refused.error().contains("tools: clock"));
    let explained = ran(&mut command(&file, &["--explain"])).text();
    assert!(
        explained.contains("chat templates default, tool_use, with tools and no switch for reasoning"),
        "{explained}"
    );
}

#[test]
fn a_template_that_cannot_be_rendered_says_where_why_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    for (template, words) in [
        ("{% if %}", &["line 1", "in `{% if %}`"][..]),
        ("\n{{ messages | sorted_by_mood }}", &["line 2", "sorted_by_mood"]),
        ("\n\n{{ raise_exception('no questions\n please') }}", &["no questions; please"]),
        ("{{ messages[7].content.strip() }}", &["line 1", "undefined"]),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", &["fuel"]),
        ("{{ 'a\u{1b}[2J' | nosuch }}", &["nosuch"]),
        ("{% include 'other' %}", &["line 1", "other"]),
        ("{{ ''[::-2] }}", &["the template engine failed"]),
    ] {
        let file = with_metadata(dir.path(), &[(TEMPLATE, template)]);
        let ran = ran(&mut command(&file, &SHORT));
        let error = ran.error();
        assert!(error.contains("chat template 'default'"), "{error}");
        assert!(error.ends_with("--chat-template FILE uses another template in place of the model's"), "{error}");
        assert!(words.iter().all(|w| error.contains(w)) && !error.contains('\u{1b}'), "{template}: {error}");
    }
    // All else works without it.
    let explained = ran(&mut command(&with_metadata(dir.path(), &[(TEMPLATE, "{% if %}")]), &["--explain"])).text();
    assert!(explained.contains("chat template 'default' line 1"), "{explained}");
}

#[test]
fn a_prompt_beyond_the_context_and_a_message_that_is_no_text_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let file = with_metadata(dir.path(), &[(TEMPLATE, "{% for m in messages %}{{ m.content }}{% endfor %}")]);
    let long = "sea ".repeat(20_000);
    let system = ran(&mut command(&file, &[&SHORT[..], &["--system", &long, "-c", "64"]].concat()));
    let error = system.error();
    assert!(
        error.contains("the context of 64 tokens is full: the conversation has ") && error.contains("-c"),
        "{error}"
    );
    let bytes = ran_with_input(&mut command(&file, &["--chat", "-n", "1"]), b"\xff\xfe\n");
    assert!(bytes.error().contains("a message is not UTF-8"), "{}", bytes.err);
    // Nothing to read is nothing to answer.
    assert_eq!(ran(&mut command(&file, &["--chat"])).text(), "");
}

#[test]
fn what_a_file_says_of_itself_does_not_move_the_cursor() {
    let dir = tempfile::tempdir().unwrap();
    let name = "a\u{1b}[2J\nb\tc";
    let file = with_metadata(dir.path(), &[("general.name", name), ("general.\u{1b}[2Jkey", "x")]);
    let text = ran(&mut command(&file, &["--explain"])).text();
    assert!(!text.contains(['\u{1b}', '\t']), "{text:?}");
    let json = ran(&mut command(&file, &["--explain", "--json"])).text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["name"], name);
    assert_eq!(json["metadata"]["llama.block_count"], json["sizes"]["n_layer"], "numbers are numbers");
    assert_eq!(json["metadata"]["tokenizer.ggml.tokens"].as_str().unwrap().split(' ').nth(1), Some("values"));
}
