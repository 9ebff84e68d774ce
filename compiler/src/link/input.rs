//! What a relocatable object holds, checked: sections that are loaded, symbols, relocations.

use super::Part;
use super::relocation::{self, Kind, Value};
use crate::code_object::{self, Elf, LE, shown};
use object::LittleEndian;
use object::elf::{
    self, ET_REL, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_WRITE, SHN_ABS, SHN_COMMON, SHN_LORESERVE, SHN_UNDEF,
    SHT_NOBITS, SHT_NOTE, SHT_PROGBITS, SHT_RELA, SHT_SYMTAB, STT_SECTION, STT_TLS, SectionHeader64, SymbolInfo,
    SymbolOther,
};
use object::read::elf::{FileHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable};

/// Pages of loaded segments, and the most that a section may be aligned to.
pub(super) const PAGE: u64 = 4096;

/// More than any kernel needs: a bound on what a damaged object can make the linker allocate.
pub(super) const MAX_IMAGE: u64 = 64 << 20;

type Header = SectionHeader64<LittleEndian>;

/// A part's bytes that come from the object.
#[derive(Clone, Copy, Default)]
pub(super) struct Extent {
    pub(super) size: u64,
    pub(super) align: u64,
    /// Whether something is defined in it, even if it is empty.
    pub(super) used: bool,
}

/// A loaded section of the object.
pub(super) struct Section<'a> {
    pub(super) part: Part,
    /// Where in the part.
    pub(super) at: u64,
    pub(super) size: u64,
    /// Nothing for zeros that the file does not hold.
    pub(super) data: &'a [u8],
}

/// Where a symbol lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Undefined,
    /// A number, not an address.
    Absolute,
    In(Part),
    /// In a section that is not loaded.
    NotLoaded,
}

/// A symbol of the object.
pub(super) struct Symbol<'a> {
    pub(super) name: &'a [u8],
    /// The name's offset in the object's string table.
    pub(super) name_at: u32,
    pub(super) info: SymbolInfo,
    pub(super) other: SymbolOther,
    pub(super) place: Place,
    /// Its offset in its part, or the number.
    pub(super) value: u64,
    pub(super) size: u64,
    /// Its entry of the global offset table.
    pub(super) got: Option<u32>,
}

impl Symbol<'_> {
    pub(super) fn is_section(&self) -> bool {
        self.info.st_type() == STT_SECTION
    }

    pub(super) fn shown(&self) -> String {
        if self.name.is_empty() { "a section".into() } else { shown(self.name) }
    }
}

/// A place to be filled in.
pub(super) struct Relocation {
    pub(super) kind: &'static Kind,
    pub(super) part: Part,
    /// Where in the part.
    pub(super) at: u64,
    /// The symbol's index.
    pub(super) symbol: u32,
    pub(super) addend: i64,
}

/// A relocatable object.
pub(super) struct Input<'a> {
    pub(super) header: &'a Elf,
    pub(super) extents: [Extent; Part::COUNT],
    pub(super) sections: Vec<Section<'a>>,
    /// In the order of the object, without its null symbol.
    pub(super) symbols: Vec<Symbol<'a>>,
    /// The object's string table: it becomes the HSACO's as it is.
    pub(super) strings: &'a [u8],
    pub(super) relocations: Vec<Relocation>,
    /// Entries of the global offset table, by their symbols' indices.
    pub(super) got: Vec<u32>,
}

impl Input<'_> {
    /// The symbol of that index of the object, which relocations were checked to have.
    pub(super) fn symbol(&self, index: u32) -> &Symbol<'_> {
        &self.symbols[index as usize - 1]
    }
}

