//! HIP's library, opened when it is needed. Nothing of ROCm is there when this is built.

use super::api::{Emulator, Functions, OldProperties, Properties};
use crate::device::gpu::call::{Missing, Words};
use crate::device::gpu::library::{LibraryError, Wanted, open_at};
use crate::device::gpu::shared::{Api, Graphs, Shared};
use std::ffi::{CString, c_int};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// The library, by its names: the newest first. The number is that of ROCm's major version.
pub static WANTED: Wanted = Wanted {
    whose: "HIP's",
    names: &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"],
    called: "libamdhip64.so of version 7, 6 or 5",
    comes_with: "ROCm's runtime",
    oldest: "ROCm 5.2",
    variable: "HRX_HIP_LIBRARY",
};

/// Where ROCm is if the dynamic loader is not told.
const ROCM: &str = "/opt/rocm";

/// An open library.
pub struct Library {
    /// HIP's functions.
    pub hip: Functions,
    /// Those that other drivers have as well.
    pub shared: Shared,
    /// Graphs, where the library has them.
    pub graphs: Option<Graphs>,
    /// Properties in the layout of ROCm 6, where it has them.
    pub properties: Option<Properties>,
    /// Properties in the older layout, where it has those.
    pub old_properties: Option<OldProperties>,
    emulator: Option<Emulator>,
    /// What it was opened as.
    pub path: PathBuf,
    /// The runtime's version: major, minor, patch.
    pub version: [i32; 3],
    /// Never closed: it has threads of its own.
    _library: ManuallyDrop<libloading::Library>,
}

impl Library {
    /// The library that the variable names, else the first that there is.
    ///
    /// # Errors
    /// If there is none, or it can't be used.
    pub fn open() -> Result<Library, LibraryError> {
        if let Some(path) = WANTED.named() {
            return Library::open_at(&path);
        }
        let rocm = std::env::var_os("ROCM_PATH").map_or(ROCM.into(), PathBuf::from).join("lib");
        let (library, path) = WANTED.find(Some(&rocm))?;
        Library::with(library, &path)
    }

    /// The library of that path.
    ///
    /// # Errors
    /// If it can't be opened or used.
    pub fn open_at(path: &Path) -> Result<Library, LibraryError> {
        Library::with(open_at(path)?, path)
    }

    /// The emulator's library: the one that the variable names, else the one beside this program.
    ///
    /// # Errors
    /// If there is none.
    pub fn open_emulator() -> Result<Library, LibraryError> {
        if let Some(path) = WANTED.named() {
            return Library::open_at(&path);
        }
        let places = beside_program();
        if let Some(path) = places.iter().find(|p| p.is_file()) {
            return Library::open_at(path);
        }
        let tried = places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        Err(LibraryError::NoEmulator { tried, variable: WANTED.variable })
    }

    fn with(library: libloading::Library, path: &Path) -> Result<Library, LibraryError> {
        let missing = |version: String| {
            move |Missing(function)| LibraryError::Missing { wanted: &WANTED, path: path.into(), version, function }
        };
        let words = Words::given(&library, ["hipGetErrorName", "hipGetErrorString"]).map_err(missing(String::new()))?;
        // Asked first, so that what the library lacks is said with its version.
        // SAFETY: the type is the function's in HIP's header.
        let version_of = unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"hipRuntimeGetVersion\0") };
        let mut version = 0;
        if let Ok(version_of) = version_of {
            // SAFETY: it writes one number. What it returns is looked at below, where it is called again.
            unsafe { version_of(&raw mut version) };
        }
        let text = if version > 0 { format!(" (version {})", shown(parts(version))) } else { String::new() };
        let hip = Functions::load(&library, words).map_err(missing(text.clone()))?;
        let shared = Shared::find(&library, words, Api::Hip).map_err(missing(text))?;
        let start = |source| LibraryError::Start { path: path.into(), source };
        // SAFETY: it writes one number.
        unsafe { hip.hipRuntimeGetVersion(&raw mut version) }.map_err(start)?;
        Ok(Library {
            hip,
            shared,
            graphs: Graphs::find(&library, words, Api::Hip).ok(),
            properties: Properties::load(&library, words).ok(),
            old_properties: OldProperties::load(&library, words).ok(),
            emulator: Emulator::load(&library, words).ok(),
            path: path.into(),
            version: parts(version),
            _library: ManuallyDrop::new(library),
        })
    }

    /// Chooses the chip that the emulator emulates.
    ///
    /// # Errors
    /// If the library is not the emulator's, or refuses the chip.
    pub fn set_chip(&self, name: &str) -> Result<(), LibraryError> {
        let missing = || LibraryError::NotEmulator { path: self.path.clone(), version: self.version() };
        let emulator = self.emulator.as_ref().ok_or_else(missing)?;
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the function reads a string that ends with 0.
        unsafe { emulator.gfxEmuSetChip(name.as_ptr()) }
            .map_err(|source| LibraryError::Start { path: self.path.clone(), source })
    }

    /// Its version for people.
    pub fn version(&self) -> String {
        shown(self.version)
    }
}

/// HIP's version number is 10 000 000 · major + 100 000 · minor + patch.
fn parts(version: c_int) -> [i32; 3] {
    [version / 10_000_000, version / 100_000 % 100, version % 100_000]
}

fn shown([major, minor, patch]: [i32; 3]) -> String {
    format!("{major}.{minor}.{patch}")
}

/// Where the emulator's library may be: in the program's folder, in `lib` beside that, and where cargo puts it for
/// programs that it builds.
fn beside_program() -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let dir = program.parent().unwrap_or(Path::new("."));
    let up = dir.parent().unwrap_or(dir);
    [dir.to_path_buf(), up.join("lib"), dir.join("deps")].map(|d| d.join("libamdhip64.so")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_hip_writes_them() {
        for (number, text) in [(50_221_153, "5.2.21153"), (60_443_483, "6.4.43483"), (70_051_831, "7.0.51831")] {
            assert_eq!(shown(parts(number)), text);
        }
    }

    #[test]
    fn a_library_that_is_not_hips_is_refused_with_what_it_lacks() {
        let e = Library::open_at(Path::new("libm.so.6")).err().map(|e| e.to_string());
        let wanted = "libm.so.6 has no hipGetErrorName: it is not HIP's library, or not of ROCm 5.2 or later";
        assert_eq!(e.as_deref(), Some(wanted));
        let e = Library::open_at(Path::new("/nowhere/libamdhip64.so")).err().map(|e| e.to_string());
        assert!(e.as_deref().is_some_and(|e| e.starts_with("/nowhere/libamdhip64.so can't be opened: ")), "{e:?}");
    }
}
