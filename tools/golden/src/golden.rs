//! The reference data: small models with logits, and texts of real models.
//!
//! The whole set is shared between checkouts; a compact one is in this repository, in `tests/golden` (its README says what
//! is in it and what the numbers mean), with models that the other lacks. The whole one is `$HRX_SHARED/golden`, else
//! `../shared/golden` beside the repository; where it is, both are one set. The files of the real models are looked for in
//! `$HRX_MODELS`, else `.models`, where `cargo xtask models` puts them.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use hrx::gguf::GgmlType;
use hrx::models::{ARCHITECTURES, weight_content};
use hrx::npy::{self, Matrix, NpyError};

use crate::turns;

/// Architectures and types whose goldens are in every run, whatever takes turns.
const FIRST: (&[&str], &[&str]) = (
    &["llama", "qwen2", "qwen3", "gemma3"],
    &["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"],
);

/// The names of the types that weights can be read in.
pub fn readable_types() -> Vec<&'static str> {
    GgmlType::ALL.iter().filter(|&&t| weight_content(t).is_some()).map(|t| t.name()).collect()
}

/// Reference data that is missing or not as described.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file of logits cannot be read or is not a float32 matrix.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// A file has another form than it should.
    #[error("{}: {what}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// Distance of the reference engine's own quantised run from the float32 reference.
#[derive(Debug, Clone, Deserialize)]
pub struct Anchor {
    /// NMSE over all rows together.
    pub nmse: f64,
    /// Median of the rows' NMSE.
    pub nmse_pos_median: f64,
    /// The worst row's NMSE.
    pub nmse_pos_max: f64,
    /// Number of rows whose best token differs.
    pub top1_disagree: usize,
    /// The largest reference margin on such a row.
    pub top1_disagree_max_margin: f64,
}

/// Anchors of two ways to run the reference engine.
#[derive(Debug, Clone, Deserialize)]
pub struct Anchors {
    /// Its defaults: float16 KV cache.
    pub default: Anchor,
    /// Float32 KV cache.
    pub f32kv: Anchor,
}

/// A small model with its expected logits.
#[derive(Debug, Clone, Deserialize)]
pub struct Model {
    /// File name of the model; see [`Golden::path`].
    pub file: String,
    /// File name of the logits; see [`Golden::logits`].
    pub logits: String,
    /// `general.architecture`.
    pub arch: String,
    /// Architecture plus what is special about this one.
    pub variant: String,
    /// Name of the quantisation recipe.
    pub quant: String,
    /// Number of tensors of each type.
    pub tensor_types: std::collections::BTreeMap<String, usize>,
    /// Context length to open the model with.
    pub n_ctx: usize,
    /// Number of prompt tokens.
    pub n_prompt: usize,
    /// Number of tokens fed one at a time after the prompt.
    pub n_decode: usize,
    /// The prompt, `n_prompt` ids.
    pub tokens: Vec<u32>,
    /// The `n_decode` ids fed after the prompt; the reference's own greedy choice.
    pub greedy: Vec<u32>,
    /// For each row of logits, the best minus the second.
    pub top2_margin: Vec<f64>,
    /// Size of the model file in bytes.
    pub size: u64,
    /// Distances of the reference engine.
    pub anchor: Anchors,
}

impl Model {
    /// The ids to feed, prompt first. All in one prefill or the last `n_decode` one at a time:
    /// row `i` of the logits is the answer to id `i`.
    pub fn all_tokens(&self) -> Vec<u32> {
        [&self.tokens[..], &self.greedy[..]].concat()
    }

    /// What it is called: its file's name without the extension.
    pub fn name(&self) -> &str {
        self.file.trim_end_matches(".gguf")
    }

    /// Whether a graph can be built of it and its weights can be read.
    pub fn is_readable(&self) -> bool {
        let readable = readable_types();
        ARCHITECTURES.iter().any(|a| a.name == self.arch)
            && self.tensor_types.keys().all(|kind| readable.contains(&kind.as_str()))
    }

    /// Whether this run takes it, which has the number `at`: those of the first architectures and types always, others when
    /// it is their [turn](crate::turns) of so many.
    pub fn is_due(&self, at: usize, parts: u64) -> bool {
        let first = FIRST.0.contains(&self.arch.as_str()) && self.variant == self.arch;
        let always = first && self.tensor_types.keys().all(|kind| FIRST.1.contains(&kind.as_str()));
        self.is_readable() && (always || turns::is_turn(at, parts))
    }

