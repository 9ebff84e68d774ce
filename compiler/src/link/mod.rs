//! Links one relocatable object of LLVM's AMDGPU back end into an HSACO: a shared object that ROCm's loader takes.
//!
//! ```text
//! object ──input──▶ sections, symbols, relocations ──layout──▶ offsets and addresses ──image──▶ HSACO
//! ```
//!
//! One object needs no symbol resolution, so a linker for it is short and takes some 2 µs, where the `ld.lld` process
//! takes 20 ms. What it makes is what `ld.lld -shared` makes as far as a
//! loader can see: three loaded segments (read-only, code, data), the dynamic section, the metadata note, `.dynsym`
//! with a SysV hash table, and `.symtab`, in which ROCm's loader looks for kernels.
//!
//! A code object is closed: ROCm's loader binds a symbol to the definition in the same file. References through the
//! global offset table, which LLVM emits for symbols of default visibility, get an entry that is relocated by the
//! load address like any other pointer, not by name.
//!
//! Equal objects give equal HSACOs, byte by byte.

mod image;
mod input;
mod layout;
mod relocation;

use crate::CompileError;

/// Links an object; `name` is what errors call it.
///
/// # Errors
/// If the bytes are no relocatable AMDGPU object for ROCm, are damaged, refer to something they don't define, or hold
/// what compiled kernels don't have: thread-local or common symbols, text relocations, unknown kinds of sections or
/// relocations.
pub fn link(object: &[u8], name: &str) -> Result<Vec<u8>, CompileError> {
    let linked = || {
        let input = input::read(object)?;
        let layout = layout::Layout::new(&input)?;
        image::write(&input, &layout)
    };
    linked().map_err(|reason: String| CompileError::Object { kernel: name.into(), reason })
}

/// A section of an HSACO, in the order of their addresses and of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Note,
    DynSym,
    Hash,
    DynStr,
    RelaDyn,
    RoData,
    Text,
    RelRo,
    Dynamic,
    Got,
    Data,
    Bss,
    SymTab,
    StrTab,
    ShStrTab,
}

/// Which segment a section is loaded with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Segment {
    ReadOnly,
    Code,
    Data,
    NotLoaded,
}

impl Part {
    const COUNT: usize = 15;

    const ALL: [(Part, &str, Segment); Part::COUNT] = [
        (Part::Note, ".note", Segment::ReadOnly),
        (Part::DynSym, ".dynsym", Segment::ReadOnly),
        (Part::Hash, ".hash", Segment::ReadOnly),
        (Part::DynStr, ".dynstr", Segment::ReadOnly),
        (Part::RelaDyn, ".rela.dyn", Segment::ReadOnly),
        (Part::RoData, ".rodata", Segment::ReadOnly),
        (Part::Text, ".text", Segment::Code),
        (Part::RelRo, ".data.rel.ro", Segment::Data),
        (Part::Dynamic, ".dynamic", Segment::Data),
        (Part::Got, ".got", Segment::Data),
        (Part::Data, ".data", Segment::Data),
        (Part::Bss, ".bss", Segment::Data),
        (Part::SymTab, ".symtab", Segment::NotLoaded),
        (Part::StrTab, ".strtab", Segment::NotLoaded),
        (Part::ShStrTab, ".shstrtab", Segment::NotLoaded),
    ];
}
