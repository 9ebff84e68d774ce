//! Instructions from LLVM's assembly text: mnemonic, operands, modifiers.

use std::fmt;

/// A file of registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum File {
    /// Vector registers.
    V,
    /// Accumulators of the matrix unit.
    A,
    /// Scalar registers, and the special ones by the numbers in [`special`].
    S,
}

/// Registers in a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Regs {
    /// Their file.
    pub file: File,
    /// The first.
    pub first: u16,
    /// How many.
    pub count: u16,
}

/// Numbers of special scalar registers. Those that instructions name as `s0` and so on come before them.
pub mod special {
    /// VCC, low half; the high half follows.
    pub const VCC: u16 = 110;
    /// The first trap temporary.
    pub const TTMP0: u16 = 112;
    /// M0.
    pub const M0: u16 = 128;
    /// Reads as zero; writes are dropped.
    pub const NULL: u16 = 129;
    /// The mask of active lanes, low half; the high half follows.
    pub const EXEC: u16 = 130;
    /// The condition bit.
    pub const SCC: u16 = 132;
    /// Registers in all.
    pub const COUNT: u16 = 133;
}

/// Registers with names of their own: name, first, count.
const NAMED: &[(&str, u16, u16)] = &[
    ("vcc", special::VCC, 2),
    ("vcc_lo", special::VCC, 1),
    ("vcc_hi", special::VCC + 1, 1),
    ("exec", special::EXEC, 2),
    ("exec_lo", special::EXEC, 1),
    ("exec_hi", special::EXEC + 1, 1),
    ("m0", special::M0, 1),
    ("null", special::NULL, 1),
    ("scc", special::SCC, 1),
    ("src_scc", special::SCC, 1),
];

/// What an instruction works on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operand {
    /// Whole registers.
    Regs(Regs),
    /// Registers negated, without sign, halved or otherwise changed on the way.
    Changed(Regs),
    /// A number; a fraction by the bits of its `f32`.
    Number(u32),
    /// Anything else: `off`, `hwreg(...)`, `sendmsg(...)`.
    Other(String),
}

impl Operand {
    /// Its registers, changed or not.
    pub fn regs(&self) -> Option<Regs> {
        match self {
            Operand::Regs(r) | Operand::Changed(r) => Some(*r),
            Operand::Number(_) | Operand::Other(_) => None,
        }
    }
}

/// One operation. An instruction has two if it is a pair (VOPD).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    /// Mnemonic without the suffix for the encoding: `v_add_f32`. Of a pair's operation, that of the operation alone.
    pub name: String,
    /// Whether lanes exchange values on the way (DPP), or parts of registers are taken (SDWA).
    pub rearranged: bool,
    /// Operands in order, results first.
    pub operands: Vec<Operand>,
    /// What follows them: `offset:16`, `offen`, `glc`.
    pub modifiers: Vec<String>,
}

impl Op {
    /// Whether it has that modifier.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|m| m == modifier)
    }

    /// The number after `name:`.
    pub fn modifier(&self, name: &str) -> Option<u32> {
        self.modifiers.iter().find_map(|m| number(m.strip_prefix(name)?.strip_prefix(':')?))
    }
}

/// An instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inst {
    /// Bytes from the start of the code.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
    /// Its text.
    pub text: String,
    /// What it does: one operation, or two at once.
    pub ops: Vec<Op>,
}

impl Inst {
    /// From a line of assembly.
    pub fn parse(offset: usize, size: usize, text: &str) -> Inst {
        let ops = text.split(" :: ").map(op).collect();
        Inst { offset, size, text: text.into(), ops }
    }

