//! From the lane form to LLVM IR for any GPU.
//!
//! A kernel's arguments are its parameters in order: a 64-bit address for a view, 32 bits for a scalar. What differs
//! between makers is an [`Isa`]: how lanes, workgroups and views are named, how lanes exchange values, and which
//! instructions multiply matrices. Everything else is here, once.

mod memory;
mod ops;
mod tables;

use crate::CompileError;
use crate::lanes::ir::{Address, Inst, LaneKernel, Op, Space, Un, Val};
use crate::target::amd::MatrixOp;
use cranelift_entity::{EntitySet, SecondaryMap};
use hrx_ir::tile::{Access, Content, Elem, Kernel, Param, Value, View};
use inkwell::IntPredicate;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, FloatValue, FunctionValue, IntValue, PointerValue};
use std::collections::HashMap;

// LLVM's numbers of address spaces are the same for AMD and NVIDIA (their user guides, "Address Spaces").

/// The address space of device memory.
pub(crate) const GLOBAL: u16 = 1;
/// Of LDS, which NVIDIA calls shared memory.
pub(crate) const LDS: u16 = 3;
/// Of memory that does not change while a kernel runs.
pub(crate) const CONSTANT: u16 = 4;

/// What differs between the GPUs of different makers.
pub(crate) trait Isa: Sized {
    /// LLVM's number of the calling convention of kernels (llvm/IR/CallingConv.h).
    const CONVENTION: u32;

    /// The address space of constant tables.
    const TABLES: u16 = CONSTANT;

    /// Bytes of LDS that code may declare. Where a kernel needs more, launches add all of it.
    const DECLARED_LDS: u32;

    /// Selectors of permutations: the bits that choose one of eight bytes, the one of them that says of which word, and
    /// the selector that takes the second word's bytes as they are.
    const SELECTOR: [u32; 3];

    /// Attributes of the kernel and flags of the module.
    fn interface(g: &Codegen<'_, '_, Self>);

    /// What a kernel does last.
    fn end(_: &Codegen<'_, '_, Self>) -> Result<()> {
        Ok(())
    }

    /// Whether kernels begin before the launches in front of them have ended. Then
    /// [`await_launches`](Isa::await_launches) comes before the first access to what those may write or read: to all but
    /// quantised views, which are weights.
    fn begins_early(&self) -> bool {
        false
    }

    /// Waits for the launches in front.
    fn await_launches(_: &Codegen<'_, '_, Self>) -> Result<()> {
        Ok(())
    }

