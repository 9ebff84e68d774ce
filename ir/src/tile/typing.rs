//! The rule for each operation's operands and result type. The builder and the verifier both go by it.

use super::kernel::{Content, Kernel, Value, View};
use super::op::{BinaryOp, BlockPart, Literal, MAX_RUN, Op, UnaryOp};
use super::types::{Elem, MAX_TILE, Type};
use crate::quant::CHUNK;

/// The least extent of a matrix unit's tile.
const MIN_MMA: u32 = 16;

/// The result type of an operation on operands of a kernel: none for stores and yields, `Err` with the rule that the
/// operation breaks. Loops have as many results as they carry values, so they are checked by the verifier instead.
pub fn result_type(k: &Kernel, op: &Op) -> Result<Option<Type>, String> {
    let ty = |v: &Value| k.values[*v].ty;
    let same = |a: Type, b: Type| {
        if a == b { Ok(()) } else { Err(format!("operands must have one type, these are {a} and {b}")) }
    };
    let want = |ok: bool, rule: String| if ok { Ok(()) } else { Err(rule) };
    let small = |t: Type| {
        want(t.shape.dims().iter().all(|&d| d > 0), format!("extents must be positive, got {t}"))?;
        let n = t.shape.dims().iter().try_fold(1u64, |n, &d| n.checked_mul(u64::from(d)).filter(|&n| n <= MAX_TILE));
        want(n.is_some(), format!("a tile has at most {MAX_TILE} elements, got {t}"))?;
        Ok(t)
    };
    let t = match op {
        Op::Const { value, ty } => {
            let fits = matches!(value, Literal::Float(_)) == ty.elem.is_float();
            want(fits, format!("a literal of this kind does not make a {}", ty.elem))?;
            *ty
        }
        Op::Iota { ty } => {
            want(ty.shape.rank() == 1 && ty.elem.is_int(), format!("iota makes a rank-1 integer tile, not {ty}"))?;
            *ty
        }
        Op::Unary { op, arg } => {
            let t = ty(arg);
            let ok = match op {
                UnaryOp::Neg | UnaryOp::Abs => t.elem != Elem::B1,
                UnaryOp::Not => !t.elem.is_float(),
                _ => t.elem == Elem::F32,
            };
            want(ok, format!("{} does not take {}", op.name(), t.elem))?;
            t
        }
        Op::Binary { op, args: [a, b] } => {
            let t = ty(a);
            same(t, ty(b))?;
            let ok = match op {
                BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => !t.elem.is_float(),
                BinaryOp::Rem | BinaryOp::Shl | BinaryOp::Shr => t.elem.is_int(),
                _ => t.elem.is_int() || t.elem == Elem::F32,
            };
            want(ok, format!("{} does not take {}", op.name(), t.elem))?;
            t
        }
        Op::Cmp { op, args: [a, b] } => {
            same(ty(a), ty(b))?;
            let t = ty(a);
            want(t.elem.is_int() || t.elem == Elem::F32, format!("{} does not take {}", op.name(), t.elem))?;
            t.with_elem(Elem::B1)
        }
        Op::Select { args: [c, a, b] } => {
            same(ty(a), ty(b))?;
            same(ty(c), ty(a).with_elem(Elem::B1))?;
            ty(a)
        }
        Op::Fma { args: [a, b, c] } => {
            same(ty(a), ty(b))?;
            same(ty(a), ty(c))?;
            want(ty(a).elem == Elem::F32, format!("fma does not take {}", ty(a).elem))?;
            ty(a)
        }
        Op::Convert { arg, to } => {
            want(*to != Elem::B1, "convert does not make a b1: compare with zero".into())?;
            ty(arg).with_elem(*to)
        }
        Op::Bitcast { arg, to } => {
            let from = ty(arg).elem;
            let ok = from != Elem::B1 && *to != Elem::B1 && from.bytes() == to.bytes();
            want(ok, format!("bitcast from {from} to {to} changes the width"))?;
            ty(arg).with_elem(*to)
        }
        Op::Broadcast { arg, shape } => {
            let t = ty(arg);
            want(t.shape.broadcasts_to(shape), format!("{t} does not broadcast to {shape}"))?;
            t.with_shape(*shape)
        }
        Op::Reshape { arg, shape } => {
            let t = small(ty(arg).with_shape(*shape))?;
            let n = ty(arg).shape.elements();
            want(n == shape.elements(), format!("reshape from {} to {shape} changes the number of elements", ty(arg)))?;
            t
        }
        Op::Transpose { arg } => {
            let t = ty(arg);
            want(t.shape.rank() > 1, format!("transpose exchanges the last two axes, {t} has not two"))?;
            t.with_shape(t.shape.transposed())
        }
        Op::Concat { args: [a, b], axis } => {
            let (ta, tb, ax) = (ty(a), ty(b), *axis as usize);
            want(ax < ta.shape.rank(), format!("axis {ax} is not one of {ta}"))?;
            want(ax < tb.shape.rank(), format!("axis {ax} is not one of {tb}"))?;
            let (na, nb) = (ta.shape.dims()[ax], tb.shape.dims()[ax]);
            same(ta, tb.with_shape(tb.shape.with_dim(ax, na)))?;
            let n = na.checked_add(nb).ok_or("extents overflow")?;
            ta.with_shape(ta.shape.with_dim(ax, n))
        }
        Op::Slice { arg, axis, start, len } => {
            let (t, ax) = (ty(arg), *axis as usize);
            want(ax < t.shape.rank(), format!("axis {ax} is not one of {t}"))?;
            let end = start.checked_add(*len).ok_or("extents overflow")?;
            want(end <= t.shape.dims()[ax], format!("slice {start}..{end} leaves axis {ax} of {t}"))?;
            t.with_shape(t.shape.with_dim(ax, *len))
        }
        Op::Repeat { arg, times } => {
            let t = ty(arg);
            want(t.shape.rank() > 0, "repeat needs an axis".into())?;
            let n = t.shape.last().checked_mul(*times).ok_or("extents overflow")?;
            t.with_shape(t.shape.with_dim(t.shape.rank() - 1, n))
        }
        Op::Lookup { table, arg } => {
            let t = ty(arg);
            want(t.shape.rank() > 0, "lookup needs an axis".into())?;
            want(matches!(t.elem, Elem::U8 | Elem::U16), format!("lookup takes u8 or u16, not {}", t.elem))?;
            let n = t.shape.last().checked_mul(table.width).ok_or("extents overflow")?;
            t.with_elem(Elem::U8).with_shape(t.shape.with_dim(t.shape.rank() - 1, n))
        }
        Op::Reduce { arg, axis, .. } => {
            let (t, ax) = (ty(arg), *axis as usize);
            want(ax < t.shape.rank(), format!("axis {ax} is not one of {t}"))?;
            want(matches!(t.elem, Elem::F32 | Elem::I32), format!("reductions take f32 or i32, not {}", t.elem))?;
            t.with_shape(t.shape.with_dim(ax, 1))
        }
        Op::Dot { args: [a, b, c] } => {
            let (ta, tb, tc) = (ty(a), ty(b), ty(c));
            let ok = match (ta.shape.dims(), tb.shape.dims(), tc.shape.dims()) {
                ([m, k1], [k2, n], [m2, n2]) => k1 == k2 && m == m2 && n == n2,
                _ => false,
            };
            want(ok, format!("dot takes [M, K], [K, N] and [M, N], not {ta}, {tb} and {tc}"))?;
            let f32s = [ta, tb, tc].iter().all(|t| t.elem == Elem::F32);
            want(f32s, "dot takes f32".into())?;
            tc
        }
        Op::Dot4 { args: [a, b, c] } => {
            let (ta, tb, tc) = (ty(a), ty(b), ty(c));
            want(ta.shape == tb.shape, format!("dot4's factors differ in shape: {ta} and {tb}"))?;
            let ok = matches!(ta.elem, Elem::I8 | Elem::U8) && tb.elem == Elem::I8 && tc.elem == Elem::I32;
            want(ok, format!("dot4 takes u8 or i8, i8 and i32, not {}, {} and {}", ta.elem, tb.elem, tc.elem))?;
            let n = ta.shape.last();
            want(ta.shape.rank() > 0 && n % 4 == 0, format!("dot4 needs a multiple of 4 along the last axis of {ta}"))?;
            let sum = ta.shape.with_dim(ta.shape.rank() - 1, n / 4);
            want(tc.shape == sum, format!("dot4's accumulator must be i32{sum}, not {tc}"))?;
            tc
        }
        Op::Mma { args: [a, b, c] } => {
            let (ta, tb, tc) = (ty(a), ty(b), ty(c));
            let elems = [ta.elem, tb.elem, tc.elem];
            let known = [
                [Elem::F16, Elem::F16, Elem::F32],
                [Elem::BF16, Elem::BF16, Elem::F32],
                [Elem::I8, Elem::I8, Elem::I32],
            ];
            let [a, b, c] = elems;
            want(
                known.contains(&elems),
                format!("mma takes f16, f16 and f32, or bf16, bf16 and f32, or i8, i8 and i32, not {a}, {b} and {c}"),
            )?;
            let fit = match (ta.shape.dims(), tb.shape.dims(), tc.shape.dims()) {
                (&[m, k], &[n, kb], &[mc, nc]) => k == kb && m == mc && n == nc,
                _ => false,
            };
            want(fit, format!("mma takes [M, K], [N, K] and [M, N], not {ta}, {tb} and {tc}"))?;
            let large = |d: &u32| d.is_power_of_two() && *d >= MIN_MMA;
            let dims = ta.shape.dims().iter().chain(tc.shape.dims());
            want(
                dims.clone().all(large),
                format!("mma's extents are powers of two from {MIN_MMA} on, not those of {ta} and {tb}"),
            )?;
            tc
        }
        Op::Load { view, index, mask, shape } => {
            let Content::Elem(elem) = k.views[*view].content else {
                return Err(format!("{view} holds quantised blocks: use block_codes and its kin"));
            };
            want(k.views[*view].access.reads(), format!("{view} is write-only"))?;
            let t = Type { elem, shape: *shape };
            access(k, *view, index, *mask, t)?;
            t
        }
        Op::Store { view, index, value, mask } => {
            let Content::Elem(elem) = k.views[*view].content else {
                return Err(format!("{view} holds quantised blocks, which kernels do not write"));
            };
            want(k.views[*view].access.writes(), format!("{view} is read-only"))?;
            want(ty(value).elem == elem, format!("{view} holds {elem}, the value is {}", ty(value)))?;
            access(k, *view, index, *mask, ty(value))?;
            return Ok(None);
        }
        Op::LoadBlock { view, index, part, ty: t } => {
            let v = &k.views[*view];
            let Content::Quant(f) = v.content else {
                return Err(format!("{view} holds {}, not quantised blocks", v.content));
            };
            want(v.dims.len() == 2 && t.shape.rank() == 2, "block loads take a view of rank 2 and give [R, n]".into())?;
            let rows = t.shape.dims()[0];
            axis_index(k, index[0], rows)?;
            want(ty(&index[1]) == Type::index(), "the block index must be a scalar i32".into())?;
            let (elem, n) = match part {
                BlockPart::Codes(c) => {
                    want(*c < f.chunks(), format!("{} has {} chunks, not chunk {c}", f.name, f.chunks()))?;
                    (f.code_elem(), CHUNK)
                }
                BlockPart::Values(c) => {
                    want(*c < f.chunks(), format!("{} has {} chunks, not chunk {c}", f.name, f.chunks()))?;
                    (Elem::F32, CHUNK)
                }
                BlockPart::Scales | BlockPart::Offsets => (Elem::F32, f.groups()),
                BlockPart::Indices(c) => {
                    want(*c < f.chunks(), format!("{} has {} chunks, not chunk {c}", f.name, f.chunks()))?;
                    want(f.indices(*c).is_some(), format!("{} has no table of bytes", f.name))?;
                    (Elem::U8, CHUNK)
                }
                BlockPart::Factors | BlockPart::MinFactors => {
                    let factors = f.factors(*part == BlockPart::MinFactors);
                    let (_, signed) = factors.ok_or_else(|| format!("{} has no such factors", f.name))?;
                    (if signed { Elem::I8 } else { Elem::U8 }, f.groups())
                }
                BlockPart::Raw(at) => {
                    let bytes = u64::from(t.shape.last()) * u64::from(t.elem.bytes());
                    let end = u64::from(*at) + bytes;
                    want(end <= u64::from(f.block_bytes), format!("bytes {at}..{end} leave a {} block", f.name))?;
                    want(t.elem != Elem::B1, "no b1 in memory".into())?;
                    (t.elem, t.shape.last())
                }
            };
            let wanted = Type::new(elem, &[rows, n]);
            want(*t == wanted, format!("{} of {} is {wanted}, not {t}", op.name(), f.name))?;
            *t
        }
        Op::LoadRun { view, index, part, ty: t } => {
            let v = &k.views[*view];
            let Content::Quant(f) = v.content else {
                return Err(format!("{view} holds {}, not quantised blocks", v.content));
            };
            want(v.dims.len() == 2 && t.shape.rank() == 2, "run reads take a view of rank 2 and give [R, n]".into())?;
            let rows = t.shape.dims()[0];
            axis_index(k, index[0], rows)?;
            want(ty(&index[1]) == Type::index(), "the first chunk must be a scalar i32".into())?;
            let (elem, each) = part.of_chunk(f);
            let chunks = t.shape.last() / each;
            let count = chunks.is_power_of_two() && chunks <= MAX_RUN && t.shape.last() % each == 0;
            want(
                count && t.elem == elem,
                format!(
                    "{} of {} gives {elem}[R, {each} C] with C a power of two up to {MAX_RUN}, not {t}",
                    op.name(),
                    f.name
                ),
            )?;
            let elements = u64::from(rows) * u64::from(chunks) * u64::from(CHUNK);
            want(elements <= MAX_TILE, format!("a run has at most {MAX_TILE} elements, these are {elements}"))?;
            *t
        }
        Op::For { .. } | Op::Yield { .. } => return Ok(None),
    };
    small(t).map(Some)
}

