//! Running programs and saying what is run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The top of the checkout.
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}

/// The cargo that runs us.
pub fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A program that runs at the top of the checkout.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Prints the command line, runs it with our own input and output, and wants success.
pub fn run(command: &mut Command) -> Result<(), String> {
    let line = command_line(command);
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` failed ({status})")),
        Err(error) => Err(format!("`{line}` cannot be run: {error}")),
    }
}

/// Runs quietly and returns what it wrote on stdout; `None` if it cannot be run or fails.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether the command runs and succeeds.
pub fn succeeds(command: &mut Command) -> bool {
    output(command).is_some()
}

/// The command as one would type it at the top of the checkout.
fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = match program.strip_prefix(root()) {
        Ok(below) => below.to_string_lossy().into_owned(),
        // Tools in the usual places go by their names, as one would type them.
        Err(_) if program.ends_with("cargo") => "cargo".to_owned(),
        Err(_) => program.to_string_lossy().into_owned(),
    };
    let quoted = |word: &OsStr| {
        let below = Path::new(word).strip_prefix(root()).map_or(word, Path::as_os_str);
        let word = below.to_string_lossy().into_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    };
    std::iter::once(program).chain(command.get_args().map(quoted)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_pasted() {
        let mut command = command(root().join("target/release/hrx-run"));
        command.arg(root().join(".models/a.gguf")).args(["-p", "it's on", "-n", "8", ""]);
        let line = command_line(&command);
        assert_eq!(line, r"target/release/hrx-run .models/a.gguf -p 'it'\''s on' -n 8 ''");
    }

    #[test]
    fn failure_names_the_command() {
        assert_eq!(run(&mut command("true")), Ok(()));
        let error = run(command("false").arg("x")).unwrap_err();
        assert!(error.starts_with("`false x` failed"), "{error}");
        let error = run(&mut command("no-such-program")).unwrap_err();
        assert!(error.contains("cannot be run"), "{error}");
        assert_eq!(output(command("echo").arg("a")).as_deref(), Some("a\n"));
        assert!(!succeeds(&mut command("false")));
    }
}
