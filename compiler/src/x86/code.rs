//! The functions of an object for x86-64, as instructions.

use crate::{CompileError, generators};
use inkwell::llvm_sys::disassembler::{
    LLVMCreateDisasmCPUFeatures, LLVMDisasmContextRef, LLVMDisasmDispose, LLVMDisasmInstruction,
};
use object::{Architecture, Object, ObjectKind, ObjectSection, ObjectSymbol, SymbolKind};
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

/// Longer than any instruction's text; LLVM cuts off what is more.
const MAX_TEXT: usize = 512;

/// Every extension: what code is for is not for the disassembler to say.
const FEATURES: &CStr = c"+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512vnni,+avx512bf16,+avx512fp16,+avx512vbmi,\
+avx512vbmi2,+avx512bitalg,+avx512vpopcntdq,+avx512ifma,+avx512cd,+avxvnni,+avxvnniint8,+avxvnniint16,+amx-tile,\
+amx-int8,+amx-bf16,+gfni,+vaes,+vpclmulqdq,+f16c,+fma,+bmi,+bmi2,+avx2";

/// A function of an object.
pub(super) struct Function {
    pub name: String,
    pub instructions: Vec<Instruction>,
}

/// An instruction.
pub(super) struct Instruction {
    /// Where it starts in the function.
    pub offset: usize,
    pub bytes: usize,
    /// In AT&T's syntax.
    pub text: String,
}

/// Whether bytes are an object for x86-64, of which a program is made.
pub(super) fn is(bytes: &[u8]) -> bool {
    let is = |file: object::File| file.architecture() == Architecture::X86_64 && file.kind() == ObjectKind::Relocatable;
    object::File::parse(bytes).is_ok_and(is)
}

/// The functions of an object, in order.
pub(super) fn functions(bytes: &[u8]) -> Result<Vec<Function>, CompileError> {
    let refused = |reason: String| CompileError::CodeObject { reason };
    let file = object::File::parse(bytes).map_err(|e| refused(e.to_string()))?;
    if file.architecture() != Architecture::X86_64 {
        return Err(refused(format!("it is for {:?} and not for x86-64", file.architecture())));
    }
    let context = Disassembler::new().ok_or_else(|| refused("LLVM does not disassemble x86-64".into()))?;
    let mut out = Vec::new();
    for symbol in file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.is_definition() && s.size() > 0) {
        let name = symbol.name().map_err(|e| refused(e.to_string()))?.to_owned();
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let section = section.ok_or_else(|| refused(format!("{name} is in no section")))?;
        let data = section.data().map_err(|e| refused(e.to_string()))?;
        let start = symbol.address().checked_sub(section.address());
        let range = start.and_then(|s| Some(s as usize..s.checked_add(symbol.size())? as usize));
        let code = range.and_then(|r| data.get(r)).ok_or_else(|| refused(format!("{name} leaves its section")))?;
        let instructions =
            context.instructions(code).map_err(|at| refused(format!("{name}: no instruction at {at}")))?;
        out.push(Function { name, instructions });
    }
    Ok(out)
}

/// LLVM's disassembler.
struct Disassembler(LLVMDisasmContextRef);

impl Disassembler {
    fn new() -> Option<Disassembler> {
        generators::register();
        let [triple, cpu] = ["x86_64-unknown-linux-gnu", "x86-64"].map(CString::new);
        let (triple, cpu) = (triple.ok()?, cpu.ok()?);
        // SAFETY: the strings end in zero and are copied; no callbacks are given, so their data may be null.
        let context = unsafe {
            LLVMCreateDisasmCPUFeatures(triple.as_ptr(), cpu.as_ptr(), FEATURES.as_ptr(), null_mut(), 0, None, None)
        };
        (!context.is_null()).then_some(Disassembler(context))
    }

    /// All instructions of some code; where there is none, its place.
    fn instructions(&self, code: &[u8]) -> Result<Vec<Instruction>, usize> {
        let mut out = Vec::new();
        let mut offset = 0;
        while offset < code.len() {
            let rest = &code[offset..];
            let mut text = [0; MAX_TEXT];
            // SAFETY: LLVM only reads the code, in spite of the type, and no more than its length; it writes the text with
            // a zero at its end and no more than its length.
            let bytes = unsafe {
                let at = rest.as_ptr().cast_mut();
                LLVMDisasmInstruction(self.0, at, rest.len() as u64, offset as u64, text.as_mut_ptr(), MAX_TEXT)
            };
            if !(1..=rest.len()).contains(&bytes) {
                return Err(offset);
            }
            // SAFETY: as above.
            let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            out.push(Instruction { offset, bytes, text });
            offset += bytes;
        }
        Ok(out)
    }
}

impl Drop for Disassembler {
    fn drop(&mut self) {
        // SAFETY: it was made by LLVM and is used by nothing any more.
        unsafe { LLVMDisasmDispose(self.0) }
    }
}

impl Instruction {
    /// Where a jump goes to, as an offset in the function.
    pub fn jump(&self) -> Option<usize> {
        let (name, to) = self.text.split_once(' ')?;
        let by: i64 = to.parse().ok().filter(|_| name.starts_with('j'))?;
        usize::try_from((self.offset + self.bytes) as i64 + by).ok()
    }
}
