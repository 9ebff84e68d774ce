//! Fuzz targets: functions that take any bytes and may fail in one way only, by panicking.
//!
//! Two drivers run them. `tests/mutate.rs` runs every target for a few seconds on any compiler, as
//! an ordinary test, with the mutations of [`mutate`]. cargo-fuzz runs one for as long as one
//! likes, guided by coverage (see `Cargo.toml`).
//!
//! A new target is a module here with one function, a row in [`TARGETS`], a directory in `seeds/`,
//! and for cargo-fuzz a file in `fuzz_targets/` with its `[[bin]]`.

mod cache_entry;
mod conversation;
mod elf;
mod gguf;
mod graph_text;
mod hsaco;
mod inspect;
mod link;
pub mod mutate;
mod ollama;
mod template;
mod tile_text;
mod x86_object;

pub use cache_entry::cache_entry;
pub use conversation::conversation;
pub use gguf::gguf;
pub use graph_text::graph_text;
pub use hsaco::hsaco;
pub use inspect::inspect;
pub use link::link;
pub use ollama::ollama;
pub use template::template;
pub use tile_text::tile_text;
pub use x86_object::x86_object;

/// How far an input got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Refused by the first check (magic, first line): the input was wasted.
    FirstCheck,
    /// Refused later: this is where parsers are tested.
    Inside,
    /// Accepted.
    End,
}

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, that of its directory in `seeds/` and of its cargo-fuzz program.
    pub name: &'static str,
    /// The function.
    pub run: fn(&[u8]) -> Reached,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "cache_entry", run: cache_entry },
    Target { name: "conversation", run: conversation },
    Target { name: "gguf", run: gguf },
    Target { name: "graph_text", run: graph_text },
    Target { name: "hsaco", run: hsaco },
    Target { name: "inspect", run: inspect },
    Target { name: "link", run: link },
    Target { name: "ollama", run: ollama },
    Target { name: "template", run: template },
    Target { name: "tile_text", run: tile_text },
    Target { name: "x86_object", run: x86_object },
];
