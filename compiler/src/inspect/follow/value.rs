//! Values of registers as far as they can be followed: for each lane a number, plus multiples of numbers that are not
//! known but are the same for all lanes.
//!
//! All arithmetic is that of the chip: 32 bits, wrapping around.

use std::collections::HashMap;
use std::rc::Rc;

/// A number for each lane of a wave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lanes {
    /// The same for all.
    All(u32),
    /// One each, not all the same.
    Each(Rc<[u32]>),
}

impl Lanes {
    /// From the numbers of all lanes.
    pub fn new(numbers: Vec<u32>) -> Lanes {
        match numbers.first() {
            Some(&first) if numbers.iter().any(|&n| n != first) => Lanes::Each(numbers.into()),
            first => Lanes::All(first.copied().unwrap_or(0)),
        }
    }

    /// A lane's number.
    pub fn at(&self, lane: usize) -> u32 {
        match self {
            Lanes::All(n) => *n,
            Lanes::Each(all) => all[lane],
        }
    }

    /// All numbers that occur.
    pub(super) fn numbers(&self) -> &[u32] {
        match self {
            Lanes::All(n) => std::slice::from_ref(n),
            Lanes::Each(all) => all,
        }
    }

    /// What a function makes of each lane's numbers.
    pub fn with(&self, other: &Lanes, f: impl Fn(u32, u32) -> u32) -> Lanes {
        match (self, other) {
            (Lanes::All(a), Lanes::All(b)) => Lanes::All(f(*a, *b)),
            (Lanes::Each(a), Lanes::All(b)) => Lanes::new(a.iter().map(|&a| f(a, *b)).collect()),
            (Lanes::All(a), Lanes::Each(b)) => Lanes::new(b.iter().map(|&b| f(*a, b)).collect()),
            (Lanes::Each(a), Lanes::Each(b)) => Lanes::new(a.iter().zip(&**b).map(|(&a, &b)| f(a, b)).collect()),
        }
    }

    pub(super) fn map(&self, f: impl Fn(u32) -> u32) -> Lanes {
        self.with(&Lanes::All(0), |a, _| f(a))
    }
}

/// A number that is the same for all lanes and not known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Symbol(pub(super) u32);

/// Where a symbol comes from. The same origin is the same symbol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// A scalar register's value at the start.
    Scalar(u16),
    /// The address of the arguments.
    Arguments,
    /// A word of the arguments, by its offset in bytes.
    Argument(u32),
    /// The number of the wave in its workgroup, or a part of it.
    Wave(u8),
    /// What an instruction wrote: its index, and which of its results.
    Inst(usize, u16),
    /// What a scalar register holds at the start of a block: by the block and the register.
    ScalarAt(usize, u16),
    /// What is the same for all lanes of a vector register at the start of a block.
    VectorAt(usize, u16),
}

/// What is known of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Facts {
    origin: Origin,
    /// So many low bits are zero.
    pub(super) zeros: u32,
    /// It is no larger.
    pub(super) most: u32,
}

/// All symbols of a kernel.
#[derive(Default, Debug)]
pub struct Symbols {
    pub(super) facts: Vec<Facts>,
    by_origin: HashMap<Origin, Symbol>,
    /// Whether something that was known of a symbol turned out not to hold.
    pub changed: bool,
}

impl Symbols {
    /// The value of an origin, with what is known of it this time: that it is at most `most` and has `zeros` low bits of
    /// zero. What was known before holds no longer if this says less.
    pub fn value(&mut self, origin: Origin, zeros: u32, most: u32) -> Sum {
        if most == 0 {
            return Sum::number(0);
        }
        let next = Symbol(self.facts.len() as u32);
        let symbol = *self.by_origin.entry(origin).or_insert(next);
        if symbol == next {
            self.facts.push(Facts { origin, zeros, most });
        } else {
            let known = &mut self.facts[symbol.0 as usize];
            let at_joins = matches!(origin, Origin::ScalarAt(..) | Origin::VectorAt(..));
            let before = *known;
            known.zeros = known.zeros.min(zeros);
            if most > known.most {
                // What grows around a loop may grow on.
                known.most = if at_joins { u32::MAX } else { most };
            }
            self.changed |= *known != before;
        }
        Sum { lanes: Lanes::All(0), terms: vec![(symbol, Lanes::All(1))] }
    }

    /// Where a symbol comes from.
    pub fn origin(&self, symbol: Symbol) -> Origin {
        self.facts[symbol.0 as usize].origin
    }

    /// How many low bits of a sum's unknown part are zero; 32 if there is no such part.
    pub fn zeros(&self, terms: &[(Symbol, Lanes)]) -> u32 {
        let of = |(symbol, times): &(Symbol, Lanes)| {
            let least = times.numbers().iter().map(|n| n.trailing_zeros()).min().unwrap_or(32);
            (least + self.facts[symbol.0 as usize].zeros).min(32)
        };
        terms.iter().map(of).min().unwrap_or(32)
    }

    /// The most that a sum can be in any lane; none if it may have wrapped around.
    pub fn most(&self, sum: &Sum) -> Option<u32> {
        let bound = |lane: usize| {
            let terms = sum.terms.iter().map(|(symbol, times)| {
                u64::from(times.at(lane)).checked_mul(u64::from(self.facts[symbol.0 as usize].most))
            });
            terms.chain([Some(u64::from(sum.lanes.at(lane)))]).try_fold(0_u64, |all, n| all.checked_add(n?))
        };
        (0..sum.width()).map(bound).try_fold(0_u32, |most, n| Some(most.max(u32::try_from(n?).ok()?)))
    }
}