    /// Bound on the median row NMSE of arithmetic in float32: 1.25 times that of the reference engine, and 1e-6 where the
    /// weights are not quantised (F32, F16), whichever is less.
    pub fn nmse_bound(&self) -> f64 {
        self.bound(1e-6)
    }

    /// The same where matrix instructions round what they multiply to float16, as on GPUs in batches: 2e-6 of weights that
    /// are not quantised. The cache's rounding, which float32 has too, is about half of it.
    pub fn nmse_bound_of_f16(&self) -> f64 {
        self.bound(2e-6)
    }

    fn bound(&self, unquantised: f64) -> f64 {
        let exact = self.tensor_types.keys().all(|kind| kind == "F32" || kind == "F16");
        let anchored = 1.25 * self.anchor.default.nmse_pos_median;
        if exact { anchored.min(unquantised) } else { anchored }
    }
}

/// What a real model answers to one prompt.
#[derive(Debug, Clone, Deserialize)]
pub struct Prompt {
    /// The text, without any template.
    pub text: String,
    /// Its ids, with the special tokens that the model adds.
    pub tokens: Vec<u32>,
    /// The ten best next tokens after the prompt: id, natural logarithm of the probability.
    pub top10: Vec<(u32, f64)>,
    /// The greedy continuation.
    pub greedy: Vec<u32>,
    /// Best minus second logit at each of its steps.
    pub margin: Vec<f64>,
    /// Distance of the reference engine's own run of this file, over all of these steps.
    pub anchor_default: Anchor,
}

impl Prompt {
    /// The part of the greedy continuation before the first step that two correct engines may
    /// decide differently (margin below 0.05).
    pub fn clear_greedy(&self) -> &[u32] {
        let clear = self.margin.iter().take_while(|&&margin| margin >= 0.05).count();
        &self.greedy[..clear.min(self.greedy.len())]
    }
}

/// A published or re-quantised real model.
#[derive(Debug, Clone, Deserialize)]
pub struct RealModel {
    /// File name of the model.
    pub model: String,
    /// Whether it is the file as published.
    pub original: bool,
    /// Size of the model file in bytes.
    pub size: u64,
    /// Vocabulary size.
    pub n_vocab: usize,
    /// Context length to open the model with.
    pub n_ctx: usize,
    /// Prompts and answers.
    pub prompts: Vec<Prompt>,
}

/// Reference data: one directory, or the whole set and this repository's beside it.
#[derive(Debug, Clone)]
pub struct Golden {
    /// Where to look, in order.
    dirs: Vec<PathBuf>,
}

impl Golden {
    /// The set to use; see the module.
    pub fn locate() -> Self {
        let shared = std::env::var_os("HRX_SHARED").map(PathBuf::from);
        let beside = repository().parent().map(|parent| parent.join("shared"));
        let whole = [shared, beside].into_iter().flatten().map(|dir| dir.join("golden"));
        let found = whole.into_iter().find(|dir| dir.join("models/index.json").is_file());
        let mut golden = Self::compact();
        golden.dirs.splice(0..0, found);
        golden
    }

    /// The compact set of this repository, which is always there.
    pub fn compact() -> Self {
        Self { dirs: vec![repository().join("tests/golden")] }
    }

    /// The set in one directory, that with `models/index.json`; or the directory `models` of it.
    pub fn at(dir: &Path) -> Self {
        let whole = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        let is_models = whole.join("index.json").is_file() && whole.ends_with("models");
        Self { dirs: vec![whole.parent().filter(|_| is_models).unwrap_or(&whole).to_path_buf()] }
    }

    /// Whether the whole set is there.
    pub fn is_whole(&self) -> bool {
        self.dirs.len() > 1
    }

    /// Where a file of the small models is.
    fn find(&self, file: &str) -> PathBuf {
        let mut paths = self.dirs.iter().map(|dir| dir.join("models").join(file));
        let first = paths.clone().next().unwrap_or_default();
        paths.find(|path| path.is_file()).unwrap_or(first)
    }

