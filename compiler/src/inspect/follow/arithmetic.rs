//! Arithmetic on values that are followed.

use super::value::{Lanes, Origin, Sum, Symbol, Symbols, high, low};

/// Operations on bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bits {
    And,
    Or,
    Xor,
}

impl Bits {
    fn of(self, a: u32, b: u32) -> u32 {
        match self {
            Bits::And => a & b,
            Bits::Or => a | b,
            Bits::Xor => a ^ b,
        }
    }
}

/// The arithmetic of an instruction, which may need new symbols.
pub struct Arithmetic<'a> {
    /// All symbols.
    pub symbols: &'a mut Symbols,
    /// The instruction.
    pub at: usize,
    /// Its next new symbol.
    pub part: u16,
}

impl Arithmetic<'_> {
    /// A result that all lanes share and that is not known.
    pub fn shared(&mut self, zeros: u32, most: u32) -> Sum {
        let origin = Origin::Inst(self.at, self.part);
        self.part += 1;
        self.symbols.value(origin, zeros, most)
    }

    /// A result of operands that can't be followed: shared if all operands are.
    pub fn opaque(&mut self, operands: &[&Sum]) -> Option<Sum> {
        operands.iter().all(|o| o.is_uniform()).then(|| self.shared(0, u32::MAX))
    }

    /// The product.
    pub fn mul(&mut self, a: &Sum, b: &Sum) -> Option<Sum> {
        match (a.as_known(), b.as_known()) {
            (_, Some(by)) => Some(a.scale(by)),
            (Some(by), None) => Some(b.scale(by)),
            (None, None) => {
                let (one, other) = if a.is_uniform() { (a, b) } else { (b, a) };
                let shared = |s: &Sum| s.terms.iter().all(|(_, times)| matches!(times, Lanes::All(_)));
                if !one.is_uniform() || !shared(other) {
                    return None;
                }
                // The known part of the one, and what all lanes share of it.
                let rest = Sum { lanes: Lanes::All(0), terms: other.terms.clone() };
                Some(one.scale(&other.lanes).add(&self.shared_product(one, &rest)))
            }
        }
    }

    fn shared_product(&mut self, a: &Sum, b: &Sum) -> Sum {
        let zeros = |s: &Sum| self.symbols.zeros(&s.terms).min(s.lanes.at(0).trailing_zeros());
        let most = self.symbols.most(a).zip(self.symbols.most(b)).and_then(|(a, b)| a.checked_mul(b));
        let zeros = (zeros(a) + zeros(b)).min(32);
        self.shared(zeros, most.unwrap_or(u32::MAX))
    }

    /// Shifts left by a number of bits for each lane; only five bits of it count.
    pub fn shl(&mut self, a: &Sum, by: &Sum) -> Option<Sum> {
        match by.as_known() {
            Some(by) => Some(a.scale(&by.map(|n| 1 << (n & 31)))),
            None => self.opaque(&[a, by]),
        }
    }

    /// Shifts right by a number of bits; zeros come in.
    pub fn shr(&mut self, a: &Sum, by: &Sum) -> Option<Sum> {
        if let (Some(a), Some(by)) = (a.as_known(), by.as_known()) {
            return Some(Sum::known(a.with(by, |a, n| a >> (n & 31))));
        }
        let Some(n) = by.as_number().map(|n| n & 31) else { return self.opaque(&[a, by]) };
        let zeros = self.symbols.zeros(&a.terms);
        let most = self.symbols.most(a);
        if zeros >= n && most.is_some() {
            // Nothing wraps around, so that each part can be shifted.
            let lanes = a.lanes.map(|l| l >> n);
            let terms = a.terms.iter().map(|(s, f)| (*s, f.map(|f| f >> n))).collect();
            let exact = a.terms.iter().all(|(_, f)| f.numbers().iter().all(|f| f.trailing_zeros() >= n));
            if exact {
                return Some(Sum { lanes, terms });
            }
        }
        // What is below the unknown part does not carry into it.
        let bits = zeros.max(n);
        if !a.splits(self.symbols, zeros) {
            return None;
        }
        let lanes = a.lanes.map(|l| low(l, zeros) >> n);
        let shared = self.shared(bits - n, most.map_or(u32::MAX >> n, |m| m >> n));
        Some(Sum::known(lanes).add(&shared))
    }

    /// Shifts right by a number of bits; the sign comes in.
    pub fn sar(&mut self, a: &Sum, by: &Sum) -> Option<Sum> {
        if let (Some(a), Some(by)) = (a.as_known(), by.as_known()) {
            return Some(Sum::known(a.with(by, |a, n| ((a as i32) >> (n & 31)) as u32)));
        }
        match self.symbols.most(a) {
            Some(most) if most <= i32::MAX as u32 => self.shr(a, by),
            _ => self.opaque(&[a, by]),
        }
    }

    /// And, or, exclusive or.
    pub fn bits(&mut self, op: Bits, a: &Sum, b: &Sum) -> Option<Sum> {
        if let (Some(a), Some(b)) = (a.as_known(), b.as_known()) {
            return Some(Sum::known(a.with(b, |a, b| op.of(a, b))));
        }
        if let Some(sum) = self.as_sum(op, a, b) {
            return Some(sum);
        }
        // Low bits are known of both, and what is above is shared by all lanes.
        let bits = a.split_bits(self.symbols).min(b.split_bits(self.symbols));
        let lows = a.lanes.with(&b.lanes, |x, y| op.of(low(x, bits), low(y, bits)));
        let masks_all_above = op == Bits::And
            && [a, b].iter().any(|s| s.terms.is_empty() && s.lanes.numbers().iter().all(|&n| high(n, bits) == 0));
        if masks_all_above {
            return Some(Sum::known(lows));
        }
        if !a.splits(self.symbols, bits) || !b.splits(self.symbols, bits) {
            return None;
        }
        let (above_a, above_b) = (a.above(bits), b.above(bits));
        let shared = match (above_a.as_number(), above_b.as_number(), op) {
            (Some(0), _, Bits::Or | Bits::Xor) => above_b,
            (_, Some(0), Bits::Or | Bits::Xor) => above_a,
            (Some(n), _, Bits::And) if n == high(u32::MAX, bits) => above_b,
            (_, Some(n), Bits::And) if n == high(u32::MAX, bits) => above_a,
            (a_number, b_number, _) => {
                let mask = a_number.or(b_number).filter(|_| op == Bits::And);
                let zeros = mask.map_or(bits, |m| m.trailing_zeros().max(bits));
                let bound = |s: &Sum| self.symbols.most(s);
                let most = match op {
                    Bits::And => mask.or(bound(&above_a)).or(bound(&above_b)),
                    // No bit above the highest of both.
                    Bits::Or | Bits::Xor => bound(&above_a).zip(bound(&above_b)).map(|(a, b)| {
                        (a | b).checked_add(1).and_then(u32::checked_next_power_of_two).map_or(u32::MAX, |n| n - 1)
                    }),
                };
                self.shared(zeros, most.unwrap_or(u32::MAX))
            }
        };
        Some(Sum::known(lows).add(&shared))
    }

    /// Where no bit can be set in both operands, or and exclusive or are a sum; and where a mask has all bits that can be
    /// set, and is nothing.
    fn as_sum(&self, op: Bits, a: &Sum, b: &Sum) -> Option<Sum> {
        match op {
            Bits::And => {
                let keeps =
                    |value: &Sum, mask: &Sum| Some(mask.as_number()? & self.possible(value) == self.possible(value));
                if keeps(a, b) == Some(true) {
                    return Some(a.clone());
                }
                (keeps(b, a) == Some(true)).then(|| b.clone())
            }
            Bits::Or | Bits::Xor => (self.possible(a) & self.possible(b) == 0).then(|| a.add(b)),
        }
    }

    /// Bits that may be set in some lane.
    fn possible(&self, sum: &Sum) -> u32 {
        let below =
            |most: u32| most.checked_add(1).and_then(u32::checked_next_power_of_two).map_or(u32::MAX, |n| n - 1);
        let any = |lanes: &Lanes| lanes.numbers().iter().fold(0, |all, n| all | n);
        if sum.terms.is_empty() {
            return any(&sum.lanes);
        }
        let zeros = self.symbols.zeros(&sum.terms);
        let bounded = self.symbols.most(sum).map_or(u32::MAX, below);
        // The known part does not carry into the unknown one if it is below that.
        let low_bits = any(&sum.lanes.map(|l| low(l, zeros)));
        let whole = bounded & (high(u32::MAX, zeros) | low_bits);
        // Nor do parts that have no bit in common.
        let of_term = |(symbol, times): &(Symbol, Lanes)| {
            let term = Sum { lanes: Lanes::All(0), terms: vec![(*symbol, times.clone())] };
            self.symbols.most(&term).map_or(u32::MAX, below) & high(u32::MAX, self.symbols.zeros(&term.terms))
        };
        let mut parts = std::iter::once(any(&sum.lanes)).chain(sum.terms.iter().map(of_term));
        let apart = parts.try_fold(0, |all, part| (all & part == 0).then_some(all | part));
        apart.map_or(whole, |apart| apart & whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane_ids() -> Sum {
        Sum::known(Lanes::new((0..32).collect()))
    }

    /// Symbols with one of each kind: any number, a multiple of 256, a number of at most 7.
    fn symbols() -> (Symbols, Sum, Sum, Sum) {
        let mut symbols = Symbols::default();
        let any = symbols.value(Origin::Scalar(0), 0, u32::MAX);
        let aligned = symbols.value(Origin::Scalar(1), 8, u32::MAX);
        let small = symbols.value(Origin::Scalar(2), 0, 7);
        (symbols, any, aligned, small)
    }

    fn arithmetic(symbols: &mut Symbols) -> Arithmetic<'_> {
        Arithmetic { symbols, at: 0, part: 0 }
    }

    #[test]
    fn the_wave_of_a_work_item_is_shared() {
        let (mut symbols, _, _, wave) = symbols();
        let item = lane_ids().add(&wave.scale(&Lanes::All(32)));
        let mut a = arithmetic(&mut symbols);
        assert_eq!(a.shr(&item, &Sum::number(5)), Some(wave.clone()));
        assert_eq!(a.bits(Bits::And, &item, &Sum::number(31)), Some(lane_ids()));
        assert_eq!(a.bits(Bits::And, &item, &Sum::number(0x3ff)), Some(item.clone()), "it is less than 256");
        let shifted = a.shr(&item, &Sum::number(3)).expect("followed");
        let expected = Sum::known(Lanes::new((0..32).map(|l| l >> 3).collect())).add(&wave.scale(&Lanes::All(4)));
        assert_eq!(shifted, expected);
    }

    #[test]
    fn bits_that_can_not_meet_add_up() {
        let (mut symbols, any, aligned, _) = symbols();
        let mut a = arithmetic(&mut symbols);
        assert_eq!(a.bits(Bits::Or, &lane_ids(), &aligned), Some(lane_ids().add(&aligned)));
        assert_eq!(a.bits(Bits::Or, &lane_ids(), &any), None, "they may meet");
        let both = a.bits(Bits::Xor, &lane_ids().add(&aligned), &Sum::number(5)).expect("followed");
        assert_eq!(both, Sum::known(Lanes::new((0..32).map(|l| l ^ 5).collect())).add(&aligned));
    }

    #[test]
    fn bits_between_unknown_parts_are_free() {
        let (mut symbols, _, _, small) = symbols();
        let wave = small.scale(&Lanes::All(1 << 14));
        let mut a = arithmetic(&mut symbols);
        let place = a.bits(Bits::Or, &lane_ids().scale(&Lanes::All(4)), &wave).expect("followed");
        let at = a.bits(Bits::Or, &place, &Sum::number(0x200)).expect("no part has that bit");
        assert_eq!(at, place.add(&Sum::number(0x200)));
        let meets = Sum::number(0x4000);
        assert_ne!(a.bits(Bits::Or, &place, &meets), Some(place.add(&meets)), "the wave may have it");
    }

    #[test]
    fn products_of_lanes_with_unknown_numbers_are_followed() {
        let (mut symbols, any, _, small) = symbols();
        let mut a = arithmetic(&mut symbols);
        let product = a.mul(&lane_ids(), &any).expect("followed");
        assert_eq!(product.terms[0].1, Lanes::new((0..32).collect()));
        assert_eq!(a.mul(&product, &small), None);
        let row = lane_ids().add(&small.scale(&Lanes::All(32)));
        let rows = a.mul(&row, &any).expect("followed");
        assert_eq!((rows.terms[0].clone(), rows.terms.len()), (product.terms[0].clone(), 2));
        assert!(a.mul(&any, &small).expect("shared").is_uniform());
    }

    #[test]
    fn differences_of_the_same_symbols_are_known() {
        let (_, any, aligned, _) = symbols();
        let a = any.add(&aligned).add(&Sum::number(12));
        assert_eq!(a.sub(&any).sub(&aligned).as_number(), Some(12));
        assert_eq!(a.sub(&a).as_number(), Some(0));
    }

    #[test]
    fn what_may_wrap_around_is_not_shifted_in_parts() {
        let (mut symbols, any, _, _) = symbols();
        let sum = lane_ids().add(&any.scale(&Lanes::All(16)));
        let mut a = arithmetic(&mut symbols);
        assert_eq!(a.shr(&sum, &Sum::number(4)), None, "lanes above 15 may carry");
        let few = Sum::known(Lanes::new((0..32).map(|l| l & 15).collect())).add(&any.scale(&Lanes::All(16)));
        assert!(a.shr(&few, &Sum::number(4)).expect("followed").is_uniform());
    }

    /// Follows an operation with symbols given numbers, and compares with what the chip computes.
    #[test]
    fn what_is_followed_is_what_is_computed() {
        let mut seed = 1_u64;
        let mut random = move || {
            // SplitMix64.
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = seed;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ z >> 31) as u32
        };
        let mut followed = 0;
        for _ in 0..20_000 {
            let mut symbols = Symbols::default();
            let facts = [(0, u32::MAX), (random() % 12, u32::MAX), (0, random() >> (random() % 32) | 1)];
            let values = facts.map(|(zeros, most)| {
                let n = random();
                if most == u32::MAX { n >> zeros << zeros } else { n % (most.saturating_add(1)) }
            });
            let given: Vec<Sum> =
                (0..3).map(|i| symbols.value(Origin::Scalar(i as u16), facts[i].0, facts[i].1)).collect();
            let operand = |random: &mut dyn FnMut() -> u32| {
                let lanes = match random() % 3 {
                    0 => Lanes::All(random() >> (random() % 32)),
                    1 => Lanes::new((0..8).map(|l| l << (random() % 3 * 4)).collect()),
                    _ => Lanes::new((0..8).map(|_| random() % 64).collect()),
                };
                let mut sum = Sum::known(lanes);
                for symbol in &given {
                    if random().is_multiple_of(3) {
                        sum = sum.add(&symbol.scale(&Lanes::All(1 << (random() % 12))));
                    }
                }
                sum
            };
            let (a, b) = (operand(&mut random), operand(&mut random));
            let by = Sum::number(random() % 32);
            let worth = |sum: &Sum, lane: usize, result: Option<u32>| {
                sum.terms.iter().fold(sum.lanes.at(lane), |all, (symbol, times)| {
                    let value = match symbol.0 {
                        s @ 0..3 => values[s as usize],
                        _ => result.expect("a new symbol"),
                    };
                    all.wrapping_add(times.at(lane).wrapping_mul(value))
                })
            };
            let which = random() % 6;
            let truth = |x: u32, y: u32, n: u32| match which {
                0 => x & y,
                1 => x | y,
                2 => x ^ y,
                3 => x >> n,
                4 => ((x as i32) >> n) as u32,
                _ => x.wrapping_mul(y),
            };
            let mut arithmetic = arithmetic(&mut symbols);
            let result = match which {
                0 => arithmetic.bits(Bits::And, &a, &b),
                1 => arithmetic.bits(Bits::Or, &a, &b),
                2 => arithmetic.bits(Bits::Xor, &a, &b),
                3 => arithmetic.shr(&a, &by),
                4 => arithmetic.sar(&a, &by),
                _ => arithmetic.mul(&a, &b),
            };
            let Some(result) = result else { continue };
            followed += 1;
            // A new symbol stands for the same number in all lanes: what lane 0 leaves for it.
            let n = by.as_number().expect("a number");
            let of = |lane| truth(worth(&a, lane, None), worth(&b, lane, None), n);
            let new = result.terms.iter().find(|(s, _)| s.0 == 3);
            let rest = Sum { terms: result.terms.iter().filter(|(s, _)| s.0 < 3).cloned().collect(), ..result.clone() };
            let value = new.map(|(_, times)| {
                assert_eq!(*times, Lanes::All(1));
                of(0).wrapping_sub(worth(&rest, 0, None))
            });
            for lane in 0..8 {
                assert_eq!(worth(&result, lane, value), of(lane), "{which}: {a:?} {b:?} {n} {result:?}");
            }
            if let Some(value) = value {
                let facts = symbols.facts[3];
                assert!(value <= facts.most, "{which}: {value:#x} {facts:?} {a:?} {b:?} {n}");
                assert!(value.trailing_zeros() >= facts.zeros, "{which}: {value:#x} {facts:?} {a:?} {b:?} {n}");
            }
        }
        assert!(followed > 8_000, "{followed} of 20000 were followed");
    }
}
