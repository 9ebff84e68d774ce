//! Writes the HSACO.

use super::input::{Input, Place, Symbol};
use super::layout::{Layout, PROGRAM_HEADERS, Region};
use super::relocation::{Field, Value};
use super::{Part, Segment};
use crate::code_object::{LE, R_AMDGPU_RELATIVE64};
use object::LittleEndian;
use object::elf::{
    self, DynamicTag, FileHeader64, ProgramFlags, ProgramHeader64, ProgramType, Rela64, SectionFlags, SectionHeader64,
    SectionType, Sym64, SymbolBind, SymbolInfo, SymbolSection,
};
use object::endian::{I64, U16, U32, U64};
use object::pod::{Pod, bytes_of};

/// The file as it grows: all of it is there from the start, as zeros.
struct Image {
    bytes: Vec<u8>,
}

impl Image {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes records one after the other.
    fn put_all<T: Pod>(&mut self, at: u64, records: impl IntoIterator<Item = T>) {
        let mut at = at;
        for record in records {
            self.put(at, bytes_of(&record));
            at += size_of::<T>() as u64;
        }
    }
}

/// Writes the HSACO of an object.
pub(super) fn write(input: &Input<'_>, layout: &Layout) -> Result<Vec<u8>, String> {
    let mut image = Image { bytes: vec![0; layout.file_size() as usize] };
    image.put(0, bytes_of(&file_header(input, layout)));
    image.put_all(size_of::<FileHeader64<LittleEndian>>() as u64, program_headers(layout));
    for section in &input.sections {
        image.put(layout.region(section.part).offset + section.at, section.data);
    }
    let pointers = relocate(&mut image, input, layout)?;
    image.put_all(layout.region(Part::RelaDyn).offset, pointers);
    dynamic_symbols(&mut image, input, layout);
    image.put_all(layout.region(Part::Dynamic).offset, dynamic(layout));
    let listed = layout.locals.iter().map(|&s| (s, Some(elf::STB_LOCAL)));
    let listed = listed.chain(layout.globals.iter().map(|&s| (s, None)));
    let listed = listed.map(|(s, bind)| symbol(input.symbol(s), input.symbol(s).name_at, bind, layout));
    image.put_all(layout.region(Part::SymTab).offset, std::iter::once(null_symbol()).chain(listed));
    image.put(layout.region(Part::StrTab).offset, input.strings);
    section_headers(&mut image, layout);
    Ok(image.bytes)
}

/// The address of a symbol once all is in its place, relative to where a loader puts the file.
fn address(symbol: &Symbol<'_>, layout: &Layout) -> u64 {
    match symbol.place {
        Place::In(part) => layout.region(part).address + symbol.value,
        Place::Absolute | Place::Undefined | Place::NotLoaded => symbol.value,
    }
}

/// Fills in what is known now; the rest are pointers that a loader has to add its address to.
fn relocate(image: &mut Image, input: &Input<'_>, layout: &Layout) -> Result<Vec<Rela64<LittleEndian>>, String> {
    let mut pointers = Vec::with_capacity(layout.dynamic_relocations);
    let mut pointer = |at: u64, to: u64| {
        pointers.push(Rela64 {
            r_offset: U64::new(LE, at),
            r_info: Rela64::r_info(LE, false, 0, R_AMDGPU_RELATIVE64),
            r_addend: I64::new(LE, to as i64),
        });
    };
    let got = layout.region(Part::Got).address;
    for relocation in &input.relocations {
        let symbol = input.symbol(relocation.symbol);
        let region = layout.region(relocation.part);
        let place = region.address + relocation.at;
        let target = address(symbol, layout).wrapping_add(relocation.addend as u64);
        let value = match relocation.kind.value {
            Value::Absolute if symbol.place == Place::Absolute => target,
            Value::Absolute => {
                pointer(place, target);
                continue;
            }
            Value::Relative => target.wrapping_sub(place),
            Value::GotRelative => {
                let entry = got + 8 * u64::from(symbol.got.unwrap_or_default());
                entry.wrapping_add(relocation.addend as u64).wrapping_sub(place)
            }
        };
        let at = (region.offset + relocation.at) as usize;
        let field: Field = relocation.kind.field;
        field.write(&mut image.bytes[at..], value).map_err(|e| format!("{e}: from code to {}", symbol.shown()))?;
    }
    for (entry, &symbol) in (0..).zip(&input.got) {
        pointer(got + 8 * entry, address(input.symbol(symbol), layout));
    }
    Ok(pointers)
}

