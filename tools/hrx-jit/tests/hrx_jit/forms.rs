//! `dump` and `compile`: each form of a kernel.

use crate::support::{fails, good, model, run_with, tests};
use hrx::compiler::LoadedKernel;
use hrx::ir::tile::parse_kernel;
use std::process::{Command, Stdio};

const EMBED: &str = "embed_q6_k_v320_k256";

fn dump(form: &str) -> Vec<u8> {
    let args = ["dump", &model("qwen3-Q6_K"), "--kernel", "embed", "--emit", form];
    let first = good(&args).out;
    assert_eq!(first, good(&args).out, "{form} differs from run to run");
    first
}

fn text(form: &str) -> String {
    String::from_utf8(dump(form)).expect("text")
}

#[test]
fn dumped_tile_and_lane_forms_are_kernels_again() {
    let tile = text("tile");
    assert_eq!(parse_kernel(&tile).expect("parses").to_string(), tile);
    assert!(tile.starts_with(&format!("kernel @{EMBED}(")) && tile.contains("block_values"), "{tile}");
    let lane = text("lane");
    parse_kernel(&lane).expect("parses");
    assert!(lane.contains("block_raw") && !lane.contains("block_values") && lane.contains("  // 1 x "), "{lane}");
}

#[test]
fn dumped_machine_code_is_the_kernel() {
    assert!(text("llvm").contains(&format!("define void @{EMBED}(ptr")));
    assert!(text("asm").contains(&format!("\n{EMBED}:")));
    LoadedKernel::load(&dump("obj"), EMBED).expect("an object with the kernel in it");
}

#[test]
fn a_graph_needs_no_kernel_and_everything_else_does() {
    let graph = good(&["dump", &model("gemma3-Q4_0"), "--emit", "graph"]);
    let parsed = hrx::ir::graph::parse(graph.text()).expect("parses");
    assert_eq!(parsed.to_string(), graph.text());
    let model = model("gemma3-Q4_0");
    fails(&["dump", &model], 1, "--kernel");
    fails(&["dump", &model, "--emit", "tile"], 1, "--kernel");
    fails(&["dump", &model, "--emit", "wasm"], 2, "graph, tile, lane, mlir, llvm, asm, obj");
}

#[test]
fn names_that_are_unknown_or_not_unique_list_what_there_is() {
    let model = model("qwen3-Q6_K");
    let unknown = fails(&["dump", &model, "--kernel", "conv"], 1, "no kernel \"conv\"").err;
    assert!(unknown.contains(&format!("\n  {EMBED}\n")), "{unknown}");
    let several = fails(&["dump", &model, "--kernel", "matmul"], 1, "stands for several").err;
    assert!(several.lines().skip(1).all(|l| l.starts_with("  matmul_q6_k_")), "{several}");
}

#[test]
fn a_file_compiles_to_every_form() {
    let file = tests("filetests/run/row_sums.tile");
    for (form, part) in [
        ("tile", "reduce_sum v13 axis 1\n"),
        ("lane", "reduce_sum v13 axis 1  // 2 x f32"),
        ("llvm", "define void @row_sums("),
        ("asm", "row_sums:"),
    ] {
        let args = ["compile", &file, "--emit", form, "--target", "x86-64-v3"];
        let ran = good(&args);
        assert!(ran.text().contains(part), "{form}: {}", ran.text());
        assert_eq!(ran.out, good(&args).out, "{form} differs from run to run");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let object = dir.path().join("row_sums.o");
    let ran = good(&["compile", &file, "--emit", "obj", "-o", &object.display().to_string()]);
    assert!(ran.out.is_empty());
    LoadedKernel::load(&std::fs::read(&object).expect("written"), "row_sums").expect("an object");
    fails(&["compile", &file, "-o", "/nowhere/x.s"], 1, "can't write /nowhere/x.s");
}

#[cfg(feature = "mlir")]
#[test]
fn mlir_is_a_form_of_dumps_and_files() {
    let dumped = text("mlir");
    assert!(dumped.contains(&format!("\n  func.func @{EMBED}(%arg0: i32, ")), "{dumped}");
    assert_eq!(hrx::compiler::mlir::verify(&dumped), Ok(()));
    let file = tests("filetests/run/row_sums.tile");
    let ran = good(&["compile", &file, "--emit", "mlir", "--target", "x86-64-v3"]);
    let head = "// kernel @row_sums(v0: i32, m0: in f32[v0, 4], m1: out f32[v0, 1])\n";
    assert!(ran.text().starts_with(head) && ran.text().contains("arith.addf"), "{}", ran.text());
    fails(&["compile", &file, "--emit", "mlir", "--target", "gfx1100"], 1, "target gfx1100: MLIR is ");
}

#[cfg(not(feature = "mlir"))]
#[test]
fn mlir_is_refused_by_a_build_without_it() {
    let file = tests("filetests/run/row_sums.tile");
    let err = fails(&["compile", &file, "--emit", "mlir"], 1, "row_sums: MLIR: left out of this build").err;
    assert!(err.contains("`--features mlir`") && err.lines().count() == 1, "{err}");
}

#[test]
fn of_several_kernels_one_is_chosen() {
    let two = "kernel @first(m0: out i32[1]) { v0: i32 = const 0 v1: i32[1] = const 1 store m0[v0], v1 }
               kernel @second(m0: out i32[1]) { v0: i32 = const 0 v1: i32[1] = const 2 store m0[v0], v1 }";
    let run = |args: &[&str]| run_with(&[&["compile", "-"], args].concat(), two);
    let all = run(&["--emit", "tile"]);
    assert!(all.text().contains("@first(") && all.text().contains("@second("), "{}", all.text());
    assert_eq!(hrx::ir::tile::parse_module(all.text()).map(|k| k.len()), Ok(2));
    let one = run(&["--emit", "tile", "--kernel", "sec"]);
    assert!(one.text().starts_with("kernel @second("), "{}", one.text());
    let object = run(&["--emit", "obj"]);
    assert_eq!(object.code, Some(1));
    assert_eq!(
        object.err,
        "error: standard input: an object holds one kernel; choose one with --kernel: first, second\n"
    );
}

#[test]
fn errors_in_a_text_are_shown_where_they_are() {
    let err = fails(&["compile", &tests("filetests/text/fail_type.tile")], 1, "fail_type.tile: line 4, column 15").err;
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines[2].find('^'), lines[1].find("g32"), "{err}");
    let err = fails(&["compile", &tests("filetests/verifier/loops.tile")], 1, "breaks 6 rules").err;
    assert!(err.contains("| for v7 in v0..v1 step v6 {\n      |               ^^\n"), "{err}");
    fails(&["compile", "/nowhere.tile"], 1, "can't read /nowhere.tile");
    fails(&["compile", &model("llama-linear-F16")], 1, "not text: byte");
    let empty = run_with(&["compile", "-"], "// nothing\n");
    assert_eq!((empty.code, empty.err.as_str()), (Some(1), "error: standard input: there is no kernel in it\n"));
}

#[test]
fn a_reader_that_stops_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hrx-jit"))
        .args(["compile", &tests("filetests/run/row_sums.tile"), "--emit", "llvm"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    let ran = child.wait_with_output().expect("ends");
    assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stderr).as_ref()), (Some(0), ""));
}
