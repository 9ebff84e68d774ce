//! Tokens with a role: where a sequence begins and where generation ends. Files name some of them by id; the others are
//! known by their spelling.

use super::config::TokenizerConfig;
use super::vocabulary::{Kind, Vocabulary};

/// Tokens that end a turn, a message or a text, by the spelling that models gave them.
const END_NAMES: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// A fill-in-the-middle role: its spellings, and whether generation ends at it.
struct FimRole {
    names: &'static [&'static str],
    ends: bool,
}

const FIM_ROLES: &[FimRole] = &[
    FimRole {
        names: &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
        ends: false,
    },
    FimRole {
        names: &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
        ends: false,
    },
    FimRole {
        names: &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
        ends: false,
    },
    FimRole { names: &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"], ends: true },
    FimRole { names: &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"], ends: true },
    FimRole { names: &["<|file_sep|>"], ends: true },
];

/// Tokens that structure gpt-oss's answers and must stay visible in decoded text.
const VISIBLE_NAMES: &[&str] = &["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// In a vocabulary that has all of `with`, `name` does not end generation but has the kind `instead`.
struct NotAnEnd {
    name: &'static str,
    with: &'static [&'static str],
    instead: Kind,
}

const NOT_AN_END: &[NotAnEnd] = &[
    NotAnEnd { name: "<|end|>", with: &["<|return|>", "<|call|>"], instead: Kind::USER_DEFINED },
    NotAnEnd { name: "<|end|>", with: &["<|flush|>", "<|calls|>"], instead: Kind::USER_DEFINED },
    NotAnEnd { name: "</s>", with: &["<|tool_response>"], instead: Kind::NORMAL },
    NotAnEnd { name: "</s>", with: &["<|plamo:eos|>"], instead: Kind::NORMAL },
];

/// The tokens at which generation ends, rising. Corrects the kinds of tokens that files are known to mislabel.
pub fn find_ends(config: &TokenizerConfig<'_>, vocabulary: &mut Vocabulary) -> Vec<u32> {
    let mut ends = Vec::new();
    let named = |vocabulary: &Vocabulary, name: &str| vocabulary.find(name.as_bytes());
    let control = |vocabulary: &mut Vocabulary, id: u32| {
        vocabulary.set_kind(id, vocabulary.kind(id) | Kind::CONTROL);
    };
    for role in FIM_ROLES {
        if let Some(id) = role.names.iter().find_map(|name| named(vocabulary, name)) {
            control(vocabulary, id);
            if role.ends {
                ends.push(id);
            }
        }
    }
    for name in END_NAMES {
        if let Some(id) = named(vocabulary, name) {
            control(vocabulary, id);
            ends.push(id);
        }
    }
    for name in VISIBLE_NAMES {
        if let Some(id) = named(vocabulary, name) {
            vocabulary.set_kind(id, Kind::USER_DEFINED);
        }
    }
    let by_id = [config.eos, config.eot, config.eom, config.fim_pad, config.fim_rep, config.fim_sep];
    ends.extend(by_id.into_iter().flatten());
    for rule in NOT_AN_END {
        if rule.with.iter().all(|name| named(vocabulary, name).is_some_and(|id| ends.contains(&id)))
            && let Some(id) = named(vocabulary, rule.name)
        {
            ends.retain(|end| *end != id);
            vocabulary.set_kind(id, rule.instead);
        }
    }
    // Phi-3's special tokens swallow the white space after them, which its GGUF files cannot say.
    let name = config.name.to_lowercase();
    if name.contains("phi-3") || name.contains("phi3") {
        let special = Kind::CONTROL | Kind::USER_DEFINED | Kind::UNKNOWN;
        let ids: Vec<_> = vocabulary.kinds().filter(|(_, kind)| kind.is(special)).collect();
        for (id, kind) in ids {
            if !matches!(vocabulary.text(id), Some(b"<unk>" | b"<s>" | b"<|endoftext|>")) {
                vocabulary.set_kind(id, kind | Kind::STRIPS_RIGHT);
            }
        }
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}
