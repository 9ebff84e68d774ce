//! The cache of Hugging Face's libraries: `models--ORG--REPO/snapshots/REVISION/FILE`, with the revision of a branch in
//! `refs/BRANCH`. Source: huggingface_hub's guide "Manage your cache".

use super::repository::{Wanted, entries, files};
use super::{Found, Keeper};
use std::path::{Path, PathBuf};

/// The files in the cache that are meant.
pub fn find(cache: &Path, wanted: &Wanted) -> Vec<Found> {
    let mut found = Vec::new();
    for (name, dir) in entries(cache) {
        // A repository of nobody's has no organisation: `models--gpt2`.
        let Some(id) = name.strip_prefix("models--") else { continue };
        let (org, repo) = id.split_once("--").unwrap_or(("", id));
        for snapshot in snapshots(&dir) {
            found.extend(files(&snapshot, org, repo, wanted, Keeper::HuggingFace));
        }
    }
    for f in &mut found {
        f.name = f.name.trim_start_matches('/').into();
    }
    found
}

/// The snapshot of the branch `main`; all of them where there is none, as after a download of another revision.
fn snapshots(repository: &Path) -> Vec<PathBuf> {
    let all = repository.join("snapshots");
    let main = std::fs::read_to_string(repository.join("refs/main")).ok();
    // What the file says is one name, never a path.
    let main = main.as_deref().map(str::trim).filter(|r| !r.is_empty() && r.bytes().all(|b| b.is_ascii_alphanumeric()));
    match main.map(|revision| all.join(revision)).filter(|dir| dir.is_dir()) {
        Some(dir) => vec![dir],
        None => entries(&all).into_iter().map(|(_, dir)| dir).collect(),
    }
}