    /// What accesses to a view are made with, made once at the kernel's start.
    fn view<'c>(g: &Codegen<'c, '_, Self>, view: View, base: PointerValue<'c>) -> Result<BasicValueEnum<'c>>;

    /// The thread's number in its workgroup.
    fn thread<'c>(g: &Codegen<'c, '_, Self>) -> Result<IntValue<'c>>;

    /// A number that is the same in all lanes of a wave, said to be so.
    fn uniform<'c>(g: &Codegen<'c, '_, Self>, n: IntValue<'c>) -> Result<IntValue<'c>>;

    /// The workgroup's number along an axis.
    fn program<'c>(g: &Codegen<'c, '_, Self>, axis: u8) -> Result<BasicValueEnum<'c>>;

    /// A float as a whole number, cut off and saturating, NaN as 0.
    fn whole<'c>(g: &Codegen<'c, '_, Self>, x: BasicValueEnum<'c>, signed: bool) -> Result<BasicValueEnum<'c>>;

    /// A byte of a word, the lowest being number 0, as a float.
    fn byte_to_float<'c>(g: &Codegen<'c, '_, Self>, word: IntValue<'c>, n: u8) -> Result<BasicValueEnum<'c>>;

    /// A load from a view: words, or one narrow value.
    fn load<'c>(
        g: &Codegen<'c, '_, Self>,
        view: View,
        at: &Address,
        bytes: u32,
        mask: Option<Val>,
    ) -> Result<BasicValueEnum<'c>>;

    /// A store to a view.
    fn store<'c>(
        g: &Codegen<'c, '_, Self>,
        view: View,
        at: &Address,
        value: BasicValueEnum<'c>,
        mask: Option<Val>,
    ) -> Result<()>;

    /// The lowest four bits of each byte of a word as a selector of permutations.
    fn selector<'c>(g: &Codegen<'c, '_, Self>, index: IntValue<'c>) -> Result<IntValue<'c>>;

    /// Four bytes chosen from eight: those of the second word are numbered first.
    fn permuted<'c>(
        g: &Codegen<'c, '_, Self>,
        high: IntValue<'c>,
        low: IntValue<'c>,
        selector: IntValue<'c>,
    ) -> Result<IntValue<'c>>;

    /// A dot product of bytes; lanes are built with one only where the chip has it.
    fn dot4<'c>(g: &Codegen<'c, '_, Self>, signed: bool, args: [BasicValueEnum<'c>; 3]) -> Result<BasicValueEnum<'c>>;

    /// A dot product of halves; lanes are built with one only where the chip has it.
    fn dot2<'c>(g: &Codegen<'c, '_, Self>, args: [BasicValueEnum<'c>; 3]) -> Result<BasicValueEnum<'c>>;

    /// The word of the lane whose number differs in these bits.
    fn shuffle_xor<'c>(g: &Codegen<'c, '_, Self>, x: BasicValueEnum<'c>, mask: u32) -> Result<BasicValueEnum<'c>>;

    /// A barrier of LDS.
    fn barrier(g: &Codegen<'_, '_, Self>) -> Result<()>;

    /// Words of matrices in LDS whose rows lanes point to; lanes are built with such loads only where the chip has them.
    fn load_matrices<'c>(
        g: &Codegen<'c, '_, Self>,
        row: PointerValue<'c>,
        count: u32,
        transposed: bool,
    ) -> Result<Vec<BasicValueEnum<'c>>>;

    /// A matrix instruction on fragments.
    fn mma<'c>(
        g: &Codegen<'c, '_, Self>,
        inst: &MatrixOp,
        a: &[Val],
        b: &[Val],
        c: &[Val],
    ) -> Result<Vec<BasicValueEnum<'c>>>;
}

pub(crate) type Result<T> = std::result::Result<T, String>;

/// State of generating one kernel.
pub(crate) struct Codegen<'c, 'k, I> {
    pub(crate) isa: I,
    pub(crate) cx: &'c Context,
    pub(crate) module: Module<'c>,
    pub(crate) b: Builder<'c>,
    pub(crate) k: &'k Kernel,
    pub(crate) lanes: &'k LaneKernel,
    pub(crate) function: FunctionValue<'c>,
    values: SecondaryMap<Val, Option<BasicValueEnum<'c>>>,
    pub(crate) scalars: HashMap<Value, BasicValueEnum<'c>>,
    /// Base address of each view, and what its accesses are made with.
    pub(crate) views: HashMap<View, (PointerValue<'c>, BasicValueEnum<'c>)>,
    lds: Option<PointerValue<'c>>,
    /// Whether the launches in front have ended where code is generated.
    awaited: bool,
    /// Registers that are predicates as numbers.
    conditions: EntitySet<Val>,
}

pub(crate) fn said(e: BuilderError) -> String {
    e.to_string()
}

/// Generates the module of a kernel and its lane form.
pub(crate) fn module<'c, I: Isa>(
    isa: I,
    cx: &'c Context,
    k: &Kernel,
    lanes: &LaneKernel,
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
        isa,
        cx,
        module,
        b,
        k,
        lanes,
        function,
        values: SecondaryMap::new(),
        scalars: HashMap::new(),
        views: HashMap::new(),
        lds: None,
        awaited: false,
        conditions: EntitySet::new(),
    };
    g.awaited = !g.isa.begins_early();
    g.function.set_call_conventions(I::CONVENTION);
    let nounwind = Attribute::get_named_enum_kind_id("nounwind");
    g.function.add_attribute(AttributeLoc::Function, cx.create_enum_attribute(nounwind, 0));
    I::interface(&g);
    let done = g.prologue().and_then(|()| g.block(&lanes.body)).and_then(|()| {
        I::end(&g)?;
        g.b.build_return(None).map_err(said)?;
        Ok(())
    });
    match done {
        Ok(()) => Ok(g.module),
        Err(reason) => Err(CompileError::Llvm { kernel: k.name.clone(), reason }),
    }
}

