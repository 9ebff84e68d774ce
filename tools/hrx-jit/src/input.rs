//! What comes in on command lines: files and sizes.

use hrx::ir::graph::Graph;
use hrx::models::ModelGraph;
use hrx::synthetic::Synthetic;
use std::io::Read;
use std::path::Path;

/// Whether a file is a model, by its first bytes.
///
/// # Errors
/// It can't be read.
pub fn is_gguf(path: &Path) -> Result<bool, String> {
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(4).read_to_end(&mut start));
    read.map_err(|e| format!("can't read {}: {e}", path.display()))?;
    Ok(start == b"GGUF")
}

/// The bytes of a file.
///
/// # Errors
/// It can't be read.
pub fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("can't read {}: {e}", path.display()))
}

/// The argument parser of a size in up to three directions.
pub fn size_parser(text: &str) -> Result<[u32; 3], String> {
    let sides: Option<Vec<u32>> = text.split('x').map(|side| side.parse().ok().filter(|&n| n > 0)).collect();
    match sides.as_deref() {
        Some(&[x]) => Ok([x, 1, 1]),
        Some(&[x, y]) => Ok([x, y, 1]),
        Some(&[x, y, z]) => Ok([x, y, z]),
        _ => Err("a size is one to three numbers, as in 256 or 16x16".into()),
    }
}

/// The graph of a model: of a GGUF file, or of one of published sizes without weights, as `qwen3-8b:q4_k_m`, where no
/// file has that name.
///
/// # Errors
/// The file can't be read, or there is neither.
pub fn graph_of(model: &Path) -> Result<Graph, hrx::Error> {
    let synthetic = model.to_str().filter(|_| !model.exists()).and_then(|name| name.parse::<Synthetic>().ok());
    let graph = match synthetic {
        Some(model) => ModelGraph::from_gguf(&model.gguf()?)?,
        None => ModelGraph::open(model)?,
    };
    Ok(graph.graph)
}
