//! Words at which LLVM 22's disassembler ends the process, in place of saying that they are no instructions.
//!
//! Compilers emit none of them; damaged files may hold any. Each rule is of the ISA, so that what is kept from LLVM is no
//! instruction; but for one, a multiplication-addition of halves with the literal 255.

use crate::hsaco::Generation;
use std::ops::RangeInclusive;

/// Zeros that code must be followed by in memory: LLVM prints to nowhere when a literal is cut off.
pub(super) const MARGIN: usize = 32;

/// The operand that stands for a literal after the instruction.
const LITERAL: u32 = 255;

const V_READLANE_B32: u32 = 0x289;

/// s_barrier_signal to s_barrier_join of gfx12.
const BARRIERS: RangeInclusive<u32> = 0x4e..=0x52;

/// v_wmma_f32_16x16x128_f8f6f4 of gfx125.
const WMMA_F8F6F4: u32 = 0xcc33;

/// Words that give it scales, before it.
const WMMA_SCALES: [u32; 2] = [0xcc35, 0xcc3a];

/// v_madmk_f16 and v_madak_f16 before gfx10, v_fmamk_f16 and v_fmaak_f16 from then on, among VOP2.
const HALVES_WITH_LITERAL: [[u32; 2]; 2] = [[0x24, 0x25], [0x37, 0x38]];

/// Whether an instruction with these first words must be kept from LLVM.
pub(super) fn is_fatal(generation: Generation, words: [u32; 4]) -> bool {
    let [first, second, third, fourth] = words;
    let bits = |shift: u32, width: u32| second >> shift & ((1 << width) - 1);
    // Instructions of 8 bytes take no literal before gfx10.
    let short = generation < Generation::Gfx10;
    // The literal of these is an instruction's, but LLVM takes this one for the sign of another.
    if second == LITERAL && HALVES_WITH_LITERAL[usize::from(!short)].contains(&(first >> 25)) {
        return true;
    }
    match first >> 26 {
        // VOP1, VOP2 and VOPC with a second word that selects bytes (SDWA), which gfx11 has no more.
        ..=0b01_1111 if generation < Generation::Gfx11 && first & 0x1ff == 0xf9 => {
            let is_compare = first >> 25 == 0b011_1110;
            let sources = bits(16, 3) == 7 || bits(24, 3) == 7;
            // Compares have another register there.
            let destination = !is_compare && (bits(8, 3) == 7 || bits(11, 2) == 3);
            sources || destination
        }
        // VOP3 and VOP3P: three sources, and an SGPR that compares and lane reads write.
        0b11_0100 if short => {
            let opcode = first >> 16 & 0x3ff;
            let to_sgpr = opcode < 0x100 || opcode == V_READLANE_B32;
            [bits(0, 9), bits(9, 9), bits(18, 9)].contains(&LITERAL) || (to_sgpr && first & 0xff == LITERAL)
        }
        // MUBUF and MTBUF: an offset in an SGPR.
        0b11_1000 | 0b11_1010 if short => bits(24, 8) == LITERAL,
        // Matrices in SGPRs.
        0b11_0011 if generation == Generation::Gfx125 => {
            let scaled = WMMA_SCALES.contains(&(first >> 16));
            let [opcode, sources] = if scaled { [third, fourth] } else { [first, second] };
            opcode >> 16 == WMMA_F8F6F4 && [8, 17].iter().any(|vgpr| sources >> vgpr & 1 == 0)
        }
        // SOP1 with a barrier's number, which is no literal.
        0b10_1111 if generation >= Generation::Gfx12 && first >> 23 == 0b1_0111_1101 => {
            BARRIERS.contains(&(first >> 8 & 0xff)) && first & 0xff == LITERAL
        }
        _ => false,
    }
}
