//! Templates for files that have none, chosen by the turn tokens in the vocabulary.

use crate::tokenizer::Tokenizer;

/// A turn format: the token that gives it away, its name, its template.
struct Fallback {
    token: &'static str,
    name: &'static str,
    source: &'static str,
}

const FALLBACKS: &[Fallback] = &[
    Fallback {
        token: "<|im_start|>",
        name: "chatml",
        source: "\
{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    },
    Fallback {
        token: "<start_of_turn>",
        name: "gemma",
        source: "\
{{ bos_token }}\
{% if messages and messages[0].role == 'system' %}\
{% set system = messages[0].content + '\\n\\n' %}{% set turns = messages[1:] %}\
{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}\
{% for message in turns %}\
{{ '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}\
{{ system if loop.first else '' }}{{ (message.content or '') | trim }}{{ '<end_of_turn>\\n' }}\
{% endfor %}\
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    },
];

const PLAIN: (&str, &str) = (
    "plain",
    "{% for message in messages %}{{ message.role + ': ' + (message.content or '') + '\\n' }}{% endfor %}\
     {% if add_generation_prompt %}assistant:{% endif %}",
);

/// Name and source of the template for a vocabulary: ChatML if it has `<|im_start|>`, Gemma's turns if it has
/// `<start_of_turn>`, else lines of `role: text`.
pub fn choose(tokenizer: &Tokenizer) -> (&'static str, &'static str) {
    let known = FALLBACKS.iter().find(|f| tokenizer.token(f.token).is_some());
    known.map_or(PLAIN, |f| (f.name, f.source))
}
