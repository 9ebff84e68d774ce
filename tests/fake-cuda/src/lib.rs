//! A library with the functions of NVIDIA's driver that hrx uses, for machines that have none: it keeps memory and copies,
//! assembles PTX to "machine code" that is the text again, and writes down every call. Kernels are not executed.
//!
//! What it holds its caller to is what the driver documents: a context that is retained and current, addresses that were
//! allocated, handles that are there, machine code and not PTX, more shared memory than 48 KiB only where it was asked for,
//! nothing but work in a capture.
//!
//! Tests control it by `fakeCudaReset`, `fakeCudaSet` and `fakeCudaFail`, and read what was called by `fakeCudaCalls`.

#![allow(non_snake_case, reason = "CUDA's names")]
#![allow(clippy::missing_safety_doc, reason = "they are CUDA's: cuda.h says how they are called")]

mod state;

use state::{
    Function, INVALID_CONTEXT, INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, Link, Module, NO_BINARY, NO_DEVICE,
    NOT_FOUND, OUT_OF_MEMORY, SUCCESS, State, lock, run,
};
use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::fmt::Write;

type Handle = *mut c_void;

/// What machine code begins with.
const MACHINE_CODE: &[u8] = b"\x7fcubin:";

/// Bytes of dynamic shared memory without asking.
const SHARED_UNASKED: u32 = 48 << 10;

thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// Exported functions. The text behind the name is what is written down beside it.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident as $called:literal ($($arg:ident: $ty:ty),* $(,)?) $what:expr, |$state:pat_param| $work:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "CUDA's")]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            run($called, &$what, |$state| $work)
        }
    )*};
}

const QUIET: &str = "";

