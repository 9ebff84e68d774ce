//! LLVM's code generators: those for x86-64, AMD and NVIDIA GPUs.

use inkwell::llvm_sys::target as llvm;
use std::sync::Once;

unsafe extern "C" {
    // llvm-sys has those of other targets.
    fn LLVMInitializeAMDGPUDisassembler();
}

/// Makes LLVM's targets known to it, by whatever thread comes first: all of them at once, because LLVM's list of
/// targets has no lock and others read it from then on. No parsers of assembly are among them: nothing is written in it.
pub(crate) fn register() {
    static REGISTERED: Once = Once::new();
    // SAFETY: each puts constructors into LLVM's lists, once, before anything here looks for a target.
    REGISTERED.call_once(|| unsafe {
        llvm::LLVMInitializeX86TargetInfo();
        llvm::LLVMInitializeX86Target();
        llvm::LLVMInitializeX86TargetMC();
        llvm::LLVMInitializeX86AsmPrinter();
        llvm::LLVMInitializeX86Disassembler();

        llvm::LLVMInitializeAMDGPUTargetInfo();
        llvm::LLVMInitializeAMDGPUTarget();
        llvm::LLVMInitializeAMDGPUTargetMC();
        llvm::LLVMInitializeAMDGPUAsmPrinter();
        LLVMInitializeAMDGPUDisassembler();

        llvm::LLVMInitializeNVPTXTargetInfo();
        llvm::LLVMInitializeNVPTXTarget();
        llvm::LLVMInitializeNVPTXTargetMC();
        llvm::LLVMInitializeNVPTXAsmPrinter();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use inkwell::OptimizationLevel;
    use inkwell::context::Context;
    use inkwell::targets::{CodeModel, FileType, RelocMode, Target, TargetTriple};

    #[test]
    fn every_generator_is_linked_and_makes_code() {
        register();
        let expected = [
            ("x86_64-unknown-linux-gnu", "x86-64-v3", "retq"),
            ("amdgcn-amd-amdhsa", "gfx1100", "s_setpc_b64"),
            ("nvptx64-nvidia-cuda", "sm_75", ".target sm_75"),
        ];
        for (triple, chip, text) in expected {
            let triple = TargetTriple::create(triple);
            let machine = Target::from_triple(&triple).expect("a target").create_target_machine(
                &triple,
                chip,
                "",
                OptimizationLevel::Less,
                RelocMode::PIC,
                CodeModel::Default,
            );
            let machine = machine.unwrap_or_else(|| panic!("no machine for {chip}"));
            let context = Context::create();
            let module = context.create_module("empty");
            module.set_triple(&triple);
            module.set_data_layout(&machine.get_target_data().get_data_layout());
            let builder = context.create_builder();
            let function = module.add_function("empty", context.void_type().fn_type(&[], false), None);
            builder.position_at_end(context.append_basic_block(function, "entry"));
            builder.build_return(None).expect("a return");
            let assembly = machine.write_to_memory_buffer(&module, FileType::Assembly).expect("assembly");
            let assembly = String::from_utf8_lossy(assembly.as_slice()).into_owned();
            assert!(assembly.contains(text), "{chip}: {assembly}");
        }
    }
}
