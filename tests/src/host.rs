//! Compiled kernels on the machine at hand, held against the interpreter.
//!
//! Every buffer lies between two pages that can't be touched, once flush with its start and once with its end, so that
//! an access outside ends the test with a signal; bytes between the buffer and its page are checked afterwards.

use hrx_compiler::{LoadedKernel, Target, compile};
use hrx_ir::tile::interp::{self, Interpreted, Memory, Options};
use hrx_ir::tile::{Access, Content, Elem, Kernel, Op, Param, UnaryOp, Value};
use std::collections::HashMap;
use std::ptr::NonNull;

pub use hrx_ir::tile::interp::{Buffers, Input};

/// What bytes hold that nobody wrote: the interpreter's choice.
const UNWRITTEN: u8 = 0xA5;

/// What bytes around a buffer hold.
const CANARY: u8 = 0xC3;

/// Runs a kernel in the interpreter.
///
/// # Errors
/// What the kernel does that is not defined.
pub fn interpret(kernel: &Kernel, inputs: &[Input], options: &Options) -> Result<Buffers, interp::Fault> {
    Interpreted::run(kernel, inputs, options).map(|done| done.buffers())
}

/// At which end a buffer touches a page that can't be accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// Its first byte follows such a page.
    Start,
    /// Such a page follows its last byte.
    End,
}

/// Memory between two pages that can't be accessed.
struct Guarded {
    base: NonNull<u8>,
    mapped: usize,
    /// Offset and length of the buffer.
    start: usize,
    len: usize,
}

const PAGE: usize = 4096;

impl Guarded {
    fn new(bytes: &[u8], flush: Flush, align: usize) -> Guarded {
        let room = bytes.len().next_multiple_of(PAGE);
        let mapped = room + 2 * PAGE;
        let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
        assert!(base != libc::MAP_FAILED, "no memory for a buffer of {} bytes", bytes.len());
        let base = NonNull::new(base.cast::<u8>()).expect("a mapping is not at address 0");
        if room > 0 {
            // SAFETY: the pages lie inside the mapping.
            let inner = unsafe { base.as_ptr().add(PAGE) };
            // SAFETY: as above.
            let rc = unsafe { libc::mprotect(inner.cast(), room, libc::PROT_READ | libc::PROT_WRITE) };
            assert_eq!(rc, 0, "pages can be made writable");
        }
        let offset = match flush {
            Flush::Start => 0,
            Flush::End => (room - bytes.len()) / align * align,
        };
        let mut guarded = Guarded { base, mapped, start: PAGE + offset, len: bytes.len() };
        guarded.inner().fill(CANARY);
        guarded.inner()[offset..offset + bytes.len()].copy_from_slice(bytes);
        guarded
    }

    /// The accessible pages.
    fn inner(&mut self) -> &mut [u8] {
        // SAFETY: these pages of the mapping are readable and writable, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(PAGE), self.mapped - 2 * PAGE) }
    }

    fn address(&self) -> *mut u8 {
        // SAFETY: the start lies inside the mapping.
        unsafe { self.base.as_ptr().add(self.start) }
    }

    /// The buffer's bytes, if those around it are as they were.
    fn take(mut self) -> Option<Vec<u8>> {
        let range = self.start - PAGE..self.start - PAGE + self.len;
        let inner = self.inner();
        let whole = [&inner[..range.start], &inner[range.end..]].concat().iter().all(|&b| b == CANARY);
        whole.then(|| inner[range].to_vec())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and its address is not used any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// A way from tile IR to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lowering {
    /// The compiler's own code generation.
    Own,
    /// Through MLIR's passes.
    #[cfg(feature = "mlir")]
    Mlir,
}

impl Lowering {
    /// Those that there are in this build, the compiler's own first.
    pub const ALL: &[Lowering] = &[
        Lowering::Own,
        #[cfg(feature = "mlir")]
        Lowering::Mlir,
    ];

    /// Those that a kernel is taken through. What is cut for waves is long in a processor's vectors, and MLIR takes
    /// seconds for it: one kernel in eight goes that way.
    fn of(kernel: &Kernel) -> &'static [Lowering] {
        let reads_runs = kernel.insts.values().any(|i| matches!(i.op, Op::LoadRun { .. }));
        let long = (kernel.waves > 1 || reads_runs) && !crate::draw(kernel).is_multiple_of(8);
        if long { &Lowering::ALL[..1] } else { Lowering::ALL }
    }
}

/// A kernel compiled for a target that this machine can run.
pub struct HostKernel<'k> {
    kernel: &'k Kernel,
    code: LoadedKernel,
}

