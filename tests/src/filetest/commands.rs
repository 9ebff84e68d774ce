//! The commands of file tests. A new one is a row of [`COMMANDS`] and a function.

use super::interpret::{compiled, interpreted};
use super::{Line, Outcome, TestFile};
use hrx_compiler::{Emit, Target, emit};
use hrx_ir::tile::{Kernel, parse_module, verify};

/// A command.
pub struct Command {
    /// Its name in `// test: NAME`.
    pub name: &'static str,
    /// What it does and what it expects.
    pub about: &'static str,
    /// Runs it with the arguments behind its name. An error is a failure that no update of the file mends.
    pub run: fn(&TestFile, &str) -> Result<Outcome, String>,
}

/// All commands.
pub const COMMANDS: &[Command] = &[
    Command { name: "parse", about: "parses, and prints as the file has it", run: parse },
    Command { name: "parse-fail", about: "does not parse; `error:` has line, column and message", run: parse_fail },
    Command {
        name: "verify",
        about: "parses, prints and parses to the same, and passes the verifier",
        run: verify_all,
    },
    Command { name: "verify-fail", about: "parses, but breaks the rules in `error:` lines", run: verify_fail },
    Command {
        name: "interpret",
        about: "runs in the interpreter with the arguments of `run:` lines; `out:` has the results",
        run: interpreted,
    },
    Command {
        name: "run",
        about: "runs compiled for this machine or the target given, as `interpret` does in the interpreter",
        run: compiled,
    },
    Command {
        name: "compile",
        about: "compiles for a target to a form (TARGET FORM); `match:` texts are in the result, `no-match:` texts are \
                not; `match TARGET:` and `no-match TARGET:` are of one target",
        run: compile,
    },
];

/// The file's kernels; at least one.
///
/// # Errors
/// What does not parse, by the line in the file.
pub fn kernels(file: &TestFile) -> Result<Vec<Kernel>, String> {
    let kernels = parse_module(&file.body).map_err(|mut e| {
        e.line += file.lines_above();
        e.to_string()
    })?;
    if kernels.is_empty() { Err("the file has no kernel".into()) } else { Ok(kernels) }
}

/// The file's kernels, which pass the verifier.
///
/// # Errors
/// What does not parse or breaks a rule.
pub fn verified(file: &TestFile) -> Result<Vec<Kernel>, String> {
    let kernels = kernels(file)?;
    kernels.iter().try_for_each(|k| verify(k).map_err(|e| e.to_string()))?;
    Ok(kernels)
}

fn parse(file: &TestFile, _: &str) -> Result<Outcome, String> {
    let printed: Vec<String> = kernels(file)?.iter().map(Kernel::to_string).collect();
    Ok(Outcome::Body(printed.join("\n")))
}

fn parse_fail(file: &TestFile, _: &str) -> Result<Outcome, String> {
    let Err(e) = parse_module(&file.body) else { return Err("the file parses".into()) };
    // Lines are counted from the start of the body, as the head grows with the expectation.
    let lines = vec![Line { decisive: format!("{}:{}", e.line, e.column), prose: e.kind.to_string() }];
    Ok(Outcome::Lines { key: "error", lines })
}

fn verify_all(file: &TestFile, _: &str) -> Result<Outcome, String> {
    for k in verified(file)? {
        let text = k.to_string();
        let again = parse_module(&text).map_err(|e| format!("the printed text does not parse: {e}"))?;
        let again: String = again.iter().map(Kernel::to_string).collect();
        if again != text {
            return Err(format!("printing is not stable: first\n{text}then\n{again}"));
        }
    }
    Ok(Outcome::Passed)
}

fn verify_fail(file: &TestFile, _: &str) -> Result<Outcome, String> {
    let errors = kernels(file)?.iter().filter_map(|k| verify(k).err()).flat_map(|e| e.errors).collect::<Vec<_>>();
    if errors.is_empty() {
        return Err("the verifier finds no fault".into());
    }
    let line = |e: hrx_ir::tile::verify::VerifyError| Line {
        decisive: format!("`{}` [{}]", e.text, e.rule.name()),
        prose: e.message,
    };
    Ok(Outcome::Lines { key: "error", lines: errors.into_iter().map(line).collect() })
}

fn compile(file: &TestFile, args: &str) -> Result<Outcome, String> {
    let forms: Vec<&str> = Emit::ALL.iter().map(|(name, _)| *name).filter(|&name| name != "obj").collect();
    let wrong = || format!("the arguments are a target and a form ({}), not {args:?}", forms.join(", "));
    let (name, form) = args.split_once(' ').ok_or_else(wrong)?;
    let form = Some(form).filter(|f| forms.contains(f)).and_then(Emit::from_name).ok_or_else(wrong)?;
    let target = Target::from_name(name).map_err(|e| e.to_string())?;
    let mut text = String::new();
    for kernel in verified(file)? {
        let bytes = emit(&kernel, &target, form).map_err(|e| e.to_string())?;
        text += &String::from_utf8_lossy(&bytes);
    }
    let texts = |key: &str| [file.lines(key), file.lines(&format!("{key} {name}"))].concat();
    let (wanted, unwanted) = (texts("match"), texts("no-match"));
    if wanted.is_empty() && unwanted.is_empty() {
        return Err(format!("the head has no line `// match: TEXT` or `// match {name}: TEXT`, nor a `no-match`"));
    }
    compiled_for_each(file)?;
    let missing = wanted.iter().find(|w| !text.contains(**w)).map(|w| format!("{w:?} is not in"));
    let found = unwanted.iter().find(|w| text.contains(**w)).map(|w| format!("{w:?} is in"));
    match missing.or(found) {
        Some(what) => Err(format!("{what} the {args} form:\n{text}")),
        None => Ok(Outcome::Passed),
    }
}

/// Whether each target that has texts of its own is compiled for.
fn compiled_for_each(file: &TestFile) -> Result<(), String> {
    let targets: Vec<&str> =
        file.lines("test").iter().filter_map(|t| t.strip_prefix("compile ")?.split(' ').next()).collect();
    let of_target = |line: &String| {
        let rest = line.strip_prefix("// match ").or_else(|| line.strip_prefix("// no-match "))?;
        Some(rest.split_once(':')?.0.trim().to_string())
    };
    match file.head.iter().filter_map(of_target).find(|t| !targets.contains(&t.as_str())) {
        Some(target) => Err(format!("the head has texts for {target} and no line `// test: compile {target} FORM`")),
        None => Ok(()),
    }
}
