//! The operations of tile IR. The rule for each one's result type is in [`typing`](super::typing).

use super::kernel::{Block, Value, View};
use super::types::{Elem, Shape, Type};
use crate::quant::{CHUNK, Format, Table};

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
    /// Which entries of the format's table the codes of a chunk are, `u8`: of a format whose codes are looked up byte by
    /// byte in a table ([`Format::indices`]).
    Indices(u32),
    /// The integer of each group that its scale is the block's number times, `u8` or `i8`: of a format with such scales
    /// ([`Format::factors`]).
    Factors,
    /// As `Factors`, of the minima.
    MinFactors,
    /// Raw fields from this byte of the block on. What the other parts are expanded to.
    Raw(u32),
}

named_ops! {
    /// What a read of a run of chunks gives. For each the part of [`BlockPart`] says what its numbers are.
    RunPart {
        /// Integer codes, one an element.
        Codes = "run_codes",
        /// The scale of each group, `f32`.
        Scales = "run_scales",
        /// The offset of each group, `f32`.
        Offsets = "run_offsets",
        /// The values, one an element, `f32`.
        Values = "run_values",
    }
}

impl RunPart {
    /// The element type and the numbers a chunk gives, of blocks of a format.
    pub fn of_chunk(self, format: &Format) -> (Elem, u32) {
        match self {
            RunPart::Codes => (format.code_elem(), CHUNK),
            RunPart::Values => (Elem::F32, CHUNK),
            RunPart::Scales | RunPart::Offsets => (Elem::F32, CHUNK / format.group),
        }
    }
}

/// The most chunks that one read of a run gives.
pub const MAX_RUN: u32 = 64;

/// One operation. Operand shapes and the result type are checked by [`result_type`](super::result_type).
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
    /// The last two axes exchanged.
    Transpose {
        /// The operand, of rank 2 or more.
        arg: Value,
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
    /// Entries of a table, `u8`, one behind another along the last axis for each index, which is `u8` or `u16`. An index
    /// beyond the table is an error of the kernel: the interpreter stops, compiled code takes it modulo the entries.
    Lookup {
        /// The table.
        table: &'static Table,
        /// The indices.
        arg: Value,
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
    /// [.., 4n], `c` of `i32` [.., n]. `b` is `i8`; `a` may be `u8` or `i8`. `b` holds no -128: its sign can be changed then, which some targets need.
    Dot4 {
        /// a, b, c.
        args: [Value; 3],
    },
    /// Matrix product with accumulation for a target's matrix unit: `c + a bᵀ` for `a [M, K]`, `b [N, K]`, `c [M, N]`,
    /// all extents powers of two from 16 on; `f16` or `bf16` factors with an `f32` accumulator, or `i8` with `i32`,
    /// which wraps. In which order and with which roundings in between products of floats are summed is the target's
    /// affair; the host and the interpreter add in rising k with one fused multiply-add each.
    Mma {
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
    /// Reads a part of one quantised block for each of several rows: result `[R, n]`. The first index is a scalar
    /// (consecutive rows) or a tile `[R]`; the last one, the block, is a scalar.
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
    /// Reads C consecutive chunks of 32 elements of each of several rows, across the borders of blocks. The first index
    /// is the row as for a block read; the second one, a scalar, is the first chunk's number from the row's start. It
    /// is a multiple of C, or of the chunks of a block where those are fewer, and not negative: anything else is an
    /// error of the kernel, at which the interpreter stops. Chunks from the row's end on read as zero in every part; the
    /// rows themselves are inside the view and have blocks.
    LoadRun {
        /// A view of rank 2 with quantised content.
        view: View,
        /// Row and first chunk.
        index: [Value; 2],
        /// What to read.
        part: RunPart,
        /// The type of the result, [R, C times what a chunk gives]; C is a power of two up to [`MAX_RUN`].
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
            Op::Transpose { .. } => "transpose",
            Op::Concat { .. } => "concat",
            Op::Slice { .. } => "slice",
            Op::Repeat { .. } => "repeat",
            Op::Lookup { .. } => "lookup",
            Op::Reduce { op: ReduceOp::Sum, .. } => "reduce_sum",
            Op::Reduce { op: ReduceOp::Max, .. } => "reduce_max",
            Op::Reduce { op: ReduceOp::Min, .. } => "reduce_min",
            Op::Dot { .. } => "dot",
            Op::Dot4 { .. } => "dot4",
            Op::Mma { .. } => "mma",
            Op::Load { .. } => "load",
            Op::Store { .. } => "store",
            Op::LoadBlock { part, .. } => match part {
                BlockPart::Codes(_) => "block_codes",
                BlockPart::Scales => "block_scales",
                BlockPart::Offsets => "block_offsets",
                BlockPart::Values(_) => "block_values",
                BlockPart::Indices(_) => "block_indices",
                BlockPart::Factors => "block_factors",
                BlockPart::MinFactors => "block_min_factors",
                BlockPart::Raw(_) => "block_raw",
            },
            Op::LoadRun { part, .. } => part.name(),
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
            | Op::Transpose { arg }
            | Op::Slice { arg, .. }
            | Op::Repeat { arg, .. }
            | Op::Lookup { arg, .. }
            | Op::Reduce { arg, .. } => *arg = f(*arg),
            Op::Binary { args, .. } | Op::Cmp { args, .. } | Op::Concat { args, .. } => {
                args.iter_mut().for_each(|v| *v = f(*v))
            }
            Op::Select { args } | Op::Fma { args } | Op::Dot { args } | Op::Dot4 { args } | Op::Mma { args } => {
                args.iter_mut().for_each(|v| *v = f(*v))
            }
            Op::Load { index, mask, .. } => {
                index.iter_mut().chain(mask.iter_mut()).for_each(|v| *v = f(*v));
            }
            Op::Store { index, value, mask, .. } => {
                index.iter_mut().chain([value]).chain(mask.iter_mut()).for_each(|v| *v = f(*v));
            }
            Op::LoadBlock { index, .. } | Op::LoadRun { index, .. } => index.iter_mut().for_each(|v| *v = f(*v)),
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
