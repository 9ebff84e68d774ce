//! One register value: a scalar or a vector, and LLVM's operations on either.

use super::{Codegen, Result, Stop};
use inkwell::types::{BasicTypeEnum, VectorType};
use inkwell::values::{BasicValueEnum, IntValue, VectorValue};
use inkwell::{FloatPredicate, IntPredicate};

/// A scalar or a vector in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reg<'c>(BasicValueEnum<'c>);

impl<'c, T: Into<BasicValueEnum<'c>>> From<T> for Reg<'c> {
    fn from(v: T) -> Reg<'c> {
        Reg(v.into())
    }
}

impl<'c> Reg<'c> {
    pub(crate) fn value(self) -> BasicValueEnum<'c> {
        self.0
    }

    pub(crate) fn ty(self) -> BasicTypeEnum<'c> {
        self.0.get_type()
    }

    pub(crate) fn int(self) -> IntValue<'c> {
        self.0.into_int_value()
    }

    pub(crate) fn vector(self) -> VectorValue<'c> {
        self.0.into_vector_value()
    }

    /// The number of lanes: 1 for a scalar.
    pub(crate) fn lanes(self) -> u32 {
        match self.0 {
            BasicValueEnum::VectorValue(v) => v.get_type().get_size(),
            _ => 1,
        }
    }
}

/// Integer operations of two operands.
#[derive(Clone, Copy)]
pub(crate) enum IntOp {
    Add,
    Sub,
    Mul,
    SDiv,
    UDiv,
    SRem,
    URem,
    And,
    Or,
    Xor,
    Shl,
    LShr,
    AShr,
}

/// Float operations of two operands.
#[derive(Clone, Copy)]
pub(crate) enum FloatOp {
    Add,
    Sub,
    Mul,
    Div,
}

/// Widenings and narrowings.
#[derive(Clone, Copy)]
pub(crate) enum Cast {
    Trunc,
    SExt,
    ZExt,
    FpExt,
    FpTrunc,
    SiToFp,
    UiToFp,
}

/// Calls a builder method on two scalars or two vectors.
macro_rules! on_pair {
    ($self:ident, $method:ident, $scalar:ident, $a:expr, $b:expr $(, $extra:expr)*) => {
        match ($a.0, $b.0) {
            (BasicValueEnum::$scalar(x), BasicValueEnum::$scalar(y)) => {
                $self.b.$method($($extra,)* x, y, "")?.into()
            }
            (BasicValueEnum::VectorValue(x), BasicValueEnum::VectorValue(y)) => {
                $self.b.$method($($extra,)* x, y, "")?.into()
            }
            _ => return Err(Stop::Llvm("a scalar met a vector".into())),
        }
    };
}

