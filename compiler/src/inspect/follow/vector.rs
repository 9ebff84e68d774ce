//! Vector operations on whole numbers whose results can be followed.

use super::step::Step;
use super::value::{Arithmetic, Bits, Lanes, Sum};
use crate::inspect::asm::{File, Operand, Regs, special};

/// From this offset on, nothing is within the bounds of a buffer: what code adds to send a lane out of bounds.
pub const OUT_OF_BOUNDS: u32 = 0xffff_0000;

impl Step<'_, '_> {
    /// The first result of an operation that is in the list here; `Some(None)` if its operands can't be followed.
    pub(super) fn followed_vector(&mut self, name: &str, results: usize) -> Option<Option<Sum>> {
        match name {
            "v_cndmask_b32" => return Some(self.choice()),
            "v_readfirstlane_b32" => return Some(self.first_lane()),
            "v_mbcnt_lo_u32_b32" | "v_mbcnt_hi_u32_b32" => return Some(self.count_lanes(name == "v_mbcnt_hi_u32_b32")),
            "v_min_u32" | "v_min_i32" | "v_max_u32" | "v_max_i32" => return Some(self.extreme(name)),
            _ => {}
        }
        let (_, rule) = RULES.iter().find(|(names, _)| names.contains(&name))?;
        let sources = [0, 1, 2].map(|at| self.operand(results + at));
        Some(self.arithmetic(|a| rule(a, sources)))
    }

    /// One or the other, by a mask of lanes.
    fn choice(&mut self) -> Option<Sum> {
        let op = self.op;
        let (without, with) = (self.operand(1)?, self.operand(2)?);
        let vcc = Operand::Regs(Regs { file: File::S, first: special::VCC, count: 1 });
        let mask = self.mask(op.operands.get(3).unwrap_or(&vcc));
        if let Some(lanes) = self.context.sets.seen(mask, self.state.active) {
            return Some(without.select(&with, self.context.wave as usize, |l| lanes >> l & 1 != 0));
        }
        let outside = |s: &Sum| s.as_number().is_some_and(|n| n >= OUT_OF_BOUNDS);
        match (outside(&without), outside(&with)) {
            _ if without == with => Some(with),
            (true, false) => Some(self.full(with)),
            (false, true) => Some(self.full(without)),
            _ => None,
        }
    }

    /// A value that holds unless a bound is reached.
    fn full(&mut self, value: Sum) -> Sum {
        self.context.assumes_full_tiles = true;
        value
    }

    fn first_lane(&mut self) -> Option<Sum> {
        let value = self.operand(1)?;
        if value.is_uniform() {
            return Some(value);
        }
        let lanes = self.context.sets.lanes(self.state.active).filter(|&l| l != 0)?;
        Some(value.of_lane(lanes.trailing_zeros() as usize))
    }

    /// How many lanes of a mask come before each, added to a number.
    fn count_lanes(&mut self, high: bool) -> Option<Sum> {
        let (mask, start) = (self.operand(1)?.as_number()?, self.operand(2)?);
        let before = |lane: u32| {
            let lane = if high { lane.saturating_sub(32) } else { lane.min(32) };
            (u64::from(mask) & ((1_u64 << lane) - 1)).count_ones()
        };
        Some(Sum::known(Lanes::new((0..self.context.wave).map(before).collect())).add(&start))
    }

    /// The smaller or the larger. A bound that lanes share and that is not known is taken as not reached by those that
    /// differ.
    fn extreme(&mut self, name: &str) -> Option<Sum> {
        let (a, b) = (self.operand(1)?, self.operand(2)?);
        if let (Some(x), Some(y)) = (a.as_known(), b.as_known()) {
            let f: fn(u32, u32) -> u32 = match name {
                "v_min_u32" => u32::min,
                "v_max_u32" => u32::max,
                "v_min_i32" => |x, y| (x as i32).min(y as i32) as u32,
                _ => |x, y| (x as i32).max(y as i32) as u32,
            };
            return Some(Sum::known(Lanes::new(
                (0..self.context.wave as usize).map(|l| f(x.at(l), y.at(l))).collect(),
            )));
        }
        match (a.is_uniform(), b.is_uniform()) {
            (true, true) => Some(self.shared()),
            (true, false) if a.as_known().is_none() => Some(self.full(b)),
            (false, true) if b.as_known().is_none() => Some(self.full(a)),
            _ => None,
        }
    }
}

