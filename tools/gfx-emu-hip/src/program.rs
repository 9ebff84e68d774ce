//! Programs compiled from HIP's C++: what their initialisers register, and how their `<<<…>>>` launches.
//!
//! The functions are those that clang calls (clang/lib/CodeGen/CGCUDANV.cpp); code objects are loaded when a kernel of
//! theirs is launched first, since the device may be chosen after initialisers have run.

use crate::bundle::Image;
use crate::call::{functions, give};
use crate::graph::Operation;
use crate::launch::Dim3;
use crate::module::{Function, LoadedModule, text};
use crate::state::{Handle, State, lock};
use crate::status::Status;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

/// What initialisers pass: a magic number, a version, and the address of a bundle.
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    binary: *const c_void,
    unused: *const c_void,
}

/// "HIPF" as a number.
const MAGIC: u32 = 0x4849_5046;

/// The bundle of a program or of one of its libraries.
pub struct Program {
    binary: *const c_void,
    module: Option<LoadedModule>,
}

/// The configuration of a launch: grid, workgroup, LDS, stream.
type Configuration = (Dim3, Dim3, usize, Handle);

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// Registers a bundle. Returns what stands for it; null if it is none.
///
/// # Safety
/// As clang generates it: the wrapper and the bundle stay until it is unregistered.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "HIP's name")]
pub unsafe extern "C" fn __hipRegisterFatBinary(wrapper: *const c_void) -> *mut *mut c_void {
    if wrapper.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    let Wrapper { magic, binary, .. } = unsafe { wrapper.cast::<Wrapper>().read_unaligned() };
    if magic != MAGIC {
        return std::ptr::null_mut();
    }
    let mut state = lock();
    let handle = state.new_handle();
    state.programs.insert(handle as u64, Program { binary, module: None });
    handle.cast()
}

/// Forgets a bundle.
///
/// # Safety
/// Any address is taken.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "HIP's name")]
pub unsafe extern "C" fn __hipUnregisterFatBinary(handle: *mut *mut c_void) {
    let mut state = lock();
    let handle = handle as u64;
    state.programs.remove(&handle);
    state.stubs.retain(|_, (program, _)| *program != handle);
    state.variables.retain(|_, (program, _)| *program != handle);
}

/// Registers a kernel by the address of its host function.
///
/// # Safety
/// The name is a string that ends with 0.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "HIP's name")]
#[allow(clippy::too_many_arguments, reason = "HIP's")]
pub unsafe extern "C" fn __hipRegisterFunction(
    program: *mut *mut c_void,
    stub: *const c_void,
    _name: *mut c_char,
    device_name: *const c_char,
    _threads: c_uint,
    _tid: *mut c_void,
    _bid: *mut c_void,
    _block: *mut Dim3,
    _grid: *mut Dim3,
    _wave: *mut c_int,
) {
    if let Ok(name) = text(device_name) {
        lock().stubs.insert(stub as u64, (program as u64, name));
    }
}

/// Registers a variable of the device by the address of the host's.
///
/// # Safety
/// The name is a string that ends with 0.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "HIP's name")]
#[allow(clippy::too_many_arguments, reason = "HIP's")]
pub unsafe extern "C" fn __hipRegisterVar(
    program: *mut *mut c_void,
    variable: *const c_void,
    _host_name: *mut c_char,
    device_name: *const c_char,
    _external: c_int,
    _bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    if let Ok(name) = text(device_name) {
        lock().variables.insert(variable as u64, (program as u64, name));
    }
}

functions! {
    /// Keeps the configuration of the launch that comes next.
    fn __hipPushCallConfiguration(grid: Dim3, block: Dim3, lds: usize, stream: Handle) |_| {
        CONFIGURATIONS.with(|c| c.borrow_mut().push((grid, block, lds, stream)));
        Ok(())
    };
    /// Gives it back.
    fn __hipPopCallConfiguration(grid: *mut Dim3, block: *mut Dim3, lds: *mut usize, stream: *mut Handle) |_| {
        let last = CONFIGURATIONS.with(|c| c.borrow_mut().pop()).ok_or(Status::MISSING_CONFIGURATION)?;
        // SAFETY: clang passes room for all four.
        unsafe {
            give(grid, last.0)?;
            give(block, last.1)?;
            give(lds, last.2)?;
            give(stream, last.3)
        }
    };
    /// The address of a variable of the device.
    fn hipGetSymbolAddress(address: *mut Handle, symbol: *const c_void) |state| {
        let (at, _) = state.variable_of(symbol as u64)?;
        // SAFETY: HIP's callers pass room for an address.
        unsafe { give(address, at as Handle) }
    };
    /// The bytes of a variable of the device.
    fn hipGetSymbolSize(bytes: *mut usize, symbol: *const c_void) |state| {
        let (_, size) = state.variable_of(symbol as u64)?;
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(bytes, size as usize) }
    };
    /// Copies to a variable of the device, and waits.
    fn hipMemcpyToSymbol(symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, _kind: c_int) |state| {
        let at = inside(state.variable_of(symbol as u64)?, offset, bytes)?;
        state.give(std::ptr::null_mut(), Operation::Copy { to: at, from: from as u64, bytes })?;
        state.settle()
    };
    /// Copies from a variable of the device, and waits.
    fn hipMemcpyFromSymbol(to: Handle, symbol: *const c_void, bytes: usize, offset: usize, _kind: c_int) |state| {
        let at = inside(state.variable_of(symbol as u64)?, offset, bytes)?;
        state.give(std::ptr::null_mut(), Operation::Copy { to: to as u64, from: at, bytes })?;
        state.settle()
    };
}

/// The address of a part of a variable.
fn inside((at, size): (u64, u64), offset: usize, bytes: usize) -> Result<u64, Status> {
    let end = offset.checked_add(bytes).filter(|&end| end as u64 <= size);
    end.map(|_| at + offset as u64).ok_or(Status::INVALID_VALUE)
}

impl State {
    /// The kernel that a host function stands for.
    pub fn kernel_of(&mut self, stub: u64) -> Result<Arc<Function>, Status> {
        let (program, name) = self.stubs.get(&stub).cloned().ok_or(Status::INVALID_DEVICE_FUNCTION)?;
        self.loaded(program)?.kernel(&name).ok_or(Status::INVALID_DEVICE_FUNCTION)
    }

    /// Address and bytes of the device's variable that a host variable stands for.
    fn variable_of(&mut self, symbol: u64) -> Result<(u64, u64), Status> {
        let (program, name) = self.variables.get(&symbol).cloned().ok_or(Status::INVALID_SYMBOL)?;
        self.loaded(program)?.variable(&name).ok_or(Status::INVALID_SYMBOL)
    }

    /// A program's code object, loaded if it is not yet.
    fn loaded(&mut self, program: u64) -> Result<LoadedModule, Status> {
        let (machine, chip) = (self.device()?, self.chip()?);
        let program = self.programs.get_mut(&program).ok_or(Status::INVALID_HANDLE)?;
        if let Some(module) = &program.module {
            return Ok(module.clone());
        }
        // SAFETY: clang's initialisers pass whole bundles that stay.
        let image = unsafe { Image::at(program.binary) };
        let module = LoadedModule::load(&machine, image.code_object(chip)?)?;
        program.module = Some(module.clone());
        Ok(module)
    }
}
