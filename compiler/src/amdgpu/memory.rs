//! Views as buffer resources.

use super::Amd;
use crate::lanes::ir::{Address, Val};
use crate::simt::{CONSTANT, Codegen, Result, said};
use hrx_ir::tile::{Access, Extent, View};
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

/// The address space of buffer resources.
const RESOURCE: u16 = 8;

/// The most bytes of a view in code for AMD GPUs: offsets have 32 bits, and the last 64 KiB of them lie outside every
/// view. Whoever launches a kernel whose views have extents that are arguments has to hold them to it.
pub const LARGEST_VIEW: u64 = OUTSIDE as u64;

/// An offset that lies in no view.
const OUTSIDE: u32 = 0xFFFF_0000;

impl<'c> Codegen<'c, '_, Amd> {
    /// The buffer resource of a view.
    pub(super) fn resource(&self, view: View, base: PointerValue<'c>) -> Result<BasicValueEnum<'c>> {
        let bytes = self.view_bytes(view)?;
        let stride = self.cx.i16_type().const_zero();
        let flags = self.word(self.isa.0.buffer_word3);
        let (from, to) = (base.get_type(), self.cx.ptr_type(RESOURCE.into()));
        let bytes = self.b.build_int_z_extend(bytes, self.cx.i64_type(), "").map_err(said)?;
        self.call(
            "llvm.amdgcn.make.buffer.rsrc",
            &[to.into(), from.into()],
            &[base.into(), stride.into(), bytes.into(), flags.into()],
        )
    }

    /// Bytes from a view's base to its last element's end: the distance of each axis' last index, summed. Views whose
    /// extents are arguments are at most as large as [`LARGEST_VIEW`] says; whoever launches checks it.
    fn view_bytes(&self, view: View) -> Result<IntValue<'c>> {
        let data = &self.k.views[view];
        let unit = u64::from(data.content.unit_bytes());
        let constant = data.dims.iter().zip(&data.strides).try_fold(unit, |sum, (d, s)| match (d, s) {
            (Extent::Const(d), Extent::Const(s)) => Some(
                sum.saturating_add(u64::from(d.saturating_sub(1)).saturating_mul(u64::from(*s)).saturating_mul(unit)),
            ),
            _ => None,
        });
        if let Some(bytes) = constant {
            if bytes > LARGEST_VIEW {
                return Err(format!("view {view} has {bytes} bytes, offsets reach {LARGEST_VIEW}"));
            }
            return Ok(self.word(bytes as u32));
        }
        let extent = |e: Extent| -> Result<IntValue<'c>> {
            Ok(match e {
                Extent::Const(n) => self.word(n),
                Extent::Param(v) => self.scalars.get(&v).ok_or("an extent is no parameter")?.into_int_value(),
            })
        };
        let mut sum = self.word(1);
        for (&d, &s) in data.dims.iter().zip(&data.strides) {
            let (d, s) = (extent(d)?, extent(s)?);
            let last = self.b.build_int_sub(d, self.word(1), "").map_err(said)?;
            let way = self.b.build_int_mul(last, s, "").map_err(said)?;
            sum = self.b.build_int_add(sum, way, "").map_err(said)?;
        }
        self.b.build_int_mul(sum, self.word(unit as u32), "").map_err(said)
    }

    /// Per-lane and uniform offset of an access to a view. A lane that must not access it gets an offset outside.
    fn offsets(&self, at: &Address, mask: Option<Val>) -> Result<[BasicValueEnum<'c>; 2]> {
        let lane = self.add(self.int(at.lane)?, self.word(at.imm))?;
        let uniform = self.int(at.uniform)?;
        let Some(mask) = mask else { return Ok([lane.into(), uniform.into()]) };
        let whole = self.add(lane, uniform)?;
        let chosen = self.b.build_select(self.int(mask)?, whole, self.word(OUTSIDE), "").map_err(said)?;
        Ok([chosen, self.word(0).into()])
    }

    pub(super) fn load_view(
        &self,
        view: View,
        at: &Address,
        bytes: u32,
        mask: Option<Val>,
    ) -> Result<BasicValueEnum<'c>> {
        // Scalar loads drop the low bits of addresses: blocks of some formats start at odd halves of words.
        if mask.is_none() && bytes.is_multiple_of(4) && at.align >= 4 && self.is_uniform(at, view) {
            return self.load_uniform(at, view, bytes);
        }
        let [lane, uniform] = self.offsets(at, mask)?;
        let ty = self.access_type(bytes);
        let rest = self.word(0).into();
        self.call("llvm.amdgcn.raw.ptr.buffer.load", &[ty], &[self.views[&view].1, lane, uniform, rest])
    }

    pub(super) fn store_view(
        &self,
        view: View,
        at: &Address,
        value: BasicValueEnum<'c>,
        mask: Option<Val>,
    ) -> Result<()> {
        let [lane, uniform] = self.offsets(at, mask)?;
        let rest = self.word(0).into();
        let args = [value, self.views[&view].1, lane, uniform, rest];
        self.intrinsic("llvm.amdgcn.raw.ptr.buffer.store", &[value.get_type()], &args)?;
        Ok(())
    }

    /// Whether all lanes read the same place of memory that the kernel does not write.
    fn is_uniform(&self, at: &Address, view: View) -> bool {
        let constant = self.int(at.lane).is_ok_and(|v| v.is_const());
        constant && self.k.views[view].access == Access::In
    }

    /// A load into scalar registers.
    fn load_uniform(&self, at: &Address, view: View, bytes: u32) -> Result<BasicValueEnum<'c>> {
        let lane = self.add(self.int(at.lane)?, self.word(at.imm))?;
        let offset = self.add(self.int(at.uniform)?, lane)?;
        let offset = self.b.build_int_z_extend(offset, self.cx.i64_type(), "").map_err(said)?;
        let base = self
            .b
            .build_address_space_cast(self.views[&view].0, self.cx.ptr_type(CONSTANT.into()), "")
            .map_err(said)?;
        let p = self.byte_index(base, offset)?;
        self.load_from(p, bytes, 4)
    }
}
