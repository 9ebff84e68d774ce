//! Loads of fragments from LDS, where lanes load matrices of 8 rows of 16 bytes together.
//!
//! A fragment whose words are spread so that two bits of a lane's number choose the word of 16 bytes and three the row is
//! made of such matrices, one for each of its registers. Up to four are loaded at once, where the upper bits of the lane's
//! number move a row's address from one matrix to the next by the same steps for all.
//!
//! A tile that is loaded only to be transposed is loaded as transposed matrices, whose rows lie along its other axis.

use super::memory::power_of_two;
use super::tile::{Data, Tile, natural_pack};
use super::{Builder, Result};
use crate::lanes::ir::{Address, Space};
use crate::lanes::layout::{Layout, Place};
use hrx_ir::tile::{Access, Elem, Extent, Kernel, Op, Value, ValueDef, View};
use std::collections::HashMap;

/// Bytes of a matrix's row, which is aligned to them.
const ROW: u32 = 16;

/// Where the lane's number says a word of a row, and where a row.
const WORD_BITS: [Place; 2] = [Place::Lane(0), Place::Lane(1)];
const ROW_BITS: [Place; 3] = [Place::Lane(2), Place::Lane(3), Place::Lane(4)];

impl Builder<'_> {
    /// Makes, instead of a tile that is loaded only to be transposed, the transposed one; whether that could be done.
    pub(super) fn load_transposed(&mut self, view: View, index: &[Value], loaded: Value) -> Result<bool> {
        let Some(&to) = self.transposed.get(&loaded) else { return Ok(false) };
        let (ty, layout) = (self.k.ty(loaded), self.layout_of(to));
        self.before_load(view, index, &ty.shape);
        let Some(tile) = self.load_matrices(view, index, ty.elem, &layout, true)? else { return Ok(false) };
        self.values.insert(to, Data::Tile(tile));
        Ok(true)
    }

    /// Loads a tile from a local view as matrices; none where its layout is not made of them. `layout` is that of the
    /// result, which is the tile `transposed` or as it is.
    pub(super) fn load_matrices(
        &mut self,
        view: View,
        index: &[Value],
        elem: Elem,
        layout: &Layout,
        transposed: bool,
    ) -> Result<Option<Tile>> {
        let unit = elem.bytes();
        let pack = natural_pack(elem);
        let rank = index.len();
        if !self.facts.matrix_loads || rank < 2 || unit * pack != 4 || !is_of_matrices(layout, pack) {
            return Ok(None);
        }
        let (mut strides, mut index) = (self.k.views[view].strides.clone(), index.to_vec());
        // The axis along which a matrix's rows lie, and that within one.
        let [along, within] = if transposed { [rank - 1, rank - 2] } else { [rank - 2, rank - 1] };
        if transposed {
            strides.swap(along, within);
            index.swap(along, within);
        }
        let mut bytes = Vec::with_capacity(strides.len());
        for (stride, &i) in strides.iter().zip(&index) {
            let Extent::Const(n) = *stride else { return Ok(None) };
            let step = n.wrapping_mul(unit);
            if self.k.ty(i).shape.rank() > 0
                || power_of_two(step).saturating_mul(power_of_two(self.multiple_of(i))) < ROW
            {
                return Ok(None);
            }
            bytes.push(step);
        }
        if bytes[within] != unit || !bytes[along].is_multiple_of(ROW) {
            return Ok(None);
        }
        let offsets = self.offsets(&strides, unit, &index, layout)?;
        let base = self.locals[&view];
        let places: Vec<u32> =
            offsets.registers.iter().step_by(pack as usize).map(|&(_, imm)| imm.wrapping_add(base)).collect();
        // What waves add, and which row of a matrix a lane points to.
        let waves = layout.places().filter(|(_, _, p)| matches!(p, Place::Wave(_)));
        let mut steps: Vec<(Place, u32)> =
            waves.map(|(axis, bit, p)| (p, bytes[axis].wrapping_shl(bit as u32))).collect();
        steps.extend((0..3).map(|bit| (Place::Lane(bit), bytes[along] << bit)));
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
            words.extend(self.e.load_matrices(at, count as u32, transposed));
        }
        Ok(Some(self.loaded(elem, layout.clone(), pack, words)))
    }
}

/// What becomes of tiles that are loaded from local views, as they are, and then only transposed.
pub(super) fn only_transposed(k: &Kernel) -> HashMap<Value, Value> {
    let mut out = HashMap::new();
    for data in k.insts.values() {
        let Op::Transpose { arg } = data.op else { continue };
        let ValueDef::Result(inst, _) = k.values[arg].def else { continue };
        if let Op::Load { view, mask: None, .. } = k.insts[inst].op
            && k.views[view].access == Access::Local
        {
            out.insert(arg, data.results[0]);
        }
    }
    if !out.is_empty() {
        let mut uses: HashMap<Value, u32> = HashMap::new();
        k.insts.values().for_each(|data| data.op.for_each_operand(|v| *uses.entry(v).or_default() += 1));
        out.retain(|v, _| uses.get(v) == Some(&1));
    }
    out
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