    /// Its first operation's mnemonic.
    pub fn name(&self) -> &str {
        self.ops.first().map_or("", |op| &op.name)
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Suffixes that say how an operation is encoded, and whether values are rearranged with it.
const ENCODINGS: &[(&str, bool)] =
    &[("_e64_dpp", true), ("_dpp", true), ("_dpp8", true), ("_sdwa", true), ("_e32", false), ("_e64", false)];

fn op(text: &str) -> Op {
    let text = text.trim();
    let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (name, rearranged) = ENCODINGS
        .iter()
        .find_map(|&(suffix, changes)| Some((mnemonic.strip_suffix(suffix)?, changes)))
        .unwrap_or((mnemonic, false));
    let name = name.strip_prefix("v_dual_").map_or_else(|| name.to_string(), |rest| format!("v_{rest}"));
    let mut op = Op { name, rearranged, operands: Vec::new(), modifiers: Vec::new() };
    for piece in split(rest) {
        let mut words = piece.split_whitespace();
        let Some(first) = words.next() else { continue };
        // Modifiers have no comma before them, so that only an instruction without operands starts with one.
        if is_modifier(first) {
            op.modifiers.push(first.into());
        } else {
            op.operands.push(operand(first));
        }
        op.modifiers.extend(words.map(String::from));
    }
    op
}

fn is_modifier(word: &str) -> bool {
    word.contains(':') && !word.contains('[')
}

/// Parts between commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ',' if depth <= 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn operand(word: &str) -> Operand {
    if let Some(regs) = registers(word) {
        return Operand::Regs(regs);
    }
    if let Some(n) = number(word) {
        return Operand::Number(n);
    }
    // `-v0`, `|v0|`, `-|v0|`, `neg(v0)`, `sext(v0)`, `v0.l`.
    let inner = word.trim_start_matches('-').trim_matches('|');
    let inner = inner.split_once('(').map_or(inner, |(_, inside)| inside.trim_end_matches(')'));
    let inner = inner.strip_suffix(".l").or_else(|| inner.strip_suffix(".h")).unwrap_or(inner);
    registers(inner).map_or_else(|| Operand::Other(word.into()), Operand::Changed)
}

fn registers(word: &str) -> Option<Regs> {
    if let Some(&(_, first, count)) = NAMED.iter().find(|(name, ..)| *name == word) {
        return Some(Regs { file: File::S, first, count });
    }
    let (file, base, most, rest) = match word.strip_prefix("ttmp") {
        Some(rest) => (File::S, special::TTMP0, 16, rest),
        None => match word.split_at_checked(1)? {
            ("v", rest) => (File::V, 0, 1024, rest),
            ("a", rest) => (File::A, 0, 1024, rest),
            ("s", rest) => (File::S, 0, special::VCC, rest),
            _ => return None,
        },
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u16>().ok()).flatten();
    let (first, last) = match rest.strip_prefix('[') {
        Some(range) => {
            let range = range.strip_suffix(']')?;
            let (first, last) = range.split_once(':').unwrap_or((range, range));
            (digits(first)?, digits(last)?)
        }
        None => (digits(rest)?, digits(rest)?),
    };
    (first <= last && last < most).then(|| Regs { file, first: base + first, count: last - first + 1 })
}

/// The bits of a number as assembly writes it.
fn number(word: &str) -> Option<u32> {
    let (negative, digits) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
    if let Some(hex) = digits.strip_prefix("0x") {
        // Literals of 64-bit operands have more digits: the low half is the part that is looked at.
        let value = u64::from_str_radix(hex, 16).ok()? as u32;
        return Some(if negative { value.wrapping_neg() } else { value });
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Ok(value) = digits.parse::<u32>() {
        return Some(if negative { value.wrapping_neg() } else { value });
    }
    word.parse::<f32>().ok().map(f32::to_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Inst {
        Inst::parse(0, 4, text)
    }

    fn v(first: u16, count: u16) -> Operand {
        Operand::Regs(Regs { file: File::V, first, count })
    }

    fn s(first: u16, count: u16) -> Operand {
        Operand::Regs(Regs { file: File::S, first, count })
    }

    #[test]
    fn operands_and_modifiers() {
        let op = &parsed("buffer_load_b128 v[2:5], v1, s[8:11], s14 offen offset:16 glc").ops[0];
        assert_eq!(op.name, "buffer_load_b128");
        assert_eq!(op.operands, [v(2, 4), v(1, 1), s(8, 4), s(14, 1)]);
        assert_eq!(op.modifier("offset"), Some(16));
        assert!(op.has("offen") && op.has("glc") && !op.has("slc"));
    }

    #[test]
    fn numbers_are_their_bits() {
        let numbers = |text: &str| parsed(text).ops[0].operands.clone();
        let shown = numbers("v_mad_u32_u24 v0, -1, 0xd2, 1.0");
        let bits = [u32::MAX, 0xd2, 1.0_f32.to_bits()].map(Operand::Number);
        assert_eq!(shown[1..], bits);
        assert_eq!(numbers("s_mov_b64 s[0:1], 0x7fffffff80000000")[1], Operand::Number(0x8000_0000));
        assert_eq!(numbers("v_mul_f32_e32 v1, 0.15915494, v2")[1], Operand::Number(0.159_154_94_f32.to_bits()));
    }

    #[test]
    fn encodings_are_taken_off_and_rearranging_ones_remembered() {
        for (text, name, rearranged) in [
            ("v_add_f32_e32 v0, v1, v2", "v_add_f32", false),
            ("v_cndmask_b32_e64 v0, v1, v2, s0", "v_cndmask_b32", false),
            ("v_add_f32_dpp v2, v2, v2 row_xmask:4 row_mask:0xf bank_mask:0xf bound_ctrl:1", "v_add_f32", true),
            ("v_mov_b32_dpp v16, v15 quad_perm:[1,0,3,2] row_mask:0xf", "v_mov_b32", true),
            ("v_and_b32_sdwa v0, v1, v2 dst_sel:DWORD", "v_and_b32", true),
            ("v_mul_lo_u32 v0, v1, v2", "v_mul_lo_u32", false),
        ] {
            let op = parsed(text).ops.remove(0);
            assert_eq!((op.name.as_str(), op.rearranged), (name, rearranged), "{text}");
        }
    }

    #[test]
    fn a_pair_is_two_operations() {
        let inst = parsed("v_dual_mov_b32 v4, 0 :: v_dual_add_nc_u32 v7, v3, v2");
        assert_eq!(inst.ops.iter().map(|op| op.name.as_str()).collect::<Vec<_>>(), ["v_mov_b32", "v_add_nc_u32"]);
        assert_eq!(inst.ops[1].operands, [v(7, 1), v(3, 1), v(2, 1)]);
    }

    #[test]
    fn special_registers_and_changed_ones() {
        let operands = |text: &str| parsed(text).ops[0].operands.clone();
        assert_eq!(operands("s_and_saveexec_b64 s[2:3], vcc")[1], s(special::VCC, 2));
        assert_eq!(operands("v_lshl_or_b32 v0, ttmp9, 8, v0")[1], s(special::TTMP0 + 9, 1));
        for (text, first) in [("-v3", 3), ("|v3|", 3), ("-|v3|", 3), ("v3.l", 3), ("neg(v3)", 3), ("sext(v3)", 3)] {
            let regs = Regs { file: File::V, first, count: 1 };
            assert_eq!(operands(&format!("v_x v0, {text}"))[1], Operand::Changed(regs), "{text}");
        }
        assert_eq!(operands("global_load_b32 v2, v[2:3], off offset:-16")[2], Operand::Other("off".into()));
        assert_eq!(
            parsed("global_load_b32 v2, v[2:3], off offset:-16").ops[0].modifier("offset"),
            Some(-16_i32 as u32)
        );
        assert_eq!(operands("s_load_b32 s8, s[0:1], null")[2], s(special::NULL, 1));
        let odd = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 32), 3";
        assert_eq!(operands(odd).len(), 2, "commas in brackets belong to the operand");
    }

    #[test]
    fn odd_text_is_taken_as_it_is() {
        for text in ["", " ", ",", "v_", "v_x [", "v_x v[9:3], v[a:b], v99999, s200, é", ".long 0xffffffff", "x :: y"]
        {
            let inst = parsed(text);
            assert!(inst.ops.iter().flat_map(|op| &op.operands).all(|o| o.regs().is_none()), "{text}");
        }
        assert!(parsed("s_endpgm").ops[0].operands.is_empty());
    }
}
