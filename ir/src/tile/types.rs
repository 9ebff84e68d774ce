//! Element types, shapes and tile types.

use std::fmt;

/// What one element of a tile or view is. Integers carry their signedness, so operations need not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Elem {
    /// A truth value, the result of a comparison. Never stored in memory.
    B1,
    /// Signed 8 bit.
    I8,
    /// Unsigned 8 bit.
    U8,
    /// Signed 16 bit.
    I16,
    /// Unsigned 16 bit.
    U16,
    /// Signed 32 bit; scalars of this type are indices.
    I32,
    /// Unsigned 32 bit.
    U32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// IEEE binary32.
    F32,
}

impl Elem {
    /// All element types, in the order of their declaration.
    pub const ALL: [Elem; 10] =
        [Elem::B1, Elem::I8, Elem::U8, Elem::I16, Elem::U16, Elem::I32, Elem::U32, Elem::F16, Elem::BF16, Elem::F32];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Elem::B1 => "b1",
            Elem::I8 => "i8",
            Elem::U8 => "u8",
            Elem::I16 => "i16",
            Elem::U16 => "u16",
            Elem::I32 => "i32",
            Elem::U32 => "u32",
            Elem::F16 => "f16",
            Elem::BF16 => "bf16",
            Elem::F32 => "f32",
        }
    }

    /// The type of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Elem> {
        Elem::ALL.into_iter().find(|e| e.name() == name)
    }

    /// Bytes of one element in memory (a `b1` counts as one byte, although it is never stored).
    pub fn bytes(self) -> u32 {
        match self {
            Elem::B1 | Elem::I8 | Elem::U8 => 1,
            Elem::I16 | Elem::U16 | Elem::F16 | Elem::BF16 => 2,
            Elem::I32 | Elem::U32 | Elem::F32 => 4,
        }
    }

    /// Whether this is one of the floating-point types.
    pub fn is_float(self) -> bool {
        matches!(self, Elem::F16 | Elem::BF16 | Elem::F32)
    }

    /// Whether this is an integer type (`b1` is not).
    pub fn is_int(self) -> bool {
        !self.is_float() && self != Elem::B1
    }

    /// Whether this is a signed integer type.
    pub fn is_signed(self) -> bool {
        matches!(self, Elem::I8 | Elem::I16 | Elem::I32)
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The most axes a tile or view may have.
pub const MAX_RANK: usize = 4;

/// The most elements one tile may have: tiles live in registers, so this is generous.
pub const MAX_TILE: u64 = 1 << 16;

/// The static extents of a tile, outermost axis first. Rank 0 is a scalar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    dims: [u32; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// The shape of a scalar.
    pub const SCALAR: Shape = Shape { dims: [1; MAX_RANK], rank: 0 };

    /// A shape of these extents.
    ///
    /// # Panics
    /// If there are more than [`MAX_RANK`]; use [`Shape::try_new`] for extents from outside.
    pub fn new(dims: &[u32]) -> Shape {
        Shape::try_new(dims).expect("a tile has at most 4 axes")
    }

    /// A shape of these extents, or none if there are more than [`MAX_RANK`].
    pub fn try_new(dims: &[u32]) -> Option<Shape> {
        if dims.len() > MAX_RANK {
            return None;
        }
        let mut d = [1; MAX_RANK];
        d[..dims.len()].copy_from_slice(dims);
        Some(Shape { dims: d, rank: dims.len() as u8 })
    }

    /// The extents, outermost first.
    pub fn dims(&self) -> &[u32] {
        &self.dims[..self.rank as usize]
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The number of elements (1 for a scalar).
    pub fn elements(&self) -> u64 {
        self.dims().iter().map(|&d| d as u64).product()
    }

    /// The extent of the last axis (1 for a scalar): the one that lies contiguous in registers.
    pub fn last(&self) -> u32 {
        self.dims().last().copied().unwrap_or(1)
    }

    /// The number of rows: the product of all extents but the last.
    pub fn rows(&self) -> u64 {
        self.elements() / self.last().max(1) as u64
    }

    /// The same shape with the extent of one axis replaced.
    pub fn with_dim(mut self, axis: usize, extent: u32) -> Shape {
        self.dims[axis] = extent;
        self
    }

    /// The same shape with the last two axes exchanged; it has two.
    pub fn transposed(mut self) -> Shape {
        let rank = self.rank();
        self.dims.swap(rank - 2, rank - 1);
        self
    }

    /// The shape both broadcast to: ranks equal, each pair of extents equal or one of them 1. A scalar goes with all.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        if self.rank == 0 {
            return Some(*other);
        }
        if other.rank == 0 {
            return Some(*self);
        }
        if self.rank != other.rank {
            return None;
        }
        let mut out = *self;
        for a in 0..self.rank() {
            out.dims[a] = match (self.dims[a], other.dims[a]) {
                (x, y) if x == y => x,
                (1, y) => y,
                (x, 1) => x,
                _ => return None,
            };
        }
        Some(out)
    }

    /// Whether a tile of this shape can be broadcast to `to`.
    pub fn broadcasts_to(&self, to: &Shape) -> bool {
        self.broadcast(to) == Some(*to)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rank == 0 {
            return Ok(());
        }
        f.write_str("[")?;
        for (i, d) in self.dims().iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

/// The type of a value: a tile of `elem` with a static shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    /// What each element is.
    pub elem: Elem,
    /// The extents.
    pub shape: Shape,
}

impl Type {
    /// A tile of `elem` with these extents.
    pub fn new(elem: Elem, dims: &[u32]) -> Type {
        Type { elem, shape: Shape::new(dims) }
    }

    /// A scalar of `elem`.
    pub fn scalar(elem: Elem) -> Type {
        Type { elem, shape: Shape::SCALAR }
    }

    /// The type of an index: a scalar `i32`.
    pub fn index() -> Type {
        Type::scalar(Elem::I32)
    }

    /// The same shape with another element type.
    pub fn with_elem(self, elem: Elem) -> Type {
        Type { elem, ..self }
    }

    /// The same element type with another shape.
    pub fn with_shape(self, shape: Shape) -> Type {
        Type { shape, ..self }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.elem, self.shape)
    }
}
