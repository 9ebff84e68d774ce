//! The architectures: each says which blocks it has, and how the metadata set them.

use super::Problem;
use super::builder::ModelBuilder;

/// A kind of model: its name in `general.architecture` and how its graph is built.
pub struct Architecture {
    /// The name.
    pub name: &'static str,
    /// Models of this kind, for the documentation.
    pub models: &'static str,
    /// Golden models of this kind in the set that the project's checkouts share.
    pub goldens: &'static [&'static str],
    /// Golden models that were made for this project, by a recipe that is kept.
    pub own_goldens: &'static [&'static str],
    pub(super) build: fn(&mut ModelBuilder<'_>) -> Result<(), Problem>,
}

macro_rules! architectures {
    ($($name:literal $module:ident::$build:ident $models:literal [$($golden:literal),*] [$($own:literal),*];)*) => {
        /// All architectures.
        pub static ARCHITECTURES: &[Architecture] = &[$(Architecture {
            name: $name,
            models: $models,
            goldens: &[$($golden),*],
            own_goldens: &[$($own),*],
            build: $module::$build,
        },)*];
    };
}

mod cohere2;
mod deepseek2;
mod exaone4;
mod gemma2;
mod gemma3;
mod gemma4;
mod glm4;
mod glm4moe;
mod gpt2;
mod gpt_oss;
mod granite;
mod lfm2;
mod llama;
mod mamba2;
mod maple;
mod minimax_m2;
mod mistral3;
mod olmo2;
mod olmoe;
mod orion;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3next;
mod seed_oss;
mod smollm3;
mod stablelm;
mod starcoder2;
mod step35;

// Name, function, example models, golden models of the shared set, own golden models.
architectures! {
    "llama" llama::build "Llama 1 to 3.3, Mistral 7B, Mixtral, SmolLM2, Yi"
        ["llama-F16", "llama-moe-Q4_0", "llama-rope3-Q4_K_M"]
        ["llama-linear-F16", "llama-yarn-BF16", "llama-experts-NVFP4"];
    "internlm2" llama::build "InternLM2, InternLM2.5" [] ["internlm2-F16"];
    "qwen2" qwen2::dense "Qwen2, Qwen2.5" ["qwen2-Q4_K_M"] [];
    "qwen2moe" qwen2::experts "Qwen1.5-MoE, Qwen2-57B-A14B" ["qwen2moe-IQ4_NL"] ["qwen2moe-Q5_1"];
    "qwen3" qwen3::dense "Qwen3" ["qwen3-Q6_K"] [];
    "qwen3moe" qwen3::experts "Qwen3-30B-A3B, Qwen3-235B-A22B" ["qwen3moe-Q4_K_M", "qwen3moe-l1-Q4_0"] ["qwen3moe-Q5_0"];
    "qwen3next" qwen3next::next "Qwen3-Next-80B-A3B" [] ["qwen3next-F16", "qwen3next-ssm_in-F16"];
    "qwen35" qwen3next::dense "Qwen3.5" ["qwen35-Q5_K_S"] ["qwen35-Q8_0"];
    "qwen35moe" qwen3next::experts "Qwen3.5 with experts" ["qwen35moe-Q4_K_M"] ["qwen35moe-IQ4_NL"];
    "gemma2" gemma2::build "Gemma 2" ["gemma2-Q5_K_M"] ["gemma2-Q8_0"];
    "gemma3" gemma3::build "Gemma 3" ["gemma3-Q4_0"] [];
    "gemma4" gemma4::build "Gemma 4" ["gemma4-Q4_K_M", "gemma4-moe-IQ3_XXS"] ["gemma4-Q4_1", "gemma4-moe-Q4_0"];
    "gpt-oss" gpt_oss::build "gpt-oss-20b, gpt-oss-120b" ["openai-moe-MXFP4_MOE"] ["gpt-oss-MXFP4"];
    "phi3" phi3::build "Phi-3, Phi-3.5, Phi-4" ["phi3-Q4_K_S"] ["phi3-Q4_0", "phi3-long-F16"];
    "mistral3" mistral3::build "Mistral 3, Ministral 3, Devstral 2" ["mistral3-Q3_K_M"] ["mistral3-Q5_0"];
    "smollm3" smollm3::build "SmolLM3" ["smollm3-Q4_1"] ["smollm3-IQ4_NL"];
    "glm4" glm4::build "GLM-4-0414, GLM-Z1" [] ["glm4-F16"];
    "glm4moe" glm4moe::build "GLM-4.5, GLM-4.6, GLM-4.5-Air" ["glm4moe-Q4_K_M"] ["glm4moe-Q4_1"];
    "granite" granite::dense "Granite 3, Granite 4 (dense)" ["granite-Q5_1"] ["granite-Q4_0", "granite-nope-F16"];
    "granitemoe" granite::experts "Granite 3 with experts" [] ["granitemoe-F16"];
    "olmo2" olmo2::build "OLMo 2, OLMo 3" ["olmo2-Q3_K_S"] ["olmo2-Q4_1", "olmo2-windows-F16"];
    "olmoe" olmoe::build "OLMoE-1B-7B" [] ["olmoe-F16"];
    "orion" orion::build "Orion-14B" [] ["orion-F16"];
    "deepseek2" deepseek2::build "DeepSeek V2, V2-Lite, V3, R1, Kimi K2, GLM-4.7-Flash"
        ["deepseek2-IQ4_XS"] ["deepseek2-Q8_0", "deepseek2-lite-F16", "deepseek2-temperature-F16"];
    "lfm2" lfm2::build "LFM2" ["lfm2-Q5_0"] ["lfm2-Q5_1"];
    "step35" step35::build "Step-3.5-Flash" ["step35-IQ3_S"] ["step35-Q8_0"];
    "maple" maple::build "Maple" ["maple-TQ2_0"] ["maple-Q4_0"];
    "seed_oss" seed_oss::build "Seed-OSS-36B" [] ["seed_oss-F16"];
    "exaone4" exaone4::build "EXAONE 4.0" [] ["exaone4-F16", "exaone4-32B-F16"];
    "cohere2" cohere2::build "Command R7B, Command A" [] ["cohere2-F16"];
    "minimax-m2" minimax_m2::build "MiniMax-M2" [] ["minimax-m2-F16"];
    "starcoder2" starcoder2::build "StarCoder2" ["starcoder2-Q8_0"] ["starcoder2-F16"];
    "gpt2" gpt2::build "GPT-2" ["gpt2-Q4_1"] ["gpt2-Q5_0"];
    "stablelm" stablelm::build "StableLM, Stable LM 2" [] ["stablelm-F16", "stablelm-parallel-F16"];
    "mamba2" mamba2::build "Mamba 2, Codestral Mamba" ["mamba2-Q4_K_M"] ["mamba2-Q8_0"];
}
