//! A tile as lanes hold it: its layout and registers, and going from one layout to another.

use super::Builder;
use super::emit::Emitter;
use crate::lanes::ir::{Bin, Ty, Un, Val};
use crate::lanes::layout::{Layout, Place};
use hrx_ir::tile::{Elem, Shape};

/// A tile's registers.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub elem: Elem,
    pub layout: Layout,
    /// Elements of a word: registers r and r + 1 .. of one multiple of this share a word.
    pub pack: u32,
    /// The words: as many as the layout has registers, divided by `pack`.
    pub words: Vec<Val>,
}

/// A tile, or one element that all of the tile's are equal to and all lanes know.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Splat(Elem, Val),
    Tile(Tile),
}

/// The most elements of a type that share a word.
pub(super) fn natural_pack(elem: Elem) -> u32 {
    match elem {
        Elem::B1 => 1,
        e => 4 / e.bytes(),
    }
}

/// The register type of one element on its own, as arithmetic takes it: floats as F32, integers extended.
pub(super) fn element_type(elem: Elem) -> Ty {
    match elem {
        Elem::B1 => Ty::B1,
        e if e.is_float() => Ty::F32,
        _ => Ty::I32,
    }
}

/// The element `sub` of a word, as arithmetic takes it.
pub(super) fn unpack(e: &mut Emitter, elem: Elem, word: Val, sub: u32) -> Val {
    match elem {
        Elem::B1 | Elem::I32 | Elem::U32 => word,
        Elem::F32 => word,
        Elem::F16 => e.un(Un::HalfToF(sub as u8), word),
        Elem::BF16 => {
            let bits = match sub {
                0 => {
                    let by = e.int(16);
                    e.bin(Bin::Shl, word, by)
                }
                _ => e.and(word, 0xFFFF_0000),
            };
            e.un(Un::Float, bits)
        }
        Elem::U8 | Elem::U16 => {
            let bits = 8 * elem.bytes();
            let moved = e.shr(word, sub * bits);
            e.and(moved, (1u32 << bits) - 1)
        }
        Elem::I8 | Elem::I16 => {
            let bits = 8 * elem.bytes();
            let moved = e.shr(word, sub * bits);
            e.un(Un::SExt(bits as u8), moved)
        }
    }
}

/// One element as the low bits of a word, the others zero (of 32-bit types the element itself).
fn to_bits(e: &mut Emitter, elem: Elem, v: Val) -> Val {
    match elem {
        Elem::B1 | Elem::I32 | Elem::U32 | Elem::F32 => v,
        Elem::F16 => e.un(Un::FToHalf, v),
        Elem::BF16 => to_bf16(e, v),
        _ => e.and(v, (1u32 << (8 * elem.bytes())) - 1),
    }
}

/// The upper half of a float's bits in the low half, rounded to nearest even; NaN stays a quiet NaN.
fn to_bf16(e: &mut Emitter, v: Val) -> Val {
    let bits = e.un(Un::Bits, v);
    let odd = e.shr(bits, 16);
    let odd = e.and(odd, 1);
    let bias = e.int(0x7FFF);
    let bias = e.add(odd, bias);
    let rounded = e.add(bits, bias);
    let quiet = e.int(0x40_0000);
    let quiet = e.bin(Bin::Or, bits, quiet);
    let nan = e.cmp(crate::lanes::ir::Cmp::FNe, v, v);
    let chosen = e.select(nan, quiet, rounded);
    e.shr(chosen, 16)
}

/// Elements as one word, the first lowest.
pub(super) fn pack(e: &mut Emitter, elem: Elem, elements: &[Val]) -> Val {
    let parts: Vec<Val> = elements.iter().map(|&v| to_bits(e, elem, v)).collect();
    if let ([low, high], 2) = (parts.as_slice(), elem.bytes()) {
        return e.bin(Bin::Pack, *low, *high);
    }
    let bits = i64::from(8 * elem.bytes());
    let mut word = parts[0];
    for (i, &p) in parts.iter().enumerate().skip(1) {
        let by = e.int(bits * i as i64);
        let moved = e.bin(Bin::Shl, p, by);
        word = e.bin(Bin::Or, word, moved);
    }
    word
}

