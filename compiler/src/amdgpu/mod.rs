//! From the lane form to LLVM IR for AMD GPUs.
//!
//! A kernel's arguments are its parameters in order: a 64-bit address for a view, 32 bits for a scalar. Each view becomes
//! a buffer resource, so that addresses are 32-bit offsets, what lies beyond the view's end reads as zero, and a lane
//! that must not access memory gets an offset beyond it. What kernels do not use (hidden arguments, ids along other axes)
//! is said, so that the hardware does not set it up.

mod memory;
mod ops;
mod tables;

pub use memory::LARGEST_VIEW;

use crate::CompileError;
use crate::lanes::ir::{Inst, LaneKernel, Op, Val};
use crate::target::amd::Chip;
use cranelift_entity::SecondaryMap;
use hrx_ir::tile::{Elem, Kernel, Param, Value, View};
use inkwell::IntPredicate;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::module::{FlagBehavior, Module};
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, FloatValue, FunctionValue, IntValue, PointerValue};
use std::collections::HashMap;

/// LLVM's number of the calling convention of kernels (llvm/IR/CallingConv.h: AMDGPU_KERNEL).
const KERNEL_CONVENTION: u32 = 91;

/// The address space of device memory.
const GLOBAL: u16 = 1;
/// Of LDS.
const LDS: u16 = 3;
/// Of memory that does not change while a kernel runs.
const CONSTANT: u16 = 4;
/// Of buffer resources.
const RESOURCE: u16 = 8;

/// What a kernel never uses of what the runtime could pass (AMDGPU usage guide, function attributes).
const UNUSED: &[&str] = &[
    "amdgpu-no-dispatch-ptr",
    "amdgpu-no-queue-ptr",
    "amdgpu-no-implicitarg-ptr",
    "amdgpu-no-dispatch-id",
    "amdgpu-no-heap-ptr",
    "amdgpu-no-hostcall-ptr",
    "amdgpu-no-multigrid-sync-arg",
    "amdgpu-no-default-queue",
    "amdgpu-no-completion-action",
    "amdgpu-no-lds-kernel-id",
    "amdgpu-no-flat-scratch-init",
    "amdgpu-no-workitem-id-y",
    "amdgpu-no-workitem-id-z",
];

type Result<T> = std::result::Result<T, String>;

struct Codegen<'c, 'k> {
    cx: &'c Context,
    module: Module<'c>,
    b: Builder<'c>,
    k: &'k Kernel,
    lanes: &'k LaneKernel,
    chip: &'static Chip,
    function: FunctionValue<'c>,
    values: SecondaryMap<Val, Option<BasicValueEnum<'c>>>,
    scalars: HashMap<Value, BasicValueEnum<'c>>,
    /// Base address and buffer resource of each view.
    views: HashMap<View, (PointerValue<'c>, BasicValueEnum<'c>)>,
    lds: Option<PointerValue<'c>>,
}

fn said(e: BuilderError) -> String {
    e.to_string()
}

/// Generates the module of a kernel and its lane form.
pub(crate) fn module<'c>(
    cx: &'c Context,
    k: &Kernel,
    lanes: &LaneKernel,
    chip: &'static Chip,
) -> std::result::Result<Module<'c>, CompileError> {
    let module = cx.create_module(&k.name);
    let global = cx.ptr_type(GLOBAL.into());
    let params: Vec<BasicMetadataTypeEnum> = k
        .params
        .iter()
        .map(|p| match p {
            Param::View(_) => global.into(),
            Param::Scalar(v) if k.ty(*v).elem == Elem::F32 => cx.f32_type().into(),
            Param::Scalar(_) => cx.i32_type().into(),
        })
        .collect();
    let function = module.add_function(&k.name, cx.void_type().fn_type(&params, false), None);
    let b = cx.create_builder();
    b.position_at_end(cx.append_basic_block(function, "entry"));
    let mut g = Codegen {
        cx,
        module,
        b,
        k,
        lanes,
        chip,
        function,
        values: SecondaryMap::new(),
        scalars: HashMap::new(),
        views: HashMap::new(),
        lds: None,
    };
    g.interface();
    let done = g.prologue().and_then(|()| g.block(&lanes.body)).and_then(|()| {
        g.b.build_return(None).map_err(said)?;
        Ok(())
    });
    match done {
        Ok(()) => Ok(g.module),
        Err(reason) => Err(CompileError::Llvm { kernel: k.name.clone(), reason }),
    }
}

