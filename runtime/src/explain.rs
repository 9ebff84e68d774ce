//! What a model is made of and what it would take to run it, without running it.

use crate::device::DeviceInfo;
use crate::error::Error;
use crate::exec::model_kernels;
use crate::gguf::{Gguf, Value};
use crate::model::Model;
use crate::models::PerLayer;
use crate::session::SessionOptions;
use crate::session_plan::{SessionPlan, state_bytes};
use hrx_ir::graph::State;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A model, its kernels and its memory on one device.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The file, of a split model the first one.
    pub file: PathBuf,
    /// How many files there are.
    pub files: usize,
    /// Their bytes.
    pub file_bytes: u64,
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`.
    pub name: Option<String>,
    /// The recipe of quantisation, or the most frequent type.
    pub file_type: String,
    /// Elements of all tensors.
    pub n_params: u64,
    /// Metadata in the file's order: numbers, booleans and texts as such. Arrays and long texts are described by their
    /// lengths.
    pub metadata: serde_json::Map<String, Json>,
    /// The model's sizes.
    pub sizes: ModelSizes,
    /// Tensors by type, those of most bytes first.
    pub tensors: Vec<TensorType>,
    /// The vocabulary; none if the file has none that can be used, which is then said in `tokenizer_problem`.
    pub tokenizer: Option<TokenizerFacts>,
    /// Why there is no tokenizer.
    pub tokenizer_problem: Option<String>,
    /// Kernels in order of first use.
    pub kernels: Vec<KernelUse>,
    /// Launches of all of them.
    pub launches: Launches,
    /// Memory by kind.
    pub memory: Memory,
    /// Whether that fits the device.
    pub fit: Fit,
}

/// Sizes of a model; 0 where it has no such thing. Where layers differ it is the largest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "as in ModelConfig")]
pub struct ModelSizes {
    pub n_vocab: u32,
    pub n_embd: u32,
    pub n_layer: u32,
    pub n_head: u32,
    pub n_kv_head: u32,
    pub head_dim: u32,
    pub value_dim: u32,
    pub n_ff: u32,
    pub n_expert: u32,
    pub n_expert_used: u32,
    pub n_ctx_train: u32,
    /// Of these sizes, those that layers have different ones of.
    pub by_layer: Vec<&'static str>,
}

/// The tensors of a type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorType {
    /// As GGML calls it.
    #[serde(rename = "type")]
    pub name: &'static str,
    /// How many there are.
    pub count: usize,
    /// Their elements.
    pub elements: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A vocabulary and what a conversation is written in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenizerFacts {
    /// Tokens.
    pub tokens: usize,
    /// The pre-tokenizer, or `SentencePiece`.
    pub pre: String,
    /// Tokens at which generation ends, as they are spelled.
    pub ends: Vec<String>,
    /// The chat template's names, or none if the file has no template.
    pub chat_templates: Vec<String>,
    /// Whether a template reads tools.
    pub tools: bool,
    /// The variable of a template that switches reasoning.
    pub reasoning: Option<&'static str>,
    /// Why the template can't be used.
    pub template_problem: Option<String>,
}

/// A kernel with its launches in a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelUse {
    /// Its name; kernels of different sizes may have the same.
    pub name: String,
    /// Launches of a step of one token.
    pub decode: usize,
    /// Launches of a step of several tokens.
    pub prefill: usize,
}

/// Launches of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Launches {
    /// Of a step of one token.
    pub decode: usize,
    /// Of a step of several tokens.
    pub prefill: usize,
}

/// Memory by kind, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Weights.
    pub weights: u64,
    /// Whether they are copied to the device. If not, they are read where the file is mapped.
    pub weights_are_copied: bool,
    /// Keys and values at this context.
    pub kv_cache: u64,
    /// Of these, for each token of the context.
    pub kv_cache_per_token: u64,
    /// States of convolutions and recurrences, which don't grow with the context.
    pub states: u64,
    /// What is computed in a step.
    pub activations: u64,
    /// What the device has to give: all of the above that is not the mapped file.
    pub total: u64,
}

/// Whether a session fits its device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The device's name.
    pub device: String,
    /// What it is.
    pub description: String,
    /// Bytes of its memory.
    pub device_memory: u64,
    /// Bytes of it that are free.
    pub device_free: u64,
    /// The context asked for.
    pub n_ctx: u32,
    /// The most tokens of a step.
    pub n_batch: u32,
    /// Whether it fits.
    pub fits: bool,
    /// The longest context that would; none where nothing grows with it.
    pub longest_context: Option<u64>,
    /// What does not fit, and what would.
    pub problem: Option<String>,
}

/// Longest text of a value in characters.
const LONGEST: usize = 80;

impl Model {
    /// What the model is made of and what a session with these options would take. No memory is allocated and nothing is
    /// compiled.
    ///
    /// # Errors
    /// If the options make no sense, or a template refuses the model. That it does not fit is no error.
    pub fn explain(&self, options: &SessionOptions) -> Result<Explanation, Error> {
        let (gguf, config, summary) = (self.gguf(), self.config(), self.summary());
        let device = self.kernels().device();
        let info = device.info();
        let plan = SessionPlan::new(self.data(), &**device, info.free, options)?;
        let kernels: Vec<KernelUse> = model_kernels(self.graph(), device.target())?
            .into_iter()
            .map(|k| KernelUse { name: k.kernel.name.to_string(), decode: k.decode, prefill: k.prefill })
            .collect();
        let sum = |of: fn(&KernelUse) -> usize| kernels.iter().map(of).sum();
        let states = self.graph().states().filter(|(_, s)| !matches!(s, State::Kv(_)));
        let states = states.map(|(_, s)| state_bytes(s)).sum();
        let (tokenizer, tokenizer_problem) = match self.tokenizer_facts() {
            Ok(facts) => (Some(facts), None),
            Err(e) => (None, Some(e.to_string())),
        };
        let need = &plan.need;
        Ok(Explanation {
            file: gguf.path().into(),
            files: gguf.shards(),
            file_bytes: summary.file_bytes,
            architecture: summary.architecture,
            name: summary.name,
            file_type: summary.file_type,
            n_params: summary.n_params,
            metadata: metadata(gguf),
            sizes: {
                let all = [
                    ("n_head", &config.n_head),
                    ("n_kv_head", &config.n_kv_head),
                    ("n_ff", &config.n_ff),
                    ("n_expert_used", &config.n_expert_used),
                ];
                let differ = |list: &PerLayer| matches!(list, PerLayer::Each(l) if l.windows(2).any(|w| w[0] != w[1]));
                ModelSizes {
                    n_vocab: config.n_vocab,
                    n_embd: config.n_embd,
                    n_layer: config.n_layer,
                    n_head: config.n_head.max(),
                    n_kv_head: config.n_kv_head.max(),
                    head_dim: config.head_dim,
                    value_dim: config.value_dim,
                    n_ff: config.n_ff.max(),
                    n_expert: config.n_expert,
                    n_expert_used: config.n_expert_used.max(),
                    n_ctx_train: config.n_ctx_train,
                    by_layer: all.into_iter().filter(|(_, list)| differ(list)).map(|(name, _)| name).collect(),
                }
            },
            tensors: tensor_types(gguf),
            tokenizer,
            tokenizer_problem,
            launches: Launches { decode: sum(|k| k.decode), prefill: sum(|k| k.prefill) },
            kernels,
            memory: Memory {
                weights: summary.tensor_bytes,
                weights_are_copied: device.copies_data(),
                kv_cache: need.kv - states,
                kv_cache_per_token: need.per_token,
                states,
                activations: need.arena,
                total: need.total(),
            },
            fit: fit(&plan, info),
        })
    }

    fn tokenizer_facts(&self) -> Result<TokenizerFacts, Error> {
        let tokenizer = self.tokenizer()?;
        let spelled = |id: &u32| tokenizer.spelling(*id).map(|text| String::from_utf8_lossy(text).into_owned());
        let mut facts = TokenizerFacts {
            tokens: tokenizer.vocab_size(),
            pre: tokenizer.pre_tokenizer().unwrap_or("SentencePiece").into(),
            ends: tokenizer.ends_of_generation().iter().filter_map(spelled).collect(),
            chat_templates: Vec::new(),
            tools: false,
            reasoning: None,
            template_problem: None,
        };
        match self.chat_template() {
            Ok(template) => {
                facts.tools = template.reads_tools();
                facts.reasoning = template.reasoning_switch();
                if !template.is_fallback() {
                    facts.chat_templates = template.names().to_vec();
                }
            }
            Err(e) => facts.template_problem = Some(e.to_string()),
        }
        Ok(facts)
    }
}

fn fit(plan: &SessionPlan, info: DeviceInfo) -> Fit {
    let problem = plan.need.check(&info).err().map(|e| e.to_string());
    Fit {
        longest_context: plan.need.longest_context(&info),
        device: info.name,
        description: info.description,
        device_memory: info.memory,
        device_free: info.free,
        n_ctx: plan.n_ctx,
        n_batch: plan.drafts.max_tokens,
        fits: problem.is_none(),
        problem,
    }
}

fn tensor_types(gguf: &Gguf) -> Vec<TensorType> {
    let mut types: BTreeMap<&'static str, TensorType> = BTreeMap::new();
    for tensor in gguf.tensors() {
        let name = tensor.ggml_type().name();
        let all = types.entry(name).or_insert(TensorType { name, count: 0, elements: 0, bytes: 0 });
        all.count += 1;
        all.elements += tensor.elements();
        all.bytes += tensor.byte_size() as u64;
    }
    let mut types: Vec<_> = types.into_values().collect();
    types.sort_by_key(|t| std::cmp::Reverse(t.bytes));
    types
}

fn metadata(gguf: &Gguf) -> serde_json::Map<String, Json> {
    gguf.metadata().iter().map(|(key, value)| (key.to_owned(), describe(&value))).collect()
}

/// A value that has one line as text. Numbers that JSON has not, as infinity, are texts.
fn describe(value: &Value) -> Json {
    match *value {
        Value::U8(v) => v.into(),
        Value::I8(v) => v.into(),
        Value::U16(v) => v.into(),
        Value::I16(v) => v.into(),
        Value::U32(v) => v.into(),
        Value::I32(v) => v.into(),
        Value::U64(v) => v.into(),
        Value::I64(v) => v.into(),
        // By its shortest decimal, which the next double is not.
        Value::F32(v) => v.to_string().parse().map_or(v.to_string().into(), |n: f64| float(n)),
        Value::F64(v) => float(v),
        Value::Bool(v) => v.into(),
        Value::String(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            if text.chars().count() > LONGEST || text.contains('\n') {
                return format!("a text of {} bytes", bytes.len()).into();
            }
            text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect::<String>().into()
        }
        Value::Array(ref array) => format!("{} values of {}", array.len(), array.element_type()).into(),
    }
}

fn float(v: f64) -> Json {
    if v.is_finite() { v.into() } else { v.to_string().into() }
}
