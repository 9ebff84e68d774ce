//! Everything that handles stand for. HIP's functions are a process' own, so there is one state for the process.

use crate::graph::{Graph, Operation};
use crate::machine::Machine;
use crate::module::{Function, LoadedModule};
use crate::options::{Fault, Options, OptionsError, chip};
use crate::program::Program;
use crate::status::Status;
use hrx_compiler::target::amd::Chip;
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

/// A handle: a number that is not null.
pub type Handle = *mut c_void;

/// A stream.
#[derive(Clone, Copy, Default, Debug)]
pub struct Stream {
    /// The capture that it takes part in.
    pub capture: Option<u64>,
}

/// An event.
#[derive(Clone, Copy, Default, Debug)]
pub struct Event {
    /// When it was recorded.
    pub at: Option<Instant>,
    /// The capture that it was recorded in.
    pub capture: Option<u64>,
}

/// What a capture has so far.
#[derive(Default)]
pub struct Capture {
    /// The stream that it began in.
    pub origin: u64,
    /// What was given to its streams, in order.
    pub operations: Vec<Operation>,
}

/// The process' state.
pub struct State {
    chip: Option<&'static Chip>,
    options: Options,
    machine: Option<Arc<Machine>>,
    /// What has been wrong with launches since somebody was told.
    pending: Option<Status>,
    calls: HashMap<&'static str, u64>,
    next: u64,
    /// The default stream, whose handle is null.
    default_stream: Stream,
    pub streams: HashMap<u64, Stream>,
    pub events: HashMap<u64, Event>,
    pub captures: HashMap<u64, Capture>,
    pub modules: HashMap<u64, LoadedModule>,
    pub functions: HashMap<u64, Arc<Function>>,
    pub graphs: HashMap<u64, Graph>,
    pub executables: HashMap<u64, Graph>,
    pub programs: BTreeMap<u64, Program>,
    /// Kernels of programs by the addresses of their host functions: program and name.
    pub stubs: HashMap<u64, (u64, String)>,
    /// Variables of programs by the addresses of their host variables.
    pub variables: HashMap<u64, (u64, String)>,
}

// SAFETY: raw pointers in it are addresses that the program passed, used as it says in calls of its own.
unsafe impl Send for State {}

/// The process' state, this thread's until the guard is dropped.
pub fn lock() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    STATE.get_or_init(|| Mutex::new(State::new())).lock().unwrap_or_else(|e| e.into_inner())
}

impl State {
    fn new() -> State {
        let read = Options::read(|name| std::env::var(name).ok());
        let options = read.unwrap_or_else(|OptionsError(text)| {
            say(&text);
            Options::default()
        });
        State {
            chip: options.chip,
            options,
            machine: None,
            pending: None,
            calls: HashMap::new(),
            next: 0,
            default_stream: Stream::default(),
            streams: HashMap::new(),
            events: HashMap::new(),
            captures: HashMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            graphs: HashMap::new(),
            executables: HashMap::new(),
            programs: BTreeMap::new(),
            stubs: HashMap::new(),
            variables: HashMap::new(),
        }
    }

    /// Whether this call is one that is to fail, and how.
    pub fn fault(&mut self, name: &'static str) -> Option<Status> {
        if self.options.faults.is_empty() {
            return None;
        }
        let number = self.calls.entry(name).or_default();
        *number += 1;
        let hit = |f: &&Fault| f.call == name && f.number == *number;
        self.options.faults.iter().find(hit).map(|f| Status(f.status))
    }

    /// The emulated chip, if there is one.
    pub fn chip(&self) -> Result<&'static Chip, Status> {
        self.chip.ok_or(Status::NO_DEVICE)
    }

    /// Makes a chip the only device.
    pub fn set_chip(&mut self, name: &str) -> Result<(), Status> {
        let new = chip(name).map_err(|OptionsError(text)| {
            say(&text);
            Status::INVALID_DEVICE
        })?;
        match &self.machine {
            Some(_) if self.chip != Some(new) => {
                let old = self.chip.map_or("none", |c| c.name);
                say(&format!("a process emulates one chip: {old}, so not {name} as well"));
                Err(Status::INVALID_DEVICE)
            }
            _ => {
                self.chip = Some(new);
                Ok(())
            }
        }
    }

    /// The most bytes of memory that the device has been given.
    pub fn limit(&self) -> Option<u64> {
        self.options.memory
    }

    /// The emulator, started when it is first needed.
    pub fn device(&mut self) -> Result<Arc<Machine>, Status> {
        if let Some(machine) = &self.machine {
            return Ok(Arc::clone(machine));
        }
        let machine = Machine::new(self.chip()?, &self.options).map_err(|text| {
            say(&text);
            Status::NOT_INITIALIZED
        })?;
        let machine = Arc::new(machine);
        self.machine = Some(Arc::clone(&machine));
        Ok(machine)
    }

    /// A handle that nothing had before.
    pub fn new_handle(&mut self) -> Handle {
        self.next += 1;
        // Not small, so that it is not taken for a flag, and never an address.
        (0xE000_0000_0000_0000 | self.next << 4) as Handle
    }

    /// A stream.
    pub fn stream(&mut self, handle: Handle) -> Result<&mut Stream, Status> {
        // Null, and 1 and 2, which stand for the default stream of old and of each thread.
        match handle as u64 {
            0..=2 => Ok(&mut self.default_stream),
            other => self.streams.get_mut(&other).ok_or(Status::INVALID_HANDLE),
        }
    }

    /// An event.
    pub fn event(&mut self, handle: Handle) -> Result<&mut Event, Status> {
        self.events.get_mut(&(handle as u64)).ok_or(Status::INVALID_HANDLE)
    }

    /// The capture that a stream takes part in. Captures that have ended are none.
    pub fn capture_of(&mut self, stream: Handle) -> Result<Option<u64>, Status> {
        let capture = self.stream(stream)?.capture;
        Ok(capture.filter(|c| self.captures.contains_key(c)))
    }

    /// Lets a stream take part in a capture, or in none.
    pub fn set_capture(&mut self, stream: Handle, capture: Option<u64>) {
        if let Ok(stream) = self.stream(stream) {
            stream.capture = capture;
        }
    }

    /// Refuses a stream that is captured.
    pub fn not_captured(&mut self, stream: Handle) -> Result<(), Status> {
        if self.capture_of(stream)?.is_some() { Err(Status::CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// Does an operation, or keeps it for a graph if the stream is captured.
    pub fn give(&mut self, stream: Handle, operation: Operation) -> Result<(), Status> {
        let machine = self.device()?;
        match self.capture_of(stream)? {
            Some(capture) => {
                if let Some(capture) = self.captures.get_mut(&capture) {
                    capture.operations.push(operation);
                }
                Ok(())
            }
            None => {
                let found = operation.run(&machine)?;
                self.pending = self.pending.or(found);
                Ok(())
            }
        }
    }

    /// What has been wrong with launches since this was asked last.
    pub fn settle(&mut self) -> Result<(), Status> {
        self.pending.take().map_or(Ok(()), Err)
    }
}

/// Tells whoever runs the program.
pub fn say(text: &str) {
    eprintln!("gfx-emu: {text}");
}
