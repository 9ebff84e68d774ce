//! Code objects in device memory, and their kernels.

use crate::Error;
use crate::decode::{Code, Context};
use crate::memory::{Allocation, Memory};
use hrx_compiler::hsaco::{Descriptor, Generation, Hsaco, KernelMetadata, processor};
use hrx_compiler::target::amd::Chip;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, Sym};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A loaded code object.
#[derive(Clone, Debug)]
pub struct Module {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    image: Arc<Allocation>,
    processor: &'static str,
    kernels: Vec<Kernel>,
    /// Address and bytes of variables.
    globals: BTreeMap<String, (u64, u64)>,
}

/// A kernel of a loaded code object.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// Its metadata: arguments, sizes. Empty if the file has none.
    pub metadata: KernelMetadata,
    /// The code object's version, which says where hidden arguments are.
    pub version: u32,
    /// Lanes of a wave.
    pub wave: u32,
    pub(crate) entry: u64,
    pub(crate) loaded: Loaded,
}

/// Code, decoded when it is first launched.
#[derive(Clone, Default)]
pub(crate) struct Loaded {
    pub bias: u64,
    pub processor: &'static str,
    pub generation: Option<Generation>,
    pub text: Arc<(u64, Vec<u8>)>,
    pub code: Arc<[OnceLock<Arc<Code>>; 2]>,
    pub image: Option<Arc<Allocation>>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("bias", &self.bias).finish_non_exhaustive()
    }
}

impl Kernel {
    /// Bytes of all arguments, hidden ones included.
    pub fn kernarg_size(&self) -> usize {
        let said = self.metadata.kernarg_segment_size.and_then(|n| usize::try_from(n).ok());
        said.unwrap_or(self.descriptor.kernarg_size as usize)
    }

    /// Bytes of LDS of a workgroup, without what a launch adds.
    pub fn lds(&self) -> u32 {
        self.descriptor.group_segment_fixed_size
    }

    /// Its instructions, decoded.
    pub(crate) fn code(&self, chip: &Chip) -> Result<Arc<Code>, Error> {
        let place = &self.loaded.code[usize::from(self.wave == 64)];
        if let Some(code) = place.get() {
            return Ok(code.clone());
        }
        let generation = self.loaded.generation.ok_or_else(|| Error::Module("of an unknown processor".into()))?;
        let context = Context::new(chip, generation, self.wave);
        let (address, bytes) = &*self.loaded.text;
        let code = Arc::new(Code::new(&context, self.loaded.processor, *address, bytes)?);
        Ok(place.get_or_init(|| code).clone())
    }
}

impl Module {
    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<Kernel> {
        self.inner.kernels.iter().find(|k| k.name == name).cloned()
    }

    /// All kernels, by name.
    pub fn kernels(&self) -> &[Kernel] {
        &self.inner.kernels
    }

