//! Ollama's store: `manifests/HOST/NAMESPACE/NAME/TAG` is JSON that lists layers, which are files `blobs/sha256-HEX`.
//!
//! Layers are told apart by their media types: the model in GGUF, and JSON of parameters and the text of a system message
//! beside it. Its template is in Go's template language; the GGUF's own Jinja is used instead. Source: Ollama's
//! `manifest`, `server/model.go` and `types/model/name.go`.

use super::repository::entries;
use super::{Defaults, Found, Keeper, NameError};
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

const HOST: &str = "registry.ollama.ai";
/// Where Ollama keeps what it pulls from Hugging Face.
const HUGGING_FACE: &str = "hf.co";
const NAMESPACE: &str = "library";
const TAG: &str = "latest";

const MODEL: &str = "application/vnd.ollama.image.model";
const ADAPTER: &str = "application/vnd.ollama.image.adapter";
const PARAMS: &str = "application/vnd.ollama.image.params";
const SYSTEM: &str = "application/vnd.ollama.image.system";

/// Longest manifest, parameters or system message in bytes; real ones have some thousands.
const LONGEST: u64 = 1 << 20;

/// A model's layers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Manifest {
    /// In the order of the file.
    pub layers: Vec<Layer>,
}

/// A file of a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Layer {
    /// What it is.
    pub media_type: String,
    /// Its content's hash.
    pub digest: String,
    /// Its length in bytes, if said.
    pub size: Option<u64>,
}

impl Manifest {
    /// Reads a manifest and checks that digests are such, so that they can be made file names.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(json: &[u8]) -> Result<Manifest, String> {
        let manifest: Manifest = serde_json::from_slice(json).map_err(|e| format!("no manifest of Ollama: {e}"))?;
        match manifest.layers.iter().find(|layer| layer.hash().is_none()) {
            Some(layer) => Err(format!("`{}` is no SHA-256 digest", layer.digest)),
            None => Ok(manifest),
        }
    }

    fn layer(&self, media_type: &str) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.media_type == media_type)
    }
}

impl Layer {
    fn hash(&self) -> Option<&str> {
        // Both marks have been in use.
        let hash = self.digest.strip_prefix("sha256")?.strip_prefix([':', '-'])?;
        (hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit())).then_some(hash)
    }

    /// The layer's file in a store, which has to be whole.
    fn file(&self, store: &Path) -> Result<PathBuf, NameError> {
        let path = store.join("blobs").join(format!("sha256-{}", self.hash().unwrap_or_default()));
        let found = std::fs::metadata(&path).map_err(|e| problem(&path, format!("the layer can't be read: {e}")))?;
        let length = found.len();
        match self.size {
            _ if !found.is_file() => Err(problem(&path, "the layer is no file".into())),
            Some(size) if size != length => {
                Err(problem(&path, format!("the layer has {length} bytes, and its manifest says {size}")))
            }
            _ => Ok(path),
        }
    }
}

/// Parameters as Ollama's Modelfile has them; those that are of no use here are not read.
#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    stop: Vec<String>,
    temperature: Option<f32>,
    /// Below 1 for all.
    top_k: Option<i64>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    repeat_penalty: Option<f32>,
}

/// The parameters of a layer's JSON.
///
/// # Errors
/// What is wrong with them.
pub fn parse_params(json: &[u8]) -> Result<Defaults, String> {
    let p: Params = serde_json::from_slice(json).map_err(|e| format!("no parameters of Ollama: {e}"))?;
    Ok(Defaults {
        stop: p.stop.into_iter().filter(|text| !text.is_empty()).collect(),
        temperature: p.temperature,
        top_k: p.top_k.map(|k| usize::try_from(k).unwrap_or(0)),
        top_p: p.top_p,
        min_p: p.min_p,
        repeat_penalty: p.repeat_penalty,
        system: None,
    })
}

/// The models of a store that a name means: with a tag that one, without the one tagged `latest`, else all.
pub(super) fn find(store: &Path, name: &str) -> Result<Vec<Found>, NameError> {
    let Some((parts, tag)) = split(name) else { return Ok(Vec::new()) };
    let folders: &[Vec<&str>] = &match parts[..] {
        [model] => vec![vec![HOST, NAMESPACE, model]],
        [namespace, model] => vec![vec![HOST, namespace, model], vec![HUGGING_FACE, namespace, model]],
        _ => vec![parts],
    };
    let mut found = Vec::new();
    for parts in folders {
        let dir = parts.iter().fold(store.join("manifests"), |dir, part| dir.join(part));
        let mut tags = entries(&dir);
        if let Some(tag) = tag {
            tags.retain(|(name, _)| name.eq_ignore_ascii_case(tag));
        } else if tags.iter().any(|(name, _)| name == TAG) {
            tags.retain(|(name, _)| name == TAG);
        }
        for (tag, manifest) in tags.into_iter().filter(|(_, path)| path.is_file()) {
            let short = match parts[..] {
                [HOST, NAMESPACE, model] => model.to_owned(),
                [HOST, namespace, model] => format!("{namespace}/{model}"),
                _ => parts.join("/"),
            };
            found.push(read(store, &manifest, format!("{short}:{tag}"))?);
        }
    }
    Ok(found)
}

/// The parts between slashes, and the tag. None if a part can't be one of Ollama's.
fn split(name: &str) -> Option<(Vec<&str>, Option<&str>)> {
    let (name, tag) = match name.rsplit_once(':') {
        Some((name, tag)) => (name, Some(tag)),
        None => (name, None),
    };
    let parts: Vec<&str> = name.split('/').collect();
    let good = |part: &&str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && part.bytes().all(known)
    };
    (parts.len() <= 3 && parts.iter().chain(&tag).all(good)).then_some((parts, tag))
}

fn read(store: &Path, manifest: &Path, name: String) -> Result<Found, NameError> {
    let layers = Manifest::parse(&bytes(manifest)?).map_err(|text| problem(manifest, text))?;
    if layers.layer(ADAPTER).is_some() {
        return Err(problem(manifest, format!("{name} has an adapter beside its model, which can't be applied here")));
    }
    let Some(model) = layers.layer(MODEL) else {
        return Err(problem(manifest, format!("{name} has no model in GGUF")));
    };
    let mut defaults = Defaults::default();
    if let Some(params) = layers.layer(PARAMS) {
        let file = params.file(store)?;
        defaults = parse_params(&bytes(&file)?).map_err(|text| problem(&file, text))?;
    }
    if let Some(system) = layers.layer(SYSTEM) {
        let text = bytes(&system.file(store)?)?;
        defaults.system = Some(String::from_utf8_lossy(&text).into_owned());
    }
    Ok(Found { name, path: model.file(store)?, keeper: Keeper::Ollama, defaults })
}

fn bytes(path: &Path) -> Result<Vec<u8>, NameError> {
    let mut all = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut all));
    match read {
        Err(e) => Err(problem(path, format!("can't be read: {e}"))),
        Ok(n) if n as u64 > LONGEST => Err(problem(path, format!("has more than {LONGEST} bytes"))),
        Ok(_) => Ok(all),
    }
}

fn problem(file: &Path, problem: String) -> NameError {
    NameError::Store { file: file.into(), problem }
}
