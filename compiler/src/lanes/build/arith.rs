//! Constants and operations that go element by element.

use super::tile::{Data, Tile, natural_pack};
use super::{Builder, Result, refuse};
use crate::lanes::ir::{Bin, Cmp, Ty, Un, Val};
use crate::lanes::layout::Layout;
use hrx_ir::tile::{BinaryOp, CmpOp, Elem, Literal, UnaryOp, Value};

impl Builder<'_> {
    /// A literal as arithmetic takes it.
    pub(super) fn literal(&mut self, value: Literal, elem: Elem) -> Val {
        match (value, elem) {
            (Literal::Int(n), Elem::B1) => self.e.predicate(n != 0),
            (Literal::Int(n), _) => self.e.int(n),
            (Literal::Float(x), Elem::F16) => self.e.float(half::f16::from_f64(x).to_f32()),
            (Literal::Float(x), Elem::BF16) => self.e.float(half::bf16::from_f64(x).to_f32()),
            (Literal::Float(x), _) => self.e.float(x as f32),
        }
    }

    pub(super) fn iota(&mut self, elem: Elem, layout: &Layout) -> Data {
        let steps: Vec<_> = layout.places().map(|(_, b, p)| (p, 1 << b)).collect();
        let lane = self.e.lane_sum(&steps);
        let elements: Vec<Val> = layout
            .coords()
            .iter()
            .map(|c| {
                let n = self.e.int(i64::from(c[0]));
                self.e.add(lane, n)
            })
            .collect();
        Data::Tile(Tile::from_elements(&mut self.e, elem, layout.clone(), &elements))
    }

    /// Applies `f` to the elements of some values in one layout; a splat where all are.
    fn map<const N: usize>(
        &mut self,
        args: [Value; N],
        out: Elem,
        layout: &Layout,
        mut f: impl FnMut(&mut Self, [Val; N]) -> Result<Val>,
    ) -> Result<Data> {
        let mut data = Vec::with_capacity(N);
        for a in args {
            data.push(self.data_in(a, layout)?);
        }
        let splats: Vec<Val> =
            data.iter().filter_map(|d| if let Data::Splat(_, v) = d { Some(*v) } else { None }).collect();
        if let Ok(all) = <[Val; N]>::try_from(splats) {
            let v = f(self, all)?;
            let v = self.rounded(out, v);
            return Ok(Data::Splat(out, v));
        }
        let mut elements = Vec::with_capacity(layout.registers_len() as usize);
        for r in 0..layout.registers_len() as usize {
            let regs: Vec<Val> = data
                .iter()
                .map(|d| match d {
                    Data::Splat(_, v) => *v,
                    Data::Tile(t) => t.element(&mut self.e, r),
                })
                .collect();
            let Ok(regs) = <[Val; N]>::try_from(regs) else { return refuse("an operand is missing") };
            elements.push(f(self, regs)?);
        }
        Ok(Data::Tile(Tile::from_elements(&mut self.e, out, layout.clone(), &elements)))
    }

    /// A value of a narrow type, as unpacking it from memory would give it.
    fn rounded(&mut self, elem: Elem, v: Val) -> Val {
        if natural_pack(elem) == 1 {
            return v;
        }
        let word = super::tile::pack(&mut self.e, elem, &[v]);
        super::tile::unpack(&mut self.e, elem, word, 0)
    }

    pub(super) fn unary(&mut self, op: UnaryOp, arg: Value, layout: &Layout) -> Result<Data> {
        let elem = self.k.ty(arg).elem;
        self.map([arg], elem, layout, |b, [x]| b.unary_element(op, elem, x))
    }

    fn unary_element(&mut self, op: UnaryOp, elem: Elem, x: Val) -> Result<Val> {
        let e = &mut self.e;
        let on_bits = |e: &mut super::Emitter, f: &dyn Fn(&mut super::Emitter, Val) -> Val| {
            let bits = e.un(Un::Bits, x);
            let out = f(e, bits);
            e.un(Un::Float, out)
        };
        Ok(match op {
            UnaryOp::Neg if elem.is_float() => on_bits(e, &|e, bits| {
                let sign = e.constant(0x8000_0000, Ty::I32);
                e.bin(Bin::Xor, bits, sign)
            }),
            UnaryOp::Abs if elem.is_float() => on_bits(e, &|e, bits| e.and(bits, 0x7FFF_FFFF)),
            UnaryOp::Neg => {
                let zero = e.int(0);
                e.bin(Bin::Sub, zero, x)
            }
            UnaryOp::Abs if elem.is_signed() => {
                let zero = e.int(0);
                let negative = e.cmp(Cmp::SLt, x, zero);
                let minus = e.bin(Bin::Sub, zero, x);
                e.select(negative, minus, x)
            }
            UnaryOp::Abs => x,
            UnaryOp::Not if elem == Elem::B1 => e.un(Un::Not, x),
            UnaryOp::Not => {
                let ones = e.int(-1);
                e.bin(Bin::Xor, x, ones)
            }
            UnaryOp::Sqrt => e.un(Un::Sqrt, x),
            UnaryOp::Rsqrt => {
                let root = e.un(Un::Sqrt, x);
                // A narrow type rounds the root first: the operation is a division of one.
                let root = if elem == Elem::F32 { root } else { self.rounded(elem, root) };
                let one = self.e.float(1.0);
                self.e.bin(Bin::FDiv, one, root)
            }
            UnaryOp::Floor => e.un(Un::Floor, x),
            UnaryOp::Round => e.un(Un::RoundEven, x),
            UnaryOp::Exp | UnaryOp::Tanh => {
                return refuse(format!("{} of {elem} is not written out before code generation", op.name()));
            }
        })
    }

    pub(super) fn binary(&mut self, op: BinaryOp, args: [Value; 2], layout: &Layout) -> Result<Data> {
        let elem = self.k.ty(args[0]).elem;
        if let (true, Some(data)) = (natural_pack(elem) > 1, self.binary_words(op, args, layout)?) {
            return Ok(data);
        }
        self.map(args, elem, layout, |b, [x, y]| b.binary_element(op, elem, x, y))
    }

    /// Bitwise operations take packed words as they are.
    fn binary_words(&mut self, op: BinaryOp, args: [Value; 2], layout: &Layout) -> Result<Option<Data>> {
        let word_op = match op {
            BinaryOp::And => Bin::And,
            BinaryOp::Or => Bin::Or,
            BinaryOp::Xor => Bin::Xor,
            _ => return Ok(None),
        };
        let [a, b] = [self.data_in(args[0], layout)?, self.data_in(args[1], layout)?];
        if let (Data::Splat(..), Data::Splat(..)) = (&a, &b) {
            return Ok(None);
        }
        let [a, b] = [self.tile_in(args[0], layout)?, self.tile_in(args[1], layout)?];
        if a.pack != b.pack {
            return Ok(None);
        }
        let words = a.words.iter().zip(&b.words).map(|(&x, &y)| self.e.bin(word_op, x, y)).collect();
        Ok(Some(Data::Tile(Tile { words, ..a })))
    }

    fn binary_element(&mut self, op: BinaryOp, elem: Elem, x: Val, y: Val) -> Result<Val> {
        let (float, signed) = (elem.is_float(), elem.is_signed());
        let e = &mut self.e;
        let simple = match op {
            BinaryOp::Add if float => Bin::FAdd,
            BinaryOp::Sub if float => Bin::FSub,
            BinaryOp::Mul if float => Bin::FMul,
            BinaryOp::Div if float => Bin::FDiv,
            BinaryOp::Min if float => Bin::FMin,
            BinaryOp::Max if float => Bin::FMax,
            BinaryOp::Add => Bin::Add,
            BinaryOp::Sub => Bin::Sub,
            BinaryOp::Mul => Bin::Mul,
            BinaryOp::And => Bin::And,
            BinaryOp::Or => Bin::Or,
            BinaryOp::Xor => Bin::Xor,
            BinaryOp::Min | BinaryOp::Max => {
                let less = e.cmp(if signed { Cmp::SLt } else { Cmp::ULt }, x, y);
                return Ok(if op == BinaryOp::Min { e.select(less, x, y) } else { e.select(less, y, x) });
            }
            BinaryOp::Div | BinaryOp::Rem => return Ok(self.divide(op == BinaryOp::Rem, signed, x, y)),
            BinaryOp::Shl | BinaryOp::Shr => {
                let amount = e.and(y, 8 * elem.bytes() - 1);
                match (op, signed) {
                    (BinaryOp::Shl, _) => return Ok(e.bin(Bin::Shl, x, amount)),
                    (_, true) => return Ok(e.bin(Bin::AShr, x, amount)),
                    _ => return Ok(e.bin(Bin::LShr, x, amount)),
                }
            }
        };
        Ok(e.bin(simple, x, y))
    }

    /// Integer quotient or remainder that never traps: by zero they are 0 and the dividend, and the least integer by -1
    /// wraps. A constant divisor that is a power of two of a value that is not negative costs a shift.
    fn divide(&mut self, rem: bool, signed: bool, x: Val, y: Val) -> Val {
        let e = &mut self.e;
        let (zero, one) = (e.int(0), e.int(1));
        let by_zero = e.cmp(Cmp::Eq, y, zero);
        let mut safe = e.select(by_zero, one, y);
        let at_zero = if rem { x } else { zero };
        if !signed {
            let out = e.bin(if rem { Bin::URem } else { Bin::UDiv }, x, safe);
            return e.select(by_zero, at_zero, out);
        }
        let minus = e.int(-1);
        let by_minus_one = e.cmp(Cmp::Eq, y, minus);
        safe = e.select(by_minus_one, one, safe);
        let out = e.bin(if rem { Bin::SRem } else { Bin::SDiv }, x, safe);
        let out = e.select(by_zero, at_zero, out);
        let negated = if rem { zero } else { e.bin(Bin::Sub, zero, x) };
        e.select(by_minus_one, negated, out)
    }

    pub(super) fn compare(&mut self, op: CmpOp, args: [Value; 2], layout: &Layout) -> Result<Data> {
        let elem = self.k.ty(args[0]).elem;
        self.map(args, Elem::B1, layout, |b, [x, y]| {
            let (cmp, swap) = match (op, elem.is_float(), elem.is_signed()) {
                (CmpOp::Eq, true, _) => (Cmp::FEq, false),
                (CmpOp::Ne, true, _) => (Cmp::FNe, false),
                (CmpOp::Lt, true, _) => (Cmp::FLt, false),
                (CmpOp::Le, true, _) => (Cmp::FLe, false),
                (CmpOp::Gt, true, _) => (Cmp::FLt, true),
                (CmpOp::Ge, true, _) => (Cmp::FLe, true),
                (CmpOp::Eq, ..) => (Cmp::Eq, false),
                (CmpOp::Ne, ..) => (Cmp::Ne, false),
                (CmpOp::Lt, _, true) => (Cmp::SLt, false),
                (CmpOp::Le, _, true) => (Cmp::SLe, false),
                (CmpOp::Gt, _, true) => (Cmp::SLt, true),
                (CmpOp::Ge, _, true) => (Cmp::SLe, true),
                (CmpOp::Lt, ..) => (Cmp::ULt, false),
                (CmpOp::Le, ..) => (Cmp::ULe, false),
                (CmpOp::Gt, ..) => (Cmp::ULt, true),
                (CmpOp::Ge, ..) => (Cmp::ULe, true),
            };
            Ok(if swap { b.e.cmp(cmp, y, x) } else { b.e.cmp(cmp, x, y) })
        })
    }

    pub(super) fn select(&mut self, args: [Value; 3], layout: &Layout) -> Result<Data> {
        let elem = self.k.ty(args[1]).elem;
        self.map(args, elem, layout, |b, [c, x, y]| Ok(b.e.select(c, x, y)))
    }

    pub(super) fn fma(&mut self, args: [Value; 3], layout: &Layout) -> Result<Data> {
        let elem = self.k.ty(args[0]).elem;
        if elem != Elem::F32 {
            return refuse(format!("fma of {elem}: narrow floats are widened before they are multiplied"));
        }
        self.map(args, elem, layout, |b, [x, y, z]| Ok(b.e.fma(x, y, z)))
    }

    pub(super) fn bitcast(&mut self, arg: Value, to: Elem, layout: &Layout) -> Result<Data> {
        let from = self.k.ty(arg).elem;
        Ok(match self.data_in(arg, layout)? {
            Data::Splat(_, v) => {
                let word = super::tile::pack(&mut self.e, from, &[v]);
                let word = self.as_word(word);
                let word = self.word_as(to, word);
                Data::Splat(to, super::tile::unpack(&mut self.e, to, word, 0))
            }
            Data::Tile(t) => {
                let words = t
                    .words
                    .iter()
                    .map(|&w| {
                        let w = self.as_word(w);
                        self.word_as(to, w)
                    })
                    .collect();
                Data::Tile(Tile { elem: to, words, ..t })
            }
        })
    }

    /// A register's bits as an I32.
    pub(super) fn as_word(&mut self, v: Val) -> Val {
        if self.e.ty(v) == Ty::F32 { self.e.un(Un::Bits, v) } else { v }
    }

    /// A word as the register of a type.
    fn word_as(&mut self, elem: Elem, w: Val) -> Val {
        if elem == Elem::F32 { self.e.un(Un::Float, w) } else { w }
    }
}
