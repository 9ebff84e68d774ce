//! `inspect`, `diff` and `targets`.

use crate::support::{fails, good, model};
use serde_json::Value;
use std::path::PathBuf;

/// An HSACO of one of a model's kernels.
fn hsaco(dir: &tempfile::TempDir, target: &str, kernel: &str) -> String {
    let path: PathBuf = dir.path().join(format!("{target}_{kernel}.hsaco"));
    let path = path.display().to_string();
    good(&["dump", &model("qwen3-Q6_K"), "--target", target, "--kernel", kernel, "--emit", "hsaco", "-o", &path]);
    path
}

fn json(args: &[&str]) -> Value {
    serde_json::from_slice(&good(args).out).expect("JSON")
}

#[test]
fn every_kernel_of_a_model_is_inspected_whole() {
    let model = model("qwen3-Q6_K");
    for target in ["gfx1100", "gfx1201", "gfx942"] {
        let kernels = json(&["kernels", &model, "--target", target, "--no-cache", "--json"]);
        let names: Vec<&str> = kernels["kernels"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|k| k["name"].as_str().expect("a name"))
            .collect();
        assert!(names.len() > 10, "{target}: {names:?}");
        for name in names {
            let found = json(&["inspect", &model, "--target", target, "--kernel", name, "--json"]);
            let kernel = &found["kernels"][0];
            assert_eq!((&found["processor"], &kernel["name"]), (&target.into(), &name.into()));
            // Our kernels say the sizes of their workgroups, so that where lanes are can be followed.
            assert!(kernel["workgroup"]["size"].is_array() && kernel["occupancy"]["waves_per_simd"].is_u64(), "{name}");
            let notes: Vec<&str> = kernel["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let lost: Vec<&&str> =
                notes.iter().filter(|n| n.contains("jumps") || n.contains("no instructions")).collect();
            assert!(lost.is_empty(), "{target}: {name}: {lost:?}");
            // Where every lane goes is known, in memory and in LDS.
            let missing: Vec<&&str> = notes.iter().filter(|n| n.contains("could not be followed")).collect();
            assert!(missing.is_empty(), "{target}: {name}: {missing:?}");
        }
    }
}

#[test]
fn a_code_object_is_inspected_as_text_json_and_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = hsaco(&dir, "gfx1100", "rms_norm");
    let text = good(&["inspect", &file]);
    assert!(text.text().starts_with("gfx1100, RDNA 3, code object version 5\n\nkernel rms_norm_"), "{}", text.text());
    assert!(
        text.text().contains("\n  roofline, ") && text.text().contains("Radeon RX 7900 XTX: 96 CUs"),
        "{}",
        text.text()
    );
    let found = json(&["inspect", &file, "--json", "--board", "rx 7900 xtx"]);
    assert_eq!(found["kernels"][0]["roofline"]["board"], "Radeon RX 7900 XTX");
    let page = dir.path().join("page.html");
    assert!(good(&["inspect", &file, "--html", &page.display().to_string()]).out.is_empty());
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg class=\"roofline\""), "{page}");
    // A part of a kernel's name is enough, and a wrong one lists what there is.
    good(&["inspect", &file, "--kernel", "norm"]);
    fails(&["inspect", &file, "--kernel", "conv"], 1, "no kernel \"conv\" in ");
}

