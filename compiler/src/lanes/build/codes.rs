//! Codes of runs, four a word: the tree that makes a word (see [`blocks`](crate::lanes::blocks)), its numbers computed by
//! each lane from its own place.

use super::runs::{CHUNK_BITS, Run};
use super::tile::Tile;
use super::{Builder, Result, refuse};
use crate::lanes::blocks::{Common, Small, Term, Word, block_words};
use crate::lanes::ir::{Bin, Cmp, Un, Val};
use crate::lanes::layout::{Axis, Layout, Place};
use hrx_ir::quant::{CHUNK, Table};
use hrx_ir::tile::Type;

/// A bit of each byte of a word.
const BYTE_BITS: u32 = 0x0101_0101;
/// Every other byte of a word.
const EVEN_BYTES: u32 = 0x00FF_00FF;

/// Where a bit of the number of a word, or of a group, of a block is from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// From the axis.
    Axis(Place),
    /// A bit of the first chunk's number, which all lanes share.
    Shared(u32),
}

/// What loads have in common that may be one: what lanes add, what all lanes add, and the predicate.
type Together = (Val, Val, Option<Val>);

/// A number that differs between words: a constant and what lanes and all lanes add.
#[derive(Clone, Copy)]
pub(super) struct Number {
    pub lane: Val,
    pub uniform: Val,
    pub imm: u32,
}

/// Where a tree is evaluated: at the words, or groups, that one register of each lane has.
pub(super) struct Spot<'a> {
    pub run: &'a Run,
    /// The row's register.
    pub row: usize,
    /// Which chunks there are.
    pub mask: Option<Val>,
    /// What is added to addresses for the block.
    pub lane_block: Val,
    pub imm_block: u32,
    /// The numbers of the tree, by place.
    pub numbers: Vec<Number>,
}