impl<'c, I: Isa> Codegen<'c, '_, I> {
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
                let resource = I::view(self, view, base)?;
                self.views.insert(view, (base, resource));
            }
        }
        if self.lanes.lds > 0 {
            let declared = self.lanes.lds <= I::DECLARED_LDS;
            let ty = self.cx.i8_type().array_type(if declared { self.lanes.lds } else { 0 });
            let lds = self.module.add_global(ty, Some(LDS.into()), &format!("{}_lds", self.k.name));
            if declared {
                lds.set_linkage(Linkage::Internal);
                lds.set_initializer(&ty.get_undef());
            }
            lds.set_alignment(64);
            self.lds = Some(lds.as_pointer_value());
        }
        Ok(())
    }

    pub(crate) fn get(&self, v: Val) -> Result<BasicValueEnum<'c>> {
        self.values[v].ok_or_else(|| format!("{v} is used before it is defined"))
    }

    pub(crate) fn int(&self, v: Val) -> Result<IntValue<'c>> {
        match self.get(v)? {
            BasicValueEnum::IntValue(i) => Ok(i),
            _ => Err(format!("{v} is no integer")),
        }
    }

    pub(crate) fn float(&self, v: Val) -> Result<FloatValue<'c>> {
        match self.get(v)? {
            BasicValueEnum::FloatValue(x) => Ok(x),
            _ => Err(format!("{v} is no float")),
        }
    }

    pub(crate) fn word(&self, n: u32) -> IntValue<'c> {
        self.cx.i32_type().const_int(u64::from(n), false)
    }

    fn block(&mut self, block: &[Inst]) -> Result<()> {
        for inst in block {
            if let Op::For { bounds, inits, params, body, yields } = &inst.op {
                // In a loop of one round or none it is waited for where it is needed.
                let awaited = self.awaited;
                if !self.is_condition(bounds[1]) {
                    self.await_before(inst)?;
                }
                self.for_loop(*bounds, inits, params, body, yields, &inst.results)?;
                self.awaited = awaited || !self.is_condition(bounds[1]) && self.awaited;
                continue;
            }
            self.await_before(inst)?;
            if let (Op::Un(Un::BToI, _), [r]) = (&inst.op, &inst.results[..]) {
                self.conditions.insert(*r);
            }
            let made = self.op(&inst.op, &inst.results)?;
            for (&r, v) in inst.results.iter().zip(made) {
                self.values[r] = Some(v);
            }
        }
        Ok(())
    }

    /// Whether a number is 0 or 1.
    fn is_condition(&self, v: Val) -> bool {
        self.conditions.contains(v)
    }

    /// Waits for the launches in front, if nothing has yet and the instruction touches what is theirs.
    fn await_before(&mut self, inst: &Inst) -> Result<()> {
        if self.awaited || !self.touches_shared(inst) {
            return Ok(());
        }
        self.awaited = true;
        I::await_launches(self)
    }

    /// Whether an instruction touches memory that other launches write, or that they read and it writes.
    fn touches_shared(&self, inst: &Inst) -> bool {
        match &inst.op {
            Op::Load { at, .. } | Op::Store { at, .. } => match at.space {
                Space::Global(view) => !self.is_weight(view),
                Space::Lds => false,
            },
            Op::For { body, .. } => body.iter().any(|i| self.touches_shared(i)),
            _ => false,
        }
    }

    /// Whether a view is of weights, which no kernel writes.
    pub(crate) fn is_weight(&self, view: View) -> bool {
        let data = &self.k.views[view];
        data.access == Access::In && matches!(data.content, Content::Quant(_))
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
    pub(crate) fn intrinsic(
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

    pub(crate) fn call(
        &self,
        name: &str,
        overloads: &[BasicTypeEnum<'c>],
        args: &[BasicValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>> {
        self.intrinsic(name, overloads, args)?.ok_or_else(|| format!("{name} has no value"))
    }
}
