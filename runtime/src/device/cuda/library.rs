//! The library of NVIDIA's driver, opened when it is needed. Nothing of CUDA's toolkit is used, at build time or later.

use super::api::{Functions, Launches};
use crate::device::gpu::call::{Missing, Words};
use crate::device::gpu::library::{LibraryError, Wanted, open_at};
use crate::device::gpu::shared::{Api, Graphs, Shared};
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// The library, by its names.
pub static WANTED: Wanted = Wanted {
    whose: "CUDA's",
    names: &["libcuda.so.1", "libcuda.so"],
    called: "libcuda.so.1",
    comes_with: "NVIDIA's driver",
    oldest: "a driver for CUDA 12.0",
    variable: "HRX_CUDA_LIBRARY",
};

/// An open library.
pub struct Library {
    /// CUDA's functions.
    pub cuda: Functions,
    /// Those that other drivers have as well.
    pub shared: Shared,
    /// Graphs, where it has them.
    pub graphs: Option<Graphs>,
    /// Launches with attributes, where it has them.
    pub early: Option<Launches>,
    /// What it was opened as.
    pub path: PathBuf,
    /// The version of CUDA that the driver has: major, minor.
    pub version: [u32; 2],
    /// Never closed: it has threads of its own.
    _library: ManuallyDrop<libloading::Library>,
}

impl Library {
    /// The library that the variable names, else the one that the dynamic loader finds.
    ///
    /// # Errors
    /// If there is none, or it can't be used.
    pub fn open() -> Result<Library, LibraryError> {
        if let Some(path) = WANTED.named() {
            return Library::open_at(&path);
        }
        let (library, path) = WANTED.find(None)?;
        Library::with(library, &path)
    }

    /// The library of that path.
    ///
    /// # Errors
    /// If it can't be opened or used.
    pub fn open_at(path: &Path) -> Result<Library, LibraryError> {
        Library::with(open_at(path)?, path)
    }

    fn with(library: libloading::Library, path: &Path) -> Result<Library, LibraryError> {
        let missing = |version: String| {
            move |Missing(function)| LibraryError::Missing { wanted: &WANTED, path: path.into(), version, function }
        };
        let words = Words::written(&library, ["cuGetErrorName", "cuGetErrorString"]).map_err(missing(String::new()))?;
        // Asked first, so that what the library lacks is said with its version.
        // SAFETY: the type is the function's in cuda.h.
        let version_of = unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDriverGetVersion\0") };
        let mut version = 0;
        if let Ok(version_of) = version_of {
            // SAFETY: it writes one number. What it returns is looked at below, where it is called again.
            unsafe { version_of(&raw mut version) };
        }
        let text = if version > 0 { format!(" (CUDA {})", shown(parts(version))) } else { String::new() };
        let cuda = Functions::load(&library, words).map_err(missing(text.clone()))?;
        let shared = Shared::find(&library, words, Api::Cuda).map_err(missing(text))?;
        let start = |source| LibraryError::Start { path: path.into(), source };
        // SAFETY: it writes one number.
        unsafe { cuda.cuDriverGetVersion(&raw mut version) }.map_err(start)?;
        Ok(Library {
            cuda,
            shared,
            graphs: Graphs::find(&library, words, Api::Cuda).ok(),
            early: Launches::load(&library, words).ok(),
            path: path.into(),
            version: parts(version),
            _library: ManuallyDrop::new(library),
        })
    }

    /// Its version of CUDA, for people.
    pub fn version(&self) -> String {
        shown(self.version)
    }
}

/// CUDA's version number is 1000 · major + 10 · minor.
fn parts(version: c_int) -> [u32; 2] {
    let version = u32::try_from(version).unwrap_or(0);
    [version / 1000, version / 10 % 100]
}

fn shown([major, minor]: [u32; 2]) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_cuda_writes_them() {
        for (number, text) in [(11_080, "11.8"), (12_090, "12.9"), (13_000, "13.0"), (12_100, "12.10")] {
            assert_eq!(shown(parts(number)), text);
        }
    }

    #[test]
    fn a_library_that_is_not_cudas_is_refused_with_what_it_lacks() {
        let e = Library::open_at(Path::new("libm.so.6")).err().map(|e| e.to_string());
        let wanted =
            "libm.so.6 has no cuGetErrorName: it is not CUDA's library, or not of a driver for CUDA 12.0 or later";
        assert_eq!(e.as_deref(), Some(wanted));
    }
}