fn file_header(input: &Input<'_>, layout: &Layout) -> FileHeader64<LittleEndian> {
    let mut header = *input.header;
    header.e_type = U16::new(LE, elf::ET_DYN);
    header.e_entry = U64::default();
    header.e_phoff = U64::new(LE, size_of::<FileHeader64<LittleEndian>>() as u64);
    header.e_shoff = U64::new(LE, layout.sections_at);
    header.e_phentsize = U16::new(LE, size_of::<ProgramHeader64<LittleEndian>>() as u16);
    header.e_phnum = U16::new(LE, PROGRAM_HEADERS as u16);
    header.e_shnum = U16::new(LE, layout.section_count);
    header.e_shstrndx = U16::new(LE, SymbolSection(layout.region(Part::ShStrTab).index));
    header
}

fn program_headers(layout: &Layout) -> [ProgramHeader64<LittleEndian>; PROGRAM_HEADERS as usize] {
    let header = |kind: ProgramType, flags: ProgramFlags, at: (u64, u64), sizes: (u64, u64), align: u64| {
        let word = |n| U64::new(LE, n);
        ProgramHeader64 {
            p_type: U32::new(LE, kind),
            p_flags: U32::new(LE, flags),
            p_offset: word(at.0),
            p_vaddr: word(at.1),
            p_paddr: word(at.1),
            p_filesz: word(sizes.0),
            p_memsz: word(sizes.1),
            p_align: word(align),
        }
    };
    let load = |segment: Segment, flags| {
        let load = layout.loads[segment as usize];
        let sizes = (load.file_size, load.memory_size);
        header(elf::PT_LOAD, flags, (load.offset, load.address), sizes, super::input::PAGE)
    };
    let region = |kind, flags, r: &Region| header(kind, flags, (r.offset, r.address), (r.size, r.size), r.align);
    let here = size_of::<FileHeader64<LittleEndian>>() as u64;
    let headers = PROGRAM_HEADERS * size_of::<ProgramHeader64<LittleEndian>>() as u64;
    [
        header(elf::PT_PHDR, elf::PF_R, (here, here), (headers, headers), 8),
        load(Segment::ReadOnly, elf::PF_R),
        load(Segment::Code, elf::PF_R | elf::PF_X),
        load(Segment::Data, elf::PF_R | elf::PF_W),
        region(elf::PT_DYNAMIC, elf::PF_R | elf::PF_W, layout.region(Part::Dynamic)),
        region(elf::PT_NOTE, elf::PF_R, layout.region(Part::Note)),
    ]
}

fn null_symbol() -> Sym64<LittleEndian> {
    Sym64 {
        st_name: U32::default(),
        st_info: SymbolInfo(0),
        st_other: elf::SymbolOther(0),
        st_shndx: U16::new(LE, elf::SHN_UNDEF),
        st_value: U64::default(),
        st_size: U64::default(),
    }
}

/// A symbol as a table lists it, its name at `name` of the table's strings, with another binding if one is given.
fn symbol(symbol: &Symbol<'_>, name: u32, bind: Option<SymbolBind>, layout: &Layout) -> Sym64<LittleEndian> {
    let section = match symbol.place {
        Place::In(part) => SymbolSection(layout.region(part).index),
        _ => elf::SHN_ABS,
    };
    let bind = bind.unwrap_or(symbol.info.st_bind());
    Sym64 {
        st_name: U32::new(LE, name),
        st_info: SymbolInfo::new(bind, symbol.info.st_type()),
        st_other: symbol.other,
        st_shndx: U16::new(LE, section),
        st_value: U64::new(LE, address(symbol, layout)),
        st_size: U64::new(LE, symbol.size),
    }
}

/// `.dynsym`, `.dynstr` and `.hash`: as many buckets as symbols, chains through symbols of one bucket.
fn dynamic_symbols(image: &mut Image, input: &Input<'_>, layout: &Layout) {
    let count = 1 + layout.globals.len() as u32;
    let mut buckets = vec![0_u32; count as usize];
    let mut chains = vec![0_u32; count as usize];
    let strings = layout.region(Part::DynStr).offset;
    let mut name_at = 1;
    let symbols = layout.region(Part::DynSym).offset;
    image.put(symbols, bytes_of(&null_symbol()));
    for (index, &global) in (1_u32..).zip(&layout.globals) {
        let global = input.symbol(global);
        image.put(strings + u64::from(name_at), global.name);
        let at = symbols + u64::from(index) * size_of::<Sym64<LittleEndian>>() as u64;
        image.put(at, bytes_of(&symbol(global, name_at, None, layout)));
        name_at += global.name.len() as u32 + 1;
        let bucket = &mut buckets[(elf::hash(global.name) % count) as usize];
        chains[index as usize] = std::mem::replace(bucket, index);
    }
    let table = [count, count].into_iter().chain(buckets).chain(chains);
    image.put_all(layout.region(Part::Hash).offset, table.map(|n| U32::<LittleEndian>::new(LE, n)));
}