impl<'c> Codegen<'c, '_> {
    /// Calling convention, attributes and module flags.
    fn interface(&self) {
        self.function.set_call_conventions(KERNEL_CONVENTION);
        let threads = self.lanes.wave * self.lanes.waves;
        let mut strings = vec![
            ("amdgpu-flat-work-group-size", format!("{threads},{threads}")),
            ("uniform-work-group-size", "true".into()),
            // Signalling NaNs need no quieting: minimum and maximum take one instruction.
            ("amdgpu-ieee", "false".into()),
        ];
        strings.extend(UNUSED.iter().map(|&name| (name, String::new())));
        let axes = self.used_axes();
        for (axis, name) in [(1, "amdgpu-no-workgroup-id-y"), (2, "amdgpu-no-workgroup-id-z")] {
            if !axes[axis] {
                strings.push((name, String::new()));
            }
        }
        for (name, value) in strings {
            self.function.add_attribute(AttributeLoc::Function, self.cx.create_string_attribute(name, &value));
        }
        let nounwind = Attribute::get_named_enum_kind_id("nounwind");
        self.function.add_attribute(AttributeLoc::Function, self.cx.create_enum_attribute(nounwind, 0));
        let i32t = self.cx.i32_type();
        let size = [threads, 1, 1].map(|n| BasicMetadataValueEnum::from(i32t.const_int(u64::from(n), false)));
        let kind = self.cx.get_kind_id("reqd_work_group_size");
        self.function.as_global_value().set_metadata(self.cx.metadata_node(&size), kind);
        let version = u64::from(100 * self.chip.code_object_version());
        self.module.add_basic_value_flag(
            "amdhsa_code_object_version",
            FlagBehavior::Error,
            i32t.const_int(version, false),
        );
    }

    /// Which axes of the grid the kernel asks for.
    fn used_axes(&self) -> [bool; 3] {
        let mut used = [true, false, false];
        for inst in &self.lanes.body {
            if let Op::Program(axis) = inst.op {
                let id = self.k.program_ids[usize::from(axis)];
                let mut reads = false;
                for data in self.k.insts.values() {
                    data.op.for_each_operand(|v| reads |= v == id);
                }
                used[usize::from(axis)] |= reads;
            }
        }
        used
    }

    fn prologue(&mut self) -> Result<()> {
        for (slot, param) in self.k.params.iter().enumerate() {
            let arg = self.function.get_nth_param(slot as u32).ok_or("a parameter is missing")?;
            match *param {
                Param::Scalar(v) => {
                    self.scalars.insert(v, arg);
                }
                Param::View(_) => {}
            }
        }
        for (slot, param) in self.k.params.iter().enumerate() {
            if let Param::View(view) = *param {
                let base =
                    self.function.get_nth_param(slot as u32).ok_or("a parameter is missing")?.into_pointer_value();
                let resource = self.resource(view, base)?;
                self.views.insert(view, (base, resource));
            }
        }
        if self.lanes.lds > 0 {
            let ty = self.cx.i8_type().array_type(self.lanes.lds);
            let lds = self.module.add_global(ty, Some(LDS.into()), &format!("{}.lds", self.k.name));
            lds.set_linkage(inkwell::module::Linkage::Internal);
            lds.set_initializer(&ty.get_undef());
            lds.set_alignment(64);
            self.lds = Some(lds.as_pointer_value());
        }
        Ok(())
    }

    fn get(&self, v: Val) -> Result<BasicValueEnum<'c>> {
        self.values[v].ok_or_else(|| format!("{v} is used before it is defined"))
    }

    fn int(&self, v: Val) -> Result<IntValue<'c>> {
        match self.get(v)? {
            BasicValueEnum::IntValue(i) => Ok(i),
            _ => Err(format!("{v} is no integer")),
        }
    }

    fn float(&self, v: Val) -> Result<FloatValue<'c>> {
        match self.get(v)? {
            BasicValueEnum::FloatValue(x) => Ok(x),
            _ => Err(format!("{v} is no float")),
        }
    }

    fn word(&self, n: u32) -> IntValue<'c> {
        self.cx.i32_type().const_int(u64::from(n), false)
    }

    fn block(&mut self, block: &[Inst]) -> Result<()> {
        for inst in block {
            if let Op::For { bounds, inits, params, body, yields } = &inst.op {
                self.for_loop(*bounds, inits, params, body, yields, &inst.results)?;
                continue;
            }
            let made = self.op(&inst.op, &inst.results)?;
            for (&r, v) in inst.results.iter().zip(made) {
                self.values[r] = Some(v);
            }
        }
        Ok(())
    }

    /// A loop in rotated form: a guard, then a body that ends with the test.
    fn for_loop(
        &mut self,
        bounds: [Val; 3],
        inits: &[Val],
        params: &[Val],
        body: &[Inst],
        yields: &[Val],
        results: &[Val],
    ) -> Result<()> {
        let [lower, upper, step] = [self.int(bounds[0])?, self.int(bounds[1])?, self.int(bounds[2])?];
        let before = self.b.get_insert_block().ok_or("no block to insert into")?;
        let body_block = self.cx.append_basic_block(self.function, "loop");
        let exit_block = self.cx.append_basic_block(self.function, "done");
        let enter = self.b.build_int_compare(IntPredicate::SLT, lower, upper, "").map_err(said)?;
        self.b.build_conditional_branch(enter, body_block, exit_block).map_err(said)?;
        self.b.position_at_end(body_block);
        let counter = self.b.build_phi(self.cx.i32_type(), "").map_err(said)?;
        counter.add_incoming(&[(&lower, before)]);
        self.values[params[0]] = Some(counter.as_basic_value());
        let mut phis = Vec::with_capacity(inits.len());
        for (&p, &init) in params[1..].iter().zip(inits) {
            let init = self.get(init)?;
            let phi = self.b.build_phi(init.get_type(), "").map_err(said)?;
            phi.add_incoming(&[(&init, before)]);
            self.values[p] = Some(phi.as_basic_value());
            phis.push(phi);
        }
        self.block(body)?;
        let last = self.b.get_insert_block().ok_or("no block to insert into")?;
        let at = counter.as_basic_value().into_int_value();
        let next = self.b.build_int_nsw_add(at, step, "").map_err(said)?;
        counter.add_incoming(&[(&next, last)]);
        let mut nexts = Vec::with_capacity(yields.len());
        for (phi, &y) in phis.iter().zip(yields) {
            let v = self.get(y)?;
            phi.add_incoming(&[(&v, last)]);
            nexts.push(v);
        }
        let again = self.b.build_int_compare(IntPredicate::SLT, next, upper, "").map_err(said)?;
        self.b.build_conditional_branch(again, body_block, exit_block).map_err(said)?;
        self.b.position_at_end(exit_block);
        for ((&r, &init), next) in results.iter().zip(inits).zip(nexts) {
            let init = self.get(init)?;
            let phi = self.b.build_phi(init.get_type(), "").map_err(said)?;
            phi.add_incoming(&[(&init, before), (&next, last)]);
            self.values[r] = Some(phi.as_basic_value());
        }
        Ok(())
    }

    /// Calls an intrinsic, arguments bit-cast to the types that it wants.
    fn intrinsic(
        &self,
        name: &str,
        overloads: &[BasicTypeEnum<'c>],
        args: &[BasicValueEnum<'c>],
    ) -> Result<Option<BasicValueEnum<'c>>> {
        let unknown = || format!("this LLVM has no {name}");
        let intrinsic = inkwell::intrinsics::Intrinsic::find(name).ok_or_else(unknown)?;
        let f = intrinsic.get_declaration(&self.module, overloads).ok_or_else(unknown)?;
        let wanted = f.get_type().get_param_types();
        let mut cast: Vec<BasicMetadataValueEnum> = Vec::with_capacity(args.len());
        for (arg, want) in args.iter().zip(wanted) {
            let want = BasicTypeEnum::try_from(want).map_err(|_| unknown())?;
            cast.push(match (arg.get_type() == want, arg, want) {
                (true, ..) => (*arg).into(),
                // Constants of another width.
                (_, BasicValueEnum::IntValue(n), BasicTypeEnum::IntType(t)) if n.is_const() => {
                    t.const_int(n.get_zero_extended_constant().unwrap_or(0), false).into()
                }
                (_, BasicValueEnum::IntValue(n), BasicTypeEnum::IntType(t))
                    if t.get_bit_width() > n.get_type().get_bit_width() =>
                {
                    self.b.build_int_z_extend(*n, t, "").map_err(said)?.into()
                }
                _ => self.b.build_bit_cast(*arg, want, "").map_err(said)?.into(),
            });
        }
        let call = self.b.build_call(f, &cast, "").map_err(said)?;
        Ok(call.try_as_basic_value().basic())
    }

    fn call(
        &self,
        name: &str,
        overloads: &[BasicTypeEnum<'c>],
        args: &[BasicValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>> {
        self.intrinsic(name, overloads, args)?.ok_or_else(|| format!("{name} has no value"))
    }
}
