//! Expands reads of quantised blocks, and of runs of their chunks, into byte operations, by the format's description.
//!
//! After this pass the only block reads left are raw ones.

use super::rewrite::{Cursor, rewrite};
use super::runs::run;
use hrx_ir::quant::{Bytes, CHUNK, E4M3_FACTOR, E4M3_NAN, E8M0_SUBNORMAL, Format, Number, PARITY, Scales};
use hrx_ir::tile::{BinaryOp, BlockPart, CmpOp, Content, Elem, Kernel, Op, Shape, Type, UnaryOp, Value, View};

/// Expands every block read of the kernel but the raw ones.
pub fn expand_blocks(k: &mut Kernel) {
    rewrite(k, |at, inst| match at.k.insts[inst].op {
        Op::LoadBlock { part: BlockPart::Raw(_), .. } => None,
        Op::LoadBlock { view, index, part, ty } => {
            Some(BlockReader::new(at, view, index, ty.shape.dims()[0]).part(part))
        }
        Op::LoadRun { view, index, part, ty } => Some(run(at, view, index, part, ty)),
        _ => None,
    });
}

/// Appends the expansion of reads of one block of some rows.
pub(super) struct BlockReader<'c, 'k> {
    pub(super) at: &'c mut Cursor<'k>,
    view: View,
    index: [Value; 2],
    rows: u32,
    pub(super) format: &'static Format,
}

impl<'c, 'k> BlockReader<'c, 'k> {
    pub(super) fn new(at: &'c mut Cursor<'k>, view: View, index: [Value; 2], rows: u32) -> BlockReader<'c, 'k> {
        let Content::Quant(format) = at.k.views[view].content else {
            unreachable!("the verifier holds block reads to quantised views")
        };
        BlockReader { at, view, index, rows, format }
    }

    /// `n` fields of a type from byte `at` of each row's block.
    fn raw(&mut self, at: u32, elem: Elem, n: u32) -> Value {
        let ty = Type::new(elem, &[self.rows, n]);
        self.at.push(Op::LoadBlock { view: self.view, index: self.index, part: BlockPart::Raw(at), ty })
    }

    pub(super) fn part(&mut self, part: BlockPart) -> Value {
        match part {
            BlockPart::Codes(chunk) => self.codes(chunk),
            BlockPart::Scales => self.scales(&(self.format.scales)()),
            BlockPart::Offsets => self.offsets(),
            BlockPart::Values(chunk) => self.values(chunk),
            BlockPart::Indices(chunk) => {
                let (indices, _) = self.format.indices(chunk).expect("the verifier holds formats to what they have");
                self.bytes(&indices)
            }
            BlockPart::Factors | BlockPart::MinFactors => {
                let factors = self.format.factors(part == BlockPart::MinFactors);
                let (by, signed) = factors.expect("the verifier holds formats to what they have");
                let by = self.bytes(&by);
                if signed { self.at.bitcast(by, Elem::I8) } else { by }
            }
            BlockPart::Raw(_) => unreachable!("raw reads stay"),
        }
    }

    fn codes(&mut self, chunk: u32) -> Value {
        let v = self.bytes(&(self.format.codes)(chunk));
        if self.format.signed { self.at.bitcast(v, Elem::I8) } else { v }
    }

