//! Disassembly of AMD code, by LLVM's disassembler.

mod guard;

use crate::hsaco::{Generation, Processor, processor};
use crate::{CompileError, generators};
use inkwell::llvm_sys::disassembler::{
    LLVMCreateDisasmCPUFeatures, LLVMDisasmContextRef, LLVMDisasmDispose, LLVMDisasmInstruction,
};
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

/// A piece of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// Where it starts.
    pub offset: usize,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Assembly of one line, without space around it.
    pub text: String,
    /// What it is.
    pub kind: LineKind,
}

/// What a piece of code is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineKind {
    /// An instruction.
    Instruction,
    /// Words after the end of a program, which are fetched and never executed: all of them in one line.
    Padding,
    /// Bytes that are no instruction of the chip.
    Unknown,
}

/// Longer than any instruction's text; LLVM cuts off what is more.
const MAX_TEXT: usize = 1024;

/// Bytes of the unit that instructions are multiples of.
const WORD: usize = 4;

/// Disassembles code of a chip, as LLVM calls it, for waves of 32 or 64 lanes. The lines are all of the code, in order;
/// addresses of jumps are as encoded, relative.
///
/// LLVM's disassembler is made for what compilers emit. What is known to end the process is kept from it (`guard`):
/// millions of random words for each generation found no more, but that is no proof.
///
/// # Errors
/// If the chip is unknown, older than LLVM disassembles, or has no such waves. Bytes that are no instructions are no
/// error but lines of their own kind.
pub fn disassemble<'a>(chip: &str, wave: u32, code: &'a [u8]) -> Result<Vec<Line<'a>>, CompileError> {
    let refused = |reason: String| CompileError::Target { target: chip.into(), reason };
    let processor = processor(chip).ok_or_else(|| refused("no AMD GPU that is known".into()))?;
    let features = features(processor, wave).map_err(refused)?;
    let context = Disassembler::new(processor, features);
    let context = context.ok_or_else(|| refused("LLVM does not disassemble it".into()))?;
    let padded = [code, &[0; guard::MARGIN]].concat();
    let mut lines = Vec::new();
    let mut offset = 0;
    let mut ended = false;
    while offset < code.len() {
        let rest = &code[offset..];
        let padding = if ended { padding(rest) } else { 0 };
        let (length, text, kind) = if padding > 0 {
            (padding, format!("; {} words of padding", padding / WORD), LineKind::Padding)
        } else if let Some((length, text)) = context.instruction(&padded[offset..], rest.len(), offset) {
            (length, text, LineKind::Instruction)
        } else {
            let bytes = &rest[..WORD.min(rest.len())];
            (bytes.len(), unknown(bytes), LineKind::Unknown)
        };
        ended = kind == LineKind::Padding || ends(&text);
        lines.push(Line { offset, bytes: &rest[..length], text, kind });
        offset += length;
    }
    Ok(lines)
}

/// The features of LLVM that say how many lanes a wave has. From gfx11 on, operands of 16 bits are halves of registers;
/// for gfx12, LLVM 22 has to be told.
fn features(processor: &Processor, wave: u32) -> Result<&'static str, String> {
    use Generation::*;
    match (processor.generation, wave) {
        // LLVM ends the process.
        (Gfx6 | Gfx7, _) => Err("LLVM disassembles nothing older than gfx8".into()),
        (Gfx8 | Gfx9 | Gfx90a, 64) => Ok(""),
        (Gfx10, 64) => Ok("+wavefrontsize64,-wavefrontsize32"),
        (Gfx10, 32) => Ok("+wavefrontsize32,-wavefrontsize64"),
        (Gfx11 | Gfx12, 64) => Ok("+wavefrontsize64,-wavefrontsize32,+real-true16"),
        (Gfx11 | Gfx12 | Gfx125, 32) => Ok("+wavefrontsize32,-wavefrontsize64,+real-true16"),
        (_, wave) => Err(format!("it has no waves of {wave} lanes")),
    }
}

/// Whether what follows an instruction can be reached by a jump only.
fn ends(text: &str) -> bool {
    let mnemonic = text.split_whitespace().next().unwrap_or_default();
    ["s_endpgm", "s_endpgm_saved", "s_setpc_b64", "s_set_pc_i64", "s_branch"].contains(&mnemonic)
}

/// Bytes of padding that code after the end of a program starts with: words that compilers pad with, to the end or with
/// a `s_code_end` among them. Others may be where a jump goes to.
fn padding(code: &[u8]) -> usize {
    const S_CODE_END: u32 = 0xbf9f_0000;
    const S_NOP: u32 = 0xbf80_0000;
    let words = code.chunks_exact(WORD).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
    let run: Vec<u32> = words.take_while(|w| [S_CODE_END, S_NOP, 0].contains(w)).collect();
    let bytes = run.len() * WORD;
    if bytes == code.len() || run.contains(&S_CODE_END) { bytes } else { 0 }
}

/// A directive that makes these bytes.
fn unknown(bytes: &[u8]) -> String {
    match bytes.first_chunk() {
        Some(word) => format!(".long {:#010x}", u32::from_le_bytes(*word)),
        None => format!(".byte {}", bytes.iter().map(|b| format!("{b:#04x}")).collect::<Vec<_>>().join(", ")),
    }
}

/// LLVM's disassembler for a chip.
struct Disassembler {
    context: LLVMDisasmContextRef,
    generation: Generation,
}

impl Disassembler {
    fn new(processor: &Processor, features: &str) -> Option<Disassembler> {
        generators::register();
        let [chip, features] = [CString::new(processor.name).ok()?, CString::new(features).ok()?];
        // SAFETY: the strings end in zero and are copied; no callbacks are given, so their data may be null.
        let context = unsafe {
            LLVMCreateDisasmCPUFeatures(
                c"amdgcn-amd-amdhsa".as_ptr(),
                chip.as_ptr(),
                features.as_ptr(),
                null_mut(),
                0,
                None,
                None,
            )
        };
        (!context.is_null()).then_some(Disassembler { context, generation: processor.generation })
    }

    /// The instruction that `available` bytes of code start with: its bytes and text. After them, [`guard::MARGIN`]
    /// zeros follow.
    fn instruction(&self, code: &[u8], available: usize, offset: usize) -> Option<(usize, String)> {
        let word = |at: usize| code[at..].first_chunk().map(|w| u32::from_le_bytes(*w));
        if guard::is_fatal(self.generation, [word(0)?, word(WORD)?]) {
            return None;
        }
        let mut text = [0; MAX_TEXT];
        // SAFETY: LLVM only reads the code, in spite of the type, and no more than its length; it writes the text with
        // a zero at its end and no more than its length.
        let length = unsafe {
            let bytes = code.as_ptr().cast_mut();
            LLVMDisasmInstruction(self.context, bytes, code.len() as u64, offset as u64, text.as_mut_ptr(), MAX_TEXT)
        };
        // SAFETY: as above; without an instruction it is still the zeros that it was.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().trim().replace(['\n', '\t'], " ");
        (1..=available).contains(&length).then_some((length, text))
    }
}

impl Drop for Disassembler {
    fn drop(&mut self) {
        // SAFETY: it was made by LLVM and is used by nothing any more.
        unsafe { LLVMDisasmDispose(self.context) }
    }
}
