//! Where the elements of a tile are: in which register of which lane of which wave.
//!
//! An axis of extent `hi * 2^n` has n bits that may lie anywhere, and a factor `hi` that always counts registers. Each
//! bit is a register's, a lane's or a wave's. Lane and wave bits that no axis uses replicate the tile. With that every
//! fragment layout of the matrix units is a layout, and so is what coalesced loads give.

use hrx_ir::tile::Shape;
use std::fmt;

/// Where one bit of an index lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Place {
    /// It tells registers apart.
    Reg,
    /// It is this bit of the lane's number.
    Lane(u8),
    /// It is this bit of the wave's number.
    Wave(u8),
}

/// The places of one axis.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    /// The factor of the extent above the bits.
    pub hi: u32,
    /// The bits, lowest first.
    pub bits: Vec<Place>,
}

impl Axis {
    /// The number of bits of an extent's power-of-two part.
    pub fn bits_of(extent: u32) -> usize {
        extent.trailing_zeros() as usize
    }

    /// All in registers.
    pub fn registers(extent: u32) -> Axis {
        let n = Axis::bits_of(extent);
        Axis { hi: extent >> n, bits: vec![Place::Reg; n] }
    }

    /// The axis's extent.
    pub fn extent(&self) -> u32 {
        self.hi << self.bits.len()
    }

    /// The index of each register of the axis, lane bits being zero: rising.
    fn register_indices(&self) -> Vec<u32> {
        let mut out = vec![0];
        for (i, place) in self.bits.iter().enumerate() {
            if *place == Place::Reg {
                let upper: Vec<u32> = out.iter().map(|x| x | 1 << i).collect();
                out.extend(upper);
            }
        }
        let low = out;
        (0..self.hi).flat_map(|h| low.iter().map(move |x| x + (h << self.bits.len()))).collect()
    }

    /// The number of registers.
    pub fn registers_len(&self) -> u32 {
        self.hi << self.bits.iter().filter(|p| **p == Place::Reg).count()
    }

    /// The number of the register that holds an index, whatever its lane and wave.
    fn register_of(&self, index: u32) -> u32 {
        let mut n = index >> self.bits.len();
        for (i, place) in self.bits.iter().enumerate().rev() {
            if *place == Place::Reg {
                n = n << 1 | (index >> i & 1);
            }
        }
        n
    }

    /// How many of the lowest bits are registers'.
    pub fn low_registers(&self) -> u32 {
        self.bits.iter().take_while(|p| **p == Place::Reg).count() as u32
    }
}

/// Where a tile's elements are.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// The axes, outermost first.
    pub axes: Vec<Axis>,
}

impl Layout {
    /// Everything in registers, the same in all lanes.
    pub fn registers(shape: &Shape) -> Layout {
        Layout { axes: shape.dims().iter().map(|&d| Axis::registers(d)).collect() }
    }

    /// A layout for reading memory whose last axis is contiguous: `vector` neighbours in registers, then lanes, waves,
    /// and what is left in registers.
    pub fn blocked(shape: &Shape, vector: u32, lane_bits: u8, wave_bits: u8) -> Layout {
        let mut layout = Layout::registers(shape);
        let (mut vector, mut lane, mut wave) = (vector.trailing_zeros(), 0, 0);
        for axis in layout.axes.iter_mut().rev() {
            for place in &mut axis.bits {
                if vector > 0 {
                    vector -= 1;
                } else if lane < lane_bits {
                    *place = Place::Lane(lane);
                    lane += 1;
                } else if wave < wave_bits {
                    *place = Place::Wave(wave);
                    wave += 1;
                }
            }
            // Only the last axis is contiguous.
            vector = 0;
        }
        layout
    }

    /// The number of elements in each lane.
    pub fn registers_len(&self) -> u32 {
        self.axes.iter().map(Axis::registers_len).product()
    }

    /// The shape of the tile.
    pub fn shape(&self) -> Shape {
        Shape::new(&self.axes.iter().map(Axis::extent).collect::<Vec<_>>())
    }

    /// The indices of each register, with lane and wave bits zero, in the order of registers.
    pub fn coords(&self) -> Vec<Vec<u32>> {
        let mut out = vec![Vec::new()];
        for axis in &self.axes {
            let indices = axis.register_indices();
            out = out.iter().flat_map(|c: &Vec<u32>| indices.iter().map(|&i| [&c[..], &[i]].concat())).collect();
        }
        out
    }

