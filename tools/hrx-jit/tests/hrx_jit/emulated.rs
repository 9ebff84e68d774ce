//! `verify` and `emulate`.

use crate::support::{fails, good, model, run};
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    serde_json::from_slice(&good(args).out).expect("JSON")
}

/// One row for each program, twice as large.
const DOUBLED: &str = "kernel @doubled(
    v0: i32,
    m0: in f32[v0, 64],
    m1: out f32[v0, 64])
    grid (v0, 1, 1) ids (v1, v2, v3) {
  v4: i32 = const 0
  v5: f32[1, 64] = load m0[v1, v4]
  v6: f32[1, 64] = add v5, v5
  store m1[v1, v4], v6
}
";

#[test]
fn kernels_of_models_and_texts_are_verified() {
    let model = model("qwen3-Q6_K");
    let text = good(&["verify", &model, "--kernel", "rope_neox128_h4", "--target", "gfx1100,gfx942", "--seed", "3"]);
    let lines: Vec<&str> = text.text().lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("gfx1100   ok ") && lines[1].starts_with("gfx942    ok "), "{lines:?}");
    assert_eq!(lines[2], "2 kernels for 2 GPUs: 0 wrong; emulated, not run on a GPU");

    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("doubled.tile");
    std::fs::write(&path, DOUBLED).expect("written");
    let found = json(&["verify", &path.display().to_string(), "--target", "gfx1201", "--json"]);
    let kernel = &found["kernels"][0];
    assert_eq!(
        (&kernel["kernel"], &kernel["target"], &kernel["cases"]),
        (&"doubled".into(), &"gfx1201".into(), &3.into())
    );
    assert!(kernel["wave_instructions"].as_u64().expect("a number") > 100, "{kernel}");
    assert_eq!((&found["wrong"], &kernel["worst_error"]), (&0.into(), &0.0.into()));

    fails(&["verify", &model, "--target", "gfx9999"], 2, "is no GPU");
    fails(&["verify", &model, "--kernel", "conv"], 1, "no kernel \"conv\" in ");
    fails(&["verify", "/nonexistent"], 1, "can't read /nonexistent: ");
    std::fs::write(&path, "kernel @k(").expect("written");
    fails(&["verify", &path.display().to_string()], 1, "doubled.tile: ");
}

#[test]
fn a_code_object_is_emulated_with_what_the_checks_find() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(at("doubled.tile"), DOUBLED).expect("written");
    let file = at("doubled.hsaco");
    good(&["compile", &at("doubled.tile"), "--target", "gfx1100", "--emit", "hsaco", "-o", &file]);
    let numbers: Vec<u8> = (0..128).flat_map(|i| (i as f32).to_le_bytes()).collect();
    std::fs::write(at("in"), numbers).expect("written");
    let input = format!("file:{}", at("in"));
    let out = format!("2={}", at("out"));
    let call = ["emulate", &file, "--grid", "2", "--arg", "i32:2", "--arg", &input];
    let text = good(&[&call[..], &["--arg", "room:512", "--write", &out]].concat());
    assert!(
        text.text().contains("doubled emulated on gfx1100: 2 workgroups of 32 x 1 x 1, 2 waves\n"),
        "{}",
        text.text()
    );
    assert!(
        text.text().contains("\n0 faults found\nestimate for Radeon RX 7900 XTX, not measured: "),
        "{}",
        text.text()
    );
    let got = std::fs::read(at("out")).expect("written");
    let want: Vec<u8> = (0..128).flat_map(|i| (2.0 * i as f32).to_le_bytes()).collect();
    assert_eq!(got, want);

    // A buffer that is too small, and one that nobody has written.
    let short = run(&[&call[..], &["--arg", "room:256"]].concat());
    assert_eq!(short.code, Some(1));
    assert!(short.text().contains("\nout of bounds: "), "{}", short.text());
    let unwritten =
        ["emulate", &file, "--grid", "1", "--arg", "i32:1", "--arg", "room:256", "--arg", "room:256", "--json"];
    let unwritten = run(&unwritten);
    assert_eq!(unwritten.code, Some(1));
    let found: Value = serde_json::from_slice(&unwritten.out).expect("JSON");
    assert_eq!(found["faults"][0]["kind"], "uninitialised memory", "{found}");

    fails(&["emulate", &file], 1, "doubled takes 3 arguments, not 0: by_value of 4 bytes, global_buffer of 8 bytes");
    fails(
        &[&call[..], &["--arg", "i32:1"]].concat(),
        1,
        "argument 2 is global_buffer of 8 bytes; what it is given has 4",
    );
    fails(&[&call[..], &["--arg", "what:1"]].concat(), 2, "is no kind of argument");
    fails(&[&call[..], &["--arg", "room:512", "--write", "0=x"]].concat(), 1, "argument 0 is no buffer");
    fails(&[&call[..], &["--arg", "room:512", "--board", "R9700"]].concat(), 1, "Radeon AI PRO R9700 has gfx1201");
    fails(&["emulate", &file, "--target", "gfx1201", "--arg", "i32:1"], 1, "doubled.hsaco: ");
}