    /// A byte expression as operations on `u8 [rows, n]`.
    fn bytes(&mut self, e: &Bytes) -> Value {
        match e {
            Bytes::Raw { at, len } => self.raw(*at, Elem::U8, *len),
            Bytes::Fields { at, bit, step, width, len } => self.fields(*at, [*bit, *step, *width], *len),
            Bytes::Spread(of) => self.spread_bits(of, 1),
            Bytes::Shl(inner, n) => {
                if let Bytes::Spread(of) = &**inner {
                    return self.spread_bits(of, 1 << n);
                }
                self.with_constant(BinaryOp::Shl, inner, i64::from(*n))
            }
            Bytes::Shr(inner, n) => self.with_constant(BinaryOp::Shr, inner, i64::from(*n)),
            Bytes::And(inner, m) => self.with_constant(BinaryOp::And, inner, i64::from(*m)),
            Bytes::Or(a, b) => self.combined(BinaryOp::Or, a, b),
            Bytes::Xor(a, b) => self.combined(BinaryOp::Xor, a, b),
            Bytes::Concat(a, b) => {
                let args = [self.bytes(a), self.bytes(b)];
                self.at.push(Op::Concat { args, axis: 1 })
            }
            Bytes::Repeat(a, times) => {
                let arg = self.bytes(a);
                self.at.push(Op::Repeat { arg, times: *times })
            }
            Bytes::Even(a) => self.even(a),
            Bytes::Trit(a, n) => self.trit(a, *n),
            Bytes::Lookup { low, high, table } => {
                let mut arg = self.bytes(low);
                if let Some(high) = high {
                    let high = self.bytes(high);
                    let high = self.at.convert(high, Elem::U16);
                    let high = self.at.binary_int(BinaryOp::Shl, high, 8);
                    let low = self.at.convert(arg, Elem::U16);
                    arg = self.at.binary(BinaryOp::Or, low, high);
                }
                self.at.push(Op::Lookup { table, arg })
            }
            Bytes::Negate(a, signs) => {
                // All bits set where it is to be negated: then minus x is the complement of x, and 1 more.
                let x = self.bytes(a);
                let all = match &**signs {
                    Bytes::Spread(of) => self.spread_bits(of, 0xFF),
                    other => {
                        let s = self.bytes(other);
                        self.at.unary(UnaryOp::Neg, s)
                    }
                };
                let flipped = self.at.binary(BinaryOp::Xor, x, all);
                self.at.binary(BinaryOp::Sub, flipped, all)
            }
        }
    }

    fn combined(&mut self, op: BinaryOp, a: &Bytes, b: &Bytes) -> Value {
        let (a, b) = (self.bytes(a), self.bytes(b));
        self.at.binary(op, a, b)
    }

    /// `len` fields of `width` bits, the first from `bit` of byte `at` on, the next ones `step` higher.
    fn fields(&mut self, at: u32, [bit, step, width]: [u32; 3], len: u32) -> Value {
        let elem =
            |bits: u32| [Elem::U8, Elem::U16, Elem::U32][(bits.next_power_of_two() / 8).trailing_zeros() as usize];
        // From the byte that has the first bit on.
        let (at, bit) = (at + bit / 8, bit % 8);
        let mask = (1 << width) - 1;
        if len == 1 || step >= 8 && step.is_power_of_two() && bit + width <= step {
            let size = if len == 1 { (bit + width).max(8) } else { step };
            let ints = self.raw(at, elem(size), len);
            let moved = self.at.binary_int(BinaryOp::Shr, ints, i64::from(bit));
            let field = self.at.binary_int(BinaryOp::And, moved, mask);
            return self.at.convert(field, Elem::U8);
        }
        let int = self.raw(at, elem((bit + (len - 1) * step + width).max(8)), 1);
        let int = self.at.convert(int, Elem::U32);
        let shape = Shape::new(&[self.rows, len]);
        let int = self.at.broadcast(int, shape);
        let place = self.at.push(Op::Iota { ty: Type::new(Elem::U32, &[len]) });
        let place = self.at.binary_int(BinaryOp::Mul, place, i64::from(step));
        let place = self.at.binary_int(BinaryOp::Add, place, i64::from(bit));
        let place = self.at.push(Op::Reshape { arg: place, shape: Shape::new(&[1, len]) });
        let place = self.at.broadcast(place, shape);
        let moved = self.at.binary(BinaryOp::Shr, int, place);
        let field = self.at.binary_int(BinaryOp::And, moved, mask);
        self.at.convert(field, Elem::U8)
    }

