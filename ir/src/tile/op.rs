//! The operations of tile IR and the rule for each one's result type.

use super::kernel::{Block, Content, Kernel, Value, View};
use super::types::{Elem, MAX_TILE, Shape, Type};

/// Declares an enum of operations whose names are their text form.
macro_rules! named_ops {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }
        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// The name in the text form.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
            /// The one of that name.
            pub fn from_name(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|o| o.name() == name)
            }
        }
    };
}

named_ops! {
    /// Elementwise operations of one operand.
    UnaryOp {
        /// Minus x. Integers wrap.
        Neg = "neg",
        /// Absolute value. The least integer wraps to itself.
        Abs = "abs",
        /// e to the x. Floats; within 2 units in the last place, 0 below -104, infinity above 89.
        Exp = "exp",
        /// Square root, correctly rounded. Floats.
        Sqrt = "sqrt",
        /// 1 / sqrt(x) as a division of a square root. Floats.
        Rsqrt = "rsqrt",
        /// Hyperbolic tangent. Floats; within 4 units in the last place.
        Tanh = "tanh",
        /// Largest whole number not above x. Floats.
        Floor = "floor",
        /// Nearest whole number, ties to even. Floats.
        Round = "round",
        /// All bits flipped; of a `b1` its negation.
        Not = "not",
    }
}

named_ops! {
    /// Elementwise operations of two operands of one type. Integers wrap.
    BinaryOp {
        /// Sum.
        Add = "add",
        /// Difference.
        Sub = "sub",
        /// Product.
        Mul = "mul",
        /// Quotient; integers truncate towards zero, the least one by -1 wraps. An integer by zero is an error of the
        /// kernel: the interpreter stops, compiled code gives 0.
        Div = "div",
        /// Remainder of the truncating quotient. Integers; by zero is an error as for `div`, compiled code gives the
        /// dividend.
        Rem = "rem",
        /// The smaller one; a NaN loses against a number, and -0 is below +0.
        Min = "min",
        /// The larger one; a NaN loses against a number, and -0 is below +0.
        Max = "max",
        /// Bitwise and; of `b1` too.
        And = "and",
        /// Bitwise or; of `b1` too.
        Or = "or",
        /// Bitwise exclusive or; of `b1` too.
        Xor = "xor",
        /// Left shift. An amount of the width or more is an error of the kernel: the interpreter stops, compiled code
        /// takes it modulo the width.
        Shl = "shl",
        /// Right shift, arithmetic for signed types; the amount as for `shl`.
        Shr = "shr",
    }
}

named_ops! {
    /// Comparisons. With a NaN all but `ne` are false.
    CmpOp {
        /// Equal.
        Eq = "eq",
        /// Not equal.
        Ne = "ne",
        /// Less.
        Lt = "lt",
        /// Less or equal.
        Le = "le",
        /// Greater.
        Gt = "gt",
        /// Greater or equal.
        Ge = "ge",
    }
}

named_ops! {
    /// Reductions along an axis, in a fixed order: the axis is padded with the neutral element to a power of two, then
    /// the upper half is combined into the lower one until one is left. The order is the same on every target.
    ReduceOp {
        /// Sum.
        Sum = "sum",
        /// Largest.
        Max = "max",
        /// Smallest.
        Min = "min",
    }
}

/// A literal of a `const` instruction.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// For integer types, and 0 or 1 for `b1`.
    Int(i64),
    /// For float types; rounded to the element type.
    Float(f64),
}

