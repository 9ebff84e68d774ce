//! hrx-jit as a program: its output, its errors and its exit codes.

mod cache;
mod emulated;
mod forms;
mod inspect;
mod kernels;
mod support;
