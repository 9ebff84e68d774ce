//! From the `llvm` dialect to LLVM's module, with the entry point that all host code has.

use super::{Result, Stop};
use hrx_ir::tile::{Content, Extent, Kernel, Param, Value, View, ViewData};
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::module::{Linkage, Module};
use inkwell::values::{BasicMetadataValueEnum, FunctionValue, IntValue, PointerValue};
use std::collections::HashMap;

impl From<BuilderError> for Stop {
    fn from(e: BuilderError) -> Stop {
        Stop(e.to_string())
    }
}

/// Translates a module of the `llvm` dialect, and adds the kernel's entry point to it, which has the kernel's name and
/// calls what was the module's function.
pub(super) fn translate<'l>(llvm: &'l Context, module: &melior::ir::Module<'_>, kernel: &Kernel) -> Result<Module<'l>> {
    let operation = module.as_operation().to_raw();
    // SAFETY: the operation is a module and alive; MLIR's LLVM is the library that inkwell's is, so the context is what it
    // takes for one.
    let raw = unsafe { mlir_sys::mlirTranslateModuleToLLVMIR(operation, llvm.raw().cast()) };
    if raw.is_null() {
        return Err(Stop("it can't be translated to LLVM IR".into()));
    }
    // SAFETY: a module of this context, which nobody else owns.
    let module = unsafe { Module::new(raw.cast()) };
    let lowered = module.get_function(&kernel.name).ok_or_else(|| Stop("its function is lost".into()))?;
    lowered.as_global_value().set_name(&format!("{}.mlir", kernel.name));
    lowered.set_linkage(Linkage::Internal);
    add_nounwind(llvm, lowered);
    Entry::new(llvm, &module, kernel).build(lowered)?;
    Ok(module)
}

/// Says that a function does not unwind, so that no tables for that are made.
fn add_nounwind(cx: &Context, function: FunctionValue<'_>) {
    let kind = Attribute::get_named_enum_kind_id("nounwind");
    function.add_attribute(AttributeLoc::Function, cx.create_enum_attribute(kind, 0));
}

/// The function that reads the slots and passes a memref descriptor, field by field, for each view.
struct Entry<'l, 'k> {
    cx: &'l Context,
    k: &'k Kernel,
    b: Builder<'l>,
    function: FunctionValue<'l>,
    /// The scalar parameters that extents may be.
    scalars: HashMap<Value, IntValue<'l>>,
}

impl<'l, 'k> Entry<'l, 'k> {
    fn new(cx: &'l Context, module: &Module<'l>, k: &'k Kernel) -> Entry<'l, 'k> {
        let (ptr, i32t) = (cx.ptr_type(Default::default()), cx.i32_type());
        let ty = cx.void_type().fn_type(&[ptr.into(), i32t.into(), i32t.into(), i32t.into(), ptr.into()], false);
        let function = module.add_function(&k.name, ty, None);
        add_nounwind(cx, function);
        let b = cx.create_builder();
        b.position_at_end(cx.append_basic_block(function, "entry"));
        Entry { cx, k, b, function, scalars: HashMap::new() }
    }

    fn build(mut self, lowered: FunctionValue<'l>) -> Result<()> {
        let k = self.k;
        let param =
            |i| self.function.get_nth_param(i).ok_or_else(|| Stop("the entry point has five parameters".into()));
        let (slots, local) = (param(0)?.into_pointer_value(), param(4)?.into_pointer_value());
        let ids = [param(1)?, param(2)?, param(3)?];
        // Extents may be scalars of later slots, so these are read first.
        let mut loaded = Vec::new();
        for (slot, p) in k.params.iter().enumerate() {
            let at = self.offset(slots, 8 * slot as u64)?;
            loaded.push(match *p {
                Param::View(_) => self.b.build_load(self.cx.ptr_type(Default::default()), at, "")?,
                Param::Scalar(v) if k.ty(v).elem.is_float() => self.b.build_load(self.cx.f32_type(), at, "")?,
                Param::Scalar(v) => {
                    let n = self.b.build_load(self.cx.i32_type(), at, "")?;
                    self.scalars.insert(v, n.into_int_value());
                    n
                }
            });
        }
        let mut arguments: Vec<BasicMetadataValueEnum<'l>> = Vec::new();
        for (p, value) in k.params.iter().zip(loaded) {
            match *p {
                Param::View(view) => self.descriptor(&mut arguments, value.into_pointer_value(), &k.views[view])?,
                Param::Scalar(_) => arguments.push(value.into()),
            }
        }
        arguments.extend(ids.map(BasicMetadataValueEnum::from));
        for (view, at) in local_offsets(k)? {
            let p = self.offset(local, at)?;
            self.descriptor(&mut arguments, p, &k.views[view])?;
        }
        if arguments.len() != lowered.count_params() as usize {
            return Err(Stop(format!("the function takes {} values, not {}", lowered.count_params(), arguments.len())));
        }
        self.b.build_call(lowered, &arguments, "")?;
        self.b.build_return(None)?;
        Ok(())
    }

    /// A memref's fields: where it was allocated and where it begins, an offset, extents, strides.
    fn descriptor(
        &self,
        arguments: &mut Vec<BasicMetadataValueEnum<'l>>,
        p: PointerValue<'l>,
        data: &ViewData,
    ) -> Result<()> {
        let n = |n: u32| self.cx.i64_type().const_int(u64::from(n), false);
        arguments.extend([p.into(), p.into(), BasicMetadataValueEnum::from(n(0))]);
        let (unit, bytes) = match data.content {
            Content::Elem(_) => (1, None),
            Content::Quant(format) => (format.block_bytes, Some(n(format.block_bytes))),
        };
        for e in &data.dims {
            arguments.push(self.extent(e, 1)?.into());
        }
        arguments.extend(bytes.map(BasicMetadataValueEnum::from));
        for e in &data.strides {
            arguments.push(self.extent(e, unit)?.into());
        }
        arguments.extend(bytes.map(|_| BasicMetadataValueEnum::from(n(1))));
        Ok(())
    }

    /// So many units of an extent.
    fn extent(&self, e: &Extent, unit: u32) -> Result<IntValue<'l>> {
        let i64t = self.cx.i64_type();
        let unit = i64t.const_int(u64::from(unit), false);
        let n = match e {
            Extent::Const(n) => i64t.const_int(u64::from(*n), false),
            Extent::Param(v) => {
                let n = self.scalars.get(v).ok_or_else(|| Stop(format!("{v} is an extent but no i32 parameter")))?;
                self.b.build_int_s_extend(*n, i64t, "")?
            }
        };
        Ok(self.b.build_int_mul(n, unit, "")?)
    }

    fn offset(&self, p: PointerValue<'l>, bytes: u64) -> Result<PointerValue<'l>> {
        let bytes = self.cx.i64_type().const_int(bytes, false);
        // SAFETY: this builds an instruction; that there are as many slots and as much local memory is the caller's
        // promise.
        Ok(unsafe { self.b.build_gep(self.cx.i8_type(), p, &[bytes], "")? })
    }
}

/// Where each local view lies in local memory.
fn local_offsets(k: &Kernel) -> Result<Vec<(View, u64)>> {
    let mut at = 0u64;
    let mut offsets = Vec::new();
    for (view, data) in k.locals() {
        at = at.next_multiple_of(crate::codegen::LOCAL_ALIGN);
        offsets.push((view, at));
        let bytes = hrx_ir::tile::kernel::local_view_bytes(data);
        at += bytes.ok_or_else(|| Stop(format!("local view {view} has an extent that is not constant")))?;
    }
    Ok(offsets)
}