    /// Address and bytes of a variable.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.inner.globals.get(name).copied()
    }

    /// The processor that its code is for, as LLVM calls it.
    pub fn processor(&self) -> &'static str {
        self.inner.processor
    }

    pub(crate) fn address(&self) -> u64 {
        self.inner.image.address()
    }

    /// Loads a code object.
    pub(crate) fn load(memory: &Memory, chip: &'static Chip, bytes: &[u8]) -> Result<Module, Error> {
        let hsaco = Hsaco::read(bytes)?;
        let refused = |reason: String| Error::Module(reason);
        let name = hsaco.identity.processor.map(|p| p.name);
        let name = name.ok_or_else(|| refused("for a processor that is not known".into()))?;
        let generic = hrx_compiler::target::amd::find(name).is_some_and(|c| c.members.contains(&chip.name));
        if name != chip.name && !generic {
            return Err(refused(format!("it is for {name}, and the GPU is {}", chip.name)));
        }
        let generation =
            processor(name).map(|p| p.generation).ok_or_else(|| refused(format!("no processor {name}")))?;
        let damaged = |e: object::Error| Error::Module(e.to_string());
        let header = FileHeader64::<LE>::parse(bytes).map_err(damaged)?;
        let segments = header.program_headers(LE, bytes).map_err(damaged)?;
        let loads = || segments.iter().filter(|s| s.p_type(LE) == elf::PT_LOAD);
        let end = loads().map(|s| s.p_vaddr(LE).saturating_add(s.p_memsz(LE))).max().unwrap_or(0);
        if end > 1 << 31 {
            return Err(refused(format!("{end} bytes of segments")));
        }
        let image = memory.alloc(end)?;
        let mut text = Vec::new();
        for segment in loads() {
            let data = segment.data(LE, bytes).map_err(|()| refused("a segment lies outside of the file".into()))?;
            let at = segment.p_vaddr(LE);
            image.write(at, &data[..data.len().min(segment.p_memsz(LE) as usize)]);
            image.written.mark(at as usize, segment.p_memsz(LE) as usize);
            if segment.p_flags(LE).contains(elf::PF_X) {
                text.push((at, data.to_vec()));
            }
        }
        let bias = image.address();
        relocate(bytes, header, &image).map_err(refused)?;
        let globals = globals(bytes, header, bias).map_err(damaged)?;
        let shared: Vec<_> =
            text.iter().map(|t| (Arc::new(t.clone()), Arc::<[OnceLock<Arc<Code>>; 2]>::default())).collect();
        let mut kernels = Vec::new();
        for kernel in &hsaco.kernels {
            let found =
                shared.iter().find(|(t, _)| kernel.entry.checked_sub(t.0).is_some_and(|at| at < t.1.len() as u64));
            let (text, code) = found.ok_or_else(|| refused(format!("{}: no code", kernel.name)))?;
            let wave = kernel.descriptor.wavefront_size().ok_or_else(|| refused("waves of an unknown size".into()))?;
            kernels.push(Kernel {
                name: kernel.name.into(),
                descriptor: kernel.descriptor,
                metadata: kernel.metadata.clone().unwrap_or_default(),
                version: hsaco.identity.version,
                wave,
                entry: kernel.entry,
                loaded: Loaded {
                    bias,
                    processor: name,
                    generation: Some(generation),
                    text: text.clone(),
                    code: code.clone(),
                    image: Some(image.clone()),
                },
            });
        }
        let inner = Inner { image, processor: name, kernels, globals };
        Ok(Module { inner: Arc::new(inner) })
    }
}

/// Relocations of AMD's code objects that loaders apply (LLVM's user guide, "Relocation Records").
const ABS64: u32 = 3;
const RELATIVE64: u32 = 13;

/// Applies the dynamic relocations.
fn relocate(bytes: &[u8], header: &FileHeader64<LE>, image: &Allocation) -> Result<(), String> {
    let said = |e: object::Error| e.to_string();
    let sections = header.sections(LE, bytes).map_err(said)?;
    let symbols = sections.symbols(LE, bytes, elf::SHT_DYNSYM).map_err(said)?;
    for section in sections.iter() {
        let Some((relocations, _)) = object::read::elf::SectionHeader::rela(section, LE, bytes).map_err(said)? else {
            continue;
        };
        for relocation in relocations {
            let at = relocation.r_offset(LE);
            let addend = relocation.r_addend(LE);
            let symbol = relocation.r_sym(LE, false);
            let value = match relocation.r_type(LE, false).0 {
                RELATIVE64 => image.address().wrapping_add_signed(addend),
                ABS64 => {
                    let index = object::SymbolIndex(symbol as usize);
                    let found = symbols.symbol(index).map_err(said)?;
                    if found.is_undefined(LE) {
                        let name = found.name(LE, symbols.strings()).map_err(said)?;
                        return Err(format!("{} is not defined", String::from_utf8_lossy(name)));
                    }
                    image.address().wrapping_add(found.st_value(LE)).wrapping_add_signed(addend)
                }
                0 => continue,
                other => return Err(format!("a relocation of type {other}")),
            };
            if at > image.len() || image.len() - at < 8 {
                return Err("a relocation outside of the segments".into());
            }
            image.write(at, &value.to_le_bytes());
        }
    }
    Ok(())
}

/// Variables by their symbols.
fn globals(bytes: &[u8], header: &FileHeader64<LE>, bias: u64) -> object::Result<BTreeMap<String, (u64, u64)>> {
    let sections = header.sections(LE, bytes)?;
    let mut found = BTreeMap::new();
    for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
        let table = sections.symbols(LE, bytes, kind)?;
        for symbol in table.iter().filter(|s| s.st_type() == elf::STT_OBJECT && !s.is_undefined(LE)) {
            let name = String::from_utf8_lossy(symbol.name(LE, table.strings())?).into_owned();
            if !name.ends_with(".kd") {
                found.entry(name).or_insert((bias + symbol.st_value(LE), symbol.st_size(LE)));
            }
        }
    }
    Ok(found)
}