impl Tile {
    /// A tile of elements as arithmetic takes them, one for each register, packed as far as the layout allows.
    pub fn from_elements(e: &mut Emitter, elem: Elem, layout: Layout, elements: &[Val]) -> Tile {
        debug_assert_eq!(elements.len() as u32, layout.registers_len());
        let n = natural_pack(elem).min(layout.vector());
        if n == 1 && natural_pack(elem) == 1 {
            return Tile { elem, layout, pack: 1, words: elements.to_vec() };
        }
        let words = elements.chunks(n as usize).map(|c| pack(e, elem, c)).collect();
        Tile { elem, layout, pack: n, words }
    }

    /// Each register's element, as arithmetic takes it.
    pub fn elements(&self, e: &mut Emitter) -> Vec<Val> {
        (0..self.layout.registers_len()).map(|r| self.element(e, r as usize)).collect()
    }

    /// One register's element, as arithmetic takes it.
    pub fn element(&self, e: &mut Emitter, register: usize) -> Val {
        let n = self.pack as usize;
        unpack(e, self.elem, self.words[register / n], (register % n) as u32)
    }

    /// One register's bits in the low part of a word, unspecified above.
    fn raw(&self, e: &mut Emitter, register: usize) -> Val {
        let n = self.pack as usize;
        let (word, sub) = (self.words[register / n], (register % n) as u32);
        if n == 1 { word } else { e.shr(word, sub * 8 * self.elem.bytes()) }
    }

    /// The tile with these registers, in this order, under a layout that has as many.
    pub fn renamed(&self, e: &mut Emitter, layout: Layout, registers: &[usize]) -> Tile {
        let want = natural_pack(self.elem).min(layout.vector());
        let n = self.pack as usize;
        // Whole words move as they are.
        if n > 1 || want == 1 {
            let whole = registers
                .chunks(n)
                .all(|c| c[0] % n == 0 && c.len() == n && c.iter().enumerate().all(|(i, &r)| r == c[0] + i));
            if whole {
                let words = registers.chunks(n).map(|c| self.words[c[0] / n]).collect();
                return Tile { elem: self.elem, layout, pack: self.pack, words };
            }
        }
        let parts: Vec<Val> = registers.iter().map(|&r| self.raw(e, r)).collect();
        let words = parts.chunks(want as usize).map(|c| join(e, self.elem, c)).collect();
        Tile { elem: self.elem, layout, pack: want, words }
    }

    /// The same registers under a layout of another shape.
    pub fn relabelled(&self, layout: Layout) -> Tile {
        Tile { layout, ..self.clone() }
    }
}

/// Words whose low bits are elements as one word.
fn join(e: &mut Emitter, elem: Elem, parts: &[Val]) -> Val {
    match (parts, elem.bytes()) {
        ([one], _) => *one,
        ([low, high], 2) => e.bin(Bin::Pack, *low, *high),
        _ => {
            let width = 8 * elem.bytes();
            let mut word = e.and(parts[0], (1u32 << width) - 1);
            for (i, &p) in parts.iter().enumerate().skip(1) {
                let last = i + 1 == parts.len() && width as usize * parts.len() == 32;
                let p = if last { p } else { e.and(p, (1u32 << width) - 1) };
                let by = e.int(i64::from(width) * i as i64);
                let moved = e.bin(Bin::Shl, p, by);
                word = e.bin(Bin::Or, word, moved);
            }
            word
        }
    }
}

