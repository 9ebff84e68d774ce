//! The front door: open a model, start sessions on it.

use crate::chat::ChatTemplate;
use crate::device::{Buffer, Device};
use crate::error::Error;
use crate::exec::Warn;
use crate::exec::weights::{Needed, Packing, Weights, packed_bytes};
use crate::exec::{KernelCache, KernelStore};
use crate::gguf::{Gguf, GgufError};
use crate::models::{GgufRows, ModelConfig, ModelGraph, Stored};
use crate::session::{Session, SessionOptions};
use crate::synthetic::{Filler, Synthetic};
use crate::tokenizer::Tokenizer;
use hrx_cache::{Cache, CacheOptions};
use hrx_ir::graph::{Graph, Tensor, Weight, WeightSource};
use hrx_ir::quant::Arranged;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// Where compiled kernels are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheChoice {
    /// The user's cache directory: `$HRX_CACHE_DIR`, else `$XDG_CACHE_HOME/hrx`, else `~/.cache/hrx`.
    #[default]
    Default,
    /// This directory. That kernels can't be kept in it is an error, not a warning.
    Dir(PathBuf),
    /// Nowhere.
    Disabled,
}

/// How a model is opened.
#[derive(Clone)]
pub struct ModelOptions {
    /// The device's name: `cpu`, `cuda`, `cuda:N`, `hip`, `hip:N`, `emu:CHIP`, `auto`; see [`open_device`](crate::device::open_device).
    pub device: String,
    /// Threads of the CPU device; 0 for one a core.
    pub threads: usize,
    /// Where compiled kernels are kept.
    pub cache: CacheChoice,
    /// Where warnings go. By default to standard error.
    pub warn: Warn,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        let warn = Arc::new(|text: &str| eprintln!("warning: {text}"));
        ModelOptions { device: "cpu".into(), threads: 0, cache: CacheChoice::Default, warn }
    }
}

/// About how many bytes of a weight are arranged at once.
const ARRANGED_AT_ONCE: usize = 8 << 20;

/// What sessions share: the file, the graph and where the weights are.
pub(crate) struct ModelData {
    pub(crate) gguf: Gguf,
    pub(crate) config: ModelConfig,
    pub(crate) graph: Graph,
    /// Whether the weights are random, and not in the file.
    synthetic: bool,
    /// Weights on the device of the model: those that a session wanted.
    weights: Mutex<Weights>,
}

impl ModelData {
    /// The weights that programs read, in the forms that they read them in, on the device of the model's kernels. What one
    /// session has placed is there for all.
    pub(crate) fn place(&self, store: &KernelStore, needed: &Needed) -> Result<Weights, Error> {
        let device = &**store.device();
        let mut placed = self.weights.lock().unwrap_or_else(|e| e.into_inner());
        let mut to_pack = needed.packed(&self.graph);
        to_pack.retain(|(t, _)| !placed.packed.contains_key(t));
        let mut packing = Packing::new(store, to_pack)?;
        let mut filler = Filler::default();
        for (t, w) in self.graph.weights() {
            let stays = needed.reads_stored(t);
            if !packing.wants(t) && (!stays || placed.stored.contains_key(&t)) {
                continue;
            }
            let stored = match placed.stored.get(&t) {
                Some(stored) => stored.clone(),
                None if self.synthetic => {
                    filler.place(device, self.gguf.require_tensor(&w.name)?, needed.arranged(w))?
                }
                None => self.place_weight(device, w, needed.arranged(w))?,
            };
            // What is read now and then comes back from the file.
            let in_file = self.stored(w)?;
            let release = |read: Range<u64>| {
                if let Stored::Whole(info) = &in_file {
                    self.gguf.release_part(info, read.start as usize..read.end as usize);
                }
            };
            if let Some(packed) = packing.pack(t, &stored, release)? {
                placed.packed.insert(t, packed);
            }
            if stays {
                placed.stored.insert(t, stored);
            }
        }
        Ok(placed.clone())
    }

    fn place_weight(&self, device: &dyn Device, w: &Weight, arranged: Option<&Arranged>) -> Result<Buffer, Error> {
        let stored = self.stored(w)?;
        if let Some(arranged) = arranged {
            return self.arrange(device, w, &stored, arranged);
        }
        if let Stored::Whole(info) = stored {
            return Ok(device.place(self.gguf.tensor_data(info), &w.name)?);
        }
        let buffer = device.alloc(stored.byte_size(), &w.name)?;
        let mut at = 0;
        for info in stored.parts() {
            device.write(&buffer, at, self.gguf.data(info))?;
            at += info.byte_size() as u64;
            // What was copied need not stay in memory twice.
            self.gguf.release(info);
        }
        Ok(buffer)
    }

    /// Brings a weight to the device's memory in another order of its bytes, some blocks at a time.
    fn arrange(
        &self,
        device: &dyn Device,
        w: &Weight,
        stored: &Stored<'_>,
        arranged: &Arranged,
    ) -> Result<Buffer, Error> {
        let buffer = device.alloc(arranged.bytes(stored.byte_size()), &w.name)?;
        let mut at = 0;
        for info in stored.parts() {
            for some in self.gguf.data(info).chunks(arranged.whole_blocks(ARRANGED_AT_ONCE)) {
                let blocks = arranged.blocks(some);
                device.write(&buffer, at, &blocks)?;
                at += blocks.len() as u64;
            }
            self.gguf.release(info);
        }
        Ok(buffer)
    }