impl PartialEq for Literal {
    fn eq(&self, other: &Literal) -> bool {
        match (self, other) {
            (Literal::Int(a), Literal::Int(b)) => a == b,
            (Literal::Float(a), Literal::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

/// What part of a quantised block an operation reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockPart {
    /// Integer codes of one chunk of 32 elements: `u8` or `i8`, as the format says.
    Codes(u32),
    /// The scale of each group of the block, `f32`.
    Scales,
    /// The offset of each group, `f32`: element = scale * code - offset. With it the dot product of a block with x is
    /// the sum over groups of scale * sum(code * x) - offset * sum(x).
    Offsets,
    /// The values of one chunk of 32 elements, `f32`, rounded as the format's reference dequantisation rounds.
    Values(u32),
    /// Raw fields from this byte of the block on. What the other parts are expanded to.
    Raw(u32),
}

/// One operation. Operand shapes and the result type are checked by [`result_type`].
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// A tile whose elements all equal the literal.
    Const {
        /// The literal.
        value: Literal,
        /// The tile's type.
        ty: Type,
    },
    /// `0, 1, 2, …` along the only axis.
    Iota {
        /// A rank-1 integer type.
        ty: Type,
    },
    /// Elementwise, one operand.
    Unary {
        /// Which.
        op: UnaryOp,
        /// The operand.
        arg: Value,
    },
    /// Elementwise, two operands of one type.
    Binary {
        /// Which.
        op: BinaryOp,
        /// The operands.
        args: [Value; 2],
    },
    /// Elementwise comparison of two operands of one type.
    Cmp {
        /// Which.
        op: CmpOp,
        /// The operands.
        args: [Value; 2],
    },
    /// Elementwise choice: condition `b1`, then two operands of one type, all of one shape.
    Select {
        /// Condition, value if true, value if false.
        args: [Value; 3],
    },
    /// `a * b + c` with one rounding. Floats.
    Fma {
        /// Factors and addend.
        args: [Value; 3],
    },
    /// Value-preserving conversion: float to float rounds to nearest even, float to integer truncates towards zero and
    /// saturates (NaN to 0), integer to integer wraps, `b1` to 0 or 1.
    Convert {
        /// The operand.
        arg: Value,
        /// The element type of the result.
        to: Elem,
    },
    /// The same bits as another element type of the same width.
    Bitcast {
        /// The operand.
        arg: Value,
        /// The element type of the result.
        to: Elem,
    },
    /// Axes of extent 1 (or a scalar) repeated to the given shape.
    Broadcast {
        /// The operand.
        arg: Value,
        /// The shape.
        shape: Shape,
    },
    /// The same elements in row-major order under another shape.
    Reshape {
        /// The operand.
        arg: Value,
        /// The shape.
        shape: Shape,
    },
    /// Two tiles behind one another along an axis.
    Concat {
        /// First and second part.
        args: [Value; 2],
        /// The axis.
        axis: u8,
    },
    /// A part of a tile along an axis, at a static place.
    Slice {
        /// The operand.
        arg: Value,
        /// The axis.
        axis: u8,
        /// First index taken.
        start: u32,
        /// How many.
        len: u32,
    },
    /// Each element of the last axis repeated `times` in a row.
    Repeat {
        /// The operand.
        arg: Value,
        /// How often.
        times: u32,
    },
    /// Reduction along an axis, whose extent becomes 1.
    Reduce {
        /// Which.
        op: ReduceOp,
        /// The operand.
        arg: Value,
        /// The axis.
        axis: u8,
    },
    /// Matrix product with accumulation: `a [M, K]`, `b [K, N]`, `c [M, N]`, floats of one type; for each k in
    /// rising order `c = fma(a[:, k], b[k, :], c)`.
    Dot {
        /// a, b, c.
        args: [Value; 3],
    },
    /// Dot products of 4 neighbours along the last axis, added to an accumulator: `a`, `b` 8-bit integers of shape
    /// [.., 4n], `c` of `i32` [.., n]. `b` is `i8`; `a` may be `u8` or `i8`. `b` holds no -128 and, where `a` is `u8`,
    /// `a` is at most 127: the products of two neighbours then fit 16 bits, which some targets need.
    Dot4 {
        /// a, b, c.
        args: [Value; 3],
    },
    /// Loads a tile. Each index is a scalar (the tile covers consecutive places of the axis from there on) or a rank-1
    /// tile (the place of each). Elements whose mask is false are 0 and not touched.
    Load {
        /// The view; its rank is the tile's.
        view: View,
        /// One index an axis, `i32`.
        index: Vec<Value>,
        /// `b1`, broadcast to the tile's shape.
        mask: Option<Value>,
        /// The tile's shape.
        shape: Shape,
    },
    /// Stores a tile; indices and mask as for a load.
    Store {
        /// The view; its rank is the tile's.
        view: View,
        /// One index an axis.
        index: Vec<Value>,
        /// The tile.
        value: Value,
        /// `b1`, broadcast to the tile's shape.
        mask: Option<Value>,
    },
    /// Reads a part of one quantised block for each of several rows: result [R, n]. The first index is a scalar
    /// (consecutive rows) or a tile [R]; the last one, the block, is a scalar.
    LoadBlock {
        /// A view of rank 2 with quantised content.
        view: View,
        /// Row and block.
        index: [Value; 2],
        /// What to read.
        part: BlockPart,
        /// The type of the result.
        ty: Type,
    },
    /// A counted loop: `for i in lower..upper by step`, carrying values. The body's parameters are the counter and the
    /// carried values; its last instruction yields their next values.
    For {
        /// Lower bound, upper bound, step: scalar `i32`; the step is positive.
        bounds: [Value; 3],
        /// Initial carried values.
        inits: Vec<Value>,
        /// The body.
        body: Block,
    },
    /// Ends a loop's body.
    Yield {
        /// The next carried values.
        args: Vec<Value>,
    },
}

impl Op {
    /// The mnemonic in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Const { .. } => "const",
            Op::Iota { .. } => "iota",
            Op::Unary { op, .. } => op.name(),
            Op::Binary { op, .. } => op.name(),
            Op::Cmp { op, .. } => op.name(),
            Op::Select { .. } => "select",
            Op::Fma { .. } => "fma",
            Op::Convert { .. } => "convert",
            Op::Bitcast { .. } => "bitcast",
            Op::Broadcast { .. } => "broadcast",
            Op::Reshape { .. } => "reshape",
            Op::Concat { .. } => "concat",
            Op::Slice { .. } => "slice",
            Op::Repeat { .. } => "repeat",
            Op::Reduce { op: ReduceOp::Sum, .. } => "reduce_sum",
            Op::Reduce { op: ReduceOp::Max, .. } => "reduce_max",
            Op::Reduce { op: ReduceOp::Min, .. } => "reduce_min",
            Op::Dot { .. } => "dot",
            Op::Dot4 { .. } => "dot4",
            Op::Load { .. } => "load",
            Op::Store { .. } => "store",
            Op::LoadBlock { part, .. } => match part {
                BlockPart::Codes(_) => "block_codes",
                BlockPart::Scales => "block_scales",
                BlockPart::Offsets => "block_offsets",
                BlockPart::Values(_) => "block_values",
                BlockPart::Raw(_) => "block_raw",
            },
            Op::For { .. } => "for",
            Op::Yield { .. } => "yield",
        }
    }