impl Builder<'_> {
    /// The value of a number of the tree: `all` has it for every word, `known` are the bits that registers tell.
    pub(super) fn number(&mut self, run: &Run, all: &[u32], sources: &[Source], known: u32) -> Number {
        let dynamic: Vec<(u32, Source)> = sources
            .iter()
            .enumerate()
            .filter(|(_, s)| !matches!(s, Source::Axis(Place::Reg)))
            .map(|(bit, &s)| (1 << bit, s))
            .collect();
        let base = all[known as usize];
        let steps: Vec<(u32, Source)> =
            dynamic.iter().map(|&(bit, s)| (all[(known | bit) as usize].wrapping_sub(base), s)).collect();
        let combinations = 0..1u32 << dynamic.len();
        let place = |c: u32| dynamic.iter().enumerate().filter(|(i, _)| c >> i & 1 == 1).map(|(_, d)| d.0).sum::<u32>();
        let sum = |c: u32| {
            let set = steps.iter().enumerate().filter(|(i, _)| c >> i & 1 == 1);
            set.fold(base, |n, (_, s)| n.wrapping_add(s.0))
        };
        if combinations.clone().all(|c| all[(known | place(c)) as usize] == sum(c)) {
            let lanes: Vec<(Place, u32)> = steps
                .iter()
                .filter_map(|&(step, s)| match s {
                    Source::Axis(p) => Some((p, step)),
                    Source::Shared(_) => None,
                })
                .collect();
            let lane = self.e.lane_sum(&lanes);
            let shared =
                |bit: u32| steps.iter().find(|s| matches!(s.1, Source::Shared(b) if b == bit)).map_or(0, |s| s.0);
            let uniform = self.shared(run, |bit| shared(bit as u32));
            return Number { lane, uniform, imm: base };
        }
        let values: Vec<u32> = combinations.map(|c| all[(known | place(c)) as usize]).collect();
        let sources: Vec<Source> = dynamic.into_iter().map(|d| d.1).collect();
        Number { lane: self.tabulated(run, &values, &sources), uniform: self.e.int(0), imm: 0 }
    }

    /// A number that is no sum: its values, packed in constants, chosen by the bits.
    fn tabulated(&mut self, run: &Run, values: &[u32], sources: &[Source]) -> Val {
        let bits = if values.iter().all(|&v| v < 256) { 8 } else { 16 };
        let in_word = (32 / bits) as usize;
        let low = in_word.trailing_zeros() as usize;
        let mut words: Vec<Val> = values
            .chunks(in_word)
            .map(|c| c.iter().rev().fold(0u32, |w, &v| w << bits | v))
            .map(|w| self.e.int(i64::from(w)))
            .collect();
        // Chosen from the top bit down, then moved down.
        for &source in sources.iter().skip(low).rev() {
            let set = self.is_set(run, source);
            let upper = words.split_off(words.len() / 2);
            words = words.into_iter().zip(upper).map(|(l, h)| self.e.select(set, h, l)).collect();
        }
        let mut shift = self.e.int(0);
        for (i, &source) in sources.iter().take(low).enumerate() {
            let by = bits << i;
            let part = match source {
                Source::Axis(p) => self.e.lane_sum(&[(p, by)]),
                Source::Shared(bit) => {
                    let moved = self.e.shr(run.chunk, bit);
                    let set = self.e.and(moved, 1);
                    self.e.times(set, by)
                }
            };
            shift = self.e.add(shift, part);
        }
        let moved = self.e.bin(Bin::LShr, words[0], shift);
        self.e.and(moved, (1 << bits) - 1)
    }

    fn is_set(&mut self, run: &Run, source: Source) -> Val {
        match source {
            Source::Axis(p) => self.e.bit(p),
            Source::Shared(bit) => {
                let moved = self.e.shr(run.chunk, bit);
                let set = self.e.and(moved, 1);
                let zero = self.e.int(0);
                self.e.cmp(Cmp::Ne, set, zero)
            }
        }
    }

    /// Codes, four a word.
    pub(super) fn codes(&mut self, run: &Run, ty: Type, layout: &Layout) -> Result<Tile> {
        let axis = &layout.axes[1];
        if axis.low_registers() < 2 {
            // Words are made in one lane.
            let own = layout.with_axis(1, Axis::registers(ty.shape.last()));
            let t = self.codes(run, ty, &own)?;
            return Ok(self.convert_layout(&t, layout));
        }
        let f = run.format;
        let Some(common) = block_words(f) else {
            return refuse(format!("codes of {} are not in a form that lanes can share", f.name));
        };
        let chunk_bits = axis.bits.get(CHUNK_BITS..).unwrap_or_default().to_vec();
        // Bits of an element's number below the block's, and what those above add to an address.
        let in_block = CHUNK_BITS + run.block_bits();
        let sources: Vec<Source> = (2..in_block)
            .map(|i| axis.bits.get(i).map_or_else(|| Source::Shared((i - CHUNK_BITS) as u32), |&p| Source::Axis(p)))
            .collect();
        let blocks: Vec<(Place, u32)> =
            axis.bits.iter().skip(in_block).enumerate().map(|(i, &p)| (p, f.block_bytes << i)).collect();
        let lane_block = self.e.lane_sum(&blocks);
        // Those of zeros are to be zero behind the row's end, where zeros are read.
        let zero_is_zero =
            (0..f.chunks()).all(|c| f.code_values(&vec![0; f.block_bytes as usize], c) == [0; CHUNK as usize]);
        let along: Vec<u32> = Layout { axes: vec![axis.clone()] }.coords().iter().map(|c| c[0]).step_by(4).collect();
        let mut words = Vec::with_capacity(run.rows.len() * along.len());
        for row in 0..run.rows.len() {
            let mut spots = Vec::with_capacity(along.len());
            for &e in &along {
                let known = (e >> 2) & ((1 << (in_block - 2)) - 1);
                let numbers = common.numbers.iter().map(|all| self.number(run, all, &sources, known)).collect();
                let mask = self.chunk_mask(run, &chunk_bits, e / CHUNK);
                let imm_block = (e >> in_block) * f.block_bytes;
                spots.push(Spot { run, row, mask, lane_block, imm_block, numbers });
            }
            self.read_ahead(&common, &spots);
            for spot in &spots {
                let word = self.word_of(&common.tree, spot)?;
                words.push(match spot.mask {
                    Some(mask) if !zero_is_zero => {
                        let zero = self.e.int(0);
                        self.e.select(mask, word, zero)
                    }
                    _ => word,
                });
            }
        }
        Ok(Tile { elem: ty.elem, layout: layout.clone(), pack: 4, words })
    }

    /// Reads what the trees of some words read, all addresses of a predicate at once, so that neighbours go together.
    fn read_ahead(&mut self, common: &Common<Word>, spots: &[Spot]) {
        let mut places = Vec::new();
        addresses(&common.tree, &mut places);
        for at in places {
            let mut groups: Vec<(Together, Vec<u32>)> = Vec::new();
            for spot in spots {
                let n = spot.numbers[at as usize];
                let key = (n.lane, n.uniform, spot.mask);
                let imm = spot.imm_block + n.imm;
                match groups.iter_mut().find(|(k, _)| *k == key) {
                    Some((_, list)) => list.push(imm),
                    None => groups.push((key, vec![imm])),
                }
            }
            for ((lane, uniform, mask), imms) in groups {
                let lane = self.e.add(spots[0].lane_block, lane);
                self.word(spots[0].run, spots[0].row, lane, uniform, &imms, mask);
            }
        }
    }

    /// The word of the block at an address of the tree.
    fn word_at(&mut self, at: u32, spot: &Spot) -> Val {
        let n = spot.numbers[at as usize];
        let lane = self.e.add(spot.lane_block, n.lane);
        self.word(spot.run, spot.row, lane, n.uniform, &[spot.imm_block + n.imm], spot.mask)[0]
    }

    /// A number of the tree as one register.
    fn value_of(&mut self, at: u32, spot: &Spot) -> Val {
        let n = spot.numbers[at as usize];
        let imm = self.e.int(i64::from(n.imm));
        let lane = self.e.add(n.lane, n.uniform);
        self.e.add(lane, imm)
    }

    fn word_of(&mut self, tree: &Word, spot: &Spot) -> Result<Val> {
        Ok(match tree {
            Word::Term(t) => {
                let raw = self.word_at(t.at, spot);
                let shift = self.value_of(t.shift, spot);
                self.term(*t, raw, shift)
            }
            Word::Or(a, b) => {
                let (a, b) = (self.word_of(a, spot)?, self.word_of(b, spot)?);
                self.e.bin(Bin::Or, a, b)
            }
            Word::Xor(a, b) => {
                let (a, b) = (self.word_of(a, spot)?, self.word_of(b, spot)?);
                self.e.bin(Bin::Xor, a, b)
            }
            Word::Spread { of, shift, left } => {
                let of = self.small_of(of, spot);
                let shift = self.value_of(*shift, spot);
                let word = self.e.bin(Bin::Spread, of, shift);
                self.moved_left(word, *left)
            }
            Word::Splat { of, left } => {
                let of = self.small_of(of, spot);
                let word = self.e.times(of, BYTE_BITS);
                self.moved_left(word, *left)
            }
            Word::Trit(a, power) => {
                let word = self.word_of(a, spot)?;
                let power = self.value_of(*power, spot);
                self.trits(word, power)
            }
            Word::Lookup(a, table) => {
                let index = self.word_of(a, spot)?;
                self.e.lookup(table, index)
            }
            Word::Entry { low, high, part, table } => {
                let mut index = self.small_of(low, spot);
                if let Some(high) = high {
                    let high = self.small_of(high, spot);
                    let high = self.e.times(high, 256);
                    index = self.e.bin(Bin::Or, index, high);
                }
                let part = spot.numbers[*part as usize];
                self.entry(table, index, part)
            }
            Word::Negate(a, signs) => {
                let (word, signs) = (self.word_of(a, spot)?, self.word_of(signs, spot)?);
                // All bits of a byte where its sign is 1: minus x is its complement and 1 more, without a carry as x is
                // not zero.
                let high = self.e.times(signs, 256);
                let all = self.e.bin(Bin::Sub, high, signs);
                let flipped = self.e.bin(Bin::Xor, word, all);
                self.e.add(flipped, signs)
            }
        })
    }

    fn moved_left(&mut self, word: Val, by: u32) -> Val {
        let by = self.e.int(i64::from(by));
        self.e.bin(Bin::Shl, word, by)
    }

    pub(super) fn small_of(&mut self, tree: &Small, spot: &Spot) -> Val {
        match tree {
            Small::Field { at, shift, mask, left } => {
                let raw = self.word_at(*at, spot);
                let shift = self.value_of(*shift, spot);
                let moved = self.e.bin(Bin::LShr, raw, shift);
                let field = self.e.and(moved, *mask);
                self.moved_left(field, *left)
            }
            Small::Or(a, b) => {
                let (a, b) = (self.small_of(a, spot), self.small_of(b, spot));
                self.e.bin(Bin::Or, a, b)
            }
            Small::Even(a) => {
                let x = self.small_of(a, spot);
                let ones = self.e.un(Un::Ones, x);
                let parity = self.e.times(ones, 1 << 7);
                let parity = self.e.and(parity, 1 << 7);
                self.e.bin(Bin::Or, x, parity)
            }
        }
    }

    /// A word of a table's entry: of both that an entry has, if it is known which one it is, so that they are read
    /// together.
    fn entry(&mut self, table: &'static Table, index: Val, part: Number) -> Val {
        let words = table.width / 4;
        let first = self.e.times(index, words);
        let which = self.e.add(part.lane, part.uniform);
        match self.e.known(which) {
            Some(0) => self.e.table(table, first, words)[part.imm as usize],
            _ => {
                let imm = self.e.int(i64::from(part.imm));
                let which = self.e.add(which, imm);
                let at = self.e.add(first, which);
                self.e.table(table, at, 1)[0]
            }
        }
    }

    /// The digits in base 3 of four bytes, two at a time in halves of a word.
    fn trits(&mut self, word: Val, power: Val) -> Val {
        let odd = self.e.shr(word, 8);
        let [even, odd] = [word, odd].map(|half| {
            let half = self.e.and(half, EVEN_BYTES);
            let y = self.e.bin(Bin::Mul, half, power);
            let y = self.e.and(y, EVEN_BYTES);
            let y = self.e.times(y, 3);
            let digit = self.e.shr(y, 8);
            self.e.and(digit, 0x0003_0003)
        });
        let odd = self.e.times(odd, 256);
        self.e.bin(Bin::Or, even, odd)
    }

    /// A term of a word, moved right by `shift`.
    pub(super) fn term(&mut self, t: Term, raw: Val, shift: Val) -> Val {
        let mut word = if t.spread {
            self.e.bin(Bin::Spread, raw, shift)
        } else {
            let moved = self.e.bin(Bin::LShr, raw, shift);
            if t.mask == 0xFF && self.e.known(shift) == Some(0) { moved } else { self.e.and(moved, t.mask * BYTE_BITS) }
        };
        if t.left > 0 {
            word = self.moved_left(word, t.left);
        }
        word
    }
}

/// The places in a tree's numbers that are addresses, in the order in which they are read.
fn addresses(tree: &Word, out: &mut Vec<u32>) {
    match tree {
        Word::Term(t) => out.push(t.at),
        Word::Or(a, b) | Word::Xor(a, b) | Word::Negate(a, b) => {
            addresses(a, out);
            addresses(b, out);
        }
        Word::Trit(a, _) | Word::Lookup(a, _) => addresses(a, out),
        Word::Spread { of, .. } | Word::Splat { of, .. } => small_addresses(of, out),
        Word::Entry { low, high, .. } => {
            small_addresses(low, out);
            if let Some(high) = high {
                small_addresses(high, out);
            }
        }
    }
}

fn small_addresses(tree: &Small, out: &mut Vec<u32>) {
    match tree {
        Small::Field { at, .. } => out.push(*at),
        Small::Or(a, b) => {
            small_addresses(a, out);
            small_addresses(b, out);
        }
        Small::Even(a) => small_addresses(a, out),
    }
}
