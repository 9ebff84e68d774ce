//! Model names: what people call a model, to a file that another program has already put on this machine.
//!
//! A name that is a file is that file. Other names are looked up where Ollama ([`ollama`]), Hugging Face's libraries
//! (`hugging_face`), LM Studio and llama.cpp (`folders`) keep what they download:
//!
//! | name | means |
//! | --- | --- |
//! | `NAME`, `NAME:TAG`, `NAMESPACE/NAME:TAG` | a model of Ollama |
//! | `ORG/REPO` | the only GGUF model of a repository |
//! | `ORG/REPO:QUANT` | the one of that quantisation, as `Q4_K_M` |
//! | `ORG/REPO/FILE.gguf` | that file |
//! | `REPO`, `REPO:QUANT`, `FILE` | the same without saying whose it is |
//!
//! Nothing is downloaded. A name that several files answer to is an error that lists them; so is one that none does,
//! with the places that were looked at.
//!
//! ```
//! let places = hrx::names::Places { ollama: vec!["/nowhere".into()], ..Default::default() };
//! let error = places.find("smollm2:135m").unwrap_err().to_string();
//! assert!(error.contains("no file and no model named `smollm2:135m`") && error.contains("/nowhere"));
//! ```

mod error;
mod folders;
mod hugging_face;
pub mod ollama;
mod repository;
#[cfg(test)]
mod tests;

pub use error::NameError;

use repository::Wanted;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Who keeps a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// Nobody: the name is a file's.
    File,
    /// Ollama's store.
    Ollama,
    /// The cache of Hugging Face's libraries, which llama.cpp uses as well.
    HuggingFace,
    /// LM Studio's folder.
    LmStudio,
    /// The cache that older llama.cpp programs have of their own.
    LlamaCpp,
}

impl Keeper {
    /// As errors call the place.
    pub fn name(self) -> &'static str {
        match self {
            Keeper::File => "file",
            Keeper::Ollama => "Ollama",
            Keeper::HuggingFace => "Hugging Face",
            Keeper::LmStudio => "LM Studio",
            Keeper::LlamaCpp => "llama.cpp",
        }
    }
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The name in full, by which nothing else is meant.
    pub name: String,
    /// The file, of a split model the first one.
    pub path: PathBuf,
    /// Who keeps it.
    pub keeper: Keeper,
    /// What the keeper says of how the model is run.
    pub defaults: Defaults,
}

/// How a model's publisher wants it to be run. What is not said is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    /// Texts that end an answer.
    pub stop: Vec<String>,
    /// Divides logits before a token is drawn.
    pub temperature: Option<f32>,
    /// Draw from so many of the likeliest tokens.
    pub top_k: Option<usize>,
    /// Draw from the fewest tokens whose probabilities add up to this.
    pub top_p: Option<f32>,
    /// Draw from tokens with at least this share of the greatest probability.
    pub min_p: Option<f32>,
    /// Makes tokens of the recent text less likely.
    pub repeat_penalty: Option<f32>,
    /// The system message of a conversation that has none.
    pub system: Option<String>,
}

/// The folders that names are looked up in; several of a kind where programs have moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Folders with Ollama's `manifests` and `blobs`.
    pub ollama: Vec<PathBuf>,
    /// Folders with Hugging Face's `models--ORG--REPO`.
    pub hugging_face: Vec<PathBuf>,
    /// Folders with LM Studio's `ORG/REPO`.
    pub lm_studio: Vec<PathBuf>,
    /// Folders with llama.cpp's `ORG_REPO_FILE.gguf`.
    pub llama_cpp: Vec<PathBuf>,
}