impl<'k> HostKernel<'k> {
    /// Compiles and loads.
    ///
    /// # Errors
    /// What the compiler or the loader says.
    pub fn new(kernel: &'k Kernel, target: &Target) -> Result<HostKernel<'k>, hrx_compiler::CompileError> {
        HostKernel::lowered(kernel, target, Lowering::Own)
    }

    /// As [`HostKernel::new`], on the way named.
    ///
    /// # Errors
    /// What the compiler or the loader says.
    pub fn lowered(
        kernel: &'k Kernel,
        target: &Target,
        lowering: Lowering,
    ) -> Result<HostKernel<'k>, hrx_compiler::CompileError> {
        let object = match lowering {
            Lowering::Own => compile(kernel, target)?.object,
            #[cfg(feature = "mlir")]
            Lowering::Mlir => hrx_compiler::mlir::emit(kernel, target, hrx_compiler::Emit::Obj)?,
        };
        Ok(HostKernel { kernel, code: LoadedKernel::load(&object, &kernel.name)? })
    }

    /// Runs the whole grid, in the interpreter's order. The kernel must run without a fault in the interpreter on the
    /// same inputs.
    ///
    /// # Errors
    /// Writes next to a buffer.
    pub fn run(&self, inputs: &[Input], flush: Flush) -> Result<Buffers, String> {
        let k = self.kernel;
        assert_eq!(inputs.len(), k.params.len(), "{}: an input for each parameter", k.name);
        let mut buffers: Vec<Option<Guarded>> = Vec::new();
        let mut slots: Vec<u64> = Vec::new();
        let mut scalars: HashMap<Value, i64> = HashMap::new();
        for (input, param) in inputs.iter().zip(&k.params) {
            let buffer = match input {
                Input::Bytes(bytes) => Some(Guarded::new(bytes, flush, 1)),
                Input::Room(n) => Some(Guarded::new(&vec![UNWRITTEN; *n], flush, 1)),
                _ => None,
            };
            slots.push(match (input, param, &buffer) {
                (Input::I32(n), Param::Scalar(v), _) => {
                    scalars.insert(*v, i64::from(*n));
                    u64::from(*n as u32)
                }
                (Input::F32(x), Param::Scalar(_), _) => u64::from(x.to_bits()),
                (Input::Same(slot), Param::View(_), _) => slots[*slot],
                (_, Param::View(_), Some(b)) => b.address() as u64,
                _ => panic!("{}: {input:?} for {param:?}", k.name),
            });
            buffers.push(buffer);
        }
        let local_bytes = k.local_bytes().expect("local memory of known size") as usize;
        let local = Guarded::new(&vec![UNWRITTEN; local_bytes], flush, 64);
        let grid = [0, 1, 2].map(|axis| k.grid[axis].eval(&|v| scalars.get(&v).copied().unwrap_or(0)));
        for z in 0..grid[2] {
            for y in 0..grid[1] {
                for x in 0..grid[0] {
                    let ids = [x, y, z].map(|id| id as i32);
                    // SAFETY: slots are one a parameter and local memory is as large as the kernel's; that buffers are
                    // large enough the interpreter has found, and where code does otherwise, a page that can't be
                    // accessed ends the process.
                    unsafe { self.code.call(slots.as_ptr(), ids, local.address()) };
                }
            }
        }
        let around = |what: &str| format!("{}: {what} was written outside its bounds", k.name);
        local.take().ok_or_else(|| around("local memory"))?;
        let mut out: Buffers = Vec::new();
        for (slot, buffer) in buffers.into_iter().enumerate() {
            let bytes = match (buffer, &inputs[slot]) {
                (Some(b), _) => Some(b.take().ok_or_else(|| around(&format!("the buffer of slot {slot}")))?),
                (None, Input::Same(of)) => out[*of].clone(),
                (None, _) => None,
            };
            out.push(bytes);
        }
        Ok(out)
    }
}

/// The targets that this machine runs: its own, and the least one.
pub fn targets() -> Vec<Target> {
    let mut targets = vec![Target::x86_64_v3()];
    let host = Target::host().expect("a supported host");
    if host != targets[0] {
        targets.push(host);
    }
    targets
}

/// Whether the kernel has operations whose results may differ between targets.
pub fn is_approximate(kernel: &Kernel) -> bool {
    let approximate = |op: &Op| matches!(op, Op::Unary { op: UnaryOp::Exp | UnaryOp::Tanh, .. });
    kernel.insts.values().any(|i| approximate(&i.op))
}

/// How far results of kernels with `exp` or `tanh` may be from the interpreter's: floats, relative to the largest of
/// their buffer, 2^-18 (both functions are within 4 units in the last place, and templates add and multiply a few of
/// their results); 8-bit integers, which are rounded from such floats, by one.
pub const APPROXIMATE: f64 = 1.0 / 262_144.0;