/// Every kernel of a model for a processor: each has its instructions counted once, and products in its loops.
#[test]
fn code_for_processors_is_inspected_too() {
    let model = model("qwen3-Q6_K");
    let kernels = json(&["kernels", &model, "--target", "x86-64-v3", "--no-cache", "--json"]);
    let names = kernels["kernels"].as_array().expect("a list").iter();
    let mut products = 0;
    for name in names.map(|k| k["name"].as_str().expect("a name")) {
        let found = json(&["inspect", &model, "--target", "x86-64-v3", "--kernel", name, "--json"]);
        let function = &found["functions"][0];
        // Without AVX-512 no register is wider.
        assert!(function["vector_bits"].as_u64().is_some_and(|bits| bits <= 256), "{name}");
        let loops = function["loops"].as_array().expect("loops");
        let counted = loops.iter().chain([function]).all(|part| {
            let mix = part.get("mix").unwrap_or(&part["outside"]);
            let classes = mix["classes"].as_object().expect("classes").values();
            classes.map(|n| n.as_u64().expect("a number")).sum::<u64>()
                == mix["instructions"].as_u64().expect("a number")
        });
        assert!(counted, "{name}: {function}");
        let of_products = |l: &Value| l["innermost"] == true && l["product_share"].as_f64().is_some_and(|s| s > 0.05);
        products += usize::from(name.starts_with("matmul") && loops.iter().any(of_products));
    }
    assert!(products > 3, "{products} products have a loop of them");
    // The object itself, and one of its functions.
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kernel.o").display().to_string();
    good(&["dump", &model, "--target", "x86-64-v3", "--kernel", "rms_norm", "--emit", "obj", "-o", &path]);
    let text = good(&["inspect", &path]).text().to_owned();
    assert!(
        text.contains("function rms_norm") && text.contains("  vector registers") && text.contains("loop at 0x"),
        "{text}"
    );
    good(&["inspect", &path, "--kernel", "rms_norm"]);
    fails(&["inspect", &path, "--kernel", "conv"], 1, "no kernel \"conv\" in ");
    fails(&["inspect", &path, "--workgroup", "64"], 1, "boards and workgroups are of GPUs");
    let bytes = std::fs::read(&path).expect("the file");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
    fails(&["inspect", &path], 1, "code object: ");
}

#[test]
fn what_can_not_be_inspected_gets_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = hsaco(&dir, "gfx1100", "rms_norm");
    let model = model("qwen3-Q6_K");
    fails(&["inspect", "/nonexistent/file"], 1, "can't read /nonexistent/file: ");
    fails(&["inspect", env!("CARGO_MANIFEST_DIR")], 1, "can't read ");
    fails(&["inspect", env!("CARGO_BIN_EXE_hrx-jit")], 1, "not for AMD GPUs but for ELF machine ");
    fails(&["inspect", &model], 1, "say with --target for which GPU or processor");
    fails(&["inspect", &model, "--target", "gfx1100"], 1, "say with --kernel which of its kernels");
    fails(&["inspect", &model, "--target", "gfx9999", "--kernel", "rope"], 2, "unknown target; there are: ");
    fails(&["inspect", &file, "--target", "gfx1100"], 1, "--target is for models");
    fails(&["inspect", &file, "--board", "RTX 4090"], 2, "there are: Radeon Instinct MI50, ");
    fails(&["inspect", &file, "--board", "R9700"], 1, "for gfx1100, but Radeon AI PRO R9700 has gfx1201");
    fails(&["inspect", &file, "--workgroup", "0"], 2, "a size is one to three numbers");
    fails(&["inspect", &file, "--workgroup", "16x16"], 1, "not 16 x 16 x 1");
    let cut = dir.path().join("cut.hsaco");
    let bytes = std::fs::read(&file).expect("the file");
    for length in [0, 3, 63, 64, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&cut, &bytes[..length]).expect("written");
        let cut = cut.display().to_string();
        let error = fails(&["inspect", &cut], 1, &format!("{cut}: code object: ")).err;
        assert_eq!(error.lines().count(), 1, "{length}: {error}");
    }
}

