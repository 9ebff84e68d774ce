//! Why a name is nobody's, or not one model's.

use super::Keeper;
use std::path::PathBuf;

/// Why a name stands for no model.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// No file and no model has this name.
    #[error("no file and no model named `{name}`; looked in {} (nothing is downloaded)", places(looked))]
    NotFound {
        /// The name.
        name: String,
        /// Where it was looked for.
        looked: Vec<(Keeper, PathBuf)>,
    },
    /// Several models have this name.
    #[error("`{name}` may be any of {}: {}; say which, or give its path", candidates.len(), list(candidates))]
    Ambiguous {
        /// The name.
        name: String,
        /// Their names in full, and their files.
        candidates: Vec<(String, PathBuf)>,
    },
    /// A program's store has a model of this name, but can't be used.
    #[error("{}: {problem}", file.display())]
    Store {
        /// The file of the store.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// That a file of a store is a link to nothing, as an interrupted download or a cleaned cache leaves it.
pub(super) fn of_link(file: PathBuf) -> NameError {
    let target = std::fs::read_link(&file).map(|to| format!(" to {}", to.display())).unwrap_or_default();
    NameError::Store { file, problem: format!("it is a link{target}, where nothing is; download the model again") }
}

/// How many names an error lists at most.
const LISTED: usize = 24;

fn places(looked: &[(Keeper, PathBuf)]) -> String {
    if looked.is_empty() {
        return "no place: there is no home folder".into();
    }
    let place = |(keeper, path): &(Keeper, PathBuf)| {
        let absent = if path.is_dir() { "" } else { ", which is not there" };
        format!("{} ({}{absent})", path.display(), keeper.name())
    };
    looked.iter().map(place).collect::<Vec<_>>().join(", ")
}

fn list(candidates: &[(String, PathBuf)]) -> String {
    let named: Vec<&str> = candidates.iter().map(|(name, _)| name.as_str()).collect();
    // Names that are the same say nothing; their files do.
    let clear = |name: &&str| named.iter().filter(|n| *n == name).count() == 1;
    let one = |(name, path): &(String, PathBuf)| {
        if clear(&name.as_str()) { name.clone() } else { format!("{name} ({})", path.display()) }
    };
    let mut said: Vec<String> = candidates.iter().take(LISTED).map(one).collect();
    if candidates.len() > LISTED {
        said.push(format!("and {} more", candidates.len() - LISTED));
    }
    said.join(", ")
}
