//! A driver's library, opened when it is needed. Nothing of a vendor's is there when this is built.

use super::call::CallError;
use std::path::{Path, PathBuf};

/// A library that is looked for, as errors speak of it.
#[derive(PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Whose it is, as "HIP's".
    pub whose: &'static str,
    /// The names to try, in order.
    pub names: &'static [&'static str],
    /// The names for people.
    pub called: &'static str,
    /// With what it comes.
    pub comes_with: &'static str,
    /// The oldest release that has every function.
    pub oldest: &'static str,
    /// The variable that names it where it is elsewhere.
    pub variable: &'static str,
}

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// None could be opened.
    #[error(
        "{} library is not there: no {} where the dynamic loader looks{places}{odd}. It comes with {}; {} names it where \
         it is elsewhere", wanted.whose, wanted.called, wanted.comes_with, wanted.variable
    )]
    NotFound {
        /// What was looked for.
        wanted: &'static Wanted,
        /// Where else, in words.
        places: String,
        /// Those that are there and can't be opened, and why.
        odd: String,
    },
    /// One that was asked for can't be opened.
    #[error("{path} can't be opened: {reason}")]
    Open {
        /// The library.
        path: PathBuf,
        /// What the dynamic loader says.
        reason: String,
    },
    /// It is another library, or of a version that lacks something.
    #[error(
        "{path}{version} has no {function}: it is not {} library, or not of {} or later", wanted.whose, wanted.oldest
    )]
    Missing {
        /// What was looked for.
        wanted: &'static Wanted,
        /// The library.
        path: PathBuf,
        /// Its version, if it could be asked.
        version: String,
        /// What it lacks.
        function: &'static str,
    },
    /// It does not start.
    #[error("{path}: {source}")]
    Start {
        /// The library.
        path: PathBuf,
        /// The call.
        source: CallError,
    },
    /// It is HIP's, but not the emulator's.
    #[error("{path} is HIP's library of version {version}, not the emulator's")]
    NotEmulator {
        /// The library.
        path: PathBuf,
        /// Its version.
        version: String,
    },
    /// The emulator's library is not where it should be.
    #[error(
        "the emulator's library is not there: {tried}. Build it with `cargo build -p gfx-emu-hip`, or name it in {variable}"
    )]
    NoEmulator {
        /// What was tried.
        tried: String,
        /// The variable.
        variable: &'static str,
    },
}

impl Wanted {
    /// The path in the variable.
    pub(in crate::device) fn named(&self) -> Option<PathBuf> {
        std::env::var_os(self.variable).filter(|v| !v.is_empty()).map(PathBuf::from)
    }

    /// The first of the names that can be opened: where the dynamic loader looks, then in a folder.
    pub(in crate::device) fn find(
        &'static self,
        folder: Option<&Path>,
    ) -> Result<(libloading::Library, PathBuf), LibraryError> {
        let mut odd = String::new();
        let plain = self.names.iter().map(PathBuf::from);
        let in_folder = folder.into_iter().flat_map(|f| self.names.iter().map(move |n| f.join(n)));
        for path in plain.chain(in_folder) {
            match open(&path) {
                Ok(library) => return Ok((library, path)),
                Err(reason) if is_nowhere(&path, &reason) => {}
                Err(reason) => odd += &format!("; {}: {reason}", path.display()),
            }
        }
        let places = folder.map_or(String::new(), |f| format!(" or in {}", f.display()));
        Err(LibraryError::NotFound { wanted: self, places, odd })
    }
}

/// The library of that path.
pub(in crate::device) fn open_at(path: &Path) -> Result<libloading::Library, LibraryError> {
    open(path).map_err(|reason| LibraryError::Open { path: path.into(), reason })
}

fn open(path: &Path) -> Result<libloading::Library, String> {
    // SAFETY: opening a library runs its initialisers; that it is the driver's is what its name, or whoever set the
    // variable, says.
    unsafe { libloading::Library::new(path) }.map_err(|e| {
        // The crate's own words are "dlopen failed"; the loader's are behind them.
        std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string)
    })
}

/// Whether the loader says that there is no such file, and not that something it needs is missing.
fn is_nowhere(path: &Path, reason: &str) -> bool {
    reason.starts_with(&*path.to_string_lossy()) && reason.contains("No such file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_lacks_another_is_not_taken_for_absent() {
        let path = Path::new("liba.so.7");
        assert!(is_nowhere(path, "liba.so.7: cannot open shared object file: No such file or directory"));
        assert!(!is_nowhere(path, "libb.so.1: cannot open shared object file: No such file or directory"));
    }
}