/// A kernel compiled on every way for targets of this machine, to be held against the interpreter. The kernel in lane form
/// is held to it too, for a chip of each kind.
pub struct Checker<'k> {
    kernel: &'k Kernel,
    codes: Vec<(Target, Vec<(Lowering, HostKernel<'k>)>)>,
}

impl<'k> Checker<'k> {
    /// Compiles and loads.
    ///
    /// # Errors
    /// What the compiler or the loader says.
    pub fn new(kernel: &'k Kernel) -> Result<Checker<'k>, String> {
        Checker::for_targets(kernel, &targets())
    }

    /// As [`Checker::new`], for these targets of this machine only.
    ///
    /// # Errors
    /// What the compiler or the loader says.
    pub fn for_targets(kernel: &'k Kernel, targets: &[Target]) -> Result<Checker<'k>, String> {
        let way = |target: &Target, &lowering: &Lowering| {
            let compiled = HostKernel::lowered(kernel, target, lowering);
            compiled.map(|code| (lowering, code)).map_err(|e| format!("{}, {lowering:?}: {e}", target.name()))
        };
        let ways = |target: &Target| {
            let codes = Lowering::of(kernel).iter().map(|l| way(target, l)).collect::<Result<_, _>>()?;
            Ok((target.clone(), codes))
        };
        Ok(Checker { kernel, codes: targets.iter().map(ways).collect::<Result<_, String>>()? })
    }

    /// Runs the kernel in the interpreter, rounding as a device does, and compiled, and compares the bytes of all
    /// buffers: to the bit, but for the payloads of NaNs, and [`APPROXIMATE`] where the kernel has such operations.
    /// The ways of compiling differ in no bit, but for those payloads.
    ///
    /// # Errors
    /// A fault in the interpreter, or the first difference.
    pub fn check(&self, inputs: &[Input]) -> Result<Buffers, String> {
        let k = self.kernel;
        let want = interpret(k, inputs, &Options::exact()).map_err(|e| e.to_string())?;
        for (target, codes) in &self.codes {
            let mut first: Option<Buffers> = None;
            for (lowering, code) in codes {
                let place = |e: String| format!("{} for {}, {lowering:?}: {e}", k.name, target.name());
                for flush in [Flush::Start, Flush::End] {
                    let got = code.run(inputs, flush).map_err(place)?;
                    compare(k, inputs, &got, &want, is_approximate(k), true).map_err(place)?;
                    if let Some(first) = &first {
                        compare(k, inputs, &got, first, false, true)
                            .map_err(|e| place(format!("not as own code: {e}")))?;
                    }
                    first.get_or_insert(got);
                }
            }
        }
        for chip in crate::lanes::chips_for(k, inputs) {
            let place = |e: String| format!("{} in lanes of {}: {e}", k.name, chip.name);
            let got = crate::lanes::run(k, inputs, chip).map_err(place)?;
            compare(k, inputs, &got, &want, is_approximate(k), true).map_err(place)?;
        }
        Ok(want)
    }
}

/// Compiles a kernel and [checks](Checker::check) it on one set of inputs.
///
/// # Errors
/// What the compiler says, a fault in the interpreter, or the first difference.
pub fn check(kernel: &Kernel, inputs: &[Input]) -> Result<Buffers, String> {
    Checker::new(kernel)?.check(inputs)
}

/// Compares the buffers of a run with those wanted: to the bit, but for payloads of NaNs and, without `signed_zeros`, the
/// signs of zeros; or [`APPROXIMATE`].
///
/// # Errors
/// The first difference.
pub fn compare(
    kernel: &Kernel,
    inputs: &[Input],
    got: &Buffers,
    want: &Buffers,
    approximate: bool,
    signed_zeros: bool,
) -> Result<(), String> {
    // A slot whose memory another one writes is compared there.
    let shared = |slot: usize| inputs.iter().any(|i| matches!(i, Input::Same(of) if *of == slot));
    for (slot, param) in kernel.params.iter().enumerate() {
        let (Param::View(view), Some(got), Some(want)) = (param, &got[slot], &want[slot]) else { continue };
        let view = &kernel.views[*view];
        if got == want || (view.access == Access::In && shared(slot)) {
            continue;
        }
        let elem = match view.content {
            Content::Elem(e) if view.access != Access::In => e,
            _ => return Err(format!("slot {slot}, which is only read, was changed")),
        };
        let (got, want) = (decode(elem, got), decode(elem, want));
        let room = match (approximate, elem) {
            (false, _) => 0.0,
            (true, Elem::I8) => 1.0,
            (true, e) if e.is_float() => {
                APPROXIMATE * want.iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()))
            }
            (true, _) => 0.0,
        };
        let agree = |g: f64, w: f64| {
            let near = g == w && !signed_zeros || room > 0.0 && (g - w).abs() <= room;
            g.to_bits() == w.to_bits() || (g.is_nan() && w.is_nan()) || near
        };
        if let Some(i) = got.iter().zip(&want).position(|(&g, &w)| !agree(g, w)) {
            return Err(format!("slot {slot}, element {i}: {:?}, not {:?}", got[i], want[i]));
        }
    }
    Ok(())
}

/// Bytes as elements, which f64 holds exactly.
pub fn decode(elem: Elem, bytes: &[u8]) -> Vec<f64> {
    let mut memory = Memory::new();
    let id = memory.add(bytes.to_vec());
    memory.elems(id, elem)
}

/// Elements as bytes, rounded to their type.
pub fn encode(elem: Elem, elems: &[f64]) -> Vec<u8> {
    let mut memory = Memory::new();
    let id = memory.add_elems(elem, elems);
    memory.bytes(id).to_vec()
}