/// Checks the index list and mask of a load or store of tile type `t`.
fn access(k: &Kernel, view: View, index: &[Value], mask: Option<Value>, t: Type) -> Result<(), String> {
    let rank = k.views[view].dims.len();
    if t.shape.rank() != rank {
        return Err(format!("{view} has rank {rank}, the tile is {t}"));
    }
    if index.len() != rank {
        return Err(format!("{view} has rank {rank}, there are {} indices", index.len()));
    }
    for (axis, &i) in index.iter().enumerate() {
        axis_index(k, i, t.shape.dims()[axis])?;
    }
    if let Some(m) = mask {
        let tm = k.ty(m);
        if tm.elem != Elem::B1 || !tm.shape.broadcasts_to(&t.shape) {
            return Err(format!("the mask must be b1 and broadcast to {t}, it is {tm}"));
        }
    }
    Ok(())
}

/// Checks one index: a scalar `i32`, or an `i32` tile with one place for each of `extent`.
fn axis_index(k: &Kernel, index: Value, extent: u32) -> Result<(), String> {
    let t = k.ty(index);
    if t == Type::index() || t == Type::new(Elem::I32, &[extent]) {
        Ok(())
    } else {
        Err(format!("an index must be i32 or i32[{extent}], {index} is {t}"))
    }
}
