//! What every function does around its work.

use crate::state::{self, State};
use crate::status::{SUCCESS, Status};
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(SUCCESS) };
}

/// The status of the last call of this thread that failed; asking again gives success if `take`.
pub fn last_error(take: bool) -> c_int {
    LAST.with(|last| if take { last.replace(SUCCESS) } else { last.get() })
}

/// Runs a function's work. What it returns is the thread's last error if it is one. A panic is one, too: it must not
/// leave the library.
pub fn run(name: &'static str, work: impl FnOnce(&mut State) -> Result<(), Status>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut state = state::lock();
        match state.fault(name) {
            Some(status) => Err(status),
            None => work(&mut state),
        }
    }));
    let status = match done {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(Status(status))) => status,
        Err(_) => Status::UNKNOWN.0,
    };
    if status != SUCCESS {
        LAST.with(|last| last.set(status));
    }
    status
}

/// Exported functions: `fn name(arguments) |state| { work }`. Work returns `Result<(), Status>`, and may use arguments as
/// HIP's documentation allows.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$state:pat_param| $work:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As HIP's documentation of the function says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "HIP's name")]
        #[allow(clippy::too_many_arguments, reason = "HIP's")]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
            $crate::call::run(stringify!($name), |$state| $work)
        }
    )*};
}
pub(crate) use functions;

/// Writes a result through a pointer of the caller's.
///
/// # Safety
/// The pointer is null or good for a write.
pub unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller's promise. C programs may pass pointers without the alignment that Rust wants.
    unsafe { to.write_unaligned(value) };
    Ok(())
}
