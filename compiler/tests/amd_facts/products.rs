//! Dot products and matrix instructions: each chip selects those that the table gives it, and no others.

use crate::llvm::{assembly, in_parallel, llc, machine, run};
use hrx_compiler::target::amd::{CHIPS, Chip, DOT_OPS, DotCall, DotOp, DotType, MatrixCall, MatrixOp, Operand, Scalar};
use inkwell::AddressSpace;
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::BasicValue;

/// LLVM's number of the calling convention of kernels.
const AMDGPU_KERNEL: u32 = 91;

/// An argument of a call: a kernel argument of that type, or a constant.
enum Arg<'c> {
    Of(BasicTypeEnum<'c>),
    Flag(bool),
    Int(u32),
}

/// A module with a kernel that calls an intrinsic on its arguments and stores the result.
fn module<'c>(
    cx: &'c Context,
    name: &str,
    overloads: &[BasicTypeEnum<'c>],
    result: BasicTypeEnum<'c>,
    args: &[Arg<'c>],
) -> Module<'c> {
    let module = cx.create_module("product");
    let intrinsic = Intrinsic::find(name).unwrap_or_else(|| panic!("{name} is no intrinsic"));
    assert_eq!(intrinsic.is_overloaded(), !overloads.is_empty(), "{name}");
    let callee = intrinsic.get_declaration(&module, overloads).unwrap_or_else(|| panic!("{name}: other types"));
    let of_type = args.iter().filter_map(|a| if let Arg::Of(t) = a { Some((*t).into()) } else { None });
    let pointer = cx.ptr_type(AddressSpace::from(1));
    let params: Vec<_> = std::iter::once(pointer.into()).chain(of_type).collect();
    let kernel = module.add_function("k", cx.void_type().fn_type(&params, false), None);
    kernel.set_call_conventions(AMDGPU_KERNEL);
    let builder = cx.create_builder();
    builder.position_at_end(cx.append_basic_block(kernel, ""));
    let mut params = kernel.get_param_iter().skip(1);
    let values: Vec<_> = args
        .iter()
        .map(|arg| match arg {
            Arg::Of(_) => params.next().expect("one each").into(),
            Arg::Flag(set) => cx.bool_type().const_int(u64::from(*set), false).into(),
            Arg::Int(n) => cx.i32_type().const_int(u64::from(*n), false).into(),
        })
        .collect();
    let declared = callee.get_type();
    assert_eq!(declared.count_param_types() as usize, values.len(), "{name} takes other arguments");
    assert_eq!(declared.get_return_type(), Some(result), "{name} gives another type");
    let call = builder.build_call(callee, &values, "").expect("the builder has a place");
    let value = call.try_as_basic_value().basic().expect("it gives a value");
    let to = kernel.get_first_param().expect("the pointer").into_pointer_value();
    builder.build_store(to, value.as_basic_value_enum()).expect("the builder has a place");
    builder.build_return(None).expect("the builder has a place");
    module
}

fn dot_module<'c>(cx: &'c Context, op: &DotOp) -> Module<'c> {
    let i32 = cx.i32_type().as_basic_type_enum();
    let f32 = cx.f32_type().as_basic_type_enum();
    let (factor, sum) = match op.factors {
        DotType::F16 => (cx.f16_type().vec_type(2).as_basic_type_enum(), f32),
        DotType::Bf16 => (cx.bf16_type().vec_type(2).as_basic_type_enum(), f32),
        DotType::Fp8 | DotType::Fp8Bf8 | DotType::Bf8Fp8 | DotType::Bf8 => (i32, f32),
        DotType::I8 | DotType::U8 | DotType::Iu8 | DotType::I4 | DotType::U4 | DotType::Iu4 => (i32, i32),
    };
    let (a, b, c) = (Arg::Of(factor), Arg::Of(factor), Arg::Of(sum));
    let args = match op.call {
        DotCall::Clamp => vec![a, b, c, Arg::Flag(false)],
        DotCall::SignedClamp => vec![Arg::Flag(true), a, Arg::Flag(false), b, c, Arg::Flag(false)],
        DotCall::Plain => vec![a, b, c],
    };
    module(cx, op.intrinsic, &[], sum, &args)
}

fn operand_type(cx: &Context, operand: Operand) -> BasicTypeEnum<'_> {
    let scalar = match operand.scalar {
        Scalar::Half => cx.f16_type().as_basic_type_enum(),
        Scalar::Bfloat => cx.bf16_type().as_basic_type_enum(),
        Scalar::Float => cx.f32_type().as_basic_type_enum(),
        Scalar::I16 => cx.i16_type().as_basic_type_enum(),
        Scalar::I32 => cx.i32_type().as_basic_type_enum(),
        Scalar::I64 => cx.i64_type().as_basic_type_enum(),
    };
    match (operand.count, scalar) {
        (1, scalar) => scalar,
        (n, BasicTypeEnum::FloatType(t)) => t.vec_type(n).as_basic_type_enum(),
        (n, BasicTypeEnum::IntType(t)) => t.vec_type(n).as_basic_type_enum(),
        _ => unreachable!("scalars are numbers"),
    }
}

