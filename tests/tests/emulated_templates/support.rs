//! The template tests' support, with a `launch` that holds code for GPUs against the interpreter.

#[path = "../../../kernel-templates/tests/templates/support.rs"]
mod interpreted;

pub use interpreted::*;

use hrx_compiler::target::amd::{self, Chip};
use hrx_ir::tile::interp::Options;
use hrx_ir::tile::{BlockPart, Kernel, Op};
use hrx_templates::{Slot, Template};
use hrx_tests::emulator;
use hrx_tests::host::{compare, interpret, is_approximate};

fn chips(kernel: &Kernel) -> Vec<&'static Chip> {
    // Lanes take blocks as formats describe them; raw bytes are what the host's expansion makes of them.
    if kernel.insts.values().any(|i| matches!(i.op, Op::LoadBlock { part: BlockPart::Raw(_), .. })) {
        return Vec::new();
    }
    if let Ok(name) = std::env::var("HRX_CHIP") {
        return vec![amd::find(&name).expect("HRX_CHIP is a chip of the table")];
    }
    if std::env::var_os("HRX_ALL").is_some_and(|v| v == "1") {
        return emulator::chips();
    }
    vec![emulator::chip_for(kernel)]
}

/// Launches in the interpreter and in the emulator; the results are the interpreter's, which the emulator's equal.
pub fn launch(template: &impl Template, args: &[(Slot, Data)], options: &Options) -> Done {
    let done = interpreted::launch(template, args, options);
    let kernel = template.kernel().expect("the interpreter ran it");
    let inputs = inputs(template, args);
    let want = interpret(&kernel, &inputs, &Options::exact()).unwrap_or_else(|e| panic!("{e}"));
    for chip in chips(&kernel) {
        let (got, _) = match emulator::run(&kernel, &inputs, chip) {
            Ok(run) => run,
            // Random cuts, and those for vectors, may be too large; the compiler says so.
            Err(e) if e.contains("it needs more registers than a lane") => continue,
            Err(e) => panic!("{}: {e}", kernel.name),
        };
        // LLVM makes `v_fma_mixlo_f16 x, y, 0` of a product that becomes an f16: of a negative zero that makes a positive one.
        compare(&kernel, &inputs, &got, &want, is_approximate(&kernel), false)
            .unwrap_or_else(|e| panic!("{} for {}: {e}", kernel.name, chip.name));
    }
    done
}
