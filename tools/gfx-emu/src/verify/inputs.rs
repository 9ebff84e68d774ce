//! Inputs of a launch, random within what each slot may hold.

use super::Case;
use crate::random::Random;
use half::{bf16, f16};
use hrx_ir::tile::interp::Input;
use hrx_ir::tile::{Access, Content, Elem, Extent, Kernel, Param, Value, ViewData};
use hrx_templates::Slot;
use std::collections::HashMap;

/// The inputs of a case: what each slot holds has the kind of values that it is for, and those of matrices make results
/// of about the size of their inputs.
///
/// # Errors
/// A buffer without a size: a parameter that is none of an extent's, or more bytes than can be addressed.
pub fn inputs(kernel: &Kernel, slots: &[Slot], case: &Case, seed: u64) -> Result<Vec<Input>, String> {
    let mut made = Maker { kernel, case, scalars: HashMap::new(), random: Random::new(seed) };
    if slots.len() != kernel.params.len() {
        return Err(format!("{} slots for {} parameters", slots.len(), kernel.params.len()));
    }
    // Scalars first: sizes are made of them.
    let sized = kernel.params.iter().zip(slots);
    let head_dim = sized.clone().find_map(|(p, s)| match (p, s) {
        (Param::View(v), Slot::KeyCache | Slot::Cache) => constant(kernel.views[*v].dims[2]),
        _ => None,
    });
    for (param, slot) in sized {
        if let Param::Scalar(v) = param {
            let n = match slot {
                Slot::NRows => case.rows,
                Slot::NCtx => case.n_ctx,
                Slot::HeadStride => case.n_ctx * head_dim.unwrap_or(1),
                _ => case.tokens,
            };
            made.scalars.insert(*v, n);
        }
    }
    kernel.params.iter().zip(slots).map(|(param, slot)| made.input(param, *slot)).collect()
}

fn constant(extent: Extent) -> Option<u32> {
    match extent {
        Extent::Const(n) => Some(n),
        Extent::Param(_) => None,
    }
}

struct Maker<'a> {
    kernel: &'a Kernel,
    case: &'a Case,
    scalars: HashMap<Value, u32>,
    random: Random,
}

impl Maker<'_> {
    fn extent(&self, extent: Extent) -> Result<u64, String> {
        match extent {
            Extent::Const(n) => Ok(n.into()),
            Extent::Param(v) => {
                self.scalars.get(&v).map(|&n| n.into()).ok_or_else(|| format!("nothing is known of the extent {v}"))
            }
        }
    }

    /// Elements or blocks from a view's first to behind its last.
    fn units(&self, view: &ViewData) -> Result<usize, String> {
        let mut last = 0_u64;
        for (&dim, &stride) in view.dims.iter().zip(&view.strides) {
            let dim = self.extent(dim)?;
            if dim == 0 {
                return Ok(0);
            }
            last =
                (dim - 1).checked_mul(self.extent(stride)?).and_then(|n| n.checked_add(last)).ok_or("a huge view")?;
        }
        let bytes = (last + 1).saturating_mul(view.content.unit_bytes().into());
        if bytes > 1 << 34 { Err(format!("a view of {bytes} bytes")) } else { Ok(last as usize + 1) }
    }

    fn input(&mut self, param: &Param, slot: Slot) -> Result<Input, String> {
        let view = match *param {
            Param::Scalar(v) if self.kernel.ty(v).elem == Elem::F32 => return Ok(Input::F32(self.random.signed())),
            Param::Scalar(v) => return Ok(Input::I32(self.scalars[&v] as i32)),
            Param::View(v) => &self.kernel.views[v],
        };
        let units = self.units(view)?;
        if view.access == Access::Out {
            return Ok(Input::Room(units * view.content.unit_bytes() as usize));
        }
        let bytes = match view.content {
            Content::Quant(format) => {
                // Uniform numbers have a third of the square of their bound as variance.
                let columns = self.extent(view.dims[1])? as f32 * format.block as f32;
                let bound = (3.0 / columns).sqrt();
                (0..units).flat_map(|_| format.random_block(bound, || self.random.bits())).collect()
            }
            Content::Elem(Elem::I32) => {
                let numbers: Vec<u32> = (0..units as u32).map(|i| self.index(slot, i)).collect();
                numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
            }
            Content::Elem(elem) => {
                let matrix = matches!(slot, Slot::Weight(_));
                let bound = match view.dims.last() {
                    Some(&columns) if matrix => (3.0 / self.extent(columns)? as f32).sqrt(),
                    _ => 1.0,
                };
                (0..units).flat_map(|_| self.element(elem, slot, bound)).collect()
            }
        };
        Ok(Input::Bytes(bytes))
    }

    /// Row i's index.
    fn index(&mut self, slot: Slot, i: u32) -> u32 {
        match slot {
            Slot::Positions => self.case.position + i,
            Slot::Rows => self.random.below(self.case.tokens + 2),
            Slot::Ids => {
                let table = self.kernel.params.iter().find_map(|p| match p {
                    Param::View(v) if self.kernel.views[*v].dims.len() == 2 => constant(self.kernel.views[*v].dims[0]),
                    _ => None,
                });
                self.random.below(table.unwrap_or(1).max(1))
            }
            _ => 0,
        }
    }

    fn element(&mut self, elem: Elem, slot: Slot, bound: f32) -> Vec<u8> {
        let x = match slot {
            // Norms' weights and softmaxes' totals are about one, scales positive and small.
            Slot::NormWeight | Slot::PartTotals => 1.0 + 0.2 * self.random.signed(),
            Slot::XScales => 0.01 + 0.005 * self.random.signed(),
            _ => bound * self.random.signed(),
        };
        match elem {
            Elem::F16 => f16::from_f32(x).to_le_bytes().to_vec(),
            Elem::BF16 => bf16::from_f32(x).to_le_bytes().to_vec(),
            Elem::F32 => x.to_le_bytes().to_vec(),
            // Codes reach from -127 to 127: -128 is none.
            Elem::I8 => vec![(self.random.below(255) as i32 - 127) as i8 as u8],
            _ => (0..elem.bytes()).map(|_| self.random.bits() as u8).collect(),
        }
    }
}
