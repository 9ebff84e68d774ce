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

/// An operand as it is written: what it is, and what happens to it before the operation sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// What it is.
    pub base: Base,
    /// Whether it is negated, after its sign was dropped.
    pub neg: bool,
    /// Whether its sign is dropped.
    pub abs: bool,
    /// Whether a part of a register is extended with its sign (SDWA).
    pub sext: bool,
    /// Which half of a register it is: the high one, if set.
    pub half: Option<bool>,
}

/// What an operand is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Base {
    /// Registers.
    Regs(Regs),
    /// A whole number, sign-extended to 64 bits, or a literal's bits.
    Whole(u64),
    /// A fraction, by the bits of its `f64`: what bits it has depends on the operation's type.
    Fraction(u64),
    /// Anything else.
    Name(String),
}

/// One operation. An instruction has two if it is a pair (VOPD).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    /// Mnemonic without the suffix for the encoding: `v_add_f32`. Of a pair's operation, that of the operation alone.
    pub name: String,
    /// The suffix for the encoding, as `_e64_dpp`; often none.
    pub encoding: &'static str,
    /// Whether lanes exchange values on the way (DPP), or parts of registers are taken (SDWA).
    pub rearranged: bool,
    /// Operands in order, results first.
    pub operands: Vec<Operand>,
    /// The same operands with all that is written of them.
    pub written: Vec<Written>,
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
        number(self.setting(name)?)
    }

    /// The text after `name:`.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.modifiers.iter().find_map(|m| m.strip_prefix(name)?.strip_prefix(':'))
    }

    /// The numbers in brackets after `name:`, as in `op_sel:[0,1]`.
    pub fn list(&self, name: &str) -> Option<Vec<u32>> {
        let inside = self.setting(name)?.strip_prefix('[')?.strip_suffix(']')?;
        inside.split(',').map(number).collect()
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
    let (name, encoding, rearranged) = ENCODINGS
        .iter()
        .find_map(|&(suffix, changes)| Some((mnemonic.strip_suffix(suffix)?, suffix, changes)))
        .unwrap_or((mnemonic, "", false));
    let name = name.strip_prefix("v_dual_").map_or_else(|| name.to_string(), |rest| format!("v_{rest}"));
    let (operands, written, modifiers) = (Vec::new(), Vec::new(), Vec::new());
    let mut op = Op { name, encoding, rearranged, operands, written, modifiers };
    for piece in split(rest) {
        let mut words = piece.split_whitespace();
        let Some(first) = words.next() else { continue };
        // Modifiers have no comma before them, so that only an instruction without operands starts with one.
        if is_modifier(first) {
            op.modifiers.push(first.into());
        } else {
            let found = written_as(first);
            op.operands.push(operand(first, &found));
            op.written.push(found);
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

/// What a word says: `-v0`, `|v0|`, `-|v0|`, `neg(v0)`, `sext(v0)`, `v0.l`, `-1`, `0.5`, `off`.
fn written_as(word: &str) -> Written {
    let mut found = Written { base: Base::Name(word.into()), neg: false, abs: false, sext: false, half: None };
    if let Some(base) = plain(word) {
        return Written { base, ..found };
    }
    let mut rest = word;
    loop {
        // The sign of a number is its own: that of `|-1|` is dropped.
        if plain(rest).is_some() {
            break;
        }
        if let Some(inner) = rest.strip_prefix('|').and_then(|r| r.strip_suffix('|')) {
            (found.abs, rest) = (true, inner);
        } else if let Some((change @ ("neg" | "abs" | "sext"), inside)) =
            rest.strip_suffix(')').and_then(|r| r.split_once('('))
        {
            match change {
                "neg" => found.neg = true,
                "abs" => found.abs = true,
                _ => found.sext = true,
            }
            rest = inside;
        } else if let Some(half) = rest.strip_suffix(".l").or_else(|| rest.strip_suffix(".h")) {
            (found.half, rest) = (Some(rest.ends_with('h')), half);
        } else if let (Some(inner), false) = (rest.strip_prefix('-'), found.neg) {
            (found.neg, rest) = (true, inner);
        } else {
            break;
        }
    }
    match plain(rest) {
        Some(base) => Written { base, ..found },
        None => Written { neg: false, abs: false, sext: false, half: None, ..found },
    }
}

/// Registers or a number, with nothing around them but what says that it is a literal.
fn plain(word: &str) -> Option<Base> {
    let literal = word.strip_prefix("lit64(").or_else(|| word.strip_prefix("lit("));
    let word = literal.and_then(|rest| rest.strip_suffix(')')).unwrap_or(word);
    if let Some(regs) = registers(word) {
        return Some(Base::Regs(regs));
    }
    let (negative, digits) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
    let sign = |n: u64| Base::Whole(if negative { n.wrapping_neg() } else { n });
    if let Some(hex) = digits.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().map(sign);
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let whole = digits.parse::<u64>().ok().map(sign);
    whole.or_else(|| word.parse::<f64>().ok().map(|x| Base::Fraction(x.to_bits())))
}

fn operand(word: &str, written: &Written) -> Operand {
    match &written.base {
        Base::Regs(regs) if registers(word).is_some() => Operand::Regs(*regs),
        Base::Regs(regs) => Operand::Changed(*regs),
        Base::Whole(n) if word.starts_with("lit") => Operand::Number(*n as u32),
        _ => number(word).map_or_else(|| Operand::Other(word.into()), Operand::Number),
    }
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
    fn written_operands_keep_their_marks() {
        let written = |word: &str| parsed(&format!("v_x v0, {word}")).ops[0].written.remove(1);
        let found = written("-|v3|");
        assert!(found.neg && found.abs && !found.sext && matches!(found.base, Base::Regs(Regs { first: 3, .. })));
        assert_eq!(written("v4.h").half, Some(true));
        assert_eq!(written("v4.l").half, Some(false));
        let found = written("|-0.5|");
        assert!(found.abs && !found.neg && found.base == Base::Fraction((-0.5_f64).to_bits()));
        let found = written("-|-3|");
        assert!(found.abs && found.neg && found.base == Base::Whole(-3_i64 as u64));
        assert!(written("sext(v4)").sext && written("neg(v4)").neg);
        assert_eq!(written("-1").base, Base::Whole(u64::MAX));
        assert_eq!(written("0x7fffffff80000000").base, Base::Whole(0x7fff_ffff_8000_0000));
        assert_eq!(written("lit(0xffffffff)").base, Base::Whole(0xffff_ffff));
        assert_eq!(written("-0.5").base, Base::Fraction((-0.5_f64).to_bits()));
        assert_eq!(written("off").base, Base::Name("off".into()));
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