impl Places {
    /// Where the programs look themselves: as their environment variables say, else in the home folder.
    pub fn from_env() -> Places {
        Places::from_variables(|name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from))
    }

    /// As [`from_env`](Places::from_env), with variables from elsewhere.
    pub fn from_variables(variable: impl Fn(&str) -> Option<PathBuf>) -> Places {
        let home = |rest: &str| variable("HOME").map(|home| home.join(rest));
        let cache = |rest: &str| {
            variable("XDG_CACHE_HOME").map(|cache| cache.join(rest)).or_else(|| home(&format!(".cache/{rest}")))
        };
        let hub = variable("HF_HUB_CACHE")
            .or_else(|| variable("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| variable("HF_HOME").map(|home| home.join("hub")))
            .or_else(|| cache("huggingface/hub"));
        let ollama = match variable("OLLAMA_MODELS") {
            Some(said) => vec![said],
            // The second is that of the service that Ollama's installer sets up on Linux.
            None => home(".ollama/models").into_iter().chain(["/usr/share/ollama/.ollama/models".into()]).collect(),
        };
        Places {
            ollama,
            // llama.cpp's own variable now means a cache of Hugging Face's form.
            hugging_face: variable("LLAMA_CACHE").into_iter().chain(hub).collect(),
            lm_studio: home(".lmstudio/models").into_iter().chain(cache("lm-studio/models")).collect(),
            llama_cpp: variable("LLAMA_CACHE").or_else(|| cache("llama.cpp")).into_iter().collect(),
        }
    }

    /// The file that a name stands for. A path is taken as it is, whether or not there is such a file, unless it could be
    /// a name: `a/b` may be both, and is a file if there is one. A folder is nothing but what opening it says.
    ///
    /// # Errors
    /// [`NameError::NotFound`] and [`NameError::Ambiguous`]; [`NameError::Store`] if a store's own files are damaged or link
    /// to nothing.
    pub fn find(&self, name: impl AsRef<OsStr>) -> Result<Found, NameError> {
        let path = Path::new(name.as_ref());
        let file = || Found {
            name: path.display().to_string(),
            path: path.into(),
            keeper: Keeper::File,
            defaults: Defaults::default(),
        };
        // A folder is no model, but may be called as one is.
        let is_folder = path.is_dir();
        if path.exists() && !is_folder {
            return Ok(file());
        }
        let Some(text) = name.as_ref().to_str().filter(|text| could_be_a_name(text)) else { return Ok(file()) };
        let mut found = Vec::new();
        for store in &self.ollama {
            found.extend(ollama::find(store, text)?);
        }
        if let Some(wanted) = Wanted::parse(text) {
            for cache in &self.hugging_face {
                found.extend(hugging_face::find(cache, &wanted));
            }
            for folder in &self.lm_studio {
                found.extend(folders::lm_studio(folder, &wanted));
            }
            for folder in &self.llama_cpp {
                found.extend(folders::llama_cpp(folder, &wanted));
            }
        }
        // Caches link to what they keep. What was taken away leaves links to nothing.
        let gone = found.iter().find(|f| !f.path.exists()).cloned();
        found.retain(|f| f.path.exists());
        // Two places may share a file.
        let mut seen = Vec::new();
        found.retain(|f| {
            let real = f.path.canonicalize().unwrap_or_else(|_| f.path.clone());
            let new = !seen.contains(&real);
            seen.push(real);
            new
        });
        // A name said in full means that one, whatever else it could mean.
        if let Some(at) = found.iter().position(|f| f.name == text) {
            return Ok(found.swap_remove(at));
        }
        match (found.len(), gone) {
            (1, _) => Ok(found.remove(0)),
            (0, Some(gone)) => Err(error::of_link(gone.path)),
            (0, None) if is_folder => Ok(file()),
            (0, None) => Err(NameError::NotFound { name: text.into(), looked: self.all() }),
            _ => Err(NameError::Ambiguous {
                name: text.into(),
                candidates: found.into_iter().map(|f| (f.name, f.path)).collect(),
            }),
        }
    }

    /// Every folder with its keeper.
    fn all(&self) -> Vec<(Keeper, PathBuf)> {
        let of = |keeper, paths: &[PathBuf]| paths.iter().map(move |p| (keeper, p.clone())).collect::<Vec<_>>();
        [
            of(Keeper::Ollama, &self.ollama),
            of(Keeper::HuggingFace, &self.hugging_face),
            of(Keeper::LmStudio, &self.lm_studio),
            of(Keeper::LlamaCpp, &self.llama_cpp),
        ]
        .concat()
    }
}

/// Whether a text that is no file may be a name: not a path that begins at the root, here or at home, nor a GGUF file in a
/// folder that no repository has.
fn could_be_a_name(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let plain = |part: &&str| !part.is_empty() && *part != "." && *part != ".." && !part.starts_with('~');
    !text.is_empty() && parts.iter().all(plain) && !text.contains('\\') && !text.contains('\0')
}
