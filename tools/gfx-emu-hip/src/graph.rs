//! Operations of streams, and graphs of them.
//!
//! A capture keeps the operations of all streams that take part in it in the order in which they were given. Whatever an
//! operation waits for was given before it, so doing them in that order is right.

use crate::call::{functions, give};
use crate::launch::Launch;
use crate::machine::Machine;
use crate::state::{Capture, Handle};
use crate::status::Status;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong};
use std::sync::Arc;

/// Something that a stream does.
#[derive(Clone)]
pub enum Operation {
    /// Runs a kernel.
    Launch(Arc<Launch>),
    /// Copies bytes; either side may be the host's.
    Copy {
        /// Where to.
        to: u64,
        /// Where from.
        from: u64,
        /// How many.
        bytes: usize,
    },
    /// Fills memory with a pattern of 1, 2 or 4 bytes.
    Fill {
        /// Where.
        to: u64,
        /// With what.
        pattern: u32,
        /// Bytes of the pattern.
        width: usize,
        /// How many of it.
        count: usize,
    },
}

impl Operation {
    /// Does it. What was wrong with a kernel is returned; what can't be done at all is an error.
    pub fn run(&self, machine: &Machine) -> Result<Option<Status>, Status> {
        match self {
            Operation::Launch(launch) => Ok(launch.run(machine)),
            Operation::Copy { to, from, bytes } => machine.copy(*to, *from, *bytes).map(|()| None),
            Operation::Fill { to, pattern, width, count } => {
                machine.fill(*to, &pattern.to_le_bytes()[..*width], *count).map(|()| None)
            }
        }
    }
}

/// A graph: operations in an order that is right.
#[derive(Clone, Default)]
pub struct Graph {
    operations: Arc<Vec<Operation>>,
}

functions! {
    /// Keeps what the stream is given from now on. The mode makes no difference.
    fn hipStreamBeginCapture(stream: Handle, _mode: c_int) |state| {
        state.device()?;
        if (stream as u64) <= 2 || state.capture_of(stream)?.is_some() {
            return Err(Status::CAPTURE_UNSUPPORTED);
        }
        let capture = state.new_handle() as u64;
        state.captures.insert(capture, Capture { origin: stream as u64, operations: Vec::new() });
        state.set_capture(stream, Some(capture));
        Ok(())
    };
    /// Ends that, and makes a graph of it.
    fn hipStreamEndCapture(stream: Handle, graph: *mut Handle) |state| {
        let capture = state.capture_of(stream)?.ok_or(Status::ILLEGAL_STATE)?;
        if state.captures.get(&capture).is_some_and(|c| c.origin != stream as u64) {
            return Err(Status::CAPTURE_UNMATCHED);
        }
        state.set_capture(stream, None);
        let ended = state.captures.remove(&capture).ok_or(Status::CAPTURE_INVALIDATED)?;
        let handle = state.new_handle();
        // SAFETY: HIP's callers pass room for a handle.
        unsafe { give(graph, handle)? };
        state.graphs.insert(handle as u64, Graph { operations: Arc::new(ended.operations) });
        Ok(())
    };
    /// Whether a stream is captured: 0 for no, 1 for yes.
    fn hipStreamIsCapturing(stream: Handle, status: *mut c_int) |state| {
        let capturing = state.capture_of(stream)?.is_some();
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(status, c_int::from(capturing)) }
    };
    /// Makes an empty graph.
    fn hipGraphCreate(graph: *mut Handle, _flags: c_uint) |state| {
        let handle = state.new_handle();
        // SAFETY: HIP's callers pass room for a handle.
        unsafe { give(graph, handle)? };
        state.graphs.insert(handle as u64, Graph::default());
        Ok(())
    };
    /// Ends a graph. What was made executable of it stays.
    fn hipGraphDestroy(graph: Handle) |state| {
        state.graphs.remove(&(graph as u64)).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    };
    /// Makes a graph executable.
    fn hipGraphInstantiate(
        executable: *mut Handle,
        graph: Handle,
        _node: *mut Handle,
        _log: *mut c_char,
        _bytes: usize,
    ) |state| instantiate(state, executable, graph);
    /// Makes a graph executable; the flags make no difference.
    fn hipGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, _flags: c_ulonglong) |state| {
        instantiate(state, executable, graph)
    };
    /// Does what is in a graph.
    fn hipGraphLaunch(executable: Handle, stream: Handle) |state| {
        let graph = state.executables.get(&(executable as u64)).cloned().ok_or(Status::INVALID_HANDLE)?;
        state.stream(stream)?;
        graph.operations.iter().try_for_each(|o| state.give(stream, o.clone()))
    };
    /// Puts another graph in the place of an executable one.
    fn hipGraphExecUpdate(executable: Handle, graph: Handle, _node: *mut Handle, result: *mut c_int) |state| {
        let new = state.graphs.get(&(graph as u64)).cloned().ok_or(Status::INVALID_HANDLE)?;
        *state.executables.get_mut(&(executable as u64)).ok_or(Status::INVALID_HANDLE)? = new;
        // SAFETY: HIP's callers pass room for a number: 0 is hipGraphExecUpdateSuccess.
        unsafe { give(result, 0) }
    };
    /// Ends an executable graph.
    fn hipGraphExecDestroy(executable: Handle) |state| {
        state.executables.remove(&(executable as u64)).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    };
}

fn instantiate(state: &mut crate::state::State, executable: *mut Handle, graph: Handle) -> Result<(), Status> {
    let graph = state.graphs.get(&(graph as u64)).cloned().ok_or(Status::INVALID_HANDLE)?;
    let handle = state.new_handle();
    // SAFETY: HIP's callers pass room for a handle.
    unsafe { give(executable, handle)? };
    state.executables.insert(handle as u64, graph);
    Ok(())
}