functions! {
    /// Starts the driver API.
    fn cuInit as "cuInit"(_flags: c_uint) QUIET, |s| if s.devices.is_empty() { Err(NO_DEVICE) } else { Ok(()) };
    /// The driver's version.
    fn cuDriverGetVersion as "cuDriverGetVersion"(version: *mut c_int) QUIET, |s| give(version, s.version);
    /// The number of devices.
    fn cuDeviceGetCount as "cuDeviceGetCount"(count: *mut c_int) QUIET, |s| give(count, s.devices.len() as c_int);
    /// A device.
    fn cuDeviceGet as "cuDeviceGet"(device: *mut c_int, number: c_int) QUIET, |s| {
        known(s, number)?;
        give(device, number)
    };
    /// Its name.
    fn cuDeviceGetName as "cuDeviceGetName"(name: *mut c_char, len: c_int, device: c_int) QUIET, |s| {
        known(s, device)?;
        give_text(name, len, &format!("Fake GPU {device}"))
    };
    /// Its place on the PCI bus.
    fn cuDeviceGetPCIBusId as "cuDeviceGetPCIBusId"(name: *mut c_char, len: c_int, device: c_int) QUIET, |s| {
        known(s, device)?;
        give_text(name, len, &format!("0000:0{device}:00.0"))
    };
    /// A number of it: its multiprocessors, its compute capability.
    fn cuDeviceGetAttribute as "cuDeviceGetAttribute"(value: *mut c_int, attribute: c_int, device: c_int) QUIET, |s| {
        let [major, minor] = known(s, device)?;
        give(value, match attribute {
            16 => 132,
            75 => major,
            76 => minor,
            _ => return Err(INVALID_VALUE),
        })
    };
    /// Its memory.
    fn cuDeviceTotalMem_v2 as "cuDeviceTotalMem"(bytes: *mut usize, device: c_int) QUIET, |s| {
        known(s, device)?;
        give(bytes, s.memory)
    };
    /// Takes a share in a device's context.
    fn cuDevicePrimaryCtxRetain as "cuDevicePrimaryCtxRetain"(context: *mut Handle, device: c_int) QUIET, |s| {
        known(s, device)?;
        *s.retained.entry(device).or_default() += 1;
        give(context, (0x100 + device as usize) as Handle)
    };
    /// Gives it back.
    fn cuDevicePrimaryCtxRelease_v2 as "cuDevicePrimaryCtxRelease"(device: c_int) QUIET, |s| {
        match s.retained.get_mut(&device) {
            Some(n) if *n > 0 => { *n -= 1; Ok(()) }
            _ => Err(INVALID_CONTEXT),
        }
    };
    /// Makes a context the thread's.
    fn cuCtxSetCurrent as "cuCtxSetCurrent"(context: Handle) QUIET, |s| {
        s.calls.pop();
        CURRENT.with(|c| c.set(context as u64));
        Ok(())
    };
    /// Memory free and in all.
    fn cuMemGetInfo_v2 as "cuMemGetInfo"(free: *mut usize, total: *mut usize) QUIET, |s| {
        current(s)?;
        give(free, s.memory - s.used)?;
        give(total, s.memory)
    };
    /// Allocates.
    fn cuMemAlloc_v2 as "cuMemAlloc"(address: *mut u64, bytes: usize) bytes.to_string(), |s| {
        current(s)?;
        if bytes == 0 { return Err(INVALID_VALUE) }
        if bytes > s.memory - s.used { return Err(OUT_OF_MEMORY) }
        s.used += bytes;
        give(address, allocate(s, bytes)?)
    };
    /// Frees.
    fn cuMemFree_v2 as "cuMemFree"(address: u64) QUIET, |s| {
        current(s)?;
        s.used -= free(s, address)?;
        Ok(())
    };
    /// Allocates memory of the host.
    fn cuMemHostAlloc as "cuMemHostAlloc"(address: *mut Handle, bytes: usize, _flags: c_uint) QUIET, |s| {
        current(s)?;
        give(address, allocate(s, bytes)? as Handle)
    };
    /// Frees that.
    fn cuMemFreeHost as "cuMemFreeHost"(address: Handle) QUIET, |s| {
        current(s)?;
        free(s, address as u64).map(drop)
    };
    /// Copies to the device.
    fn cuMemcpyHtoDAsync_v2 as "cuMemcpyHtoDAsync"(to: u64, from: *const c_void, bytes: usize, stream: Handle)
        bytes.to_string(), |s| copy(s, to, from as u64, bytes, stream);
    /// Copies from the device.
    fn cuMemcpyDtoHAsync_v2 as "cuMemcpyDtoHAsync"(to: Handle, from: u64, bytes: usize, stream: Handle)
        bytes.to_string(), |s| copy(s, to as u64, from, bytes, stream);
    /// Copies inside the device.
    fn cuMemcpyDtoDAsync_v2 as "cuMemcpyDtoDAsync"(to: u64, from: u64, bytes: usize, stream: Handle)
        bytes.to_string(), |s| copy(s, to, from, bytes, stream);
    /// Fills.
    fn cuMemsetD8Async as "cuMemsetD8Async"(to: u64, byte: c_uchar, bytes: usize, stream: Handle)
        bytes.to_string(), |s| {
        in_stream(s, stream)?;
        inside(s, to, bytes)?;
        // SAFETY: the bytes are of an allocation.
        unsafe { std::ptr::write_bytes(to as *mut u8, byte, bytes) };
        Ok(())
    };
    /// Makes a stream.
    fn cuStreamCreate as "cuStreamCreate"(stream: *mut Handle, _flags: c_uint) QUIET, |s| {
        current(s)?;
        let made = s.handle();
        s.streams.push(made);
        give(stream, made as Handle)
    };
    /// Waits for it.
    fn cuStreamSynchronize as "cuStreamSynchronize"(stream: Handle) QUIET, |s| {
        if s.captured.is_some() { return Err(900) }
        in_stream(s, stream)
    };
    /// Ends it.
    fn cuStreamDestroy_v2 as "cuStreamDestroy"(stream: Handle) QUIET, |s| {
        in_stream(s, stream)?;
        s.streams.retain(|&x| x != stream as u64);
        Ok(())
    };
    /// Makes a stream wait for an event.
    fn cuStreamWaitEvent as "cuStreamWaitEvent"(stream: Handle, event: Handle, _flags: c_uint) QUIET, |s| {
        in_stream(s, stream)?;
        s.events.get(&(event as u64)).copied().flatten().map(drop).ok_or(INVALID_HANDLE)
    };
    /// Makes an event.
    fn cuEventCreate as "cuEventCreate"(event: *mut Handle, _flags: c_uint) QUIET, |s| {
        current(s)?;
        let made = s.handle();
        s.events.insert(made, None);
        give(event, made as Handle)
    };
    /// Records it.
    fn cuEventRecord as "cuEventRecord"(event: Handle, stream: Handle) QUIET, |s| {
        in_stream(s, stream)?;
        let now = s.calls.len();
        *s.events.get_mut(&(event as u64)).ok_or(INVALID_HANDLE)? = Some(now);
        Ok(())
    };
    /// Waits for it.
    fn cuEventSynchronize as "cuEventSynchronize"(event: Handle) QUIET, |s| {
        s.events.get(&(event as u64)).map(drop).ok_or(INVALID_HANDLE)
    };
    /// The time between two: a microsecond for each call that lies between.
    fn cuEventElapsedTime as "cuEventElapsedTime"(ms: *mut f32, from: Handle, to: Handle) QUIET, |s| {
        let at = |e: Handle| s.events.get(&(e as u64)).copied().flatten().ok_or(INVALID_HANDLE);
        give(ms, (at(to)? as f32 - at(from)? as f32) / 1e3)
    };
    /// Ends it.
    fn cuEventDestroy_v2 as "cuEventDestroy"(event: Handle) QUIET, |s| {
        s.events.remove(&(event as u64)).map(drop).ok_or(INVALID_HANDLE)
    };
    /// Loads machine code.
    fn cuModuleLoadData as "cuModuleLoadData"(module: *mut Handle, image: *const c_void) QUIET, |s| {
        current(s)?;
        // SAFETY: images are longer than this.
        let start = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), MACHINE_CODE.len()) };
        if start != MACHINE_CODE { return Err(NO_BINARY) }
        // SAFETY: machine code of ours ends with a 0.
        let text = unsafe { CStr::from_ptr(image.cast::<c_char>().add(MACHINE_CODE.len())) };
        let made = s.handle();
        s.modules.insert(made, Module { ptx: text.to_string_lossy().into_owned() });
        give(module, made as Handle)
    };
    /// Unloads it.
    fn cuModuleUnload as "cuModuleUnload"(module: Handle) QUIET, |s| {
        current(s)?;
        s.modules.remove(&(module as u64)).map(drop).ok_or(INVALID_HANDLE)
    };
    /// A function of it.
    fn cuModuleGetFunction as "cuModuleGetFunction"(function: *mut Handle, module: Handle, name: *const c_char) QUIET, |s| {
        // SAFETY: the caller passes a string that ends with 0.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let module = s.modules.get(&(module as u64)).ok_or(INVALID_HANDLE)?;
        if !module.ptx.contains(&format!(".entry {name}(")) { return Err(NOT_FOUND) }
        let made = s.handle();
        s.functions.insert(made, Function { name, most_shared: SHARED_UNASKED });
        give(function, made as Handle)
    };
    /// Lets a function have more dynamic shared memory.
    fn cuFuncSetAttribute as "cuFuncSetAttribute"(function: Handle, attribute: c_int, value: c_int)
        format!("{attribute} {value}"), |s| {
        let f = s.functions.get_mut(&(function as u64)).ok_or(INVALID_HANDLE)?;
        if attribute != 8 || value as u32 > 227 << 10 { return Err(INVALID_VALUE) }
        f.most_shared = value as u32;
        Ok(())
    };
    /// Begins to link.
    fn cuLinkCreate_v2 as "cuLinkCreate"(count: c_uint, options: *mut c_int, values: *mut Handle, state: *mut Handle)
        QUIET, |s| {
        current(s)?;
        let mut log = (0, 0);
        for i in 0..count as usize {
            // SAFETY: the caller passes so many of both.
            let (option, value) = unsafe { (*options.add(i), *values.add(i) as usize) };
            match option {
                5 => log.0 = value,
                6 => log.1 = value,
                _ => return Err(INVALID_VALUE),
            }
        }
        let made = s.handle();
        s.links.insert(made, Link { log, code: Vec::new() });
        give(state, made as Handle)
    };
    /// Adds PTX.
    fn cuLinkAddData_v2 as "cuLinkAddData"(
        state: Handle, kind: c_int, data: Handle, bytes: usize, _name: *const c_char, _count: c_uint,
        _options: *mut c_int, _values: *mut Handle,
    ) QUIET, |s| {
        // SAFETY: the caller passes so many bytes.
        let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) };
        let link = s.links.get_mut(&(state as u64)).ok_or(INVALID_HANDLE)?;
        if kind != 1 || data.last() != Some(&0) { return Err(INVALID_VALUE) }
        if !String::from_utf8_lossy(data).contains(".entry") {
            let text = b"ptxas fatal   : no entry in it\n\0";
            let (to, room) = link.log;
            // SAFETY: the log has that room.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to as *mut u8, text.len().min(room)) };
            return Err(INVALID_PTX);
        }
        link.code = [MACHINE_CODE, data].concat();
        Ok(())
    };
    /// Links.
    fn cuLinkComplete as "cuLinkComplete"(state: Handle, code: *mut Handle, bytes: *mut usize) QUIET, |s| {
        let link = s.links.get_mut(&(state as u64)).ok_or(INVALID_HANDLE)?;
        give(bytes, link.code.len())?;
        give(code, link.code.as_mut_ptr().cast())
    };
    /// Ends that.
    fn cuLinkDestroy as "cuLinkDestroy"(state: Handle) QUIET, |s| {
        s.links.remove(&(state as u64)).map(drop).ok_or(INVALID_HANDLE)
    };
    /// What the stream is given is captured.
    fn cuStreamBeginCapture_v2 as "cuStreamBeginCapture"(stream: Handle, _mode: c_int) QUIET, |s| {
        in_stream(s, stream)?;
        s.captured = Some(Vec::new());
        Ok(())
    };
    /// Ends that.
    fn cuStreamEndCapture as "cuStreamEndCapture"(stream: Handle, graph: *mut Handle) QUIET, |s| {
        in_stream(s, stream)?;
        let captured = s.captured.take().ok_or(901)?;
        let made = s.handle();
        s.graphs.insert(made, captured);
        give(graph, made as Handle)
    };
    /// Makes a graph executable.
    fn cuGraphInstantiateWithFlags as "cuGraphInstantiateWithFlags"(
        executable: *mut Handle, graph: Handle, _flags: c_ulonglong
    ) QUIET, |s| {
        let captured = s.graphs.get(&(graph as u64)).ok_or(INVALID_HANDLE)?.clone();
        let made = s.handle();
        s.graphs.insert(made, captured);
        give(executable, made as Handle)
    };
    /// Launches one: its launches are written down again.
    fn cuGraphLaunch as "cuGraphLaunch"(executable: Handle, stream: Handle) QUIET, |s| {
        in_stream(s, stream)?;
        let captured = s.graphs.get(&(executable as u64)).ok_or(INVALID_HANDLE)?.clone();
        s.calls.extend(captured.iter().map(|c| format!("  graph: {c}")));
        Ok(())
    };
    /// Ends one.
    fn cuGraphExecDestroy as "cuGraphExecDestroy"(executable: Handle) QUIET, |s| {
        s.graphs.remove(&(executable as u64)).map(drop).ok_or(INVALID_HANDLE)
    };
    /// Ends a graph.
    fn cuGraphDestroy as "cuGraphDestroy"(graph: Handle) QUIET, |s| {
        s.graphs.remove(&(graph as u64)).map(drop).ok_or(INVALID_HANDLE)
    };
}