    /// Calls `f` with each value operand, in textual order.
    pub fn for_each_operand(&self, mut f: impl FnMut(Value)) {
        self.clone().map_operands(|v| {
            f(v);
            v
        });
    }

    /// Replaces each value operand by what `f` returns for it.
    pub fn map_operands(&mut self, mut f: impl FnMut(Value) -> Value) {
        match self {
            Op::Const { .. } | Op::Iota { .. } => {}
            Op::Unary { arg, .. }
            | Op::Convert { arg, .. }
            | Op::Bitcast { arg, .. }
            | Op::Broadcast { arg, .. }
            | Op::Reshape { arg, .. }
            | Op::Slice { arg, .. }
            | Op::Repeat { arg, .. }
            | Op::Reduce { arg, .. } => *arg = f(*arg),
            Op::Binary { args, .. } | Op::Cmp { args, .. } | Op::Concat { args, .. } => {
                args.iter_mut().for_each(|v| *v = f(*v))
            }
            Op::Select { args } | Op::Fma { args } | Op::Dot { args } | Op::Dot4 { args } => {
                args.iter_mut().for_each(|v| *v = f(*v))
            }
            Op::Load { index, mask, .. } => {
                index.iter_mut().chain(mask.iter_mut()).for_each(|v| *v = f(*v));
            }
            Op::Store { index, value, mask, .. } => {
                index.iter_mut().chain([value]).chain(mask.iter_mut()).for_each(|v| *v = f(*v));
            }
            Op::LoadBlock { index, .. } => index.iter_mut().for_each(|v| *v = f(*v)),
            Op::For { bounds, inits, .. } => {
                bounds.iter_mut().chain(inits.iter_mut()).for_each(|v| *v = f(*v));
            }
            Op::Yield { args } => args.iter_mut().for_each(|v| *v = f(*v)),
        }
    }

    /// Whether the operation does anything beside defining its results, so that it must stay even if they are unused.
    pub fn has_effect(&self) -> bool {
        matches!(self, Op::Store { .. } | Op::For { .. } | Op::Yield { .. })
    }
}

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
                    (f.code_elem(), crate::quant::CHUNK)
                }
                BlockPart::Values(c) => {
                    want(*c < f.chunks(), format!("{} has {} chunks, not chunk {c}", f.name, f.chunks()))?;
                    (Elem::F32, crate::quant::CHUNK)
                }
                BlockPart::Scales | BlockPart::Offsets => (Elem::F32, f.groups()),
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
