//! Operands of vector and scalar instructions.

use super::inst::{ACCUMULATORS, Reg, SSrc, Ty, VSrc, scalar};
use hrx_compiler::inspect::asm::{Base, File, Op, Regs, Written};

type Result<T> = std::result::Result<T, String>;

/// The number of a vector register or accumulator in a wave's file.
pub fn vector(regs: Regs) -> Option<u16> {
    match regs.file {
        File::V => Some(regs.first),
        File::A => Some(ACCUMULATORS + regs.first),
        File::S => None,
    }
}

/// Scalar registers by names that the parser does not know.
pub fn named(name: &str) -> Option<(u16, u8)> {
    Some(match name {
        "src_shared_base" | "src_shared_base_lo" => (scalar::SHARED_BASE, 2),
        "src_private_base" | "src_private_base_lo" => (scalar::PRIVATE_BASE, 2),
        "src_shared_limit" | "src_shared_limit_lo" => (scalar::SHARED_LIMIT, 2),
        "src_private_limit" | "src_private_limit_lo" => (scalar::PRIVATE_LIMIT, 2),
        "flat_scratch" | "flat_scratch_lo" | "src_flat_scratch_base_lo" => (scalar::FLAT_SCRATCH, 2),
        "flat_scratch_hi" | "src_flat_scratch_base_hi" => (scalar::FLAT_SCRATCH + 1, 1),
        "xnack_mask" | "xnack_mask_lo" => (scalar::XNACK, 2),
        "xnack_mask_hi" => (scalar::XNACK + 1, 1),
        "src_vccz" => (scalar::VCCZ, 1),
        "src_execz" => (scalar::EXECZ, 1),
        "src_scc" => (scalar::SCC, 1),
        _ => return None,
    })
}

/// The scalar register that an operand is, and how many follow it.
pub fn scalar_register(w: &Written) -> Option<(u16, u8)> {
    match &w.base {
        Base::Regs(Regs { file: File::S, first, count }) => Some((*first, *count as u8)),
        Base::Name(name) => named(name),
        _ => None,
    }
}

/// The vector register that an operand is.
pub fn vector_register(w: &Written) -> Option<u16> {
    match &w.base {
        Base::Regs(regs) => vector(*regs),
        _ => None,
    }
}

/// A fraction's bits as binary16.
fn half_bits(x: f64) -> u32 {
    crate::exec::number::double_to_half(x)
}

/// Whether a whole number needs no literal.
fn is_inline(n: u64) -> bool {
    (-16..=64).contains(&(n as i64))
}

/// The bits of a constant for a type.
fn constant(base: &Base, ty: Ty) -> Option<[u32; 2]> {
    let words = |n: u64| [n as u32, (n >> 32) as u32];
    Some(match (base, ty) {
        (Base::Whole(n), Ty::FD) if !is_inline(*n) && *n >> 32 == 0 => [0, *n as u32],
        (Base::Whole(n), Ty::Q) if !is_inline(*n) && *n >> 32 == 0 => words(*n as u32 as i32 as u64),
        (Base::Whole(n), Ty::D | Ty::Q | Ty::FD) => words(*n),
        (Base::Whole(n), _) => [*n as u32; 2],
        (Base::Fraction(x), Ty::D | Ty::Q | Ty::FD) => words(*x),
        (Base::Fraction(x), ty) => {
            let x = f64::from_bits(*x);
            match ty {
                Ty::H | Ty::U16 | Ty::I16 | Ty::PH | Ty::P => [half_bits(x); 2],
                // 1/(2 pi) is cut off, not rounded.
                Ty::B | Ty::PB => [(x as f32).to_bits() >> 16; 2],
                _ => [(x as f32).to_bits(); 2],
            }
        }
        _ => return None,
    })
}

/// A source of a vector instruction, its own marks applied; the instruction's selectors are not.
pub fn source(w: &Written, ty: Ty) -> Result<VSrc> {
    let (reg, bits) = match &w.base {
        Base::Regs(regs) => match vector(*regs) {
            Some(first) => (Reg::V(first), [0; 2]),
            None => (Reg::S(regs.first), [0; 2]),
        },
        Base::Name(name) => (Reg::S(named(name).ok_or_else(|| format!("operand {name}"))?.0), [0; 2]),
        number => (Reg::K, constant(number, ty).ok_or("a constant of an unknown type")?),
    };
    let high = w.half == Some(true);
    let marks = VSrc::new(reg, ty, bits);
    Ok(VSrc { neg: w.neg, abs: w.abs, sext: w.sext, high: [high, high], plain: false, ..marks })
}

/// The bit of a list such as `op_sel:[0,1]` for a source.
fn bit(op: &Op, name: &str, at: usize) -> Option<bool> {
    op.list(name).and_then(|l| l.get(at).map(|&n| n != 0))
}

impl VSrc {
    /// Applies the instruction's selectors and negations to its source number `at`.
    pub fn selected(mut self, op: &Op, at: usize) -> VSrc {
        let op_sel = bit(op, "op_sel", at).unwrap_or(false);
        let has_halves = op.setting("op_sel").is_some();
        self.neg_half = [bit(op, "neg_lo", at).unwrap_or(false), bit(op, "neg_hi", at).unwrap_or(false)];
        match self.ty {
            Ty::P | Ty::PH | Ty::PB | Ty::PW | Ty::PF => {
                self.high = [op_sel, bit(op, "op_sel_hi", at).unwrap_or(true)];
                if op.name == "v_pk_mov_b32" {
                    self.high = [op_sel; 2];
                }
            }
            Ty::MX => {
                self.high = [op_sel; 2];
                // Whether it is a half at all.
                self.neg_half[1] = bit(op, "op_sel_hi", at).unwrap_or(false);
            }
            ty if ty.is_half() && has_halves => self.high = [op_sel; 2],
            _ => {}
        }
        self.plain();
        self
    }

    /// Finds whether the registers' bits are taken as they are.
    pub fn plain(&mut self) {
        let straight = match self.ty {
            Ty::P | Ty::PH | Ty::PB => self.high == [false, true] && self.neg_half == [false; 2],
            Ty::PW | Ty::PF => self.high == [false, true] && self.neg_half == [false; 2],
            Ty::MX => !self.neg_half[1],
            // Rows look at the low half alone.
            ty if ty.is_half() => !self.high[0],
            _ => true,
        };
        self.plain = straight && !self.neg && !self.abs && !self.sext && self.select.is_none();
    }
}

/// A scalar source of so many registers.
pub fn scalar_source(w: &Written, words: u8, float: bool) -> Result<SSrc> {
    if let Some((first, _)) = scalar_register(w) {
        return Ok(SSrc::Reg(first, words));
    }
    let ty = match (words, float) {
        (2, _) => Ty::D,
        _ => Ty::W,
    };
    let bits = constant(&w.base, ty).ok_or_else(|| format!("operand {:?}", w.base))?;
    let wide = u64::from(bits[0]) | if words == 2 { u64::from(bits[1]) << 32 } else { 0 };
    Ok(SSrc::Const(wide))
}
