//! One LLVM function for one kernel.
//!
//! The function is `void kernel(const u64 *slots, i32 id0, i32 id1, i32 id2, u8 *local)`: a slot a parameter (a pointer,
//! or a scalar in the low half), the program ids, and memory for the local views.
//!
//! A tile of shape `[.., n]` becomes one register value ([`Reg`]) for each combination of its leading indices: a vector
//! of `n` elements, or a scalar where `n` is 1. Nothing is left to LLVM's vectorisers, so the mid-level pipeline is
//! short.

mod block;
mod dot;
mod elementwise;
mod lookup;
mod memory;
mod mma;
mod reg;
mod shape;

pub(crate) use reg::Reg;

use crate::CompileError;
use crate::target::HostTarget;
use hrx_ir::tile::{Elem, Extent, Kernel, Param, Type, Value, View};
use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{FunctionValue, IntValue, PointerValue};
use std::collections::HashMap;

/// Local views start at multiples of this.
pub(crate) const LOCAL_ALIGN: u64 = 64;

/// The registers that hold a tile, one for each combination of its leading indices in row-major order.
pub(crate) type Tile<'c> = Vec<Reg<'c>>;

/// Why code generation of a kernel stopped.
pub(crate) enum Stop {
    /// The kernel breaks a rule.
    Kernel(String),
    /// LLVM refused an instruction.
    Llvm(String),
}

impl From<BuilderError> for Stop {
    fn from(e: BuilderError) -> Stop {
        Stop::Llvm(e.to_string())
    }
}

/// Something that a pass should have replaced.
pub(crate) fn not_expanded(what: &str) -> Stop {
    Stop::Kernel(format!("{what} is to be expanded before code generation"))
}

pub(crate) type Result<T> = std::result::Result<T, Stop>;

/// State of generating one function.
pub(crate) struct Codegen<'c, 'k> {
    pub(crate) cx: &'c Context,
    pub(crate) module: Module<'c>,
    pub(crate) b: Builder<'c>,
    pub(crate) k: &'k Kernel,
    pub(crate) target: &'k HostTarget,
    pub(crate) function: FunctionValue<'c>,
    /// The registers of each value defined so far.
    values: HashMap<Value, Tile<'c>>,
    /// The base address of each view.
    bases: HashMap<View, PointerValue<'c>>,
    /// Memory on the stack for the operands of matrix products, if there are any.
    scratch: Option<PointerValue<'c>>,
}

/// Generates the module of a kernel that has been through [`crate::passes::lower_host`]. Its function has the kernel's name.
pub(crate) fn module<'c>(
    cx: &'c Context,
    kernel: &Kernel,
    target: &HostTarget,
) -> std::result::Result<Module<'c>, CompileError> {
    let module = cx.create_module(&kernel.name);
    let ptr = cx.ptr_type(Default::default());
    let i32t = cx.i32_type();
    let fn_type = cx.void_type().fn_type(&[ptr.into(), i32t.into(), i32t.into(), i32t.into(), ptr.into()], false);
    let function = module.add_function(&kernel.name, fn_type, None);
    for (i, attribute) in [(0, "noalias"), (0, "readonly"), (4, "noalias")] {
        let kind = inkwell::attributes::Attribute::get_named_enum_kind_id(attribute);
        let attribute = cx.create_enum_attribute(kind, 0);
        function.add_attribute(inkwell::attributes::AttributeLoc::Param(i), attribute);
    }
    let nounwind = inkwell::attributes::Attribute::get_named_enum_kind_id("nounwind");
    function.add_attribute(inkwell::attributes::AttributeLoc::Function, cx.create_enum_attribute(nounwind, 0));
    let entry = cx.append_basic_block(function, "entry");
    let b = cx.create_builder();
    b.position_at_end(entry);
    let (values, bases) = (HashMap::new(), HashMap::new());
    let mut g = Codegen { cx, module, b, k: kernel, target, function, values, bases, scratch: None };
    match g.body() {
        Ok(()) => Ok(g.module),
        Err(Stop::Kernel(reason)) => Err(CompileError::Kernel { kernel: kernel.name.clone(), reason }),
        Err(Stop::Llvm(reason)) => Err(CompileError::Llvm { kernel: kernel.name.clone(), reason }),
    }
}

