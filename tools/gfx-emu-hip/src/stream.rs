//! Streams and events. Work is done when it is given, so nothing ever waits.

use crate::call::{functions, give};
use crate::state::{Event, Handle, State, Stream};
use crate::status::Status;
use std::ffi::{c_int, c_uint, c_void};
use std::time::Instant;

functions! {
    /// Makes a stream.
    fn hipStreamCreate(stream: *mut Handle) |state| create(state, stream);
    /// Makes a stream; the flags make no difference.
    fn hipStreamCreateWithFlags(stream: *mut Handle, _flags: c_uint) |state| create(state, stream);
    /// Makes a stream; flags and priority make no difference.
    fn hipStreamCreateWithPriority(stream: *mut Handle, _flags: c_uint, _priority: c_int) |state| create(state, stream);
    /// Ends a stream.
    fn hipStreamDestroy(stream: Handle) |state| {
        state.streams.remove(&(stream as u64)).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    };
    /// Waits for a stream: tells what has been wrong.
    fn hipStreamSynchronize(stream: Handle) |state| state.not_captured(stream).and_then(|()| state.settle());
    /// Whether all of a stream is done: always, so it tells what has been wrong.
    fn hipStreamQuery(stream: Handle) |state| state.not_captured(stream).and_then(|()| state.settle());
    /// Makes a stream wait for an event: nothing to wait for. A stream that waits for an event of a capture takes part in
    /// the capture.
    fn hipStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) |state| {
        let capture = state.event(event)?.capture;
        state.stream(stream)?;
        if let Some(capture) = capture.filter(|c| state.captures.contains_key(c)) {
            state.set_capture(stream, Some(capture));
        }
        Ok(())
    };
    /// Makes an event.
    fn hipEventCreate(event: *mut Handle) |state| create_event(state, event);
    /// Makes an event; the flags make no difference.
    fn hipEventCreateWithFlags(event: *mut Handle, _flags: c_uint) |state| create_event(state, event);
    /// Ends an event.
    fn hipEventDestroy(event: Handle) |state| {
        state.events.remove(&(event as u64)).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    };
    /// Records an event: now.
    fn hipEventRecord(event: Handle, stream: Handle) |state| {
        let capture = state.capture_of(stream)?;
        *state.event(event)? = Event { at: Some(Instant::now()), capture };
        Ok(())
    };
    /// Waits for an event: tells what has been wrong.
    fn hipEventSynchronize(event: Handle) |state| {
        state.event(event)?;
        state.settle()
    };
    /// Whether an event was reached.
    fn hipEventQuery(event: Handle) |state| {
        state.event(event)?;
        state.settle()
    };
    /// The milliseconds between two events: the emulator's, which say nothing of a GPU's.
    fn hipEventElapsedTime(ms: *mut f32, start: Handle, stop: Handle) |state| {
        let (start, stop) = (state.event(start)?.at, state.event(stop)?.at);
        let (Some(start), Some(stop)) = (start, stop) else { return Err(Status::INVALID_HANDLE) };
        let ms_between = stop.saturating_duration_since(start).as_secs_f32() * 1e3;
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(ms, ms_between) }
    };
    /// Calls a function when all before it is done: now.
    fn hipLaunchHostFunc(stream: Handle, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void) |state| {
        state.not_captured(stream)?;
        let function = function.ok_or(Status::INVALID_VALUE)?;
        // SAFETY: the program passes a function that takes its data.
        unsafe { function(data) };
        Ok(())
    };
}

fn create(state: &mut State, stream: *mut Handle) -> Result<(), Status> {
    state.device()?;
    let handle = state.new_handle();
    // SAFETY: HIP's callers pass room for a handle.
    unsafe { give(stream, handle)? };
    state.streams.insert(handle as u64, Stream::default());
    Ok(())
}

fn create_event(state: &mut State, event: *mut Handle) -> Result<(), Status> {
    state.device()?;
    let handle = state.new_handle();
    // SAFETY: HIP's callers pass room for a handle.
    unsafe { give(event, handle)? };
    state.events.insert(handle as u64, Event::default());
    Ok(())
}