    /// Numbers of 7 bits with their parity in bit 7: that of their halves, looked up.
    fn even(&mut self, a: &Bytes) -> Value {
        let x = self.bytes(a);
        let low = self.at.binary_int(BinaryOp::And, x, 15);
        let high = self.at.binary_int(BinaryOp::Shr, x, 4);
        let [low, high] = [low, high].map(|arg| self.at.push(Op::Lookup { table: &PARITY, arg }));
        let parity = self.at.binary(BinaryOp::Xor, low, high);
        self.at.binary(BinaryOp::Or, x, parity)
    }

    /// A digit in base 3. Multiplied by sums, which the digits behind it share; the digit of y is how many of 256 / 3 and
    /// 512 / 3 it reaches.
    fn trit(&mut self, a: &Bytes, n: u8) -> Value {
        let mut y = self.bytes(a);
        for _ in 0..n {
            let two = self.at.binary(BinaryOp::Add, y, y);
            y = self.at.binary(BinaryOp::Add, two, y);
        }
        let mut digit = self.at.zeros(self.at.k.ty(y));
        for least in [86, 171] {
            let least = self.at.int(least, y);
            let reached = self.at.cmp(CmpOp::Ge, y, least);
            let reached = self.at.convert(reached, Elem::U8);
            digit = self.at.binary(BinaryOp::Add, digit, reached);
        }
        digit
    }

    fn with_constant(&mut self, op: BinaryOp, inner: &Bytes, n: i64) -> Value {
        let v = self.bytes(inner);
        self.at.binary_int(op, v, n)
    }

    /// Bits spread to bytes of 0 or `to`: each byte eight times, each copy masked with its own bit.
    fn spread_bits(&mut self, of: &Bytes, to: i64) -> Value {
        let arg = self.bytes(of);
        let n = 8 * of.len();
        let copies = self.at.push(Op::Repeat { arg, times: 8 });
        let place = self.at.push(Op::Iota { ty: Type::new(Elem::U8, &[n]) });
        let bit = self.at.binary_int(BinaryOp::And, place, 7);
        let one = self.at.int(1, bit);
        let mask = self.at.binary(BinaryOp::Shl, one, bit);
        let mask = self.at.push(Op::Reshape { arg: mask, shape: Shape::new(&[1, n]) });
        let mask = self.at.broadcast(mask, Shape::new(&[self.rows, n]));
        let masked = self.at.binary(BinaryOp::And, copies, mask);
        let set = self.at.cmp(CmpOp::Eq, masked, mask);
        let (bit, zero) = (self.at.int(to, masked), self.at.int(0, masked));
        self.at.select(set, bit, zero)
    }

    /// The number that scales each row's block, `f32 [rows, 1]`.
    fn number(&mut self, d: Number) -> Value {
        match d {
            Number::F16(at) => {
                let half = self.raw(at, Elem::F16, 1);
                self.at.convert(half, Elem::F32)
            }
            Number::F32(at) => self.raw(at, Elem::F32, 1),
            Number::Nibbles(at) => {
                let mut bits = None;
                for i in 0..4 {
                    let int = self.raw(at + 2 * i, Elem::U16, 1);
                    let nibble = self.at.binary_int(BinaryOp::Shr, int, 12);
                    let nibble = self.at.binary_int(BinaryOp::Shl, nibble, i64::from(4 * i));
                    bits = Some(bits.map_or(nibble, |b| self.at.binary(BinaryOp::Or, b, nibble)));
                }
                let bits = bits.unwrap_or_else(|| self.at.zeros(Type::new(Elem::U16, &[self.rows, 1])));
                let half = self.at.bitcast(bits, Elem::F16);
                self.at.convert(half, Elem::F32)
            }
            Number::E8m0(at) => {
                let byte = self.raw(at, Elem::U8, 1);
                let e = self.at.convert(byte, Elem::U32);
                let first = self.at.int(2, e);
                let subnormal = self.at.cmp(CmpOp::Lt, e, first);
                let shift = self.at.binary_int(BinaryOp::Min, e, 1);
                let low = self.at.int(i64::from(E8M0_SUBNORMAL), e);
                let low = self.at.binary(BinaryOp::Shl, low, shift);
                let high = self.at.binary_int(BinaryOp::Sub, e, 1);
                let high = self.at.binary_int(BinaryOp::Shl, high, 23);
                let bits = self.at.select(subnormal, low, high);
                self.at.bitcast(bits, Elem::F32)
            }
        }
    }

