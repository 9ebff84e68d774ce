//! hrx-run from outside: what it prints and writes, and how it fails.

mod broken;
mod chat;
mod disk;
mod gpu;
mod run;
mod support;
