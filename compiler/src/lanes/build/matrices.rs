//! Loads of fragments from LDS, where lanes load matrices of 8 rows of 16 bytes together.
//!
//! A fragment whose words are spread so that two bits of a lane's number choose the word of 16 bytes and three the row is
//! made of such matrices, one for each of its registers. Up to four are loaded at once, where the upper bits of the lane's
//! number move a row's address from one matrix to the next by the same steps for all.

use super::memory::power_of_two;
use super::tile::{Tile, natural_pack};
use super::{Builder, Result};
use crate::lanes::ir::{Address, Space};
use crate::lanes::layout::{Layout, Place};
use hrx_ir::tile::{Extent, Type, Value, View};

/// Bytes of a matrix's row, which is aligned to them.
const ROW: u32 = 16;

/// Where the lane's number says a word of a row, and where a row.
const WORD_BITS: [Place; 2] = [Place::Lane(0), Place::Lane(1)];
const ROW_BITS: [Place; 3] = [Place::Lane(2), Place::Lane(3), Place::Lane(4)];

impl Builder<'_> {
    /// Loads a tile from a local view as matrices; none where its layout is not made of them.
    pub(super) fn load_matrices(
        &mut self,
        view: View,
        index: &[Value],
        ty: Type,
        layout: &Layout,
    ) -> Result<Option<Tile>> {
        let unit = ty.elem.bytes();
        let pack = natural_pack(ty.elem);
        if !self.facts.matrix_loads || unit * pack != 4 || !is_of_matrices(layout, pack) {
            return Ok(None);
        }
        let strides = self.k.views[view].strides.clone();
        let mut bytes = Vec::with_capacity(strides.len());
        for (stride, &i) in strides.iter().zip(index) {
            let Extent::Const(n) = *stride else { return Ok(None) };
            let step = n.wrapping_mul(unit);
            if self.k.ty(i).shape.rank() > 0
                || power_of_two(step).saturating_mul(power_of_two(self.multiple_of(i))) < ROW
            {
                return Ok(None);
            }
            bytes.push(step);
        }
        let rank = bytes.len();
        if bytes[rank - 1] != unit || !bytes[rank - 2].is_multiple_of(ROW) {
            return Ok(None);
        }
        let offsets = self.offsets(&strides, unit, index, layout)?;
        let base = self.locals[&view];
        let places: Vec<u32> =
            offsets.registers.iter().step_by(pack as usize).map(|&(_, imm)| imm.wrapping_add(base)).collect();
        // What waves add, and which row of a matrix a lane points to.
        let waves = layout.places().filter(|(_, _, p)| matches!(p, Place::Wave(_)));
        let mut steps: Vec<(Place, u32)> =
            waves.map(|(axis, bit, p)| (p, bytes[axis].wrapping_shl(bit as u32))).collect();
        steps.extend((0..3).map(|bit| (Place::Lane(bit), bytes[rank - 2] << bit)));
        let mut words = Vec::with_capacity(places.len());
        let mut rest = &places[..];
        while !rest.is_empty() {
            let count = together(rest);
            let (group, after) = rest.split_at(count);
            rest = after;
            let mut steps = steps.clone();
            for (bit, &at) in [1, 2].iter().enumerate().take_while(|&(_, &at)| at < count) {
                steps.push((Place::Lane(3 + bit as u8), group[at].wrapping_sub(group[0])));
            }
            let lane = self.e.lane_sum(&steps);
            let at = Address { space: Space::Lds, uniform: offsets.uniform, lane, imm: group[0], align: ROW };
            words.extend(self.e.load_matrices(at, count as u32));
        }
        Ok(Some(self.loaded(ty.elem, layout.clone(), pack, words)))
    }
}

/// Whether words of `pack` elements lie in lanes as those of matrices do.
fn is_of_matrices(layout: &Layout, pack: u32) -> bool {
    let [outer @ .., rows, columns] = &layout.axes[..] else { return false };
    let first = pack.trailing_zeros() as usize;
    let word = columns.bits.get(first..first + 2) == Some(&WORD_BITS);
    let in_word = columns.low_registers() as usize == first;
    let row = rows.bits.get(..3) == Some(&ROW_BITS);
    let more = [&columns.bits[(first + 2).min(columns.bits.len())..], &rows.bits[3.min(rows.bits.len())..]];
    let others = more.into_iter().chain(outer.iter().map(|a| &a.bits[..])).flatten();
    word && in_word && row && others.copied().all(|p| !matches!(p, Place::Lane(_)))
}

/// How many of the next matrices are loaded at once: two bits of the lane's number have to tell their places apart.
fn together(places: &[u32]) -> usize {
    match *places {
        [a, b, c, d, ..] if d.wrapping_sub(a) == b.wrapping_sub(a).wrapping_add(c.wrapping_sub(a)) => 4,
        [_, _, ..] => 2,
        _ => 1,
    }
}
