//! Decoding, once for each code object: LLVM's disassembly becomes instructions that need no text any more.

mod change;
mod dpp;
mod inst;
mod memory;
mod named;
mod names;
mod simple;
mod source;
mod stretch;
#[cfg(test)]
mod trip;
mod uniform;
mod vector;

#[cfg(test)]
pub use change::Change;
pub use inst::*;
pub use named::Named;
pub use simple::{CONSTANTS, Simple};
pub use stretch::{Prepare, Quick, Special, Stretch, Stretches};

use crate::Error;
use hrx_compiler::disasm::{LineKind, disassemble};
use hrx_compiler::hsaco::Generation;
use hrx_compiler::inspect::asm::{self, Op};
use hrx_compiler::inspect::class;
use hrx_compiler::target::amd::{Chip, Fp8};

type Result<T> = std::result::Result<T, String>;

/// What decoding depends on beside the text.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub chip: &'a Chip,
    pub generation: Generation,
    /// Lanes of a wave.
    pub wave: u32,
    /// Whether 8-bit floats are FNUZ.
    pub fnuz: bool,
}

impl<'a> Context<'a> {
    /// Of a chip, for waves of so many lanes.
    pub fn new(chip: &'a Chip, generation: Generation, wave: u32) -> Context<'a> {
        let fnuz = chip.fp8.is_some_and(|f| f.value == Fp8::Fnuz);
        Context { chip, generation, wave, fnuz }
    }
}

/// A piece of code, decoded.
#[derive(Debug)]
pub struct Code {
    pub insts: Vec<Inst>,
    /// Disassembly of each instruction.
    pub texts: Vec<String>,
    /// The instruction at each word; [`Code::NONE`] where none starts.
    at: Vec<u32>,
    /// Where the code starts in the code object.
    pub address: u64,
    /// Constants of vector operations, for rows after the registers'.
    pub constants: Vec<u32>,
    /// Vector operations that follow each other.
    pub stretches: Stretches,
}

impl Code {
    /// No instruction.
    pub const NONE: u32 = u32::MAX;

    /// Decodes code. What is not known is an error when it is reached.
    ///
    /// # Errors
    /// If the disassembler does not know the chip.
    pub fn new(context: &Context<'_>, processor: &str, address: u64, bytes: &[u8]) -> std::result::Result<Code, Error> {
        let lines = disassemble(processor, context.wave, bytes)?;
        let mut code = Code {
            insts: Vec::with_capacity(lines.len()),
            texts: Vec::with_capacity(lines.len()),
            at: vec![Code::NONE; bytes.len().div_ceil(4)],
            address,
            constants: Vec::new(),
            stretches: Stretches::default(),
        };
        for line in lines {
            if line.kind == LineKind::Padding {
                continue;
            }
            let word = line.bytes.first_chunk().map_or(0, |w| u32::from_le_bytes(*w));
            let next = (line.offset + line.bytes.len()) as u32;
            code.at[line.offset / 4] = code.insts.len() as u32;
            let inst = asm::Inst::parse(line.offset, line.bytes.len(), &line.text);
            let body = match line.kind {
                LineKind::Instruction => body(&inst.ops, context, word, next),
                _ => Err("no instruction of the chip".into()),
            };
            code.insts.push(Inst {
                body: body.unwrap_or_else(|reason| Body::Unknown(reason.into())),
                class: class::class(inst.name()) as u8,
                offset: line.offset as u32,
                stretch: Stretch::default(),
                needs: Registers::named(&inst.ops),
            });
            code.texts.push(line.text);
        }
        code.resolve();
        code.constants = simple::place(&mut code.insts);
        code.stretches = Stretches::new(&mut code.insts, context.wave as u16 / 32, &mut code.constants);
        Ok(code)
    }

    /// Jumps become numbers of instructions.
    fn resolve(&mut self) {
        let at = &self.at;
        let index = |offset: u32| at.get(offset as usize / 4).copied().unwrap_or(Code::NONE);
        for inst in &mut self.insts {
            if let Body::Control(Control::Branch(_, to) | Control::Call(_, to)) = &mut inst.body {
                *to = index(*to);
            }
        }
    }

    /// The number of the instruction at an offset.
    pub fn index(&self, offset: u64) -> Option<usize> {
        let found = *self.at.get(usize::try_from(offset / 4).ok()?)?;
        (found != Code::NONE && offset.is_multiple_of(4)).then_some(found as usize)
    }

    /// The offset of an instruction, or of the end.
    pub fn offset(&self, index: usize) -> u64 {
        self.insts.get(index).map_or(4 * self.at.len() as u64, |i| i.offset.into())
    }
}

/// What the emulator makes of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Surveyed {
    /// Where it starts in the code.
    pub offset: usize,
    /// Its mnemonic, without the suffix for the encoding; of two operations, the first's.
    pub name: String,
    /// Its disassembly.
    pub text: String,
    /// Its class.
    pub class: class::Class,
    /// What of it is not known; none if the emulator runs it.
    pub unknown: Option<String>,
}

/// What of some code the emulator knows, instruction by instruction.
///
/// # Errors
/// If the disassembler does not know the chip, or it has no such waves.
pub fn survey(chip: &Chip, wave: u32, code: &[u8]) -> std::result::Result<Vec<Surveyed>, Error> {
    let generation = hrx_compiler::hsaco::processor(chip.name).map(|p| p.generation);
    let generation = generation.ok_or_else(|| Error::Module(format!("no processor {}", chip.name)))?;
    let context = Context::new(chip, generation, wave);
    let lines = disassemble(chip.name, wave, code)?;
    let surveyed = lines.into_iter().filter(|l| l.kind == LineKind::Instruction).map(|line| {
        let word = line.bytes.first_chunk().map_or(0, |w| u32::from_le_bytes(*w));
        let inst = asm::Inst::parse(line.offset, line.bytes.len(), &line.text);
        let unknown = body(&inst.ops, &context, word, (line.offset + line.bytes.len()) as u32).err();
        Surveyed {
            offset: line.offset,
            name: inst.name().into(),
            class: class::class(inst.name()),
            text: line.text,
            unknown,
        }
    });
    Ok(surveyed.collect())
}

fn body(ops: &[Op], context: &Context<'_>, word: u32, next: u32) -> Result<Body> {
    let [op] = ops else {
        let [x, y] = ops else { return Err("neither one operation nor two".into()) };
        let ops = [vector::operation(x, context)?, vector::operation(y, context)?];
        let illegal = crate::check::banks::pair(&ops[0], &ops[1], context.generation).map(Into::into);
        return Ok(Body::Pair(Box::new(Pair { ops, illegal })));
    };
    let name = op.name.as_str();
    if op.has("scale_offset") {
        return Err("offsets in units of the data".into());
    }
    if name == "v_nop" || name == "v_pipeflush" {
        return Ok(Body::Control(Control::Nop));
    }
    if name.starts_with("v_") {
        return vector::vector(op, context);
    }
    if let Some(body) = memory::lds(op, word)? {
        return Ok(body);
    }
    if let Some(body) = memory::memory(op)? {
        return Ok(body);
    }
    if name.starts_with("s_") {
        return uniform::uniform(op, context, word, next);
    }
    Err("no instruction that is emulated".into())
}
