//! Constants and operations that go element by element.

use super::lower::{Lower, Val, not_expanded};
use super::{Result, Stop};
use hrx_ir::tile::{BinaryOp, CmpOp, Elem, Literal, Shape, Type, UnaryOp, Value};
use melior::dialect::arith::{CmpfPredicate, CmpiPredicate};

impl<'c, 'a> Lower<'c, 'a, '_> {
    pub(super) fn literal(&mut self, value: Literal, ty: Type) -> Result<Val<'c, 'a>> {
        match value {
            Literal::Int(n) => self.int(n, ty.elem, ty.shape.dims()),
            Literal::Float(x) => self.float(x, ty.elem, ty.shape.dims()),
        }
    }

    pub(super) fn select(&self, c: Val<'c, 'a>, a: Val<'c, 'a>, b: Val<'c, 'a>) -> Result<Val<'c, 'a>> {
        self.value("arith.select", &[c, a, b], melior::ir::ValueLike::r#type(&a), &[])
    }

    pub(super) fn fma(&self, a: Val<'c, 'a>, b: Val<'c, 'a>, c: Val<'c, 'a>) -> Result<Val<'c, 'a>> {
        self.apply("math.fma", &[a, b, c])
    }

    pub(super) fn cmp_int(
        &self,
        p: CmpiPredicate,
        x: Val<'c, 'a>,
        y: Val<'c, 'a>,
        shape: Shape,
    ) -> Result<Val<'c, 'a>> {
        let predicate = self.i64_attribute(p as i64);
        self.value("arith.cmpi", &[x, y], self.ty(Elem::B1, shape), &[("predicate", predicate)])
    }

    pub(super) fn cmp_float(
        &self,
        p: CmpfPredicate,
        x: Val<'c, 'a>,
        y: Val<'c, 'a>,
        shape: Shape,
    ) -> Result<Val<'c, 'a>> {
        let predicate = self.i64_attribute(p as i64);
        self.value("arith.cmpf", &[x, y], self.ty(Elem::B1, shape), &[("predicate", predicate)])
    }

    pub(super) fn unary(&mut self, op: UnaryOp, arg: Value) -> Result<Val<'c, 'a>> {
        let Type { elem, shape } = self.k.ty(arg);
        let x = self.get(arg)?;
        match op {
            UnaryOp::Neg if elem.is_float() => self.on_bits(elem, shape, x, |l, bits| {
                let top = l.int(-1 << (8 * elem.bytes() - 1), l.bits_of(elem), shape.dims())?;
                l.apply("arith.xori", &[bits, top])
            }),
            UnaryOp::Abs if elem.is_float() => self.on_bits(elem, shape, x, |l, bits| {
                let rest = l.int((1 << (8 * elem.bytes() - 1)) - 1, l.bits_of(elem), shape.dims())?;
                l.apply("arith.andi", &[bits, rest])
            }),
            UnaryOp::Neg => {
                let zero = self.int(0, elem, shape.dims())?;
                self.apply("arith.subi", &[zero, x])
            }
            UnaryOp::Abs if elem.is_signed() => {
                let zero = self.int(0, elem, shape.dims())?;
                let minus = self.apply("arith.subi", &[zero, x])?;
                self.apply("arith.maxsi", &[x, minus])
            }
            UnaryOp::Abs => Ok(x),
            UnaryOp::Not => {
                let ones = self.int(-1, elem, shape.dims())?;
                self.apply("arith.xori", &[x, ones])
            }
            UnaryOp::Exp | UnaryOp::Tanh => Err(Stop(not_expanded(op.name()))),
            UnaryOp::Sqrt => self.apply("math.sqrt", &[x]),
            UnaryOp::Rsqrt => {
                let root = self.apply("math.sqrt", &[x])?;
                let one = self.float(1.0, elem, shape.dims())?;
                self.apply("arith.divf", &[one, root])
            }
            UnaryOp::Floor => self.apply("math.floor", &[x]),
            UnaryOp::Round => self.apply("math.roundeven", &[x]),
        }
    }

    /// The integer type with the bits of a float type.
    fn bits_of(&self, elem: Elem) -> Elem {
        if elem.bytes() == 4 { Elem::I32 } else { Elem::I16 }
    }

    /// Applies `f` to the bits of a float: arithmetic of the short types would widen them.
    fn on_bits(
        &mut self,
        elem: Elem,
        shape: Shape,
        x: Val<'c, 'a>,
        f: impl FnOnce(&mut Self, Val<'c, 'a>) -> Result<Val<'c, 'a>>,
    ) -> Result<Val<'c, 'a>> {
        let int = self.bits_of(elem);
        let bits = self.same_bits(x, elem, int, shape)?;
        let out = f(self, bits)?;
        self.same_bits(out, int, elem, shape)
    }

    pub(super) fn binary(&mut self, op: BinaryOp, args: [Value; 2]) -> Result<Val<'c, 'a>> {
        let Type { elem, shape } = self.k.ty(args[0]);
        let (x, y) = (self.get(args[0])?, self.get(args[1])?);
        let (float, signed) = (elem.is_float(), elem.is_signed());
        let name = match op {
            BinaryOp::Add if float => "arith.addf",
            BinaryOp::Sub if float => "arith.subf",
            BinaryOp::Mul if float => "arith.mulf",
            BinaryOp::Div if float => "arith.divf",
            BinaryOp::Add => "arith.addi",
            BinaryOp::Sub => "arith.subi",
            BinaryOp::Mul => "arith.muli",
            BinaryOp::And => "arith.andi",
            BinaryOp::Or => "arith.ori",
            BinaryOp::Xor => "arith.xori",
            BinaryOp::Min | BinaryOp::Max => return self.min_max(op == BinaryOp::Max, elem, shape, x, y),
            BinaryOp::Div | BinaryOp::Rem => return self.divide(op == BinaryOp::Rem, elem, shape, x, y),
            BinaryOp::Shl => return self.shift("arith.shli", elem, shape, x, y),
            BinaryOp::Shr if signed => return self.shift("arith.shrsi", elem, shape, x, y),
            BinaryOp::Shr => return self.shift("arith.shrui", elem, shape, x, y),
        };
        self.apply(name, &[x, y])
    }

    /// The larger or smaller one. Of floats a number goes before a NaN: `maximumf` has zeros in order, but lets a NaN win.
    pub(super) fn min_max(
        &mut self,
        max: bool,
        elem: Elem,
        shape: Shape,
        x: Val<'c, 'a>,
        y: Val<'c, 'a>,
    ) -> Result<Val<'c, 'a>> {
        let name = match (elem.is_float(), elem.is_signed(), max) {
            (true, _, true) => "arith.maximumf",
            (true, _, false) => "arith.minimumf",
            (false, true, true) => "arith.maxsi",
            (false, true, false) => "arith.minsi",
            (false, false, true) => "arith.maxui",
            (false, false, false) => "arith.minui",
        };
        let chosen = self.apply(name, &[x, y])?;
        if !elem.is_float() {
            return Ok(chosen);
        }
        let y_nan = self.cmp_float(CmpfPredicate::Uno, y, y, shape)?;
        let chosen = self.select(y_nan, x, chosen)?;
        let x_nan = self.cmp_float(CmpfPredicate::Uno, x, x, shape)?;
        self.select(x_nan, y, chosen)
    }

    /// Integer quotient or remainder that never traps: the divisors 0 and -1 are replaced by 1, and what they give is put
    /// in afterwards: 0 or the dividend, and minus the dividend or 0.
    fn divide(&mut self, rem: bool, elem: Elem, shape: Shape, x: Val<'c, 'a>, y: Val<'c, 'a>) -> Result<Val<'c, 'a>> {
        let signed = elem.is_signed();
        let (zero, one) = (self.int(0, elem, shape.dims())?, self.int(1, elem, shape.dims())?);
        let by_zero = self.cmp_int(CmpiPredicate::Eq, y, zero, shape)?;
        let mut safe = self.select(by_zero, one, y)?;
        let name = match (rem, signed) {
            (false, true) => "arith.divsi",
            (false, false) => "arith.divui",
            (true, true) => "arith.remsi",
            (true, false) => "arith.remui",
        };
        let of_zero = if rem { x } else { zero };
        if !signed {
            let out = self.apply(name, &[x, safe])?;
            return self.select(by_zero, of_zero, out);
        }
        let minus_one = self.int(-1, elem, shape.dims())?;
        let by_minus_one = self.cmp_int(CmpiPredicate::Eq, y, minus_one, shape)?;
        safe = self.select(by_minus_one, one, safe)?;
        let out = self.apply(name, &[x, safe])?;
        let out = self.select(by_zero, of_zero, out)?;
        let of_minus_one = if rem { zero } else { self.apply("arith.subi", &[zero, x])? };
        self.select(by_minus_one, of_minus_one, out)
    }

    /// A shift by the amount modulo the width.
    fn shift(&mut self, name: &str, elem: Elem, shape: Shape, x: Val<'c, 'a>, y: Val<'c, 'a>) -> Result<Val<'c, 'a>> {
        let most = self.int(i64::from(8 * elem.bytes() - 1), elem, shape.dims())?;
        let amount = self.apply("arith.andi", &[y, most])?;
        self.apply(name, &[x, amount])
    }

    pub(super) fn compare(&self, op: CmpOp, args: [Value; 2]) -> Result<Val<'c, 'a>> {
        let Type { elem, shape } = self.k.ty(args[0]);
        let (x, y) = (self.get(args[0])?, self.get(args[1])?);
        if elem.is_float() {
            let p = match op {
                CmpOp::Eq => CmpfPredicate::Oeq,
                CmpOp::Ne => CmpfPredicate::Une,
                CmpOp::Lt => CmpfPredicate::Olt,
                CmpOp::Le => CmpfPredicate::Ole,
                CmpOp::Gt => CmpfPredicate::Ogt,
                CmpOp::Ge => CmpfPredicate::Oge,
            };
            return self.cmp_float(p, x, y, shape);
        }
        let p = match (op, elem.is_signed()) {
            (CmpOp::Eq, _) => CmpiPredicate::Eq,
            (CmpOp::Ne, _) => CmpiPredicate::Ne,
            (CmpOp::Lt, true) => CmpiPredicate::Slt,
            (CmpOp::Le, true) => CmpiPredicate::Sle,
            (CmpOp::Gt, true) => CmpiPredicate::Sgt,
            (CmpOp::Ge, true) => CmpiPredicate::Sge,
            (CmpOp::Lt, false) => CmpiPredicate::Ult,
            (CmpOp::Le, false) => CmpiPredicate::Ule,
            (CmpOp::Gt, false) => CmpiPredicate::Ugt,
            (CmpOp::Ge, false) => CmpiPredicate::Uge,
        };
        self.cmp_int(p, x, y, shape)
    }
}
