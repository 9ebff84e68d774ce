//! Code objects for AMD GPUs, from objects that LLVM makes of the IR in `ir/`.

mod audit;
mod descriptor;
mod disasm;
mod hsaco;
mod link;
mod loaded;
mod support;