    fn scales(&mut self, s: &Scales) -> Value {
        let shape = Shape::new(&[self.rows, self.format.groups()]);
        match s {
            Scales::One { d, negate } => {
                let mut d = self.number(*d);
                if *negate {
                    d = self.at.unary(UnaryOp::Neg, d);
                }
                self.at.broadcast(d, shape)
            }
            Scales::Scaled { d, by, signed, times, plus } => {
                let d = self.number(*d);
                let d = self.at.broadcast(d, shape);
                let mut by = self.bytes(by);
                if *signed {
                    by = self.at.bitcast(by, Elem::I8);
                }
                let mut by = self.at.convert(by, Elem::F32);
                if *times != 1.0 {
                    let times = self.at.float(f64::from(*times), by);
                    by = self.at.binary(BinaryOp::Mul, by, times);
                }
                if *plus != 0.0 {
                    let plus = self.at.float(f64::from(*plus), by);
                    by = self.at.binary(BinaryOp::Add, by, plus);
                }
                self.at.binary(BinaryOp::Mul, d, by)
            }
            Scales::E4m3 { by } => {
                let byte = self.bytes(by);
                let nan = self.at.int(i64::from(E4M3_NAN), byte);
                let nan = self.at.cmp(CmpOp::Eq, byte, nan);
                let bits = self.at.binary_int(BinaryOp::And, byte, 0x7F);
                let bits = self.at.convert(bits, Elem::U16);
                let bits = self.at.binary_int(BinaryOp::Shl, bits, 7);
                let half = self.at.bitcast(bits, Elem::F16);
                let x = self.at.convert(half, Elem::F32);
                let factor = self.at.float(f64::from(E4M3_FACTOR), x);
                let x = self.at.binary(BinaryOp::Mul, x, factor);
                let zero = self.at.float(0.0, x);
                self.at.select(nan, zero, x)
            }
        }
    }

    fn offsets(&mut self) -> Value {
        let f = self.format;
        let zero_part = (f.zero != 0).then(|| {
            let scale = self.scales(&(f.scales)());
            let zero = self.at.float(f64::from(f.zero), scale);
            self.at.binary(BinaryOp::Mul, scale, zero)
        });
        let min = f.mins.map(|mins| self.scales(&mins()));
        match (zero_part, min) {
            (Some(z), Some(m)) => self.at.binary(BinaryOp::Add, z, m),
            (Some(v), None) | (None, Some(v)) => v,
            (None, None) => self.at.zeros(Type::new(Elem::F32, &[self.rows, f.groups()])),
        }
    }

    /// The part of a per-group value that belongs to a chunk, spread over its elements.
    fn spread(&mut self, groups: Value, chunk: u32) -> Value {
        let n = CHUNK / self.format.group;
        let part = self.at.columns(groups, chunk * n, n);
        self.at.push(Op::Repeat { arg: part, times: self.format.group })
    }

    fn values(&mut self, chunk: u32) -> Value {
        let f = self.format;
        let codes = self.codes(chunk);
        let mut x = self.at.convert(codes, Elem::F32);
        if f.zero != 0 {
            let zero = self.at.float(f64::from(f.zero), x);
            x = self.at.binary(BinaryOp::Sub, x, zero);
        }
        let scales = self.scales(&(f.scales)());
        let scales = self.spread(scales, chunk);
        x = self.at.binary(BinaryOp::Mul, scales, x);
        if let Some(mins) = f.mins {
            let mins = self.scales(&mins());
            let mins = self.spread(mins, chunk);
            x = self.at.binary(BinaryOp::Sub, x, mins);
        }
        x
    }
}
