//! Reads HSACOs, ours and other compilers': what they are for, their kernels' descriptors, metadata and code.
//!
//! A file may be of any compiler, of any age and damaged. What it leaves out is `None`, never zero; what is wrong gets
//! one line that says so.

mod descriptor;
mod identity;
mod metadata;

pub use descriptor::{DESCRIPTOR_BYTES, Denormals, Descriptor, Field, FloatMode, Rounding};
pub use identity::{Generation, Identity, PROCESSORS, Processor, Setting, processor};
pub use metadata::{Argument, KernelMetadata, Metadata};

use crate::CompileError;
use crate::code_object::{self, DESCRIPTOR_SUFFIX, Elf, LE, METADATA_NOTE, shown, version};
use object::LittleEndian;
use object::elf::{self, ProgramHeader64, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use std::collections::{BTreeMap, HashMap};

/// An HSACO.
#[derive(Clone, Debug)]
pub struct Hsaco<'a> {
    /// What it is for.
    pub identity: Identity,
    /// Its metadata, without that of kernels; `None` if it has no note.
    pub metadata: Option<Metadata>,
    /// Its kernels, by their names.
    pub kernels: Vec<Kernel<'a>>,
}

/// A kernel of an HSACO.
#[derive(Clone, Debug)]
pub struct Kernel<'a> {
    /// Its name: that of the descriptor's symbol without `.kd`.
    pub name: &'a str,
    /// The descriptor's address, relative to where the file is loaded.
    pub descriptor_address: u64,
    /// The descriptor.
    pub descriptor: Descriptor,
    /// Its metadata, if the file has any for it.
    pub metadata: Option<KernelMetadata>,
    /// The first instruction's address.
    pub entry: u64,
    /// Its instructions: as many bytes as its symbol says, or all until the next function or the end of the segment.
    /// Padding may follow the last instruction. Functions that it calls are not among them.
    pub code: &'a [u8],
}

impl<'a> Hsaco<'a> {
    /// Reads a file.
    ///
    /// # Errors
    /// If the bytes are no linked AMDGPU code object for ROCm of versions 3 to 6, or are damaged.
    pub fn read(bytes: &'a [u8]) -> Result<Hsaco<'a>, CompileError> {
        read(bytes).map_err(|reason| CompileError::CodeObject { reason })
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel<'a>> {
        self.kernels.iter().find(|k| k.name == name)
    }
}

fn read(bytes: &[u8]) -> Result<Hsaco<'_>, String> {
    let header = header(bytes)?;
    let identity = Identity::new(version(header), header.e_flags(LE).0);
    let segments = header.program_headers(LE, bytes).map_err(|e| e.to_string())?;
    let mut metadata = metadata(bytes, segments)?;
    let symbols = Symbols::read(bytes, header)?;
    let mut of_kernels = HashMap::new();
    for kernel in metadata.as_mut().and_then(|m| m.kernels.take()).unwrap_or_default() {
        let named = |name: &String| format!("{name}{DESCRIPTOR_SUFFIX}");
        let symbol = kernel.symbol.clone().or_else(|| kernel.name.as_ref().map(named));
        let symbol = symbol.ok_or("metadata: a kernel with neither symbol nor name")?;
        if !symbols.descriptors.contains_key(symbol.as_str()) {
            return Err(format!("metadata names {}, which is no symbol of the file", shown(symbol.as_bytes())));
        }
        of_kernels.insert(symbol, kernel);
    }
    let mut kernels = Vec::with_capacity(symbols.descriptors.len());
    for (&symbol, &address) in &symbols.descriptors {
        let damaged = |what: &str| format!("{}: {what}", shown(symbol.as_bytes()));
        let descriptor = in_file(bytes, segments, address, false).and_then(|b| b.first_chunk::<DESCRIPTOR_BYTES>());
        let descriptor = descriptor.ok_or_else(|| damaged("the descriptor lies outside of the file"))?;
        let descriptor = Descriptor::new(descriptor, identity.generation());
        let entry = address.wrapping_add_signed(descriptor.entry_offset);
        let code = in_file(bytes, segments, entry, true).filter(|c| !c.is_empty());
        let code = code.ok_or_else(|| damaged("its code lies outside of the file's code"))?;
        let size = symbols.size(entry).unwrap_or(code.len() as u64);
        let code = usize::try_from(size).ok().and_then(|size| code.get(..size));
        kernels.push(Kernel {
            name: symbol.strip_suffix(DESCRIPTOR_SUFFIX).unwrap_or(symbol),
            descriptor_address: address,
            descriptor,
            metadata: of_kernels.remove(symbol),
            entry,
            code: code.ok_or_else(|| damaged("its code reaches beyond the file's code"))?,
        });
    }
    Ok(Hsaco { identity, metadata, kernels })
}