/// Reads and checks an object.
pub(super) fn read(object: &[u8]) -> Result<Input<'_>, String> {
    let header = header(object)?;
    let table = header.sections(LE, object).map_err(|e| e.to_string())?;
    let mut input = Input {
        header,
        extents: [Extent { size: 0, align: 1, used: false }; Part::COUNT],
        sections: Vec::with_capacity(table.len()),
        symbols: Vec::new(),
        strings: &[],
        relocations: Vec::new(),
        got: Vec::new(),
    };
    // Which of `sections` a section of the object is, if it is loaded.
    let mut loaded: Vec<Option<u32>> = vec![None; table.len()];
    let mut bytes = 0;
    for (index, section) in table.enumerate() {
        if section.sh_flags(LE).contains(SHF_ALLOC) {
            let section = input.load(object, &table, section)?;
            bytes += section.data.len();
            loaded[index.0] = Some(input.sections.len() as u32);
            input.sections.push(section);
        }
    }
    if bytes > object.len() {
        return Err("its sections overlap".into());
    }
    for (part, what) in [(Part::Text, "code"), (Part::Note, "metadata note")] {
        if input.extents[part as usize].size == 0 {
            return Err(format!("no {what} in it"));
        }
    }
    let symbols = table.symbols(LE, object, SHT_SYMTAB).map_err(|e| e.to_string())?;
    input.read_symbols(object, &table, &symbols, &loaded)?;
    for (_, section) in table.enumerate() {
        input.read_relocations(object, &table, section, &loaded)?;
    }
    Ok(input)
}

/// The file header, if it is that of a relocatable object for ROCm.
fn header(object: &[u8]) -> Result<&Elf, String> {
    let header = code_object::header(object)?;
    match header.e_type(LE) {
        ET_REL => Ok(header),
        other => Err(format!("not a relocatable object but of ELF type {}", other.0)),
    }
}