/// Launches a kernel: what it is given is written down, arguments as hexadecimal bytes.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "CUDA's")]
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    gx: c_uint,
    gy: c_uint,
    gz: c_uint,
    bx: c_uint,
    by: c_uint,
    bz: c_uint,
    shared: c_uint,
    stream: Handle,
    params: *mut Handle,
    extra: *mut Handle,
) -> c_int {
    let mut arguments = String::new();
    if params.is_null() && !extra.is_null() {
        // SAFETY: `extra` is POINTER, address, SIZE, address of the size, END.
        unsafe {
            let words = std::slice::from_raw_parts(extra, 5);
            if [words[0] as usize, words[2] as usize, words[4] as usize] != [1, 2, 0] {
                return INVALID_VALUE;
            }
            let bytes = std::slice::from_raw_parts(words[1].cast::<u8>(), *words[3].cast::<usize>());
            bytes.iter().for_each(|b| write!(arguments, "{b:02x}").unwrap_or_default());
        }
    }
    let mut guard = lock();
    let Some(state) = guard.as_mut() else { return INVALID_VALUE };
    let name = state.functions.get(&(function as u64)).map(|f| (f.name.clone(), f.most_shared));
    let called = name.as_ref().map_or("?", |n| &n.0);
    let number = state.streams.iter().position(|&s| s == stream as u64).unwrap_or_default();
    let beside = if number > 0 { format!(" in stream {number}") } else { String::new() };
    let what = format!("{called} grid {gx},{gy},{gz} block {bx},{by},{bz} shared {shared} args {arguments}{beside}");
    let done = state.note("cuLaunchKernel", &what).and_then(|()| {
        in_stream(state, stream)?;
        let (_, most) = name.ok_or(INVALID_HANDLE)?;
        if shared > most || [gx, gy, gz, bx, by, bz].contains(&0) {
            return Err(INVALID_VALUE);
        }
        if let Some(captured) = &mut state.captured {
            captured.push(what);
        }
        Ok(())
    });
    done.err().unwrap_or(SUCCESS)
}