/// The file header, if it is that of a linked code object for ROCm.
fn header(bytes: &[u8]) -> Result<&Elf, String> {
    let header = code_object::header(bytes)?;
    match header.e_type(LE) {
        elf::ET_DYN => Ok(header),
        elf::ET_REL => Err("a relocatable object, which has to be linked first".into()),
        other => Err(format!("not a shared object but of ELF type {}", other.0)),
    }
}

type Segments<'a> = &'a [ProgramHeader64<LittleEndian>];

/// The bytes of the file from an address on, to the end of the segment; only of a segment with code if that is asked.
fn in_file<'a>(bytes: &'a [u8], segments: Segments<'_>, address: u64, code: bool) -> Option<&'a [u8]> {
    let loaded = segments.iter().filter(|s| s.p_type(LE) == elf::PT_LOAD);
    let allowed = loaded.filter(|s| !code || s.p_flags(LE).contains(elf::PF_X));
    let mut at = allowed.filter_map(|s| Some((s, address.checked_sub(s.p_vaddr(LE))?)));
    let (segment, offset) = at.find(|(s, offset)| *offset < s.p_filesz(LE))?;
    segment.data(LE, bytes).ok()?.get(usize::try_from(offset).ok()?..)
}

/// The metadata of the first note that has any.
fn metadata(bytes: &[u8], segments: Segments<'_>) -> Result<Option<Metadata>, String> {
    for segment in segments {
        let damaged = |e: object::Error| format!("note: {e}");
        let Some(mut notes) = segment.notes(LE, bytes).map_err(damaged)? else { continue };
        while let Some(note) = notes.next().map_err(damaged)? {
            if (note.name(), note.n_type(LE)) == METADATA_NOTE {
                return Metadata::read(note.desc()).map(Some);
            }
        }
    }
    Ok(None)
}

/// Addresses of descriptors and functions.
struct Symbols<'a> {
    /// Descriptors by their symbols.
    descriptors: BTreeMap<&'a str, u64>,
    /// Sizes of functions and kernels by their addresses, where they are known.
    functions: BTreeMap<u64, Option<u64>>,
}

impl<'a> Symbols<'a> {
    /// From both symbol tables: a file may have been stripped of one.
    fn read(bytes: &'a [u8], header: &'a Elf) -> Result<Symbols<'a>, String> {
        let sections = header.sections(LE, bytes).map_err(|e| e.to_string())?;
        let mut found = Symbols { descriptors: BTreeMap::new(), functions: BTreeMap::new() };
        let mut tables = 0;
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            let table = sections.symbols(LE, bytes, kind).map_err(|e| e.to_string())?;
            tables += usize::from(!table.is_empty());
            for symbol in table.iter().filter(|s| !s.is_undefined(LE) && !s.is_absolute(LE)) {
                let address = symbol.st_value(LE);
                if symbol.st_type() == STT_FUNC {
                    let size = Some(symbol.st_size(LE)).filter(|&s| s > 0);
                    let known = found.functions.entry(address).or_default();
                    *known = known.or(size);
                    continue;
                }
                let name = symbol.name(LE, table.strings()).map_err(|e| e.to_string())?;
                if name.ends_with(DESCRIPTOR_SUFFIX.as_bytes()) {
                    let name = str::from_utf8(name).map_err(|_| "a kernel's name is not UTF-8")?;
                    if found.descriptors.insert(name, address).is_some_and(|other| other != address) {
                        return Err(format!("two kernels have the symbol {}", shown(name.as_bytes())));
                    }
                }
            }
        }
        if tables == 0 {
            return Err("no symbol table, so that kernels can't be found".into());
        }
        Ok(found)
    }

    /// Bytes of the function at an address, or to the next one.
    fn size(&self, address: u64) -> Option<u64> {
        let said = self.functions.get(&address).copied().flatten();
        said.or_else(|| self.functions.range(address.checked_add(1)?..).next().map(|(next, _)| next - address))
    }
}