impl<'a> Input<'a> {
    /// Gives a section its place in the part it belongs to.
    fn load(&mut self, object: &'a [u8], table: &Sections<'a>, section: &'a Header) -> Result<Section<'a>, String> {
        let name = || named(table, section);
        let flags = section.sh_flags(LE);
        let bits = section.sh_type(LE);
        let is = |prefix: &[u8]| table.section_name(LE, section).is_ok_and(|n| n.starts_with(prefix));
        let part = match (flags.contains(SHF_WRITE), flags.contains(SHF_EXECINSTR)) {
            _ if flags.contains(SHF_TLS) => return Err(format!("thread-local section {}", name())),
            (false, false) if bits == SHT_NOTE => Part::Note,
            (false, false) if bits == SHT_PROGBITS => Part::RoData,
            (false, true) if bits == SHT_PROGBITS => Part::Text,
            (true, false) if bits == SHT_PROGBITS && is(b".data.rel.ro") => Part::RelRo,
            (true, false) if bits == SHT_PROGBITS => Part::Data,
            (true, false) if bits == SHT_NOBITS => Part::Bss,
            _ => return Err(format!("section {} is of a kind that kernels don't have", name())),
        };
        let align = section.sh_addralign(LE).max(1);
        if !align.is_power_of_two() || align > PAGE {
            return Err(format!("section {} is aligned to {align}", name()));
        }
        let data = section.data(LE, object).map_err(|e| format!("section {}: {e}", name()))?;
        let extent = &mut self.extents[part as usize];
        let at = extent.size.next_multiple_of(align);
        let size = section.sh_size(LE);
        extent.align = extent.align.max(align);
        extent.size = at.checked_add(size).filter(|&e| e <= MAX_IMAGE).ok_or("sections larger than 64 MiB")?;
        extent.used |= size > 0;
        Ok(Section { part, at, size, data })
    }

    fn read_symbols(
        &mut self,
        object: &'a [u8],
        table: &Sections<'a>,
        symbols: &SymbolTable<'a, Elf>,
        loaded: &[Option<u32>],
    ) -> Result<(), String> {
        let strings = table.section(symbols.string_section()).map_err(|_| "no symbol table")?;
        self.strings = strings.data(LE, object).map_err(|e| format!("string table: {e}"))?;
        self.symbols.reserve(symbols.len());
        for symbol in symbols.iter().skip(1) {
            let name = symbol.name(LE, symbols.strings()).map_err(|e| e.to_string())?;
            let mut read = Symbol {
                name,
                name_at: symbol.st_name(LE),
                info: symbol.st_info(),
                other: symbol.st_other(),
                place: Place::Undefined,
                value: symbol.st_value(LE),
                size: symbol.st_size(LE),
                got: None,
            };
            if read.info.st_type() == STT_TLS {
                return Err(format!("{} is thread-local", read.shown()));
            }
            match symbol.st_shndx(LE) {
                SHN_UNDEF => {}
                SHN_ABS => read.place = Place::Absolute,
                SHN_COMMON => return Err(format!("{} is a common symbol", read.shown())),
                index if index.0 >= SHN_LORESERVE => {
                    return Err(format!("{} lies in reserved section {:#x}", read.shown(), index.0));
                }
                index => {
                    let index = usize::from(index.0);
                    let section = loaded.get(index).ok_or_else(|| format!("{} lies in no section", read.shown()))?;
                    read.place = Place::NotLoaded;
                    if let Some(section) = section.map(|s| &self.sections[s as usize]) {
                        if read.value > section.size || read.size > section.size - read.value {
                            return Err(format!("{} reaches beyond its section", read.shown()));
                        }
                        read.place = Place::In(section.part);
                        read.value += section.at;
                        self.extents[section.part as usize].used |= !read.is_section();
                    }
                }
            }
            self.symbols.push(read);
        }
        Ok(())
    }

    fn read_relocations(
        &mut self,
        object: &'a [u8],
        table: &Sections<'a>,
        section: &'a Header,
        loaded: &[Option<u32>],
    ) -> Result<(), String> {
        let target = loaded.get(section.sh_info(LE) as usize).copied().flatten();
        let Some(target) = target.filter(|_| relocation::is_relocations(section.sh_type(LE))) else {
            return Ok(());
        };
        if section.sh_type(LE) != SHT_RELA {
            return Err(format!("relocations without addends in {}", named(table, section)));
        }
        let (part, section_at, size, file_size) = {
            let target = &self.sections[target as usize];
            (target.part, target.at, target.size, target.data.len() as u64)
        };
        let records = section.data_as_array::<elf::Rela64<LittleEndian>, _>(LE, object);
        let records = records.map_err(|e| format!("section {}: {e}", named(table, section)))?;
        if size_of_val(records) + self.relocations.len() * size_of::<elf::Rela64<LittleEndian>>() > object.len() {
            return Err("its relocations overlap".into());
        }
        self.relocations.reserve(records.len());
        for record in records {
            let (index, r_type) = (record.r_sym(LE, false), record.r_type(LE, false));
            let kind = relocation::kind(r_type)
                .ok_or_else(|| format!("relocation type {}, which kernels don't have", r_type.0))?;
            let at = record.r_offset(LE);
            if at > size.min(file_size) || kind.field.bytes() > size.min(file_size) - at {
                return Err(format!("a relocation outside the section that {} is for", named(table, section)));
            }
            let symbol = (index as usize).checked_sub(1).and_then(|i| self.symbols.get_mut(i));
            let symbol = symbol.ok_or("a relocation against a symbol that is not there")?;
            match symbol.place {
                Place::Undefined => return Err(format!("{} is not defined", symbol.shown())),
                Place::NotLoaded => return Err(format!("{} is in a section that is not loaded", symbol.shown())),
                Place::Absolute if kind.value != Value::Absolute => {
                    return Err(format!("{} is a number, but code refers to its address", symbol.shown()));
                }
                Place::In(_) if kind.value == Value::Absolute && !matches!(part, Part::RelRo | Part::Data) => {
                    return Err(format!("the address of {} in read-only data or code", symbol.shown()));
                }
                Place::In(_) | Place::Absolute => {}
            }
            if kind.value == Value::GotRelative && symbol.got.is_none() {
                symbol.got = Some(self.got.len() as u32);
                self.got.push(index);
            }
            let (at, addend) = (section_at + at, record.r_addend(LE));
            self.relocations.push(Relocation { kind, part, at, symbol: index, addend });
        }
        Ok(())
    }
}

type Sections<'a> = SectionTable<'a, Elf>;

/// A section's name for messages.
fn named(table: &Sections<'_>, section: &Header) -> String {
    table.section_name(LE, section).map_or_else(|_| "without a name".into(), shown)
}
