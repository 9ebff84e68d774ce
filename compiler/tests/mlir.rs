//! The MLIR form: how it reads, and that MLIR's own programs take it. What it computes is held to the interpreter and
//! to the compiler's own code by the host tests of `hrx-tests`, with the feature `mlir`.

use hrx_compiler::passes::lower_host as lower;
use hrx_compiler::{Emit, LoadedKernel, Target, emit, mlir};
use hrx_ir::quant::FORMATS;
use hrx_ir::tile::random::{Options, random_kernel};
use hrx_ir::tile::{Elem, Kernel, parse_kernel};
use hrx_templates::{
    Activation, Attention, AttentionSizes, AttentionTiling, Gated, Limit, Linear, LinearTiling, MatrixTiling, Output,
    Real, Request, RmsNorm, RowCut, RowOp, RowsTiling, Rowwise, TargetShape, Template, WeightType,
};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What `mlir-opt` has between the modules of one file.
const SPLIT: &str = "\n// -----\n";

fn text(kernel: &Kernel) -> String {
    let text = emit(kernel, &Target::x86_64_v3(), Emit::Mlir).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    String::from_utf8(text).expect("text")
}

/// What one of MLIR's programs makes of an input.
fn run(program: &str, args: &[&str], input: &str) -> String {
    let prefix = std::env::var_os("MLIR_SYS_220_PREFIX").map_or_else(|| "/usr/lib/llvm-22".into(), PathBuf::from);
    let mut child = Command::new(prefix.join("bin").join(program))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program} (mlir-22-tools): {e}"));
    let mut stdin = child.stdin.take().expect("piped");
    let output = std::thread::scope(|s| {
        // A program that refuses the input may not read all of it.
        s.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output().expect("ends")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}\nof\n{input}");
    assert_eq!(said, "", "{program} {args:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Elementwise kernels, reductions and products with weights of every type.
fn templates() -> Vec<Kernel> {
    let tiling = LinearTiling { tokens: 2, rows: 4, program_rows: 32, unroll: 2 };
    let floats = [Elem::F32, Elem::F16, Elem::BF16].map(WeightType::Float);
    let mut all: Vec<Request> = Vec::new();
    all.extend(floats.map(|weight| Linear::new(64, 512, weight, tiling).into()));
    for weight in FORMATS.iter().map(WeightType::Quant) {
        for input in [Output::F32, Output::Q8] {
            all.push(Linear { input, ..Linear::new(64, 512, weight, tiling) }.into());
        }
    }
    // The cuts for GPUs read runs of blocks and use a matrix unit.
    let (rows, many) =
        (RowsTiling { rows: 4, chunks: 4, waves: 1, fixed: false }, MatrixTiling { m: 16, n: 16, k: 32, waves: 1 });
    let q4_k = WeightType::from_name("q4_k").expect("a type");
    all.push(Linear { input: Output::F32, ..Linear::new(64, 512, q4_k, rows) }.into());
    all.push(Linear { input: Output::F32, ..Linear::new(64, 512, q4_k, many) }.into());
    let q8_0 = WeightType::from_name("q8_0").expect("a type");
    let gated = Some(Gated { up: q8_0, activation: Activation::GeluTanh });
    let norm = Some(Real(1e-5));
    let one = LinearTiling { tokens: 1, ..tiling };
    all.push(Linear { gated, norm, output: Output::Q8, ..Linear::new(64, 96, q8_0, one) }.into());
    let cut = RowCut::VECTORS;
    for output in [Output::F32, Output::Q8] {
        all.push(RmsNorm { k: 96, eps: Real(1e-5), residual: false, indexed: true, output, cut }.into());
        all.push(Rowwise { k: 96, op: RowOp::Glu(Activation::Silu, Limit::Off), indexed: false, output, cut }.into());
    }
    let cache = Elem::F16;
    let sizes = AttentionSizes { heads: 4, kv_heads: 2, head_dim: 32, value_dim: 32, shared: false, cache };
    let tiling = AttentionTiling::choose(&TargetShape::vectors(8, 16), &sizes, 1);
    all.push(Attention { window: Some(7), ..Attention::new(&sizes, Real(0.125), tiling) }.into());
    all.iter().map(|r| r.kernel().unwrap_or_else(|e| panic!("{}: {e}", r.name()))).collect()
}

/// Random kernels, the same in every run.
fn random() -> impl Iterator<Item = Kernel> {
    (0..60u32).map(|seed| {
        let word = |i: u32| (seed * 1000 + i).wrapping_mul(2_654_435_761).rotate_left(15).wrapping_mul(2_246_822_519);
        let words: Vec<u32> = (0..20 + 2 * seed).map(word).collect();
        random_kernel(&words, Options::default())
    })
}

const KERNELS: &str = "kernel @saxpy(v0: f32, m0: in f32[64], m1: inout f32[64]) grid (4, 1, 1) ids (v1, v2, v3) {
        v4: i32 = const 16
        v5: i32 = mul v1, v4
        v6: f32[16] = load m0[v5]
        v7: f32[16] = load m1[v5]
        v8: f32[16] = broadcast v0
        v9: f32[16] = fma v8, v6, v7
        store m1[v5], v9
    }
    kernel @sums(v0: i32, m0: in f32[v0, 8], m1: out f32[v0]) grid (ceildiv(v0, 2), 1, 1) ids (v1, v2, v3) {
        v4: i32 = const 0
        v5: i32 = const 2
        v6: i32 = mul v1, v5
        v7: i32[2] = iota
        v8: i32[2] = broadcast v6
        v9: i32[2] = add v7, v8
        v10: i32[2] = broadcast v0
        v11: b1[2] = lt v9, v10
        v12: b1[2, 1] = reshape v11
        v13: f32[2, 8] = load m0[v9, v4] mask v12
        v14: f32[2, 1] = reduce_sum v13 axis 1
        v15: f32[2] = reshape v14
        store m1[v6], v15 mask v11
    }";

fn small_kernels() -> Vec<Kernel> {
    hrx_ir::tile::parse_module(KERNELS).expect("kernels")
}

#[test]
fn kernels_read_as_mlir() {
    for kernel in small_kernels() {
        insta::assert_snapshot!(kernel.name.clone(), text(&kernel));
    }
}

#[test]
fn mlir_opt_takes_every_kernel_and_prints_it_again() {
    let texts: Vec<String> = templates().iter().chain(&random().collect::<Vec<_>>()).map(text).collect();
    let input = texts.join(SPLIT);
    run("mlir-opt", &["--split-input-file", "--verify-diagnostics", "--verify-roundtrip"], &input);
    let printed = run("mlir-opt", &["--split-input-file"], &input);
    let printed: Vec<&str> = printed.split(SPLIT).collect();
    assert_eq!(printed.len(), texts.len());
    for (printed, text) in printed.iter().zip(&texts) {
        let module = &text[text.find("module {").expect("a module")..];
        assert_eq!(printed.trim(), module.trim());
    }
}

#[test]
fn the_pipeline_is_one_of_mlir_opt() {
    let input = templates().iter().map(text).collect::<Vec<_>>().join(SPLIT);
    let lowered = run("mlir-opt", &["--split-input-file", &format!("--pass-pipeline={}", mlir::PIPELINE)], &input);
    let operations = lowered.lines().filter_map(|line| line.trim().split(" = ").last()?.split([' ', '(']).next());
    let others: Vec<&str> =
        operations.filter(|op| op.contains('.') && !op.starts_with("llvm.") && !op.starts_with("\"llvm.")).collect();
    assert_eq!(others, [""; 0], "all is of the llvm dialect");
    let llvm = run("mlir-translate", &["--mlir-to-llvmir", "--split-input-file"], &lowered);
    assert_eq!(llvm.matches("\ndefine void @").count(), templates().len());
}

#[test]
fn texts_behind_one_another_are_one_file() {
    let both = small_kernels().iter().map(text).collect::<Vec<_>>().join("\n");
    let printed = run("mlir-opt", &[], &both);
    assert!(printed.contains("func.func @saxpy(") && printed.contains("func.func @sums("), "{printed}");
}

#[test]
fn forms_behind_mlir_hold_the_kernel() {
    let (kernel, target) = (&small_kernels()[0], Target::x86_64_v3());
    let form = |form| mlir::emit(kernel, &target, form).expect("compiles");
    let text = |f| String::from_utf8(form(f)).expect("text");
    assert!(text(Emit::Llvm).contains("define void @saxpy(ptr %0, i32 %1, i32 %2, i32 %3, ptr %4)"));
    assert!(text(Emit::Asm).contains("\nsaxpy:"));
    LoadedKernel::load(&form(Emit::Obj), "saxpy").expect("an object with the kernel in it");
    for same in [Emit::Tile, Emit::Lane, Emit::Mlir] {
        assert_eq!(form(same), emit(kernel, &target, same).expect("a form"));
    }
}

#[test]
fn an_operation_that_is_not_lowered_is_named() {
    let text = "kernel @k(m0: in q8_0[1, 1], m1: out f32[1, 32]) {
        v0: i32 = const 0
        v1: f32[1, 32] = block_values m0[v0, v0] chunk 0
        store m1[v0, v0], v1
    }";
    let kernel = parse_kernel(text).expect("a kernel");
    let refused = mlir::text(&kernel).expect_err("passes have not been run").to_string();
    assert_eq!(refused, "kernel k: MLIR: block_values is not lowered: passes expand it before");
    mlir::text(&lower(kernel)).expect("lowered");
}

