//! What a person wants to know about a model at a glance.

use crate::model::Model;
use std::collections::HashMap;

/// Sizes and names of a model, as tools report them.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSummary {
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`.
    pub name: Option<String>,
    /// The quantisation recipe that the file names, as llama.cpp calls it, else the type that holds most elements.
    pub file_type: String,
    /// Elements of all tensors.
    pub n_params: u64,
    /// Bytes of all tensors.
    pub tensor_bytes: u64,
    /// Bytes of the file, of all its parts if it is split.
    pub file_bytes: u64,
}

/// The values of `general.file_type` and the recipes they stand for. Source: `gguf-py`'s `LlamaFileType`.
const FILE_TYPES: [(u32, &str); 35] = [
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (10, "Q2_K"),
    (11, "Q3_K_S"),
    (12, "Q3_K_M"),
    (13, "Q3_K_L"),
    (14, "Q4_K_S"),
    (15, "Q4_K_M"),
    (16, "Q5_K_S"),
    (17, "Q5_K_M"),
    (18, "Q6_K"),
    (19, "IQ2_XXS"),
    (20, "IQ2_XS"),
    (21, "Q2_K_S"),
    (22, "IQ3_XS"),
    (23, "IQ3_XXS"),
    (24, "IQ1_S"),
    (25, "IQ4_NL"),
    (26, "IQ3_S"),
    (27, "IQ3_M"),
    (28, "IQ2_S"),
    (29, "IQ2_M"),
    (30, "IQ4_XS"),
    (31, "IQ1_M"),
    (32, "BF16"),
    (36, "TQ1_0"),
    (37, "TQ2_0"),
    (38, "MXFP4_MOE"),
    (39, "NVFP4"),
    (40, "Q1_0"),
];

impl Model {
    /// The model at a glance.
    pub fn summary(&self) -> ModelSummary {
        let (gguf, config) = (self.gguf(), self.config());
        let mut elements: HashMap<&str, u64> = HashMap::new();
        for tensor in gguf.tensors() {
            *elements.entry(tensor.ggml_type().name()).or_default() += tensor.elements();
        }
        let said = gguf.metadata().u32("general.file_type").ok().flatten();
        let recipe = FILE_TYPES.iter().find(|(id, _)| Some(*id) == said).map(|&(_, name)| name);
        // Of equals the first by name, so that the answer is the same each time.
        let most = elements.iter().max_by_key(|&(&name, &n)| (n, std::cmp::Reverse(name))).map(|(&name, _)| name);
        ModelSummary {
            architecture: config.architecture.clone(),
            name: config.name.clone(),
            file_type: recipe.or(most).unwrap_or("no tensors").into(),
            n_params: gguf.tensors().iter().map(|t| t.elements()).sum(),
            tensor_bytes: gguf.tensors().iter().map(|t| t.byte_size() as u64).sum(),
            file_bytes: gguf.file_size(),
        }
    }
}
