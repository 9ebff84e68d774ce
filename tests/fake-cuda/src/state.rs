//! What the library remembers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// `CUDA_SUCCESS`.
pub const SUCCESS: i32 = 0;
/// `CUDA_ERROR_INVALID_VALUE`.
pub const INVALID_VALUE: i32 = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: i32 = 100;
/// `CUDA_ERROR_INVALID_CONTEXT`.
pub const INVALID_CONTEXT: i32 = 201;
/// `CUDA_ERROR_NO_BINARY_FOR_GPU`.
pub const NO_BINARY: i32 = 209;
/// `CUDA_ERROR_INVALID_PTX`.
pub const INVALID_PTX: i32 = 218;
/// `CUDA_ERROR_INVALID_HANDLE`.
pub const INVALID_HANDLE: i32 = 400;
/// `CUDA_ERROR_NOT_FOUND`.
pub const NOT_FOUND: i32 = 500;

/// A module: the PTX that its machine code was made of.
pub struct Module {
    /// Its text.
    pub ptx: String,
}

/// A function: the kernel's name.
pub struct Function {
    /// The name.
    pub name: String,
    /// The most dynamic shared memory that a launch may ask for.
    pub most_shared: u32,
}

/// A link in progress.
pub struct Link {
    /// Where the log goes, and how much fits.
    pub log: (usize, usize),
    /// The machine code, once there is some.
    pub code: Vec<u8>,
}

/// All of it.
#[derive(Default)]
pub struct State {
    /// The version that the driver says it has.
    pub version: i32,
    /// Each device's compute capability.
    pub devices: Vec<[i32; 2]>,
    /// Bytes of memory in all.
    pub memory: usize,
    /// Bytes given out.
    pub used: usize,
    /// What was called, in order, with what matters of the arguments.
    pub calls: Vec<String>,
    /// Calls that fail: name, which of them (counted down), status.
    pub faults: Vec<(String, u32, i32)>,
    /// Allocations: address and bytes.
    pub allocations: HashMap<u64, (usize, std::alloc::Layout)>,
    /// Contexts that are retained, by device.
    pub retained: HashMap<i32, u32>,
    /// What capture has caught, while there is one.
    pub captured: Option<Vec<String>>,
    /// Graphs, executable or not.
    pub graphs: HashMap<u64, Vec<String>>,
    /// Modules.
    pub modules: HashMap<u64, Module>,
    /// Functions.
    pub functions: HashMap<u64, Function>,
    /// Links.
    pub links: HashMap<u64, Link>,
    /// When each event was recorded, in calls; none before that.
    pub events: HashMap<u64, Option<usize>>,
    /// Streams.
    pub streams: Vec<u64>,
    next: u64,
}

impl State {
    /// A driver with one device like an H200, and nothing done.
    pub fn new() -> State {
        State { version: 12_080, devices: vec![[9, 0]], memory: 1 << 30, ..State::default() }
    }

    /// A handle that no other thing has.
    pub fn handle(&mut self) -> u64 {
        self.next += 1;
        0x1000 + 16 * self.next
    }

    /// Notes a call; an error if it is to fail.
    pub fn note(&mut self, name: &str, what: &str) -> Result<(), i32> {
        let text = if what.is_empty() { name.to_owned() } else { format!("{name} {what}") };
        self.calls.push(text);
        for (fault, number, status) in &mut self.faults {
            if fault == name && *number > 0 {
                *number -= 1;
                if *number == 0 {
                    return Err(*status);
                }
            }
        }
        Ok(())
    }
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// The process' state.
pub fn lock() -> MutexGuard<'static, Option<State>> {
    let mut state = STATE.lock().unwrap_or_else(|e| e.into_inner());
    state.get_or_insert_with(State::new);
    state
}

/// Does a function's work on the state.
pub fn run(name: &str, what: &str, work: impl FnOnce(&mut State) -> Result<(), i32>) -> i32 {
    let mut guard = lock();
    let Some(state) = guard.as_mut() else { return INVALID_VALUE };
    match state.note(name, what).and_then(|()| work(state)) {
        Ok(()) => SUCCESS,
        Err(status) => status,
    }
}