/// The name of a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(status: c_int, text: *mut *const c_char) -> c_int {
    let name = match status {
        SUCCESS => c"CUDA_SUCCESS",
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
        222 => c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        // As the driver does.
        _ => return give(text, std::ptr::null()).err().unwrap_or(INVALID_VALUE),
    };
    give(text, name.as_ptr()).err().unwrap_or(SUCCESS)
}

/// What a status means.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(status: c_int, text: *mut *const c_char) -> c_int {
    let known = [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE, INVALID_PTX, 222, 700].contains(&status);
    let (said, status) = if known { (c"in words".as_ptr(), SUCCESS) } else { (std::ptr::null(), INVALID_VALUE) };
    give(text, said).err().unwrap_or(status)
}

/// Forgets everything, and has one device again.
#[unsafe(no_mangle)]
pub extern "C" fn fakeCudaReset() {
    *lock() = Some(State::new());
}

/// The driver's version, how many devices there are and their compute capability, and the bytes of memory.
#[unsafe(no_mangle)]
pub extern "C" fn fakeCudaSet(version: c_int, devices: c_int, major: c_int, minor: c_int, memory: usize) {
    if let Some(state) = lock().as_mut() {
        let devices = vec![[major, minor]; devices.max(0) as usize];
        (state.version, state.devices, state.memory) = (version, devices, memory);
    }
}

