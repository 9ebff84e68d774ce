//! Scalar operations: arithmetic on what all lanes share, and on masks of lanes.

use super::masks::{Active, Mask, Sets};
use super::step::{Step, Write};
use super::value::{Arithmetic, Bits, Lanes, Sum};
use crate::inspect::asm::{File, Operand, Regs, special};

/// Operations that write nothing but the condition bit or a mode.
const NOTHING: &[&str] = &[
    "s_cmp",
    "s_bitcmp",
    "s_setreg",
    "s_set_",
    "s_setkill",
    "s_ttracedata",
    "s_setvskip",
    "s_sleep",
    "s_incperf",
    "s_decperf",
];

impl Step<'_, '_> {
    /// What a scalar operation writes.
    pub(super) fn scalar(&mut self) -> Vec<Write> {
        let op = self.op;
        let name = op.name.as_str();
        let Some(to) = op.operands.first() else { return Vec::new() };
        if NOTHING.iter().any(|n| name.starts_with(n)) {
            return Vec::new();
        }
        if let Some(writes) = self.of_masks(name, to) {
            return writes;
        }
        let Some(regs) = to.regs() else { return Vec::new() };
        if let ("s_mov_b64", Some(Operand::Regs(from)), Regs { count: 2, .. }) = (name, op.operands.get(1), regs) {
            let halves = [0, 1].map(|half| Operand::Regs(Regs { first: from.first + half, count: 1, ..*from }));
            let values = halves.map(|half| self.value(&half));
            let each = |at: u16| Regs { first: regs.first + at, count: 1, ..regs };
            let [low, high] = values;
            return self.results(each(0), low).into_iter().chain(self.results(each(1), high)).collect();
        }
        let value = self.arithmetic_result(name);
        self.results(regs, value)
    }

    fn arithmetic_result(&mut self, name: &str) -> Option<Sum> {
        let op = self.op;
        // Constants of 16 bits with sign, some of them added to what is there.
        let constant = |at: usize| match op.operands.get(at) {
            Some(Operand::Number(n)) => Some(Sum::number(*n as i16 as u32)),
            _ => None,
        };
        match name {
            "s_movk_i32" => return constant(1),
            "s_addk_i32" | "s_addk_co_i32" => return Some(self.operand(0)?.add(&constant(1)?)),
            "s_mulk_i32" => {
                let (x, y) = (self.operand(0)?, constant(1)?);
                return self.arithmetic(|a| a.mul(&x, &y));
            }
            // What is there stays unless the condition holds.
            _ if name.starts_with("s_cmov") || name.starts_with("s_bitset") => return None,
            _ => {}
        }
        let sources = [self.operand(1), self.operand(2)];
        let (_, rule) = RULES.iter().find(|(names, _)| names.contains(&name))?;
        self.arithmetic(|a| rule(a, sources))
    }

    /// Operations that make masks of lanes, or the mask of active lanes.
    fn of_masks(&mut self, name: &str, to: &Operand) -> Option<Vec<Write>> {
        let op = self.op;
        let verb = name.strip_prefix("s_")?.strip_suffix(if self.context.wave == 32 { "_b32" } else { "_b64" })?;
        let active = self.context.sets.mask(self.state.active);
        let sets = &self.context.sets;
        if let Some(verb) = verb.strip_suffix("_saveexec") {
            let source = self.mask(op.operands.get(1)?);
            let result = logical(verb, source, active, sets);
            let mut writes = self.write_mask(to, active);
            writes.push(Write::Active(result));
            return Some(writes);
        }
        if let Some(verb) = verb.strip_suffix("_wrexec") {
            let source = self.mask(op.operands.get(1)?);
            let result = logical(verb, source, active, sets);
            let mut writes = self.write_mask(to, result);
            writes.push(Write::Active(result));
            return Some(writes);
        }
        let sources = &op.operands[1..];
        let makes_active = matches!(to.regs(), Some(Regs { file: File::S, first: special::EXEC, .. }));
        if !makes_active && !sources.iter().any(|s| self.is_mask(s)) {
            return None;
        }
        let read = |at: usize| sources.get(at).map_or(sets.unknown(), |s| self.mask(s));
        let result = match (verb, sources.len()) {
            ("mov", 1) => read(0),
            ("not", 1) => sets.and_not(sets.mask(Active::ALL), read(0)),
            (_, 2) => logical(verb, read(0), read(1), sets),
            _ => sets.unknown(),
        };
        Some(self.write_mask(to, result))
    }
}

/// A logical operation on masks.
fn logical(verb: &str, a: Mask, b: Mask, sets: &Sets) -> Mask {
    match verb {
        "and" => sets.and(a, b),
        "or" => sets.or(a, b),
        "xor" => sets.xor(a, b),
        // The one without the other: of saveexec and wrexec the first is the source.
        "andn2" | "and_not1" => sets.and_not(a, b),
        "andn1" | "and_not0" => sets.and_not(b, a),
        _ => sets.unknown(),
    }
}

