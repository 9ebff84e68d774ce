//! Folders without an index: LM Studio's `ORG/REPO/FILE.gguf`, and llama.cpp's `ORG_REPO_FILE.gguf`.

use super::repository::{Wanted, entries, files, is_model};
use super::{Defaults, Found, Keeper};
use std::path::Path;

/// The files in LM Studio's folder that are meant.
pub fn lm_studio(folder: &Path, wanted: &Wanted) -> Vec<Found> {
    let mut found = Vec::new();
    for (org, dir) in entries(folder) {
        for (repo, dir) in entries(&dir) {
            found.extend(files(&dir, &org, &repo, wanted, Keeper::LmStudio));
        }
    }
    found
}

/// The files in llama.cpp's cache that are meant. They have the slashes of `ORG/REPO/FILE.gguf` as underscores, so that only
/// a name tells where one part ends.
pub fn llama_cpp(folder: &Path, wanted: &Wanted) -> Vec<Found> {
    let mut found = Vec::new();
    for (name, path) in entries(folder) {
        if !is_model(&name) || path.is_dir() {
            continue;
        }
        let of_repository = wanted.org.is_some_and(|org| {
            let prefix = format!("{org}_{}_", wanted.repo);
            let rest = name.get(..prefix.len()).filter(|start| start.eq_ignore_ascii_case(&prefix));
            rest.is_some() && wanted.is_flat_file(&name[prefix.len()..])
        });
        if of_repository || wanted.is_bare_file(&name) {
            found.push(Found { name, path, keeper: Keeper::LlamaCpp, defaults: Defaults::default() });
        }
    }
    found
}
