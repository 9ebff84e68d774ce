//! Runs the file tests; `HRX_UPDATE=1` rewrites their expectations.

use hrx_tests::filetest;
use std::path::Path;

#[test]
fn filetests() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let files = filetest::files(&dir).expect("the directory of file tests");
    assert!(!files.is_empty(), "no files in {}", dir.display());
    let update = std::env::var_os("HRX_UPDATE").is_some_and(|v| v == "1");
    let failures: Vec<String> = files.iter().filter_map(|f| filetest::check(f, update).err()).collect();
    assert!(failures.is_empty(), "{} of {} files\n\n{}", failures.len(), files.len(), failures.join("\n\n"));
}

#[test]
fn a_wrong_expectation_fails_and_names_file_and_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("wrong.tile");
    let text = "// test: verify-fail\n// error: `x` [type] y\n\nkernel @k(v0: i8) {\n}\n";
    std::fs::write(&path, text).expect("the file");
    let error = filetest::check(&path, false).expect_err("another error is found");
    assert!(error.contains("wrong.tile") && error.contains(filetest::UPDATE) && error.contains("[param]"), "{error}");
    filetest::check(&path, true).expect("an update");
    filetest::check(&path, false).expect("the updated file");
}

#[test]
fn results_agree_as_a_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("copy.tile");
    let kernel = "kernel @k(v0: i32, m0: out i32[1]) ids (v1, v2, v3) {\n  v4: i32 = const 0\n  \
                  v5: i32[1] = broadcast v0\n  store m0[v4], v5\n}\n";
    let check = |out: &str| {
        let text = format!("// test: interpret\n// run: k; 3; 0\n// out: 1 = {out}\n\n{kernel}");
        std::fs::write(&path, text).expect("the file");
        filetest::check(&path, false)
    };
    check("3").expect("the result");
    for wrong in ["38", "3 4", "4", ""] {
        check(wrong).expect_err(wrong);
    }
}

#[test]
fn unknown_commands_list_the_known_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("unknown.tile");
    std::fs::write(&path, "// test: verfy\n\nkernel @k() {\n}\n").expect("the file");
    let error = filetest::check(&path, false).expect_err("there is no such command");
    assert!(error.contains("\n  verify: parses"), "{error}");
}

#[test]
fn texts_are_of_all_targets_or_of_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("targets.tile");
    let kernel = "kernel @copy(m0: in f32[4], m1: out f32[4]) {\n  v0: i32 = const 0\n  v1: f32[4] = load m0[v0]\n  \
                  store m1[v0], v1\n}\n";
    let check = |lines: &str| {
        let tests = "// test: compile gfx1030 asm\n// test: compile gfx1100 asm\n";
        std::fs::write(&path, format!("{tests}{lines}\n\n{kernel}")).expect("the file");
        filetest::check(&path, false)
    };
    let own = "// match gfx1030: buffer_load_dword\n// match gfx1100: buffer_load_b32\n// no-match gfx1100: _dword";
    check(&format!("// match: s_endpgm\n// no-match: scratch_load\n{own}")).expect("all of it is so");
    check(own).expect("each has its own");
    for (wrong, words) in [
        ("// match: buffer_load_b32", "\"buffer_load_b32\" is not in the gfx1030 asm form"),
        ("// match: s_endpgm\n// match gfx1100: buffer_load_dword", "is not in the gfx1100 asm form"),
        ("// match: s_endpgm\n// no-match gfx1030: buffer_load", "is in the gfx1030 asm form"),
        ("// match gfx1030: s_endpgm", "no line `// match: TEXT` or `// match gfx1100: TEXT`"),
        ("// match: s_endpgm\n// match gfx906: v_", "texts for gfx906 and no line `// test: compile gfx906 FORM`"),
    ] {
        let error = check(wrong).expect_err(wrong);
        assert!(error.contains(words), "{wrong}: {error}");
    }
}