fn matrix_module<'c>(cx: &'c Context, op: &MatrixOp) -> Module<'c> {
    let (factor, result) = (operand_type(cx, op.factor), operand_type(cx, op.result));
    let (a, b, c) = (Arg::Of(factor), Arg::Of(factor), Arg::Of(result));
    let zero = || Arg::Int(0);
    let wmma = vec![result, factor];
    let (overloads, args) = match op.call {
        MatrixCall::Wmma => (wmma, vec![a, b, c]),
        MatrixCall::WmmaSigned => (wmma, vec![Arg::Flag(true), a, Arg::Flag(false), b, c, Arg::Flag(false)]),
        MatrixCall::WmmaHalf => (wmma, vec![a, b, c, Arg::Flag(false)]),
        MatrixCall::Mfma => (vec![], vec![a, b, c, zero(), zero(), zero()]),
        MatrixCall::MmaSync => unreachable!("NVIDIA's"),
        MatrixCall::MfmaTyped => (vec![factor, factor], vec![a, b, c, zero(), zero(), zero(), zero(), zero(), zero()]),
    };
    module(cx, op.intrinsic, &overloads, result, &args)
}

/// The instructions of an assembly text, each with its line; both halves of a dual instruction are.
fn instructions(asm: &str) -> impl Iterator<Item = (&str, &str)> {
    asm.lines().filter(|l| l.starts_with('\t')).flat_map(|line| {
        let line = line.trim();
        line.split(" :: ").filter_map(move |part| Some((part.split_whitespace().next()?, line)))
    })
}

/// The line with one of these instructions.
fn line_of<'a>(asm: &'a str, mnemonics: &[&str]) -> Option<&'a str> {
    let plain = |m: &'a str| m.trim_end_matches("_e32").trim_end_matches("_e64");
    instructions(asm).find(|(m, _)| mnemonics.contains(&plain(m))).map(|(_, line)| line)
}

#[test]
fn chips_select_their_dot_products() {
    let cx = Context::create();
    for chip in CHIPS {
        let machine = machine(chip, None);
        for op in chip.dots {
            let asm = assembly(&dot_module(&cx, op), &machine);
            assert!(line_of(&asm, op.mnemonics).is_some(), "{} {}:\n{asm}", chip.name, op.intrinsic);
        }
    }
}

#[test]
fn chips_select_their_matrix_instructions() {
    let cx = Context::create();
    for chip in CHIPS {
        let machine = machine(chip, None);
        for op in chip.matrix_ops {
            assert_eq!(op.wave, chip.wave, "{} {op}", chip.name);
            let asm = assembly(&matrix_module(&cx, op), &machine);
            assert!(line_of(&asm, &[op.mnemonic]).is_some(), "{} {op}:\n{asm}", chip.name);
        }
    }
}

/// What distinguishes matrix instructions of different chips to LLVM.
fn identity(op: &MatrixOp) -> (&'static str, Scalar, u32) {
    (op.intrinsic, op.factor.scalar, op.factor.count)
}

/// No chip selects a product that its row lacks: LLVM refuses it, in a process of its own.
#[test]
fn chips_refuse_all_other_products() {
    let cx = Context::create();
    let mut matrix_ops: Vec<&MatrixOp> = Vec::new();
    for op in CHIPS.iter().flat_map(|c| c.matrix_ops) {
        if matrix_ops.iter().all(|seen| identity(seen) != identity(op)) {
            matrix_ops.push(op);
        }
    }
    let dots = DOT_OPS.iter().map(|op| (op.intrinsic, dot_module(&cx, op).print_to_string().to_string(), None));
    let matrices = matrix_ops
        .iter()
        .map(|op| (op.intrinsic, matrix_module(&cx, op).print_to_string().to_string(), Some(identity(op))));
    let products: Vec<_> = dots.chain(matrices).collect();
    let lacks = |chip: &Chip, (name, _, id): &(&str, String, Option<_>)| match id {
        Some(id) => chip.matrix_ops.iter().all(|op| identity(op) != *id),
        None => chip.dots.iter().all(|op| op.intrinsic != *name),
    };
    let cases: Vec<_> =
        CHIPS.iter().flat_map(|chip| products.iter().filter(move |p| lacks(chip, p)).map(move |p| (chip, p))).collect();
    assert!(cases.len() > 500, "the table gives nearly everything to everyone");
    in_parallel(&cases, |(chip, (name, ir, _))| {
        let Err(refused) = llc(chip.name, &[], ir) else { panic!("{} selects {name}", chip.name) };
        assert!(refused.contains("Cannot select"), "{} {name}: {refused}", chip.name);
    });
}

/// MFMA cycles are LLVM's passes of 4 cycles each. LLVM has those of 4-bit factors for the instructions with types as
/// operands; 8-bit factors take twice as many.
#[test]
fn mfma_cycles_are_those_of_llvm() {
    let cx = Context::create();
    for chip in CHIPS.iter().filter(|c| c.matrix_ops.iter().any(|op| op.mnemonic.starts_with("v_mfma"))) {
        let machine = machine(chip, None);
        let text: Vec<_> = chip
            .matrix_ops
            .iter()
            .map(|op| {
                let asm = assembly(&matrix_module(&cx, op), &machine);
                line_of(&asm, &[op.mnemonic]).expect("it selects").to_string()
            })
            .collect();
        let report = run("llvm-mca", chip.name, &["-iterations=1"], &text.join("\n")).expect("it analyses");
        let table = report.split("Instruction Info:").nth(1).expect("a table");
        let table = table.split("Resources:").next().expect("its end");
        let passes = table.lines().filter(|l| l.contains("v_mfma")).map(|l| {
            let numbers: Vec<f32> = l.split_whitespace().map_while(|w| w.parse().ok()).collect();
            numbers[2] as u32
        });
        let passes: Vec<_> = passes.collect();
        assert_eq!(passes.len(), chip.matrix_ops.len(), "{}: {report}", chip.name);
        for (op, passes) in chip.matrix_ops.iter().zip(passes) {
            let times = if op.call == MatrixCall::MfmaTyped { 2 } else { 1 };
            assert_eq!(op.cycles.map(|c| c.value), Some(4 * passes * times), "{} {op}", chip.name);
        }
    }
}
