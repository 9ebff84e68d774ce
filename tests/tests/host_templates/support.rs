//! The template tests' support, with a `launch` that holds compiled code against the interpreter.

#[path = "../../../kernel-templates/tests/templates/support.rs"]
mod interpreted;

pub use interpreted::*;

use hrx_ir::tile::Op;
use hrx_ir::tile::interp::Options;
use hrx_templates::{Slot, Template};
use hrx_tests::host::{Checker, targets};

/// Launches in the interpreter and on this machine; the results are the interpreter's, which the machine's equal.
pub fn launch(template: &impl Template, args: &[(Slot, Data)], options: &Options) -> Done {
    let done = interpreted::launch(template, args, options);
    let kernel = template.kernel().expect("the interpreter ran it");
    let inputs = inputs(template, args);
    // The host's code of products for a matrix unit is held by `host_matrix`; of whole templates LLVM takes minutes.
    let for_matrix_units = kernel.insts.values().any(|i| matches!(i.op, Op::Mma { .. }));
    // Cuts for several waves run in the emulator, by the same cases; here, where nothing uses them, they take minutes.
    let for_waves = kernel.waves > 1 && std::env::var_os("HRX_ALL").is_none_or(|v| v != "1");
    let targets = if for_matrix_units || for_waves { Vec::new() } else { targets() };
    Checker::for_targets(&kernel, &targets).and_then(|c| c.check(&inputs)).unwrap_or_else(|e| panic!("{e}"));
    done
}