/// A rule of arithmetic: three operands, of which some may be missing or not known.
type Rule = fn(&mut Arithmetic<'_>, [Option<Sum>; 3]) -> Option<Sum>;

/// The first result of operations by name. Of results of 64 bits it is the low half, as it is of their operands.
const RULES: &[(&[&str], Rule)] = &[
    (&["v_mov_b32", "v_mov_b64"], |_, [x, ..]| x),
    (&["v_add_u32", "v_add_i32", "v_add_nc_u32", "v_add_nc_i32", "v_add_co_u32", "v_add_nc_u64"], |_, [x, y, _]| {
        Some(x?.add(&y?))
    }),
    (&["v_sub_u32", "v_sub_i32", "v_sub_nc_u32", "v_sub_nc_i32", "v_sub_co_u32", "v_sub_nc_u64"], |_, [x, y, _]| {
        Some(x?.sub(&y?))
    }),
    (&["v_subrev_u32", "v_subrev_nc_u32", "v_subrev_co_u32"], |_, [x, y, _]| Some(y?.sub(&x?))),
    (&["v_add3_u32"], |_, [x, y, z]| Some(x?.add(&y?).add(&z?))),
    (&["v_lshl_add_u32"], |a, [x, y, z]| Some(a.shl(&x?, &y?)?.add(&z?))),
    (&["v_lshl_add_u64"], |a, [x, y, z]| Some(a.shl(&x?, &short(y?)?)?.add(&z?))),
    (&["v_add_lshl_u32"], |a, [x, y, z]| a.shl(&x?.add(&y?), &z?)),
    (&["v_lshl_or_b32"], |a, [x, y, z]| {
        let shifted = a.shl(&x?, &y?)?;
        a.bits(Bits::Or, &shifted, &z?)
    }),
    (&["v_and_or_b32"], |a, [x, y, z]| {
        let masked = a.bits(Bits::And, &x?, &y?)?;
        a.bits(Bits::Or, &masked, &z?)
    }),
    (&["v_or3_b32"], |a, [x, y, z]| {
        let two = a.bits(Bits::Or, &x?, &y?)?;
        a.bits(Bits::Or, &two, &z?)
    }),
    (&["v_xor3_b32"], |a, [x, y, z]| {
        let two = a.bits(Bits::Xor, &x?, &y?)?;
        a.bits(Bits::Xor, &two, &z?)
    }),
    (&["v_xad_u32"], |a, [x, y, z]| Some(a.bits(Bits::Xor, &x?, &y?)?.add(&z?))),
    (&["v_and_b32"], |a, [x, y, _]| a.bits(Bits::And, &x?, &y?)),
    (&["v_or_b32"], |a, [x, y, _]| a.bits(Bits::Or, &x?, &y?)),
    (&["v_xor_b32"], |a, [x, y, _]| a.bits(Bits::Xor, &x?, &y?)),
    (&["v_not_b32"], |_, [x, ..]| Some(Sum::number(u32::MAX).sub(&x?))),
    (&["v_lshlrev_b32"], |a, [x, y, _]| a.shl(&y?, &x?)),
    (&["v_lshlrev_b64"], |a, [x, y, _]| a.shl(&y?, &short(x?)?)),
    (&["v_lshrrev_b32"], |a, [x, y, _]| a.shr(&y?, &x?)),
    (&["v_ashrrev_i32"], |a, [x, y, _]| a.sar(&y?, &x?)),
    (&["v_bfe_u32"], |a, [x, y, z]| {
        let width = z?.as_number()? & 31;
        let shifted = a.shr(&x?, &y?)?;
        a.bits(Bits::And, &shifted, &Sum::number((1 << width) - 1))
    }),
    (&["v_mul_lo_u32", "v_mul_lo_i32"], |a, [x, y, _]| a.mul(&x?, &y?)),
    (&["v_mul_u32_u24"], |a, [x, y, _]| product_24(a, &x?, &y?)),
    (&["v_mad_u32_u24"], |a, [x, y, z]| Some(product_24(a, &x?, &y?)?.add(&z?))),
    (&["v_mad_u64_u32"], |a, [x, y, z]| Some(a.mul(&x?, &y?)?.add(&z?))),
    (&["v_mul_hi_u32"], |a, [x, y, _]| {
        let (x, y) = (x?, y?);
        match (x.as_known(), y.as_known()) {
            (Some(x), Some(y)) => Some(Sum::known(x.with(y, |x, y| (u64::from(x) * u64::from(y) >> 32) as u32))),
            _ => a.opaque(&[&x, &y]),
        }
    }),
];

/// A number of bits to shift a value of 64 bits by, where the low half comes of the low half.
fn short(by: Sum) -> Option<Sum> {
    by.as_number().is_some_and(|n| n < 32).then_some(by)
}

/// The product of the low 24 bits of two numbers without sign.
fn product_24(a: &mut Arithmetic<'_>, x: &Sum, y: &Sum) -> Option<Sum> {
    let small = |a: &mut Arithmetic<'_>, s: &Sum| a.bits(Bits::And, s, &Sum::number(0xff_ffff));
    let (x, y) = (small(a, x)?, small(a, y)?);
    a.mul(&x, &y)
}