    /// Where a weight of the graph lies in the file.
    fn stored(&self, w: &Weight) -> Result<Stored<'_>, Error> {
        let absent = || GgufError::MissingTensor { file: self.gguf.path().into(), name: w.name.clone() };
        Ok(Stored::find(&self.gguf, &w.name).ok_or_else(absent)?)
    }

    /// Bytes that weights still take of a device's memory, for programs that need these: of those that are copied to it or
    /// packed, and have not been yet.
    pub(crate) fn weight_bytes(&self, device: &dyn Device, needed: &Needed) -> Result<u64, Error> {
        let placed = self.weights.lock().unwrap_or_else(|e| e.into_inner());
        let mut sum = 0;
        for (t, w) in self.graph.weights() {
            let stored = self.stored(w)?;
            let copied = self.synthetic || device.copies_data() || matches!(stored, Stored::Experts(_));
            if copied && needed.reads_stored(t) && !placed.stored.contains_key(&t) {
                let bytes = stored.byte_size();
                sum += needed.arranged(w).map_or(bytes, |arranged| arranged.bytes(bytes));
            }
            if let Some(pack) = needed.pack(&self.graph, t).filter(|_| !placed.packed.contains_key(&t)) {
                sum += packed_bytes(&pack);
            }
        }
        Ok(sum)
    }

    /// Elements of all weights.
    pub(crate) fn weight_elements(&self) -> u64 {
        self.graph.weights().map(|(_, w)| self.stored(w).map_or(0, |stored| stored.elements())).sum()
    }

    /// The elements of a weight of one row.
    pub(crate) fn weight_f32(&self, t: Tensor) -> Vec<f32> {
        let mut out = vec![0.0; self.graph.cols(t) as usize];
        if let Some(w) = self.graph.weight(t) {
            // The builder checked name, shape and type.
            let _ = GgufRows(&self.gguf).row(&w.name, 0, &mut out);
        }
        out
    }
}

/// An open model on a device.
pub struct Model {
    data: Arc<ModelData>,
    kernels: KernelStore,
    tokenizer: OnceLock<Tokenizer>,
}

/// Opens the kernel cache. A default cache that can't be opened is a warning: kernels are compiled each time then.
///
/// # Errors
/// If a directory is given and can't be used.
pub fn open_cache(choice: &CacheChoice, warn: &Warn) -> Result<KernelCache, Error> {
    Ok(match choice {
        CacheChoice::Disabled => Cache::disabled().into(),
        CacheChoice::Dir(dir) => KernelCache { cache: Cache::open(CacheOptions::at(dir))?, required: true },
        CacheChoice::Default => {
            let opened = CacheOptions::from_env().and_then(Cache::open).unwrap_or_else(|e| {
                warn(&format!("kernels are not cached: {e}"));
                Cache::disabled()
            });
            opened.into()
        }
    })
}

impl Model {
    /// Opens a GGUF file: checks it, builds its graph, opens the device. Kernels are made when a session is.
    ///
    /// # Errors
    /// If the file is damaged or its model is not supported, or the device can't be used.
    pub fn open(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Model, Error> {
        let gguf = Gguf::open(path.as_ref())?;
        Model::from_gguf(gguf, options)
    }

    /// Opens a model from a GGUF that has been read.
    ///
    /// # Errors
    /// As [`open`](Model::open).
    pub fn from_gguf(gguf: Gguf, options: &ModelOptions) -> Result<Model, Error> {
        let model = Model::build(gguf, false, options)?;
        // Weights that are not in memory are read while kernels are made.
        let gguf = &model.data.gguf;
        gguf.tensors().iter().for_each(|t| gguf.prefetch(t));
        Ok(model)
    }

    /// A model of a published size with random weights, which are made in the device's memory with its first session. It
    /// has no tokenizer.
    ///
    /// # Errors
    /// If the sizes don't go with the recipe, or the device can't be used.
    pub fn synthetic(model: &Synthetic, options: &ModelOptions) -> Result<Model, Error> {
        Model::build(model.gguf()?, true, options)
    }

    fn build(gguf: Gguf, synthetic: bool, options: &ModelOptions) -> Result<Model, Error> {
        let ModelGraph { config, graph } = ModelGraph::from_gguf(&gguf)?;
        let kernels = KernelStore::open(options)?;
        let data = ModelData { gguf, config, graph, synthetic, weights: Mutex::default() };
        Ok(Model { data: Arc::new(data), kernels, tokenizer: OnceLock::new() })
    }

    /// A new, empty sequence.
    ///
    /// # Errors
    /// If its context does not fit the device, or a kernel can't be made.
    pub fn session(&self, options: &SessionOptions) -> Result<Session, Error> {
        Session::new(&self.data, &self.kernels, options)
    }

    /// The file's tokenizer, made at the first call.
    ///
    /// # Errors
    /// If the file has none, or one of a kind that is not supported.
    pub fn tokenizer(&self) -> Result<&Tokenizer, Error> {
        if self.tokenizer.get().is_none() {
            let made = Tokenizer::from_metadata(self.data.gguf.metadata())?;
            // If another thread was faster, its tokenizer is the same.
            let _ = self.tokenizer.set(made);
        }
        self.tokenizer.get().ok_or_else(|| Error::Invalid("the tokenizer was not kept".into()))
    }

    /// The file's chat template.
    ///
    /// # Errors
    /// If it is broken.
    pub fn chat_template(&self) -> Result<ChatTemplate, Error> {
        Ok(ChatTemplate::from_metadata(self.data.gguf.metadata(), self.tokenizer()?)?)
    }

    /// The file.
    pub fn gguf(&self) -> &Gguf {
        &self.data.gguf
    }

    /// Sizes and numbers of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.data.config
    }

    /// The graph of one step.
    pub fn graph(&self) -> &Graph {
        &self.data.graph
    }

    pub(crate) fn data(&self) -> &ModelData {
        &self.data
    }

    /// The kernels made for the model's sessions so far.
    pub fn kernels(&self) -> &KernelStore {
        &self.kernels
    }
}
