//! Whatever a file says, building a graph of it ends in a graph or in one line of error: golden files with one value of
//! their metadata, or one tensor's name or dimensions, changed.

use std::sync::atomic::{AtomicUsize, Ordering};

use hrx::gguf::Gguf;
use hrx::models::ModelGraph;
use hrx_tests::golden::{Golden, Model};

/// Sizes and counts that break something somewhere.
const INTEGERS: [u32; 12] = [0, 1, 2, 3, 5, 17, 64, 4096, 0x1_0000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF];
const FLOATS: [f32; 7] = [0.0, -1.0, 1e-38, 1e38, f32::INFINITY, f32::NAN, 1.0];

/// The numbers of GGUF's types of values.
mod kind {
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
}

/// Bytes to put at a place of the file.
type Patch = (usize, Vec<u8>);

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// Where a string's characters are, behind their number.
fn place(bytes: &[u8], text: &str) -> usize {
    let wanted = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    bytes.windows(wanted.len()).position(|w| w == wanted).expect("it is in the file") + 8
}

/// Other values for the one of this kind at a place.
fn values(bytes: &[u8], kind: u32, at: usize) -> Vec<Patch> {
    match kind {
        kind::U32 | kind::I32 => INTEGERS.iter().map(|n| (at, n.to_le_bytes().to_vec())).collect(),
        kind::F32 => FLOATS.iter().map(|x| (at, x.to_le_bytes().to_vec())).collect(),
        kind::BOOL => vec![(at, vec![1 - bytes[at]])],
        kind::STRING => vec![(at + 8, vec![b'x'])],
        kind::ARRAY => {
            let (of, count, first) = (u32_at(bytes, at), u64_at(bytes, at + 4), at + 12);
            let size = if of == kind::BOOL { 1 } else { 4 };
            let places =
                if of == kind::STRING || count == 0 { vec![] } else { vec![first, first + (count - 1) * size] };
            places.into_iter().flat_map(|at| values(bytes, of, at)).collect()
        }
        _ => vec![],
    }
}

/// Every change of one thing.
fn patches(bytes: &[u8], gguf: &Gguf, architecture: &str) -> Vec<Patch> {
    let mut all = Vec::new();
    for (key, _) in gguf.metadata().iter().filter(|(key, _)| key.starts_with(&format!("{architecture}."))) {
        let at = place(bytes, key);
        let value = at + key.len();
        all.push((at + key.len() - 1, vec![b'~']));
        all.extend(values(bytes, u32_at(bytes, value), value + 4));
    }
    for tensor in gguf.tensors() {
        let at = place(bytes, tensor.name());
        all.push((at + tensor.name().len() - 1, vec![b'~']));
        let dims = at + tensor.name().len() + 4;
        if tensor.dims().len() > 1 {
            // The first two the other way round: the size in bytes need not change.
            let (a, b) = (&bytes[dims..dims + 8], &bytes[dims + 8..dims + 16]);
            all.push((dims, [b, a].concat()));
        }
    }
    all
}

/// How many of the changed files make no model.
fn check(golden: &Golden, model: &Model) -> usize {
    let bytes = std::fs::read(golden.path(model)).unwrap();
    let gguf = Gguf::from_bytes(bytes.clone()).unwrap_or_else(|e| panic!("{e}"));
    let mut refused = 0;
    for (at, patch) in patches(&bytes, &gguf, &model.arch) {
        let mut changed = bytes.clone();
        changed[at..at + patch.len()].copy_from_slice(&patch);
        let error = match Gguf::from_bytes(changed) {
            Ok(gguf) => ModelGraph::from_gguf(&gguf).err().map(|e| e.to_string()),
            Err(e) => Some(e.to_string()),
        };
        if let Some(error) = error {
            assert!(error.starts_with("<memory>: ") && error.lines().count() == 1, "{}: {error}", model.file);
            refused += 1;
        }
    }
    refused
}

#[test]
fn damage_is_an_error() {
    // One file of each variant is enough, the smallest.
    let golden = Golden::locate();
    let mut models: Vec<Model> = Vec::new();
    for model in golden.models().unwrap().into_iter().filter(Model::is_readable) {
        match models.iter_mut().find(|m| m.variant == model.variant) {
            None => models.push(model),
            Some(other) if other.size > model.size => *other = model,
            Some(_) => {}
        }
    }
    let (next, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(model) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
                    refused.fetch_add(check(&golden, model), Ordering::Relaxed);
                }
            });
        }
    });
    let refused = refused.into_inner();
    println!("{refused} changed files of {} models are refused", models.len());
    assert!(refused > 50 * models.len());
}
