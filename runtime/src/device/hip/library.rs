//! HIP's library, opened when it is needed. Nothing of ROCm is there when this is built.

use super::api::{Emulator, Functions, Graphs, HipError, Missing, OldProperties, Properties, Words};
use std::ffi::{CString, c_int};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// The variable that names the library.
pub const VARIABLE: &str = "HRX_HIP_LIBRARY";

/// The library's names, the newest first. The number is that of ROCm's major version.
pub const NAMES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// Where ROCm is if the dynamic loader is not told.
const ROCM: &str = "/opt/rocm";

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// None could be opened.
    #[error(
        "HIP's library is not there: no libamdhip64.so of version 7, 6 or 5 where the dynamic loader looks or in {rocm}\
         {odd}. It comes with ROCm's runtime; {VARIABLE} names it where it is elsewhere"
    )]
    NotFound {
        /// ROCm's folder.
        rocm: PathBuf,
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
    /// It is not HIP's, or of a version that lacks something.
    #[error("{path}{version} has no {function}: it is not HIP's library, or not of ROCm 5.2 or later")]
    Missing {
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
        source: HipError,
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
        "the emulator's library is not there: {tried}. Build it with `cargo build -p gfx-emu-hip`, or name it in {VARIABLE}"
    )]
    NoEmulator {
        /// What was tried.
        tried: String,
    },
}

/// An open library.
pub struct Library {
    /// HIP's functions.
    pub hip: Functions,
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
        if let Some(path) = named() {
            return Library::open_at(&path);
        }
        let rocm = std::env::var_os("ROCM_PATH").map_or(ROCM.into(), PathBuf::from).join("lib");
        let mut odd = String::new();
        for path in NAMES.iter().map(PathBuf::from).chain(NAMES.iter().map(|n| rocm.join(n))) {
            match open(&path) {
                Ok(library) => return Library::with(library, &path),
                Err(reason) if is_nowhere(&path, &reason) => {}
                Err(reason) => odd += &format!("; {}: {reason}", path.display()),
            }
        }
        Err(LibraryError::NotFound { rocm, odd })
    }

    /// The library of that path.
    ///
    /// # Errors
    /// If it can't be opened or used.
    pub fn open_at(path: &Path) -> Result<Library, LibraryError> {
        let library = open(path).map_err(|reason| LibraryError::Open { path: path.into(), reason })?;
        Library::with(library, path)
    }

    /// The emulator's library: the one that the variable names, else the one beside this program.
    ///
    /// # Errors
    /// If there is none.
    pub fn open_emulator() -> Result<Library, LibraryError> {
        if let Some(path) = named() {
            return Library::open_at(&path);
        }
        let places = beside_program();
        if let Some(path) = places.iter().find(|p| p.is_file()) {
            return Library::open_at(path);
        }
        let tried = places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        Err(LibraryError::NoEmulator { tried })
    }

    fn with(library: libloading::Library, path: &Path) -> Result<Library, LibraryError> {
        let missing =
            |version: String| move |Missing(function)| LibraryError::Missing { path: path.into(), version, function };
        let words = words(&library).map_err(missing(String::new()))?;
        // Asked first, so that what the library lacks is said with its version.
        // SAFETY: the type is the function's in HIP's header.
        let version_of = unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"hipRuntimeGetVersion\0") };
        let mut version = 0;
        if let Ok(version_of) = version_of {
            // SAFETY: it writes one number. What it returns is looked at below, where it is called again.
            unsafe { version_of(&raw mut version) };
        }
        let text = if version > 0 { format!(" (version {})", shown(parts(version))) } else { String::new() };
        let hip = Functions::load(&library, words).map_err(missing(text))?;
        let start = |source| LibraryError::Start { path: path.into(), source };
        // SAFETY: it writes one number.
        unsafe { hip.hipRuntimeGetVersion(&raw mut version) }.map_err(start)?;
        Ok(Library {
            hip,
            graphs: Graphs::load(&library, words).ok(),
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

/// The path in the variable.
fn named() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from)
}

fn open(path: &Path) -> Result<libloading::Library, String> {
    // SAFETY: opening a library runs its initialisers; that it is HIP's is what its name, or whoever set the variable, says.
    unsafe { libloading::Library::new(path) }.map_err(|e| {
        // The crate's own words are "dlopen failed"; the loader's are behind them.
        std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string)
    })
}

/// Whether the loader says that there is no such file, and not that something it needs is missing.
fn is_nowhere(path: &Path, reason: &str) -> bool {
    reason.starts_with(&*path.to_string_lossy()) && reason.contains("No such file")
}

fn words(library: &libloading::Library) -> Result<Words, Missing> {
    let missing = |name| move |_| Missing(name);
    // SAFETY: the types are the functions' in HIP's header.
    unsafe {
        Ok(Words {
            name: *library.get(b"hipGetErrorName\0").map_err(missing("hipGetErrorName"))?,
            text: *library.get(b"hipGetErrorString\0").map_err(missing("hipGetErrorString"))?,
        })
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

    #[test]
    fn a_library_that_lacks_another_is_not_taken_for_absent() {
        let path = Path::new("liba.so.7");
        assert!(is_nowhere(path, "liba.so.7: cannot open shared object file: No such file or directory"));
        assert!(!is_nowhere(path, "libb.so.1: cannot open shared object file: No such file or directory"));
    }
}