fn dynamic(layout: &Layout) -> impl Iterator<Item = elf::Dyn64<LittleEndian>> {
    let address = |part| layout.region(part).address;
    let size = |part| layout.region(part).size;
    let relocations = [
        (elf::DT_RELA, address(Part::RelaDyn)),
        (elf::DT_RELASZ, size(Part::RelaDyn)),
        (elf::DT_RELAENT, size_of::<Rela64<LittleEndian>>() as u64),
        (elf::DT_RELACOUNT, layout.dynamic_relocations as u64),
    ];
    let always = [
        (elf::DT_SYMTAB, address(Part::DynSym)),
        (elf::DT_SYMENT, size_of::<Sym64<LittleEndian>>() as u64),
        (elf::DT_STRTAB, address(Part::DynStr)),
        (elf::DT_STRSZ, size(Part::DynStr)),
        (elf::DT_HASH, address(Part::Hash)),
        (elf::DT_NULL, 0),
    ];
    let relocations = relocations.into_iter().filter(|_| layout.dynamic_relocations > 0);
    let entry = |(tag, value): (DynamicTag, u64)| elf::Dyn64 { d_tag: I64::new(LE, tag), d_val: U64::new(LE, value) };
    relocations.chain(always).map(entry)
}

/// The table of sections and their names.
fn section_headers(image: &mut Image, layout: &Layout) {
    let names = layout.region(Part::ShStrTab).offset;
    let mut name_at = 1;
    for (part, name, segment) in Part::ALL {
        let region = layout.region(part);
        image.put(names + u64::from(name_at), name.as_bytes());
        if region.index != 0 {
            let (kind, flags) = section_kind(part, segment);
            let index = |part: Part| u32::from(layout.region(part).index);
            let (link, info) = match part {
                Part::DynSym => (index(Part::DynStr), 1),
                Part::Hash | Part::RelaDyn => (index(Part::DynSym), 0),
                Part::Dynamic => (index(Part::DynStr), 0),
                Part::SymTab => (index(Part::StrTab), 1 + layout.locals.len() as u32),
                _ => (0, 0),
            };
            let entry = match part {
                Part::DynSym | Part::SymTab => size_of::<Sym64<LittleEndian>>(),
                Part::RelaDyn => size_of::<Rela64<LittleEndian>>(),
                Part::Dynamic => size_of::<elf::Dyn64<LittleEndian>>(),
                Part::Hash => 4,
                Part::Got => 8,
                _ => 0,
            };
            let header = SectionHeader64 {
                sh_name: U32::new(LE, name_at),
                sh_type: U32::new(LE, kind),
                sh_flags: U64::new(LE, flags),
                sh_addr: U64::new(LE, region.address),
                sh_offset: U64::new(LE, region.offset),
                sh_size: U64::new(LE, region.size),
                sh_link: U32::new(LE, link),
                sh_info: U32::new(LE, info),
                sh_addralign: U64::new(LE, region.align),
                sh_entsize: U64::new(LE, entry as u64),
            };
            let at = layout.sections_at + u64::from(region.index) * size_of_val(&header) as u64;
            image.put(at, bytes_of(&header));
        }
        name_at += name.len() as u32 + 1;
    }
}

fn section_kind(part: Part, segment: Segment) -> (SectionType, SectionFlags) {
    let kind = match part {
        Part::Note => elf::SHT_NOTE,
        Part::DynSym => elf::SHT_DYNSYM,
        Part::Hash => elf::SHT_HASH,
        Part::DynStr | Part::StrTab | Part::ShStrTab => elf::SHT_STRTAB,
        Part::RelaDyn => elf::SHT_RELA,
        Part::Dynamic => elf::SHT_DYNAMIC,
        Part::SymTab => elf::SHT_SYMTAB,
        Part::Bss => elf::SHT_NOBITS,
        Part::RoData | Part::Text | Part::RelRo | Part::Got | Part::Data => elf::SHT_PROGBITS,
    };
    let flags = match segment {
        Segment::ReadOnly => elf::SHF_ALLOC,
        Segment::Code => elf::SHF_ALLOC | elf::SHF_EXECINSTR,
        Segment::Data => elf::SHF_ALLOC | elf::SHF_WRITE,
        Segment::NotLoaded => SectionFlags(0),
    };
    (kind, flags)
}