impl Builder<'_> {
    /// A tile of equal elements.
    pub(super) fn filled(&mut self, elem: Elem, v: Val, layout: Layout) -> Tile {
        let pack = natural_pack(elem).min(layout.vector());
        let word = self::pack(&mut self.e, elem, &vec![v; pack as usize]);
        let words = vec![word; (layout.registers_len() / pack) as usize];
        Tile { elem, layout, pack, words }
    }

    /// The tile in another layout of the same shape.
    pub(super) fn convert_layout(&mut self, tile: &Tile, to: &Layout) -> Tile {
        if tile.layout == *to {
            return tile.clone();
        }
        if let Some(t) = self.convert_in_registers(tile, to) {
            return t;
        }
        self.convert_through_lds(tile, to)
    }

    /// Conversion by choosing registers by lane, and by exchanges between lanes whose numbers differ in one bit. None
    /// where waves or permutations of lane bits are involved.
    fn convert_in_registers(&mut self, tile: &Tile, to: &Layout) -> Option<Tile> {
        let from = &tile.layout;
        let differ: Vec<(usize, usize, Place, Place)> = from
            .places()
            .zip(to.places())
            .filter(|((_, _, p), (_, _, q))| p != q)
            .map(|((a, b, p), (_, _, q))| (a, b, p, q))
            .collect();
        let (free_from, free_to) = (!from.lanes(), !to.lanes());
        let waves_ok = |p: Place, q: Place| match (p, q) {
            // A wave takes its part of what it has.
            (Place::Reg, Place::Wave(k)) => from.waves() >> k & 1 == 0,
            _ => !matches!((p, q), (Place::Wave(_), _) | (_, Place::Wave(_))),
        };
        let lane_ok = |p: Place, q: Place| match (p, q) {
            (Place::Reg, Place::Lane(k)) => free_from >> k & 1 == 1,
            (Place::Lane(k), Place::Reg) => free_to >> k & 1 == 1,
            (Place::Lane(_), Place::Lane(_)) => false,
            _ => true,
        };
        if !differ.iter().all(|&(_, _, p, q)| waves_ok(p, q) && lane_ok(p, q)) {
            return None;
        }
        let mut now = tile.clone();
        // First what makes fewer registers.
        for &(axis, bit, p, q) in differ.iter().filter(|d| d.2 == Place::Reg) {
            debug_assert_eq!(p, Place::Reg);
            now = self.choose(&now, axis, bit, q);
        }
        for &(axis, bit, p, _) in differ.iter().filter(|d| d.2 != Place::Reg) {
            now = self.spread(&now, axis, bit, p);
        }
        debug_assert_eq!(now.layout, *to);
        Some(now)
    }

    fn with_place(layout: &Layout, axis: usize, bit: usize, place: Place) -> Layout {
        let mut out = layout.clone();
        out.axes[axis].bits[bit] = place;
        out
    }

    /// A register bit becomes a place's: each lane keeps the registers of its bit.
    fn choose(&mut self, tile: &Tile, axis: usize, bit: usize, place: Place) -> Tile {
        let layout = Builder::with_place(&tile.layout, axis, bit, place);
        let coords = layout.coords();
        let pick = |set: u32| -> Vec<usize> {
            coords
                .iter()
                .map(|c| {
                    let mut c = c.clone();
                    c[axis] |= set << bit;
                    tile.layout.register_of(&c)
                })
                .collect()
        };
        let low = tile.renamed(&mut self.e, layout.clone(), &pick(0));
        let high = tile.renamed(&mut self.e, layout.clone(), &pick(1));
        let is_set = self.e.bit(place);
        let words = low.words.iter().zip(&high.words).map(|(&l, &h)| self.e.select(is_set, h, l)).collect();
        Tile { words, ..low }
    }

    /// A lane bit becomes a register's: each lane gets the other one's registers.
    fn spread(&mut self, tile: &Tile, axis: usize, bit: usize, place: Place) -> Tile {
        let Place::Lane(k) = place else { return tile.clone() };
        let layout = Builder::with_place(&tile.layout, axis, bit, Place::Reg);
        let is_set = self.e.bit(place);
        let mut both = [Vec::new(), Vec::new()];
        for &w in &tile.words {
            let other = self.exchange(w, 1 << k);
            both[0].push(self.e.select(is_set, other, w));
            both[1].push(self.e.select(is_set, w, other));
        }
        let [low, high] = both.map(|words| Tile { words, ..tile.clone() });
        self.merge(&low, &high, layout, axis, bit)
    }

    /// Two tiles of one layout as the halves of a register bit.
    fn merge(&mut self, low: &Tile, high: &Tile, layout: Layout, axis: usize, bit: usize) -> Tile {
        let pieces: Vec<(bool, usize)> = layout
            .coords()
            .iter()
            .map(|c| {
                let set = c[axis] >> bit & 1 == 1;
                let mut c = c.clone();
                c[axis] &= !(1 << bit);
                (set, low.layout.register_of(&c))
            })
            .collect();
        self.gathered(&[low, high], layout, &pieces.iter().map(|&(s, r)| (usize::from(s), r)).collect::<Vec<_>>())
    }

    /// A tile of registers of several tiles of one type.
    pub(super) fn gathered(&mut self, from: &[&Tile], layout: Layout, registers: &[(usize, usize)]) -> Tile {
        let all: Vec<Val> = from.iter().flat_map(|t| t.words.iter().copied()).collect();
        let pack = from[0].pack;
        let same = from.iter().all(|t| t.pack == pack);
        if same {
            let mut starts = vec![0usize];
            for t in from {
                starts.push(starts[starts.len() - 1] + t.words.len() * pack as usize);
            }
            let joined = Tile { elem: from[0].elem, layout: layout.clone(), pack, words: all };
            let flat: Vec<usize> = registers.iter().map(|&(t, r)| starts[t] + r).collect();
            return joined.renamed(&mut self.e, layout, &flat);
        }
        let elem = from[0].elem;
        let want = natural_pack(elem).min(layout.vector());
        let parts: Vec<Val> = registers.iter().map(|&(t, r)| from[t].raw(&mut self.e, r)).collect();
        let words = parts.chunks(want as usize).map(|c| join(&mut self.e, elem, c)).collect();
        Tile { elem, layout, pack: want, words }
    }

    /// The register of the lane whose number differs in these bits; a predicate travels as a number.
    pub(super) fn exchange(&mut self, v: Val, mask: u32) -> Val {
        if self.e.ty(v) != Ty::B1 {
            return self.e.shuffle_xor(v, mask);
        }
        let n = self.e.un(Un::BToI, v);
        let other = self.e.shuffle_xor(n, mask);
        let zero = self.e.int(0);
        self.e.cmp(crate::lanes::ir::Cmp::Ne, other, zero)
    }

    /// Conversion by way of LDS: the tile is stored in row-major order and loaded in the other layout, whose shape may be
    /// another one of as many elements.
    pub(super) fn convert_through_lds(&mut self, tile: &Tile, to: &Layout) -> Tile {
        // A predicate travels as a number.
        if tile.elem == Elem::B1 {
            let words = tile.words.iter().map(|&w| self.e.un(Un::BToI, w)).collect();
            let ints = Tile { elem: Elem::I32, words, ..tile.clone() };
            let moved = self.convert_through_lds(&ints, to);
            let zero = self.e.int(0);
            let words = moved.words.iter().map(|&w| self.e.cmp(crate::lanes::ir::Cmp::Ne, w, zero)).collect();
            return Tile { elem: Elem::B1, words, ..moved };
        }
        let base = self.scratch(tile.layout.shape().elements() * u64::from(tile.elem.bytes()));
        self.before_scratch();
        let strides = |shape: &Shape| {
            let mut s = vec![tile.elem.bytes(); shape.rank()];
            for i in (1..s.len()).rev() {
                s[i - 1] = s[i] * shape.dims()[i];
            }
            s
        };
        let from_strides = strides(&tile.layout.shape());
        self.lds_store(tile, base, &from_strides);
        self.scratch_written();
        let to_strides = strides(&to.shape());
        self.lds_load(tile.elem, to, base, &to_strides)
    }
}