impl<'c> Codegen<'c, '_> {
    pub(crate) fn int_op(&self, op: IntOp, a: Reg<'c>, b: Reg<'c>) -> Result<Reg<'c>> {
        Ok(match op {
            IntOp::Add => on_pair!(self, build_int_add, IntValue, a, b),
            IntOp::Sub => on_pair!(self, build_int_sub, IntValue, a, b),
            IntOp::Mul => on_pair!(self, build_int_mul, IntValue, a, b),
            IntOp::SDiv => on_pair!(self, build_int_signed_div, IntValue, a, b),
            IntOp::UDiv => on_pair!(self, build_int_unsigned_div, IntValue, a, b),
            IntOp::SRem => on_pair!(self, build_int_signed_rem, IntValue, a, b),
            IntOp::URem => on_pair!(self, build_int_unsigned_rem, IntValue, a, b),
            IntOp::And => on_pair!(self, build_and, IntValue, a, b),
            IntOp::Or => on_pair!(self, build_or, IntValue, a, b),
            IntOp::Xor => on_pair!(self, build_xor, IntValue, a, b),
            IntOp::Shl => on_pair!(self, build_left_shift, IntValue, a, b),
            IntOp::LShr => self.shift_right(a, b, false)?,
            IntOp::AShr => self.shift_right(a, b, true)?,
        })
    }

    fn shift_right(&self, a: Reg<'c>, b: Reg<'c>, signed: bool) -> Result<Reg<'c>> {
        Ok(match (a.0, b.0) {
            (BasicValueEnum::IntValue(x), BasicValueEnum::IntValue(y)) => {
                self.b.build_right_shift(x, y, signed, "")?.into()
            }
            (BasicValueEnum::VectorValue(x), BasicValueEnum::VectorValue(y)) => {
                self.b.build_right_shift(x, y, signed, "")?.into()
            }
            _ => return Err(Stop::Llvm("a scalar met a vector".into())),
        })
    }

    pub(crate) fn float_op(&self, op: FloatOp, a: Reg<'c>, b: Reg<'c>) -> Result<Reg<'c>> {
        Ok(match op {
            FloatOp::Add => on_pair!(self, build_float_add, FloatValue, a, b),
            FloatOp::Sub => on_pair!(self, build_float_sub, FloatValue, a, b),
            FloatOp::Mul => on_pair!(self, build_float_mul, FloatValue, a, b),
            FloatOp::Div => on_pair!(self, build_float_div, FloatValue, a, b),
        })
    }

    pub(crate) fn int_cmp(&self, p: IntPredicate, a: Reg<'c>, b: Reg<'c>) -> Result<Reg<'c>> {
        Ok(on_pair!(self, build_int_compare, IntValue, a, b, p))
    }

    pub(crate) fn float_cmp(&self, p: FloatPredicate, a: Reg<'c>, b: Reg<'c>) -> Result<Reg<'c>> {
        Ok(on_pair!(self, build_float_compare, FloatValue, a, b, p))
    }

    pub(crate) fn select_reg(&self, c: Reg<'c>, a: Reg<'c>, b: Reg<'c>) -> Result<Reg<'c>> {
        let v = match c.0 {
            BasicValueEnum::IntValue(c) => self.b.build_select(c, a.0, b.0, "")?,
            BasicValueEnum::VectorValue(c) => self.b.build_select(c, a.0, b.0, "")?,
            _ => return Err(Stop::Llvm("a condition is an integer".into())),
        };
        Ok(v.into())
    }

    pub(crate) fn cast(&self, op: Cast, a: Reg<'c>, to: BasicTypeEnum<'c>) -> Result<Reg<'c>> {
        use inkwell::values::InstructionOpcode as O;
        let opcode = match op {
            Cast::Trunc => O::Trunc,
            Cast::SExt => O::SExt,
            Cast::ZExt => O::ZExt,
            Cast::FpExt => O::FPExt,
            Cast::FpTrunc => O::FPTrunc,
            Cast::SiToFp => O::SIToFP,
            Cast::UiToFp => O::UIToFP,
        };
        Ok(self.b.build_cast(opcode, a.0, to, "")?.into())
    }

    pub(crate) fn bitcast(&self, a: Reg<'c>, to: BasicTypeEnum<'c>) -> Result<Reg<'c>> {
        if a.ty() == to { Ok(a) } else { Ok(self.b.build_bit_cast(a.0, to, "")?.into()) }
    }

    /// A constant in each lane of a type.
    pub(crate) fn splat_int(&self, n: i64, ty: BasicTypeEnum<'c>) -> Reg<'c> {
        match ty {
            BasicTypeEnum::IntType(t) => t.const_int(n as u64, true).into(),
            BasicTypeEnum::VectorType(t) => {
                let e = t.get_element_type().into_int_type().const_int(n as u64, true);
                VectorType::const_vector(&vec![e; t.get_size() as usize]).into()
            }
            _ => unreachable!("an integer constant has an integer type"),
        }
    }

    /// A constant in each lane of a type.
    pub(crate) fn splat_float(&self, x: f64, ty: BasicTypeEnum<'c>) -> Reg<'c> {
        match ty {
            BasicTypeEnum::FloatType(t) => t.const_float(x).into(),
            BasicTypeEnum::VectorType(t) => {
                let e = t.get_element_type().into_float_type().const_float(x);
                VectorType::const_vector(&vec![e; t.get_size() as usize]).into()
            }
            _ => unreachable!("a float constant has a float type"),
        }
    }

    /// A scalar in each of `n` lanes.
    pub(crate) fn splat(&self, a: Reg<'c>, n: u32) -> Result<Reg<'c>> {
        if n == 1 {
            return Ok(a);
        }
        let first = match a.ty() {
            BasicTypeEnum::IntType(t) => self.insert(t.vec_type(n).get_undef().into(), 0, a)?,
            BasicTypeEnum::FloatType(t) => self.insert(t.vec_type(n).get_undef().into(), 0, a)?,
            _ => return Err(Stop::Llvm("only scalars are splat".into())),
        };
        self.shuffle(first, first, &vec![0; n as usize])
    }

    /// One lane.
    pub(crate) fn extract(&self, a: Reg<'c>, lane: u32) -> Result<Reg<'c>> {
        match a.0 {
            BasicValueEnum::VectorValue(v) => {
                Ok(self.b.build_extract_element(v, self.cx.i32_type().const_int(u64::from(lane), false), "")?.into())
            }
            _ => Ok(a),
        }
    }

    /// A vector with one lane replaced.
    pub(crate) fn insert(&self, a: Reg<'c>, lane: u32, x: Reg<'c>) -> Result<Reg<'c>> {
        let at = self.cx.i32_type().const_int(u64::from(lane), false);
        Ok(self.b.build_insert_element(a.vector(), x.0, at, "")?.into())
    }

    /// Lanes chosen from two vectors, those of the second numbered behind the first's. Gives a scalar for one lane.
    pub(crate) fn shuffle(&self, a: Reg<'c>, b: Reg<'c>, lanes: &[u32]) -> Result<Reg<'c>> {
        if lanes.len() == 1 {
            let n = a.lanes();
            return if lanes[0] < n { self.extract(a, lanes[0]) } else { self.extract(b, lanes[0] - n) };
        }
        let i32t = self.cx.i32_type();
        let mask: Vec<_> = lanes.iter().map(|&l| i32t.const_int(u64::from(l), false)).collect();
        Ok(self.b.build_shuffle_vector(a.vector(), b.vector(), VectorType::const_vector(&mask), "")?.into())
    }

    /// Lanes chosen from one register, a scalar counting as one lane.
    pub(crate) fn pick(&self, a: Reg<'c>, lanes: &[u32]) -> Result<Reg<'c>> {
        if a.lanes() == 1 {
            return self.splat(a, lanes.len() as u32);
        }
        if lanes.len() as u32 == a.lanes() && lanes.iter().enumerate().all(|(i, &l)| i as u32 == l) {
            return Ok(a);
        }
        self.shuffle(a, a, lanes)
    }
}