/// A rule of arithmetic: two operands, of which some may be missing.
type Rule = fn(&mut Arithmetic<'_>, [Option<Sum>; 2]) -> Option<Sum>;

/// Results of operations by name. Of results of 64 bits it is the low half, as it is of their operands.
const RULES: &[(&[&str], Rule)] = &[
    (&["s_mov_b32", "s_mov_b64"], |_, [x, _]| x),
    (&["s_add_u32", "s_add_i32", "s_add_co_u32", "s_add_co_i32", "s_add_nc_u64", "s_add_u64"], |_, [x, y]| {
        Some(x?.add(&y?))
    }),
    (&["s_sub_u32", "s_sub_i32", "s_sub_co_u32", "s_sub_co_i32", "s_sub_nc_u64", "s_sub_u64"], |_, [x, y]| {
        Some(x?.sub(&y?))
    }),
    (&["s_mul_i32", "s_mul_u64"], |a, [x, y]| a.mul(&x?, &y?)),
    (&["s_lshl_b32"], |a, [x, y]| a.shl(&x?, &y?)),
    (&["s_lshl_b64"], |a, [x, y]| {
        let by = y?;
        let short = by.as_number().is_some_and(|n| n & 63 < 32);
        if short { a.shl(&x?, &by) } else { None }
    }),
    (&["s_lshr_b32"], |a, [x, y]| a.shr(&x?, &y?)),
    (&["s_ashr_i32"], |a, [x, y]| a.sar(&x?, &y?)),
    (&["s_lshl1_add_u32"], |_, [x, y]| Some(x?.scale(&Lanes::All(2)).add(&y?))),
    (&["s_lshl2_add_u32"], |_, [x, y]| Some(x?.scale(&Lanes::All(4)).add(&y?))),
    (&["s_lshl3_add_u32"], |_, [x, y]| Some(x?.scale(&Lanes::All(8)).add(&y?))),
    (&["s_lshl4_add_u32"], |_, [x, y]| Some(x?.scale(&Lanes::All(16)).add(&y?))),
    (&["s_and_b32", "s_and_b64"], |a, [x, y]| a.bits(Bits::And, &x?, &y?)),
    (&["s_or_b32", "s_or_b64"], |a, [x, y]| a.bits(Bits::Or, &x?, &y?)),
    (&["s_xor_b32", "s_xor_b64"], |a, [x, y]| a.bits(Bits::Xor, &x?, &y?)),
    (&["s_andn2_b32", "s_and_not1_b32"], |a, [x, y]| {
        let rest = Sum::number(u32::MAX).sub(&y?);
        a.bits(Bits::And, &x?, &rest)
    }),
    (&["s_not_b32"], |_, [x, _]| Some(Sum::number(u32::MAX).sub(&x?))),
    // Bits 4 to 0 of the second operand say where the field is, bits 22 to 16 how wide.
    (&["s_bfe_u32"], |a, [x, y]| {
        let field = y?.as_number()?;
        let shifted = a.shr(&x?, &Sum::number(field & 31))?;
        let width = field >> 16 & 0x7f;
        a.bits(Bits::And, &shifted, &Sum::number(1_u32.checked_shl(width).map_or(u32::MAX, |n| n - 1)))
    }),
    (&["s_min_u32"], |a, [x, y]| {
        let bounds = [a.symbols.most(x.as_ref()?), a.symbols.most(y.as_ref()?)];
        either(a, x?, y?, u32::min, bounds.into_iter().flatten().min())
    }),
    (&["s_min_i32"], |a, [x, y]| either(a, x?, y?, |x, y| (x as i32).min(y as i32) as u32, None)),
    (&["s_max_u32"], |a, [x, y]| either(a, x?, y?, u32::max, None)),
    (&["s_max_i32"], |a, [x, y]| either(a, x?, y?, |x, y| (x as i32).max(y as i32) as u32, None)),
    (&["s_cselect_b32"], |a, [x, y]| {
        let (x, y) = (x?, y?);
        if x == y { Some(x) } else { one_of(a, &x, &y, None) }
    }),
];

/// One of two numbers: that which a function takes if both are known.
fn either(a: &mut Arithmetic<'_>, x: Sum, y: Sum, takes: fn(u32, u32) -> u32, most: Option<u32>) -> Option<Sum> {
    match (x.as_number(), y.as_number()) {
        (Some(x), Some(y)) => Some(Sum::number(takes(x, y))),
        _ => one_of(a, &x, &y, most),
    }
}

/// One of two numbers that all lanes share, nobody knows which. It has as many low bits of zero as both.
fn one_of(a: &mut Arithmetic<'_>, x: &Sum, y: &Sum, most: Option<u32>) -> Option<Sum> {
    let zeros = |a: &Arithmetic<'_>, s: &Sum| a.symbols.zeros(&s.terms).min(s.lanes.at(0).trailing_zeros());
    let zeros = zeros(a, x).min(zeros(a, y));
    let larger = a.symbols.most(x).zip(a.symbols.most(y)).map(|(x, y)| x.max(y));
    Some(a.shared(zeros, most.or(larger).unwrap_or(u32::MAX)))
}