/// Makes a call of that name fail: the one of that number from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakeCudaFail(name: *const c_char, number: c_uint, status: c_int) {
    // SAFETY: the caller passes a string that ends with 0.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    if let Some(state) = lock().as_mut() {
        state.faults.push((name, number, status));
    }
}

/// Writes the calls since the last time, one a line, into room of a length; returns the bytes written. A last line says
/// what is still held: contexts, allocations, streams, events, modules, graphs, links.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakeCudaCalls(to: *mut u8, room: usize) -> usize {
    let mut guard = lock();
    let Some(s) = guard.as_mut() else { return 0 };
    let mut text = std::mem::take(&mut s.calls).join("\n");
    let held = [s.allocations.len(), s.streams.len(), s.events.len(), s.modules.len(), s.graphs.len(), s.links.len()];
    let contexts: u32 = s.retained.values().sum();
    write!(text, "\nheld: {contexts} {held:?}").unwrap_or_default();
    let n = text.len().min(room);
    // SAFETY: the caller passes that room.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to, n) };
    n
}

fn give<T>(to: *mut T, value: T) -> Result<(), i32> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: CUDA's callers pass room for results.
    unsafe { to.write(value) };
    Ok(())
}

fn give_text(to: *mut c_char, len: c_int, text: &str) -> Result<(), i32> {
    if to.is_null() || len as usize <= text.len() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: there is room for the text and a 0.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

fn known(s: &State, device: c_int) -> Result<[c_int; 2], i32> {
    s.devices.get(device as usize).copied().ok_or(101)
}

/// A context is the thread's, and retained.
fn current(s: &State) -> Result<(), i32> {
    let device = CURRENT.with(Cell::get).wrapping_sub(0x100) as i32;
    if s.retained.get(&device).is_some_and(|&n| n > 0) { Ok(()) } else { Err(INVALID_CONTEXT) }
}

fn in_stream(s: &State, stream: Handle) -> Result<(), i32> {
    current(s)?;
    if s.streams.contains(&(stream as u64)) { Ok(()) } else { Err(INVALID_HANDLE) }
}

fn allocate(s: &mut State, bytes: usize) -> Result<u64, i32> {
    let layout = Layout::from_size_align(bytes.max(1), 256).map_err(|_| INVALID_VALUE)?;
    // SAFETY: the size is not 0.
    let address = unsafe { alloc(layout) };
    if address.is_null() {
        return Err(OUT_OF_MEMORY);
    }
    // SAFETY: it is this long. What nobody wrote is no number.
    unsafe { std::ptr::write_bytes(address, 0xA5, bytes) };
    s.allocations.insert(address as u64, (bytes, layout));
    Ok(address as u64)
}

fn free(s: &mut State, address: u64) -> Result<usize, i32> {
    let (bytes, layout) = s.allocations.remove(&address).ok_or(INVALID_VALUE)?;
    // SAFETY: it was allocated so.
    unsafe { dealloc(address as *mut u8, layout) };
    Ok(bytes)
}

/// Whether the bytes are of one allocation.
fn inside(s: &State, address: u64, bytes: usize) -> Result<(), i32> {
    let holds = |(&start, &(len, _)): (&u64, &(usize, Layout))| {
        address >= start && address - start <= len as u64 && bytes as u64 <= len as u64 - (address - start)
    };
    if s.allocations.iter().any(holds) { Ok(()) } else { Err(INVALID_VALUE) }
}

fn copy(s: &State, to: u64, from: u64, bytes: usize, stream: Handle) -> Result<(), i32> {
    in_stream(s, stream)?;
    inside(s, to, bytes)?;
    inside(s, from, bytes)?;
    // SAFETY: both are of allocations; CUDA's callers see to it that they don't overlap.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
    Ok(())
}