#[test]
fn what_mlir_says_is_passed_on_in_one_line() {
    for (wrong, says) in [
        ("func.func @f(%a: i32) -> f32 {\n  return %a : i32\n}", "type of return operand 0 ('i32') doesn't match"),
        ("func.func @f() {\n  affine.what\n}", "is unknown"),
        ("func.func @f(%a: i32) {\n  %b = arith.addi %a, %a\n  return\n}", "expected ':'"),
    ] {
        let message = mlir::verify(wrong).expect_err("wrong");
        assert!(message.contains(says) && !message.contains('\n'), "{message}");
        // Nothing of it is left for the next text.
        assert_eq!(mlir::verify(&text(&small_kernels()[0])), Ok(()));
    }
}

#[test]
fn what_is_refused_says_so_in_one_line() {
    let kernel = &small_kernels()[0];
    let chip = Target::from_name("gfx1100").expect("a chip");
    let refused = mlir::emit(kernel, &chip, Emit::Obj).expect_err("no host").to_string();
    assert_eq!(refused, "target gfx1100: the lowering through MLIR is for the host only");
    let refused = emit(kernel, &chip, Emit::Mlir).expect_err("no host").to_string();
    assert!(refused.starts_with("target gfx1100: MLIR is ") && !refused.contains('\n'), "{refused}");
    let broken = parse_kernel("kernel @k(m0: out f32[4]) { v0: i32 = const 0 store m0[v0], v0 }").expect("parses");
    let refused = mlir::emit(&broken, &Target::x86_64_v3(), Emit::Obj).expect_err("breaks a rule").to_string();
    assert!(refused.starts_with("kernel k: "), "{refused}");
}