    /// All small models of the set, in the order of its index; those of this repository alone behind the others.
    ///
    /// # Errors
    /// The index or one of the descriptions is missing or malformed.
    pub fn models(&self) -> Result<Vec<Model>, GoldenError> {
        #[derive(Deserialize)]
        struct Row {
            json: String,
        }
        let mut all: Vec<Model> = Vec::new();
        for models in self.dirs.iter().map(|dir| dir.join("models")) {
            let rows: Vec<Row> = read_json(&models.join("index.json"))?;
            for row in rows {
                let model = checked(&models.join(&row.json))?;
                if !all.iter().any(|m| m.file == model.file) {
                    all.push(model);
                }
            }
        }
        Ok(all)
    }

    /// The model's file.
    pub fn path(&self, model: &Model) -> PathBuf {
        self.find(&model.file)
    }

    /// The model's expected logits: a row for each of [`Model::all_tokens`].
    ///
    /// # Errors
    /// The file is missing, malformed, or has another number of rows.
    pub fn logits(&self, model: &Model) -> Result<Matrix, GoldenError> {
        let path = self.find(&model.logits);
        let logits = npy::read(&path)?;
        let (rows, wanted) = (logits.rows, model.n_prompt + model.n_decode);
        if rows == wanted {
            return Ok(logits);
        }
        Err(GoldenError::Form { path, what: format!("{rows} rows, {wanted} wanted") })
    }

    /// The real models of the set whose files are as published, by name.
    ///
    /// # Errors
    /// A description is missing or malformed.
    pub fn published_models(&self) -> Result<Vec<RealModel>, GoldenError> {
        Ok(self.real_models()?.into_iter().filter(|model| model.original).collect())
    }

    /// All real models of the set, by name. The files of those that are not as published are made by
    /// `llama-quantize --allow-requantize PUBLISHED NAME.TYPE.gguf TYPE`.
    ///
    /// # Errors
    /// A description is missing or malformed.
    pub fn real_models(&self) -> Result<Vec<RealModel>, GoldenError> {
        let dir = self.dirs.first().cloned().unwrap_or_default().join("real");
        let io = |source| GoldenError::Io { path: dir.clone(), source };
        let mut paths = Vec::new();
        for file in fs::read_dir(&dir).map_err(io)? {
            let path = file.map_err(io)?.path();
            if path.extension().is_some_and(|e| e == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| read_json(path)).collect()
    }
}

/// The file of a real model, if `cargo xtask models` has put it there; else `None` after saying
/// so on stderr.
pub fn real_model_file(name: &str) -> Option<PathBuf> {
    let path = real_model_path(name);
    if !path.is_file() {
        eprintln!("skipped: {} is missing (cargo xtask models)", path.display());
        return None;
    }
    Some(path)
}

/// Where the file of a real model is looked for.
pub fn real_model_path(name: &str) -> PathBuf {
    let dir = std::env::var_os("HRX_MODELS").map(PathBuf::from);
    dir.unwrap_or_else(|| repository().join(".models")).join(name)
}

/// The top of the checkout that this was built in.
pub fn repository() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}