impl<'c> Codegen<'c, '_> {
    fn body(&mut self) -> Result<()> {
        self.prologue()?;
        self.block(self.k.body)?;
        self.b.build_return(None)?;
        Ok(())
    }

    /// Reads the slots and lays out local memory.
    fn prologue(&mut self) -> Result<()> {
        let slots = self.function.get_nth_param(0).expect("declared").into_pointer_value();
        for (axis, &id) in self.k.program_ids.iter().enumerate() {
            let v = self.function.get_nth_param(axis as u32 + 1).expect("declared");
            self.values.insert(id, vec![v.into_int_value().into()]);
        }
        for (slot, param) in self.k.params.iter().enumerate() {
            let at = self.byte_offset(slots, 8 * slot as u64)?;
            match *param {
                Param::View(view) => {
                    let ptr = self.b.build_load(self.cx.ptr_type(Default::default()), at, "")?;
                    self.bases.insert(view, ptr.into_pointer_value());
                }
                Param::Scalar(v) => {
                    let loaded = self.b.build_load(self.basic(self.k.ty(v).elem), at, "")?;
                    self.values.insert(v, vec![loaded.into()]);
                }
            }
        }
        let scratch = mma::scratch_bytes(self.k);
        if scratch > 0 {
            let bytes = self.cx.i64_type().const_int(scratch, false);
            let memory = self.b.build_array_alloca(self.cx.i8_type(), bytes, "")?;
            let alloca = memory.as_instruction().ok_or_else(|| Stop::Llvm("an alloca is an instruction".into()))?;
            alloca.set_alignment(LOCAL_ALIGN as u32).map_err(|e| Stop::Llvm(e.to_string()))?;
            self.scratch = Some(memory);
            // Touches each page in turn, so that a stack too short for it faults in its guard page.
            let probe = self.cx.create_string_attribute("probe-stack", "inline-asm");
            self.function.add_attribute(inkwell::attributes::AttributeLoc::Function, probe);
        }
        let local = self.function.get_nth_param(4).expect("declared").into_pointer_value();
        let mut at = 0u64;
        for (view, data) in self.k.locals() {
            at = at.next_multiple_of(LOCAL_ALIGN);
            let ptr = self.byte_offset(local, at)?;
            self.bases.insert(view, ptr);
            let bytes = hrx_ir::tile::kernel::local_view_bytes(data);
            at += bytes.ok_or_else(|| Stop::Kernel(format!("local view {view} has an extent that is not constant")))?;
        }
        Ok(())
    }

    /// The registers of a value.
    pub(crate) fn tile(&self, v: Value) -> Tile<'c> {
        self.values[&v].clone()
    }

    /// The only register of a scalar integer.
    pub(crate) fn scalar(&self, v: Value) -> IntValue<'c> {
        self.values[&v][0].int()
    }

    pub(crate) fn define(&mut self, v: Value, tile: Tile<'c>) {
        debug_assert_eq!(tile.len() as u64, self.k.ty(v).shape.rows());
        self.values.insert(v, tile);
    }

    /// The base address of a view.
    pub(crate) fn base(&self, view: View) -> PointerValue<'c> {
        self.bases[&view]
    }

    /// An extent as a 64-bit integer.
    pub(crate) fn extent(&self, e: Extent) -> Result<IntValue<'c>> {
        let i64t = self.cx.i64_type();
        Ok(match e {
            Extent::Const(n) => i64t.const_int(u64::from(n), false),
            Extent::Param(v) => self.b.build_int_s_extend(self.scalar(v), i64t, "")?,
        })
    }

    /// LLVM's type of one element in a register.
    pub(crate) fn basic(&self, elem: Elem) -> BasicTypeEnum<'c> {
        match elem {
            Elem::B1 => self.cx.bool_type().into(),
            Elem::I8 | Elem::U8 => self.cx.i8_type().into(),
            // bfloat16 stays an integer: its conversions are written out, so no target needs to know the type.
            Elem::I16 | Elem::U16 | Elem::BF16 => self.cx.i16_type().into(),
            Elem::I32 | Elem::U32 => self.cx.i32_type().into(),
            Elem::F16 => self.cx.f16_type().into(),
            Elem::F32 => self.cx.f32_type().into(),
        }
    }

    /// LLVM's type of `n` elements in a register: a scalar where `n` is 1.
    pub(crate) fn lanes(&self, elem: Elem, n: u32) -> BasicTypeEnum<'c> {
        if n == 1 {
            return self.basic(elem);
        }
        match self.basic(elem) {
            BasicTypeEnum::IntType(t) => t.vec_type(n).into(),
            BasicTypeEnum::FloatType(t) => t.vec_type(n).into(),
            _ => unreachable!("elements are integers or floats"),
        }
    }

    /// LLVM's type of one register of a tile.
    pub(crate) fn reg_type(&self, ty: Type) -> BasicTypeEnum<'c> {
        self.lanes(ty.elem, ty.shape.last())
    }

    /// An address some bytes further.
    pub(crate) fn byte_offset(&self, p: PointerValue<'c>, bytes: u64) -> Result<PointerValue<'c>> {
        if bytes == 0 {
            return Ok(p);
        }
        self.byte_index(p, self.cx.i64_type().const_int(bytes, false))
    }

    /// An address a 64-bit number of bytes further.
    pub(crate) fn byte_index(&self, p: PointerValue<'c>, bytes: IntValue<'c>) -> Result<PointerValue<'c>> {
        // SAFETY: this builds an instruction; that the address it computes at run time lies in the view is the
        // kernel's contract, which the interpreter checks.
        Ok(unsafe { self.b.build_gep(self.cx.i8_type(), p, &[bytes], "")? })
    }

    /// Calls an overloaded or target intrinsic for its value.
    pub(crate) fn intrinsic(&self, name: &str, overloads: &[BasicTypeEnum<'c>], args: &[Reg<'c>]) -> Result<Reg<'c>> {
        let value = self.call_intrinsic(name, overloads, args)?;
        value.ok_or_else(|| Stop::Llvm(format!("{name} has no value")))
    }

    /// Calls an intrinsic, arguments bit-cast to the types it wants. Gives its value if it has one.
    pub(crate) fn call_intrinsic(
        &self,
        name: &str,
        overloads: &[BasicTypeEnum<'c>],
        args: &[Reg<'c>],
    ) -> Result<Option<Reg<'c>>> {
        let unknown = || Stop::Llvm(format!("this LLVM has no {name}"));
        let intrinsic = inkwell::intrinsics::Intrinsic::find(name).ok_or_else(unknown)?;
        let f = intrinsic.get_declaration(&self.module, overloads).ok_or_else(unknown)?;
        let wanted = f.get_type().get_param_types();
        let mut cast = Vec::with_capacity(args.len());
        for (arg, want) in args.iter().zip(wanted) {
            let want = BasicTypeEnum::try_from(want).map_err(|_| unknown())?;
            let same = arg.ty() == want;
            cast.push(if same { arg.value().into() } else { self.b.build_bit_cast(arg.value(), want, "")?.into() });
        }
        let call = self.b.build_call(f, &cast, "")?;
        Ok(call.try_as_basic_value().basic().map(Reg::from))
    }
}