    /// The number of the register that holds these indices, whatever their lane and wave.
    pub fn register_of(&self, index: &[u32]) -> usize {
        self.axes.iter().zip(index).fold(0, |n, (a, &i)| n * a.registers_len() + a.register_of(i)) as usize
    }

    /// Whether each lane holds the whole tile.
    pub fn is_replicated(&self) -> bool {
        self.places().all(|(_, _, p)| p == Place::Reg)
    }

    /// Axis, bit and place of each bit.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize, Place)> + '_ {
        self.axes.iter().enumerate().flat_map(|(a, axis)| axis.bits.iter().enumerate().map(move |(b, &p)| (a, b, p)))
    }

    /// The lane bits in use.
    pub fn lanes(&self) -> u32 {
        self.places().fold(0, |m, (_, _, p)| if let Place::Lane(k) = p { m | 1 << k } else { m })
    }

    /// The wave bits in use.
    pub fn waves(&self) -> u32 {
        self.places().fold(0, |m, (_, _, p)| if let Place::Wave(k) = p { m | 1 << k } else { m })
    }

    /// Neighbours of the last axis that follow one another in registers: a power of two.
    pub fn vector(&self) -> u32 {
        self.axes.last().map_or(1, |a| 1 << a.low_registers())
    }

    /// The layout with an axis replaced.
    pub fn with_axis(&self, axis: usize, by: Axis) -> Layout {
        let mut out = self.clone();
        out.axes[axis] = by;
        out
    }

    /// The layout of the tile with its last two axes exchanged.
    pub fn transposed(&self) -> Layout {
        let mut out = self.clone();
        let rank = out.axes.len();
        out.axes.swap(rank - 2, rank - 1);
        out
    }

    /// The layout of the tile with an axis's extent set to 1: what is broadcast along it.
    pub fn without_axis(&self, axis: usize) -> Layout {
        self.with_axis(axis, Axis::registers(1))
    }

    /// The layout of the same elements under another shape; none where a bit would be cut through.
    pub fn reshaped(&self, to: &Shape) -> Option<Layout> {
        let mut out = Layout::registers(to);
        // Row-major strides: bit b of an axis moves an element by stride << b.
        let strides = |dims: &[u32]| -> Vec<u64> {
            let mut s = vec![1u64; dims.len()];
            for i in (1..dims.len()).rev() {
                s[i - 1] = s[i] * u64::from(dims[i]);
            }
            s
        };
        let from_dims: Vec<u32> = self.axes.iter().map(Axis::extent).collect();
        let (from, into) = (strides(&from_dims), strides(to.dims()));
        for (a, b, place) in self.places() {
            if place == Place::Reg {
                continue;
            }
            let step = from[a] << b;
            let axis = (0..to.rank()).find(|&t| {
                let n = out.axes[t].bits.len();
                (0..n).any(|bit| into[t] << bit == step)
            })?;
            let bit = (step / into[axis]).trailing_zeros() as usize;
            // The bit has to be a bit there, not a part of a sum with a carry: both sides count the same power of two of
            // a run whose length divides the axes' extents.
            out.axes[axis].bits[bit] = place;
        }
        out.agrees_with(self).then_some(out)
    }

    /// Whether register r of one layout holds the same flat elements as some register of the other: checked on all
    /// places of lanes and waves by the sums of their steps.
    fn agrees_with(&self, other: &Layout) -> bool {
        let flat = |l: &Layout, index: &[u32]| -> u64 {
            l.axes.iter().zip(index).fold(0, |n, (a, &i)| n * u64::from(a.extent()) + u64::from(i))
        };
        let set = |l: &Layout| -> std::collections::BTreeSet<u64> { l.coords().iter().map(|c| flat(l, c)).collect() };
        set(self) == set(other)
    }
}

impl fmt::Display for Layout {
    /// As `[R R L0 L1 | L2 W0]`: an axis's bits lowest first, `x3` for a factor of registers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (n, axis) in self.axes.iter().enumerate() {
            f.write_str(if n > 0 { " | " } else { "" })?;
            let mut parts: Vec<String> = Vec::new();
            for p in &axis.bits {
                parts.push(match p {
                    Place::Reg => "R".into(),
                    Place::Lane(k) => format!("L{k}"),
                    Place::Wave(k) => format!("W{k}"),
                });
            }
            if axis.hi != 1 {
                parts.push(format!("x{}", axis.hi));
            }
            f.write_str(if parts.is_empty() { "1" } else { "" })?;
            f.write_str(&parts.join(" "))?;
        }
        f.write_str("]")
    }
}
