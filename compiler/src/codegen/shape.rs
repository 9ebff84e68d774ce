//! Operations that move elements: broadcast, reshape, concat, slice, repeat, reduce.

use super::reg::{Cast, FloatOp, IntOp};
use super::{Codegen, Reg, Result, Tile};
use hrx_ir::tile::{Elem, ReduceOp, Shape, Value};
use inkwell::types::BasicTypeEnum;

/// For each register of a tile of shape `to`, the register of a tile of shape `from` that is broadcast to it.
fn broadcast_rows(from: Shape, to: Shape) -> Vec<usize> {
    let lead = to.rank().saturating_sub(1);
    (0..to.rows() as usize)
        .map(|row| {
            let (mut rest, mut at, mut step) = (row, 0, 1);
            for axis in (0..lead).rev() {
                let n = to.dims()[axis] as usize;
                let i = rest % n;
                rest /= n;
                let m = from.dims().get(axis).copied().unwrap_or(1) as usize;
                at += if m == 1 { 0 } else { i } * step;
                step *= m;
            }
            at
        })
        .collect()
}

impl<'c> Codegen<'c, '_> {
    pub(crate) fn broadcast(&self, arg: Value, shape: Shape) -> Result<Tile<'c>> {
        let from = self.k.ty(arg).shape;
        let spread = shape.last() / from.last();
        // Each source register is widened once, however many rows it goes to.
        let wide: Tile = if spread == 1 || from.last() != 1 {
            self.tile(arg)
        } else {
            self.map(arg, |g, x| g.splat(x, shape.last()))?
        };
        Ok(broadcast_rows(from, shape).into_iter().map(|r| wide[r]).collect())
    }

    /// The mask of a load or store brought to a tile's shape, but with its last axis left at 1 where it is.
    pub(crate) fn broadcast_mask(&self, mask: Value, shape: Shape) -> Tile<'c> {
        let tile = self.tile(mask);
        broadcast_rows(self.k.ty(mask).shape, shape).into_iter().map(|r| tile[r]).collect()
    }

    /// Registers behind one another as one.
    pub(crate) fn join(&self, parts: &[Reg<'c>]) -> Result<Reg<'c>> {
        if let [first, _, ..] = parts
            && first.lanes() > 1
            && parts.iter().all(|p| p.value() == first.value())
            && let Some(repeated) = self.repeat_whole(*first, parts.len() as u32)?
        {
            return Ok(repeated);
        }
        match parts {
            [one] => return Ok(*one),
            [a, b] if a.lanes() == b.lanes() && a.lanes() > 1 => {
                let lanes: Vec<u32> = (0..2 * a.lanes()).collect();
                return self.shuffle(*a, *b, &lanes);
            }
            _ => {}
        }
        if parts.len().is_power_of_two() && parts.iter().all(|p| p.lanes() == parts[0].lanes() && p.lanes() > 1) {
            let halves: Vec<Reg<'c>> = parts.chunks(2).map(|p| self.join(p)).collect::<Result<_>>()?;
            return self.join(&halves);
        }
        let n: u32 = parts.iter().map(|p| p.lanes()).sum();
        let mut scalars = Vec::with_capacity(n as usize);
        for p in parts {
            for lane in 0..p.lanes() {
                scalars.push(self.extract(*p, lane)?);
            }
        }
        self.gather(&scalars)
    }

    /// A register so many times behind itself, where it is as long as an integer: as such it is broadcast.
    fn repeat_whole(&self, x: Reg<'c>, times: u32) -> Result<Option<Reg<'c>>> {
        let BasicTypeEnum::IntType(element) = x.vector().get_type().get_element_type() else { return Ok(None) };
        let whole = match element.get_bit_width() * x.lanes() {
            16 => self.cx.i16_type(),
            32 => self.cx.i32_type(),
            64 => self.cx.i64_type(),
            _ => return Ok(None),
        };
        let one = self.bitcast(x, whole.into())?;
        let all = self.splat(one, times)?;
        Ok(Some(self.bitcast(all, element.vec_type(x.lanes() * times).into())?))
    }

    /// A vector of scalars (the scalar itself where there is one).
    pub(crate) fn gather(&self, scalars: &[Reg<'c>]) -> Result<Reg<'c>> {
        if let [one] = scalars {
            return Ok(*one);
        }
        let n = scalars.len() as u32;
        let mut v: Reg<'c> = match scalars[0].ty() {
            inkwell::types::BasicTypeEnum::IntType(t) => t.vec_type(n).get_undef().into(),
            inkwell::types::BasicTypeEnum::FloatType(t) => t.vec_type(n).get_undef().into(),
            _ => unreachable!("elements are integers or floats"),
        };
        for (i, s) in scalars.iter().enumerate() {
            v = self.insert(v, i as u32, *s)?;
        }
        Ok(v)
    }

    pub(crate) fn reshape(&self, arg: Value, shape: Shape) -> Result<Tile<'c>> {
        let tile = self.tile(arg);
        let (from, to) = (self.k.ty(arg).shape.last(), shape.last());
        if from == to {
            return Ok(tile);
        }
        if from % to == 0 {
            let mut out = Tile::new();
            for reg in tile {
                for part in 0..from / to {
                    let lanes: Vec<u32> = (part * to..(part + 1) * to).collect();
                    out.push(self.pick(reg, &lanes)?);
                }
            }
            return Ok(out);
        }
        if to % from == 0 {
            return tile.chunks((to / from) as usize).map(|parts| self.join(parts)).collect();
        }
        let mut scalars = Vec::new();
        for reg in tile {
            for lane in 0..from {
                scalars.push(self.extract(reg, lane)?);
            }
        }
        scalars.chunks(to as usize).map(|s| self.gather(s)).collect()
    }

    /// Element by element: no kernel for vectors has one.
    pub(crate) fn transpose(&self, arg: Value) -> Result<Tile<'c>> {
        let shape = self.k.ty(arg).shape;
        let rows = shape.dims()[shape.rank() - 2] as usize;
        let mut out = Tile::new();
        for matrix in self.tile(arg).chunks(rows) {
            for column in 0..shape.last() {
                let elements = matrix.iter().map(|&row| self.extract(row, column)).collect::<Result<Vec<_>>>()?;
                out.push(self.gather(&elements)?);
            }
        }
        Ok(out)
    }

    pub(crate) fn concat(&self, [a, b]: [Value; 2], axis: usize) -> Result<Tile<'c>> {
        let (sa, sb) = (self.k.ty(a).shape, self.k.ty(b).shape);
        let (a, b) = (self.tile(a), self.tile(b));
        if axis + 1 == sa.rank() {
            return a.into_iter().zip(b).map(|(x, y)| self.join(&[x, y])).collect();
        }
        // Registers below the axis: each step of it moves this many.
        let inner: usize = sa.dims()[axis + 1..sa.rank() - 1].iter().map(|&d| d as usize).product();
        let (na, nb) = (sa.dims()[axis] as usize * inner, sb.dims()[axis] as usize * inner);
        Ok(a.chunks(na).zip(b.chunks(nb)).flat_map(|(x, y)| x.iter().chain(y).copied()).collect())
    }

    pub(crate) fn slice(&self, arg: Value, axis: usize, start: u32, len: u32) -> Result<Tile<'c>> {
        let shape = self.k.ty(arg).shape;
        if axis + 1 == shape.rank() {
            let lanes: Vec<u32> = (start..start + len).collect();
            return self.map(arg, |g, x| g.pick(x, &lanes));
        }
        let inner: usize = shape.dims()[axis + 1..shape.rank() - 1].iter().map(|&d| d as usize).product();
        let outer = shape.dims()[axis] as usize * inner;
        let part = start as usize * inner..(start + len) as usize * inner;
        Ok(self.tile(arg).chunks(outer).flat_map(|c| c[part.clone()].iter().copied()).collect())
    }

    pub(crate) fn repeat(&self, arg: Value, times: u32) -> Result<Tile<'c>> {
        let bytes = self.k.ty(arg).elem.is_int() && self.k.ty(arg).elem.bytes() == 1;
        self.map(arg, |g, x| {
            if bytes && [2, 4, 8].contains(&times) && x.lanes() * times == 64 {
                return g.repeat_bytes(x, times);
            }
            let lanes: Vec<u32> = (0..x.lanes() * times).map(|i| i / times).collect();
            g.pick(x, &lanes)
        })
    }

    /// Each byte so many times, by arithmetic: LLVM 22 never ends at a shuffle that does this for a register of 64 bytes
    /// (AVX-512) and is doubled afterwards.
    fn repeat_bytes(&self, x: Reg<'c>, times: u32) -> Result<Reg<'c>> {
        let wide = match times {
            2 => self.cx.i16_type(),
            4 => self.cx.i32_type(),
            _ => self.cx.i64_type(),
        };
        let wide = if x.lanes() == 1 { wide.into() } else { wide.vec_type(x.lanes()).into() };
        let mut all = self.cast(Cast::ZExt, x, wide)?;
        let mut done = 1;
        while done < times {
            let by = self.splat_int(i64::from(8 * done), wide);
            let moved = self.int_op(IntOp::Shl, all, by)?;
            all = self.int_op(IntOp::Or, all, moved)?;
            done *= 2;
        }
        self.bitcast(all, self.cx.i8_type().vec_type(64).into())
    }

    fn combine(&self, op: ReduceOp, elem: Elem, x: Reg<'c>, y: Reg<'c>) -> Result<Reg<'c>> {
        match op {
            ReduceOp::Sum if elem.is_float() => self.float_op(FloatOp::Add, x, y),
            ReduceOp::Sum => self.int_op(IntOp::Add, x, y),
            ReduceOp::Max => self.min_max(elem, true, x, y),
            ReduceOp::Min => self.min_max(elem, false, x, y),
        }
    }

    /// Halves the axis until one is left: the upper half, counted from the next power of two, onto the lower.
    pub(crate) fn reduce(&self, op: ReduceOp, arg: Value, axis: usize) -> Result<Tile<'c>> {
        let ty = self.k.ty(arg);
        if axis + 1 == ty.shape.rank() {
            return self.map(arg, |g, x| g.reduce_lanes(op, ty.elem, x));
        }
        let inner: usize = ty.shape.dims()[axis + 1..ty.shape.rank() - 1].iter().map(|&d| d as usize).product();
        let n = ty.shape.dims()[axis] as usize;
        let mut out = Tile::new();
        for group in self.tile(arg).chunks(n * inner) {
            let mut rows: Vec<Tile<'c>> = group.chunks(inner).map(|r| r.to_vec()).collect();
            while rows.len() > 1 {
                let half = rows.len().next_power_of_two() / 2;
                let upper = rows.split_off(half);
                for (low, high) in rows.iter_mut().zip(upper) {
                    for (x, y) in low.iter_mut().zip(high) {
                        *x = self.combine(op, ty.elem, *x, y)?;
                    }
                }
            }
            out.extend(rows.remove(0));
        }
        Ok(out)
    }

    fn reduce_lanes(&self, op: ReduceOp, elem: Elem, mut x: Reg<'c>) -> Result<Reg<'c>> {
        while x.lanes() > 1 {
            let n = x.lanes();
            let half = n.next_power_of_two() / 2;
            let upper: Vec<u32> = (half..n).collect();
            let high = self.pick(x, &upper)?;
            let paired = self.pick(x, &(0..n - half).collect::<Vec<_>>())?;
            let sum = self.combine(op, elem, paired, high)?;
            x = if n - half == half {
                sum
            } else {
                let alone = self.pick(x, &(n - half..half).collect::<Vec<_>>())?;
                self.join(&[sum, alone])?
            };
        }
        Ok(x)
    }
}
