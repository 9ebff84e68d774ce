//! What the operations that make a tile say about how large its elements are.

use super::kernel::{Kernel, Value, ValueDef};
use super::op::{BinaryOp, BlockPart, Literal, Op};
use super::types::Elem;

/// Operations that are looked through: what a code is made of is a handful.
const DEPTH: u32 = 24;

/// No element of a tile of unsigned integers is above this, by the operations that make it: the type's largest number
/// where they don't say more.
pub fn upper_bound(k: &Kernel, v: Value) -> u32 {
    bound(k, v, DEPTH)
}

fn bound(k: &Kernel, v: Value, depth: u32) -> u32 {
    let ty = k.ty(v);
    let most = u32::MAX >> (32 - 8 * ty.elem.bytes());
    let ValueDef::Result(inst, 0) = k.values[v].def else { return most };
    if depth == 0 {
        return most;
    }
    let of = |v: Value| bound(k, v, depth - 1);
    // All bits up to the highest one of a number.
    let ones = |n: u32| n.checked_next_power_of_two().map_or(u32::MAX, |p| if p == n { n | (n - 1) } else { p - 1 });
    let shift = |v: Value| k.as_const_int(v).and_then(|n| u32::try_from(n).ok()).filter(|&n| n < 32);
    let found = match &k.insts[inst].op {
        Op::Const { value: Literal::Int(n), .. } => u32::try_from(*n).unwrap_or(most),
        Op::Binary { op: BinaryOp::And | BinaryOp::Min, args: [a, b] } => of(*a).min(of(*b)),
        Op::Binary { op: BinaryOp::Or | BinaryOp::Xor, args: [a, b] } => ones(of(*a)) | ones(of(*b)),
        Op::Binary { op: BinaryOp::Max, args: [a, b] } => of(*a).max(of(*b)),
        Op::Binary { op: BinaryOp::Add, args: [a, b] } => of(*a).saturating_add(of(*b)),
        Op::Binary { op: BinaryOp::Shr, args: [a, b] } => shift(*b).map_or(most, |n| of(*a) >> n),
        Op::Binary { op: BinaryOp::Shl, args: [a, b] } => {
            shift(*b).and_then(|n| u32::try_from(u64::from(of(*a)) << n).ok()).unwrap_or(most)
        }
        Op::Select { args: [_, a, b] } => of(*a).max(of(*b)),
        Op::Concat { args: [a, b], .. } => of(*a).max(of(*b)),
        Op::Convert { arg, .. } => match k.ty(*arg).elem {
            Elem::B1 => 1,
            Elem::U8 | Elem::U16 | Elem::U32 => of(*arg),
            _ => most,
        },
        Op::Broadcast { arg, .. } | Op::Reshape { arg, .. } | Op::Slice { arg, .. } | Op::Repeat { arg, .. } => {
            of(*arg)
        }
        Op::Lookup { table, .. } => table.bytes.iter().copied().max().map_or(0, u32::from),
        Op::LoadBlock { part: BlockPart::Codes(_), view, .. } => match k.views[*view].content {
            super::kernel::Content::Quant(f) => f.max_code,
            _ => most,
        },
        Op::LoadRun { part: super::op::RunPart::Codes, view, .. } => match k.views[*view].content {
            super::kernel::Content::Quant(f) => f.max_code,
            _ => most,
        },
        _ => most,
    };
    if ty.elem.is_signed() { most } else { found.min(most) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::{Access, Builder, Type};

    #[test]
    fn masks_shifts_and_sums_bound_what_is_loaded() {
        let mut b = Builder::new("bounds");
        let x = b.view_param(Elem::U8, &[1.into(), 8.into()], Access::In);
        let zero = b.index(0);
        let x = b.load(x, &[zero, zero], &[1, 8], None);
        let ty = Type::new(Elem::U8, &[1, 8]);
        let (four, mask, bit) = (b.int(4, ty), b.int(15, ty), b.int(16, ty));
        let low = b.binary(BinaryOp::And, x, mask);
        let high = b.binary(BinaryOp::Shr, x, four);
        let top = b.binary(BinaryOp::And, x, bit);
        let five = b.binary(BinaryOp::Or, low, top);
        let sum = b.add(low, high);
        let wraps = b.binary(BinaryOp::Shl, x, four);
        let signed = b.bitcast(low, Elem::I8);
        let k = b.kernel();
        let bounds = [x, low, high, five, sum, wraps, signed].map(|v| upper_bound(k, v));
        // A shift by a tile of constants is one by a constant.
        assert_eq!(bounds, [255, 15, 15, 31, 30, 255, 255]);
    }
}
