//! Whole models through the executor, for tests: opened with kernels that the tests of a run share, and run in pieces.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::SystemTime;

use half::f16;
use hrx::gguf::write::{Builder, WriteError};
use hrx::gguf::{GgmlType, Gguf};
use hrx::{CacheChoice, ModelOptions};

pub use hrx_golden::feeding::{Feeding, logits};

/// Options with this many threads, whose kernels are kept for all tests of this build of this test binary.
///
/// A build has a directory of its own, so that no kernel of an older code generator is taken. Those of older builds are
/// removed; of the same build nothing ever is, as its tests may run side by side in several processes.
pub fn options(threads: usize) -> ModelOptions {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    let dir = DIR.get_or_init(|| {
        let exe = std::env::current_exe().unwrap_or_default();
        // TARGET/debug/deps/EXE: cargo keeps TARGET/tmp for what tests write.
        let tmp = exe.ancestors().nth(3).map_or_else(std::env::temp_dir, |target| target.join("tmp"));
        let all = tmp.join("kernels").join(exe.file_stem().unwrap_or_default());
        let built = exe.metadata().and_then(|metadata| metadata.modified()).ok();
        let built = built.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
        let dir = all.join(format!("{:x}", built.as_nanos()));
        for old in std::fs::read_dir(&all).into_iter().flatten().flatten().filter(|old| old.path() != dir) {
            // Another process may be at it too.
            let _ = std::fs::remove_dir_all(old.path());
        }
        dir
    });
    ModelOptions { threads, cache: CacheChoice::Dir(dir.clone()), ..ModelOptions::default() }
}

/// The file of a model with its F16 tensors widened to F32: the same weights, so the same logits.
///
/// # Errors
/// If the file can't be laid out.
pub fn widened(gguf: &Gguf) -> Result<Vec<u8>, WriteError> {
    let mut file = metadata(gguf);
    for tensor in gguf.tensors() {
        let data = gguf.data(tensor);
        let (kind, data) = match tensor.ggml_type() {
            GgmlType::F16 => {
                let (halves, _) = data.as_chunks::<2>();
                (GgmlType::F32, halves.iter().flat_map(|&h| f16::from_le_bytes(h).to_f32().to_le_bytes()).collect())
            }
            kind => (kind, data.to_vec()),
        };
        file.tensor(tensor.name(), tensor.dims(), kind, data);
    }
    file.to_bytes()
}

/// The file of a model with a tensor for each expert, as files of before April 2024 have them: all parts of the first
/// expert, then those of the next.
///
/// # Errors
/// If the file can't be laid out.
pub fn with_experts_apart(gguf: &Gguf) -> Result<Vec<u8>, WriteError> {
    let mut tensors = Vec::new();
    for tensor in gguf.tensors() {
        let (data, kind) = (gguf.data(tensor), tensor.ggml_type());
        let Some(stem) = tensor.name().strip_suffix("_exps.weight") else {
            tensors.push((0, tensor.name().to_owned(), tensor.dims(), kind, data));
            continue;
        };
        let (each, count) = tensor.dims().split_at(2);
        for (e, part) in data.chunks(data.len() / count[0] as usize).enumerate() {
            tensors.push((e, format!("{stem}.{e}.weight"), each, kind, part));
        }
    }
    tensors.sort_by_key(|tensor| tensor.0);
    let mut file = metadata(gguf);
    for (_, name, dims, kind, data) in tensors {
        file.tensor(&name, dims, kind, data.to_vec());
    }
    file.to_bytes()
}

/// A file without tensors that has another's metadata.
fn metadata(gguf: &Gguf) -> Builder {
    let mut file = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        file.value(key, value);
    }
    file
}
