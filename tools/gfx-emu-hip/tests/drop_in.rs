//! HIP programs, compiled by clang from HIP's C++ and linked with the library, run on emulated chips.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The chips that the programs have code for.
const CHIPS: [&str; 2] = ["gfx1100", "gfx942"];

const CLANG: &str = "clang++-22";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// The folder that cargo put the library in: that of this test, or the one above.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let dirs = test.ancestors().skip(1).take(2);
    let found = dirs.filter(|d| d.join("libamdhip64.so").is_file()).max_by_key(|d| {
        let file = d.join("libamdhip64.so").metadata().and_then(|m| m.modified());
        file.expect("a time")
    });
    found.expect("libamdhip64.so beside the test").to_path_buf()
}

fn done(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}; Debian's package clang-22 has it"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Code objects in a bundle, as clang's documentation ("Clang Offload Bundler") describes it.
fn bundle(code: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut head = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    head.extend((code.len() as u64).to_le_bytes());
    let heads: usize = code.iter().map(|(name, _)| 24 + name.len()).sum();
    let mut data = vec![0; (head.len() + heads).next_multiple_of(4096)];
    let start = data.len() - head.len() - heads;
    for (name, bytes) in code {
        data.resize(data.len().next_multiple_of(4096), 0);
        for n in [data.len(), bytes.len(), name.len()] {
            head.extend((n as u64).to_le_bytes());
        }
        head.extend(name.as_bytes());
        data.extend(bytes);
    }
    head.resize(head.len() + start, 0);
    head.extend(&data[head.len()..]);
    head
}

/// Compiles and links a program; `flags` go to the compiler.
fn build(dir: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = sources().join(format!("{name}.hip"));
    let out = |suffix: &str| dir.join(format!("{name}{}{suffix}", flags.concat()));
    let hip = |more: &[&str], to: &Path| {
        let mut command = Command::new(CLANG);
        command.args(["-x", "hip", "-nogpuinc", "-nogpulib", "-O2", "-std=c++17", "-c"]).args(flags).args(more);
        command.arg("-I").arg(sources().join("include")).arg(&source).arg("-o").arg(to);
        command
    };
    let mut code = Vec::new();
    for chip in CHIPS {
        let object = out(&format!(".{chip}"));
        let arch = format!("--offload-arch={chip}");
        done(&mut hip(&["--cuda-device-only", "--no-gpu-bundle-output", &arch], &object));
        let bytes = std::fs::read(&object).expect("a code object");
        code.push((format!("hipv4-amdgcn-amd-amdhsa--{chip}"), bytes));
    }
    code.insert(0, ("host-x86_64-unknown-linux-gnu-".into(), Vec::new()));
    let bundled = out(".hipfb");
    std::fs::write(&bundled, bundle(&code)).expect("written");
    let path = bundled.to_str().expect("a path");
    let host = out(".o");
    done(&mut hip(&["--cuda-host-only", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", path], &host));
    let program = out("");
    done(Command::new(CLANG).arg(&host).arg("-L").arg(library()).arg("-lamdhip64").arg("-o").arg(&program));
    program
}

/// All programs, right and racy, compiled once.
fn program(name: &str, racy: bool) -> PathBuf {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    let dir = BUILT.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["reduce", "matmul", "scan"] {
            build(dir.path(), name, &[]);
            build(dir.path(), name, &["-DRACY"]);
        }
        dir
    });
    dir.path().join(format!("{name}{}", if racy { "-DRACY" } else { "" }))
}

fn run(program: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HRX_")) {
        command.env_remove(name);
    }
    command.env("LD_LIBRARY_PATH", library()).envs(variables.iter().copied()).output().expect("runs")
}

fn text(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into(), String::from_utf8_lossy(&output.stderr).into())
}

#[test]
fn programs_compute_what_they_should_and_nothing_is_reported() {
    for name in ["reduce", "matmul", "scan"] {
        for chip in CHIPS {
            for seed in [None, Some("1"), Some("2")] {
                let seed = seed.map(|s| ("HRX_EMU_SEED", s));
                let variables: Vec<_> = [("HRX_EMU_CHIP", chip)].into_iter().chain(seed).collect();
                let output = run(&program(name, false), &variables);
                assert!(output.status.success() && output.stderr.is_empty(), "{name} {variables:?}: {output:?}");
            }
        }
    }
}

#[test]
fn races_are_reported_and_fail_the_next_call_that_waits() {
    for (name, call) in [
        ("reduce", "hipDeviceSynchronize()"),
        ("matmul", "hipEventSynchronize(stop)"),
        ("scan", "hipStreamSynchronize(first)"),
    ] {
        for chip in CHIPS {
            let output = run(&program(name, true), &[("HRX_EMU_CHIP", chip)]);
            let (out, err) = text(&output);
            assert_eq!(output.status.code(), Some(3), "{name} {chip}: {out}{err}");
            assert!(err.contains("gfx-emu: LDS race: "), "{name} {chip}: {err}");
            assert!(out.contains(call) && out.contains("719: the sanitizer has reports"), "{name} {chip}: {out}");
        }
    }
}

#[test]
fn what_cannot_be_done_is_a_status() {
    let reduce = program("reduce", false);
    let failed = |variables: &[(&str, &str)]| {
        let output = run(&reduce, variables);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        text(&output)
    };
    let (out, _) = failed(&[]);
    assert!(out.contains("hipMalloc") && out.contains(": 100: no device: HRX_EMU_CHIP names no chip"), "{out}");
    let (out, err) = failed(&[("HRX_EMU_CHIP", "gfx1")]);
    assert!(out.contains(": 100: ") && err.contains("no chip gfx1 to emulate; there are: gfx906"), "{out}{err}");
    let (out, err) = failed(&[("HRX_EMU_CHIP", "gfx1201")]);
    assert!(out.contains("hipMemcpyToSymbol") && out.contains(": 209: "), "{out}");
    assert!(err.contains("no code for gfx1201 in an image; there is: host-x86_64"), "{err}");
    let (out, _) = failed(&[("HRX_EMU_CHIP", "gfx1100"), ("HRX_EMU_FAIL", "hipMalloc:2:2")]);
    assert!(out.contains("hipMalloc((void **)&sum") && out.contains(": 2: out of memory"), "{out}");
}
