//! hrx-run from outside: what it prints and writes, and how it fails.

mod broken;
mod chat;
mod disk;
mod explain;
mod gpu;
mod names;
mod real;
mod run;
mod split;
mod support;
mod templates;
