//! Functions of a driver's library: tables of them, each with a method that makes an error of its status.
//!
//! Statuses are numbers here, not an enum, because a library may return one that no list has got.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

/// A handle of a driver's: a stream, an event, a module, a function, a graph, a context.
pub type Handle = *mut c_void;

/// What a call that did its work returns, in HIP and in CUDA.
pub const SUCCESS: c_int = 0;

/// What an allocation returns that there is no memory for, in HIP and in CUDA.
pub const OUT_OF_MEMORY: c_int = 2;

/// A call that failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{call} failed: {name} ({status}): {text}")]
pub struct CallError {
    /// The function.
    pub call: &'static str,
    /// What it returned.
    pub status: i32,
    /// The library's name for that.
    pub name: String,
    /// What the library says of it.
    pub text: String,
}

/// A function that gives a status' word.
type Gives = unsafe extern "C" fn(c_int) -> *const c_char;

/// A function that writes where a status' word is.
type Writes = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;

/// What a library says of statuses: a name, and a text.
#[derive(Clone, Copy)]
pub enum Words {
    /// Its functions give it (HIP).
    Given([Gives; 2]),
    /// Its functions write where it is (CUDA).
    Written([Writes; 2]),
}

impl Words {
    /// The functions of these names, which give a word.
    pub(in crate::device) fn given(library: &libloading::Library, names: [&'static str; 2]) -> Result<Words, Missing> {
        // SAFETY: the type is the functions' in the library's header.
        let find = |name| unsafe { symbol::<Gives>(library, name) };
        Ok(Words::Given([find(names[0])?, find(names[1])?]))
    }

    /// The functions of these names, which write where a word is.
    pub(in crate::device) fn written(
        library: &libloading::Library,
        names: [&'static str; 2],
    ) -> Result<Words, Missing> {
        // SAFETY: the type is the functions' in the library's header.
        let find = |name| unsafe { symbol::<Writes>(library, name) };
        Ok(Words::Written([find(names[0])?, find(names[1])?]))
    }

    /// A status as a result.
    pub(in crate::device) fn check(&self, call: &'static str, status: c_int) -> Result<(), CallError> {
        if status == SUCCESS {
            return Ok(());
        }
        let [name, text] = [0, 1].map(|i| self.word(i, status));
        Err(CallError { call, status, name, text })
    }

    fn word(&self, i: usize, status: c_int) -> String {
        let mut text = std::ptr::null();
        match self {
            // SAFETY: the function takes any number and returns a constant string or null.
            Words::Given(f) => text = unsafe { f[i](status) },
            // SAFETY: the function takes any number and writes a constant string or null. What it returns says which.
            Words::Written(f) => drop(unsafe { f[i](status, &raw mut text) }),
        }
        // SAFETY: it is not null, so a string that ends with 0 and stays.
        let text = if text.is_null() { c"unknown" } else { unsafe { CStr::from_ptr(text) } };
        text.to_string_lossy().into_owned()
    }
}

/// A function that a library has not got.
#[derive(Debug)]
pub struct Missing(pub &'static str);

/// A function of a library's.
///
/// # Safety
/// `T` is the type of a pointer to the function of that name.
pub(in crate::device) unsafe fn symbol<T: Copy>(
    library: &libloading::Library,
    name: &'static str,
) -> Result<T, Missing> {
    // SAFETY: the caller's promise.
    unsafe { library.get::<T>(name.as_bytes()) }.map(|f| *f).map_err(|_| Missing(name))
}

/// A table of functions, each with a method of its name that checks the status. Where the library exports a function by
/// another name than people call it, that name is behind it.
macro_rules! functions {
    (@symbol $name:ident) => { stringify!($name) };
    (@symbol $name:ident $symbol:literal) => { $symbol };
    ($(#[$doc:meta])* $table:ident {
        $($(#[$fn_doc:meta])* $name:ident $(as $symbol:literal)? ($($arg:ident: $ty:ty),*);)*
    }) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the library's names")]
        pub struct $table {
            words: $crate::device::gpu::call::Words,
            $($name: unsafe extern "C" fn($($ty),*) -> std::ffi::c_int,)*
        }

        #[allow(non_snake_case, reason = "the library's names")]
        #[allow(clippy::too_many_arguments, reason = "the library's")]
        impl $table {
            /// Looks the functions up.
            ///
            /// # Errors
            /// The first that the library has not got.
            pub(in crate::device) fn load(
                library: &libloading::Library,
                words: $crate::device::gpu::call::Words,
            ) -> Result<$table, $crate::device::gpu::call::Missing> {
                Ok($table {
                    words,
                    $(
                        // SAFETY: the type is the function's in the library's header.
                        $name: unsafe {
                            $crate::device::gpu::call::symbol(library, functions!(@symbol $name $($symbol)?))?
                        },
                    )*
                })
            }

            $(
                $(#[$fn_doc])*
                ///
                /// # Errors
                /// Any status but success.
                ///
                /// # Safety
                /// As the library's documentation says: handles and pointers are valid for what the function does with
                /// them.
                pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<(), $crate::device::gpu::call::CallError> {
                    // SAFETY: the caller's promise.
                    let status = unsafe { (self.$name)($($arg),*) };
                    self.words.check(stringify!($name), status)
                }
            )*
        }
    };
}

pub(in crate::device) use functions;

/// A handle that a function writes.
pub(in crate::device) fn made(make: impl FnOnce(*mut Handle) -> Result<(), CallError>) -> Result<Handle, CallError> {
    let mut handle = null_mut();
    make(&raw mut handle).map(|()| handle)
}

/// A text that a function writes, with a 0 at the end, into room of a length.
pub(in crate::device) fn text(
    write: impl FnOnce(*mut c_char, c_int) -> Result<(), CallError>,
) -> Result<String, CallError> {
    let mut buffer = [0u8; 256];
    write(buffer.as_mut_ptr().cast(), buffer.len() as c_int - 1)?;
    Ok(CStr::from_bytes_until_nul(&buffer).map_or(String::new(), |t| t.to_string_lossy().into_owned()))
}