#[test]
fn changes_of_code_objects() {
    let dir = tempfile::tempdir().expect("a directory");
    let [rows, tile] = ["matmul_q6_k_n256_k512_rows", "matmul_q6_k_n256_k512_tile"].map(|k| hsaco(&dir, "gfx1100", k));
    let other = hsaco(&dir, "gfx1201", "matmul_q6_k_n256_k512_rows");
    assert!(good(&["diff", &rows, &rows]).text().contains("nothing has changed"));
    let text = good(&["diff", &rows, &tile]);
    assert!(text.text().contains("\n    bytes of LDS ") && text.text().contains("\n    matrix "), "{}", text.text());
    let found = json(&["diff", &rows, &tile, "--json"]);
    let changes = found["kernels"][0]["changes"].as_array().expect("changes");
    let loops = changes.iter().find(|c| c["what"] == "VGPRs").expect("of registers");
    assert!(loops["before"].is_u64() && loops["before"] != loops["after"], "{loops}");
    fails(&["diff", &rows, &other], 1, "the one is for gfx1100, the other for gfx1201: they can't be compared");
    fails(&["diff", &rows, "/nonexistent"], 1, "can't read /nonexistent");
    fails(&["diff", &rows, &model("qwen3-Q6_K")], 1, "code object: no ELF file");
}

#[test]
fn targets_are_listed_with_what_is_here() {
    let text = good(&["targets"]);
    for part in ["\ngfx1151 ", "\ngfx12-generic ", "\nx86-64-v3 ", "\nhere:\n", "\n  host: x86-64+avx2"] {
        assert!(text.text().contains(part), "{part:?}: {}", text.text());
    }
    assert!(text.text().contains("\n  no GPU: ") || text.text().contains("\n  GPU gfx"), "{}", text.text());
    let found = json(&["targets", "--json"]);
    let targets = found["targets"].as_array().expect("targets");
    let chip = targets.iter().find(|t| t["name"] == "gfx1151").expect("its row");
    let facts = chip["facts"].as_array().expect("facts");
    // Every fact names its source; those that are not known are not there.
    assert!(facts.iter().all(|f| f["source"].is_string() && f["value"] != "not known"));
    assert!(
        !facts.iter().any(|f| f["fact"] == "vector cache line")
            && facts.iter().any(|f| f["fact"] == "LDS banks of a CU")
    );
    assert!(found["here"]["host"].is_string() || found["here"]["no_host"].is_string());
    let one = good(&["targets", "gfx1151"]);
    assert!(one.text().contains("vector cache line ") && one.text().contains("not known\n"), "{}", one.text());
    assert_eq!(json(&["targets", "gfx1151", "--json"]), *chip);
    fails(&["targets", "gfx9999"], 2, "unknown target");
}

#[test]
fn ptx_is_inspected_from_models_tile_ir_and_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let of = |name: &str| dir.path().join(name).display().to_string();
    let (tile, ptx, model) = (of("norm.tile"), of("norm.ptx"), model("qwen3-Q6_K"));
    let kernel = ["--target", "sm_90", "--kernel", "rms_norm"];
    good(&[&["dump", &model, "--emit", "tile", "-o", &tile], &kernel[..]].concat());
    good(&["dump", &tile, "--target", "sm_90", "--emit", "asm", "-o", &ptx]);
    assert!(std::fs::read_to_string(&ptx).expect("PTX").contains("\n.target sm_90\n"));
    let found = [
        good(&[&["inspect", &model], &kernel[..]].concat()).text().to_string(),
        good(&["inspect", &tile, "--target", "sm_90"]).text().to_string(),
        good(&["inspect", &ptx]).text().to_string(),
    ];
    assert!(found[0].starts_with("sm_90, PTX ") && found[0].contains("\nkernel rms_norm_"), "{}", found[0]);
    assert!(found.iter().all(|text| *text == found[0]), "{found:?}");
    let report = json(&["inspect", &ptx, "--json"]);
    let kernel = &report["kernels"][0];
    assert_eq!(kernel["threads"].as_u64(), kernel["waves"].as_u64().map(|n| 32 * n), "{report}");
    assert!(kernel["outside"]["classes"]["global_load"].as_u64() > Some(0), "{report}");
    fails(&["inspect", &ptx, "--html", &of("page.html")], 1, "of code for AMD GPUs");
    fails(&["inspect", &tile], 1, "say with --target for which GPU");
    fails(&["dump", &ptx, "--emit", "hsaco", "--kernel", "x"], 1, "");
}