fn checked(path: &Path) -> Result<Model, GoldenError> {
    let model: Model = read_json(path)?;
    let rows = model.n_prompt + model.n_decode;
    let lengths = [model.tokens.len(), model.greedy.len(), model.top2_margin.len()];
    if lengths == [model.n_prompt, model.n_decode, rows] {
        return Ok(model);
    }
    let what = format!("lists of {lengths:?} numbers, against n_prompt and n_decode");
    Err(GoldenError::Form { path: path.to_owned(), what })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, GoldenError> {
    let file = File::open(path).map_err(|source| GoldenError::Io { path: path.to_owned(), source })?;
    serde_json::from_reader(BufReader::new(file))
        .map_err(|error| GoldenError::Form { path: path.to_owned(), what: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logits::{Comparison, argmax, rows};

    /// Other checkouts have no more than this set; who clones the repository gets it too, so it is bounded.
    #[test]
    fn compact_set_covers_what_can_be_read() {
        let golden = Golden::compact();
        let models = golden.models().expect("models");
        assert!(models.iter().all(Model::is_readable));
        for name in ARCHITECTURES.iter().map(|a| a.name) {
            assert!(models.iter().any(|model| model.arch == name), "no golden of {name}");
        }
        // Of Q8_K there are no files: it is what products round activations to.
        for kind in readable_types().into_iter().filter(|&kind| kind != "Q8_K") {
            let has = |model: &Model| model.tensor_types.contains_key(kind);
            assert!(models.iter().any(has), "no golden with {kind}");
        }
        let bytes: u64 = golden.dirs.iter().map(|dir| size(dir)).sum();
        assert!(bytes <= MOST_BYTES, "{bytes} bytes");
        // What is in the folder is in the index.
        let files = fs::read_dir(golden.dirs[0].join("models")).expect("a directory").count();
        assert_eq!(files, 3 * models.len() + 1, "three files for each model, and the index");
    }

    /// The most that the compact set may have.
    const MOST_BYTES: u64 = 25_000_000;

    /// The bytes of a folder's files.
    fn size(dir: &Path) -> u64 {
        let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
        entries.map(|path| if path.is_dir() { size(&path) } else { fs::metadata(path).expect("a file").len() }).sum()
    }

    #[test]
    fn every_golden_is_consistent() {
        for golden in [Golden::compact(), Golden::locate()] {
            let models = golden.models().expect("models");
            assert!(!models.is_empty());
            for model in &models {
                let size = fs::metadata(golden.path(model)).expect("model file").len();
                assert_eq!(size, model.size, "{}", model.file);
                let logits = golden.logits(model).expect("logits");
                // The reference chose the tokens that were fed back.
                for (s, row) in rows(&logits).skip(model.n_prompt - 1).take(model.n_decode).enumerate() {
                    assert_eq!(argmax(row) as u32, model.greedy[s], "{} step {s}", model.file);
                }
                for (row, margin) in rows(&logits).zip(&model.top2_margin) {
                    let mut sorted = row.to_vec();
                    sorted.sort_by(|a, b| b.total_cmp(a));
                    let found = f64::from(sorted[0] - sorted[1]);
                    assert!((found - margin).abs() <= 1e-3 * margin.max(1e-2), "{}", model.file);
                }
                assert_eq!(Comparison::of(&logits, &logits).median(), 0.0);
                assert!(model.nmse_bound() > 0.0);
            }
        }
    }

    #[test]
    fn bounds_follow_the_weights() {
        let models = Golden::compact().models().expect("models");
        let bound =
            |name: &str| models.iter().find(|model| model.file == name).expect("in the compact set").nmse_bound();
        assert_eq!(bound("exaone4-32B-F16.gguf"), 1e-6);
        let exaone = models.iter().find(|model| model.variant == "exaone4-32B").expect("in the compact set");
        assert_eq!(exaone.nmse_bound_of_f16(), 2e-6);
        assert!((bound("llama-linear-F16.gguf") - 1.25 * 6.094e-7).abs() < 1e-9);
        assert!((bound("llama-Q8_0.gguf") - 1.25 * 3.344e-4).abs() < 1e-6);
    }

    #[test]
    fn published_models_have_clear_answers() {
        let models = Golden::compact().published_models().expect("real models");
        let names: Vec<&str> = models.iter().map(|model| model.model.as_str()).collect();
        assert_eq!(names, ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"]);
        for prompt in models.iter().flat_map(|model| &model.prompts) {
            assert_eq!(prompt.greedy.len(), prompt.margin.len());
            assert_eq!(prompt.top10[0].0, prompt.greedy[0]);
        }
        // SmolLM2's first prompt: the thirteenth step has a margin of 0.02.
        assert_eq!(models[0].prompts[0].clear_greedy().len(), 12);
    }

    #[test]
    fn malformed_data_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let golden = Golden { dirs: vec![dir.path().to_owned()] };
        let missing = golden.models().unwrap_err();
        assert!(missing.to_string().contains("index.json"), "{missing}");
        fs::create_dir(dir.path().join("models")).unwrap();
        fs::write(dir.path().join("models/index.json"), "[{}]").unwrap();
        let malformed = golden.models().unwrap_err();
        assert!(malformed.to_string().contains("missing field `json`"), "{malformed}");
        fs::write(dir.path().join("bad.npy"), "not an array").unwrap();
        assert!(npy::read(&dir.path().join("bad.npy")).is_err());
    }
}