/// A known part and multiples of symbols. A factor may be another in each lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sum {
    /// What is known.
    pub lanes: Lanes,
    /// Symbols in order, with what they are multiplied by, other than zero.
    pub terms: Vec<(Symbol, Lanes)>,
}

impl Sum {
    /// A number.
    pub fn number(n: u32) -> Sum {
        Sum::known(Lanes::All(n))
    }

    /// A number for each lane.
    pub fn known(lanes: Lanes) -> Sum {
        Sum { lanes, terms: Vec::new() }
    }

    /// Lanes that have to be looked at to see all of them: 1 if all are the same.
    fn width(&self) -> usize {
        let each = self.terms.iter().map(|(_, times)| times).chain([&self.lanes]);
        each.map(|l| l.numbers().len()).max().unwrap_or(1)
    }

    /// Whether all lanes have the same value.
    pub fn is_uniform(&self) -> bool {
        self.width() == 1
    }

    /// The numbers, if nothing is unknown.
    pub fn as_known(&self) -> Option<&Lanes> {
        self.terms.is_empty().then_some(&self.lanes)
    }

    /// The number, if nothing is unknown and all lanes have the same.
    pub fn as_number(&self) -> Option<u32> {
        match self.as_known()? {
            Lanes::All(n) => Some(*n),
            Lanes::Each(_) => None,
        }
    }

    /// A lane's value, for all lanes.
    pub fn of_lane(&self, lane: usize) -> Sum {
        let terms = self.terms.iter().map(|(s, times)| (*s, Lanes::All(times.at(lane))));
        let terms = terms.filter(|(_, times)| *times != Lanes::All(0)).collect();
        Sum { lanes: Lanes::All(self.lanes.at(lane)), terms }
    }

    /// What a symbol is multiplied by, if it is the same in all lanes.
    pub fn of_symbol(&self, symbol: Symbol) -> Option<u32> {
        match self.terms.iter().find(|(s, _)| *s == symbol)?.1 {
            Lanes::All(times) => Some(times),
            Lanes::Each(_) => None,
        }
    }

    /// The multiple of a symbol that is part of it.
    pub fn of(&self, symbol: Symbol) -> Sum {
        Sum { lanes: Lanes::All(0), terms: self.terms.iter().filter(|(s, _)| *s == symbol).cloned().collect() }
    }

    /// The sum of two.
    pub fn add(&self, other: &Sum) -> Sum {
        self.plus(other, 1)
    }

    /// The difference of two.
    pub fn sub(&self, other: &Sum) -> Sum {
        self.plus(other, u32::MAX)
    }

    fn plus(&self, other: &Sum, times: u32) -> Sum {
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let (symbol, factor) = match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some(x), Some(y)) if x.0 == y.0 => (x.0, x.1.with(&y.1, |x, y| x.wrapping_add(y.wrapping_mul(times)))),
                (Some(x), y) if y.is_none_or(|y| x.0 < y.0) => (x.0, x.1.clone()),
                (_, Some(y)) => (y.0, y.1.map(|y| y.wrapping_mul(times))),
                (Some(_), None) => break,
            };
            a.next_if(|x| x.0 == symbol);
            b.next_if(|y| y.0 == symbol);
            if factor != Lanes::All(0) {
                terms.push((symbol, factor));
            }
        }
        Sum { lanes: self.lanes.with(&other.lanes, |x, y| x.wrapping_add(y.wrapping_mul(times))), terms }
    }

    /// The product with numbers.
    pub fn scale(&self, by: &Lanes) -> Sum {
        let times = |a: &Lanes| a.with(by, u32::wrapping_mul);
        let terms = self.terms.iter().map(|(s, factor)| (*s, times(factor)));
        Sum { lanes: times(&self.lanes), terms: terms.filter(|(_, f)| *f != Lanes::All(0)).collect() }
    }

    /// Each lane's value from the one sum or the other.
    pub fn select(&self, other: &Sum, lanes: usize, takes_other: impl Fn(usize) -> bool) -> Sum {
        let mask = Lanes::new((0..lanes).map(|l| u32::from(takes_other(l))).collect());
        let rest = mask.map(|m| 1 - m);
        self.scale(&rest).add(&other.scale(&mask))
    }

    /// Whether the low `bits` bits are those of the known part alone, and all else of it is the same for all lanes: then
    /// the value is known numbers below `1 << bits` plus a multiple of that which all lanes share.
    pub(super) fn splits(&self, symbols: &Symbols, bits: u32) -> bool {
        let shared = self.terms.iter().all(|(_, times)| matches!(times, Lanes::All(_)));
        shared && symbols.zeros(&self.terms) >= bits && matches!(self.lanes.map(|n| high(n, bits)), Lanes::All(_))
    }

    /// What lies above the low bits, of a sum that splits there: the same for all lanes.
    pub(super) fn above(&self, bits: u32) -> Sum {
        let terms = self.terms.clone();
        Sum { lanes: Lanes::All(high(self.lanes.at(0), bits)), terms }
    }

    /// The most bits at which it splits.
    pub(super) fn split_bits(&self, symbols: &Symbols) -> u32 {
        let zeros = symbols.zeros(&self.terms);
        // With nothing unknown, any place above all that differs will do.
        if zeros < 32 { zeros } else { 32 }
    }
}

/// A number without its low bits.
pub(super) fn high(n: u32, bits: u32) -> u32 {
    if bits >= 32 { 0 } else { n >> bits << bits }
}

/// A number's low bits.
pub(super) fn low(n: u32, bits: u32) -> u32 {
    n.wrapping_sub(high(n, bits))
}
