//! A code object as a loader puts it into memory, by means of the `object` crate alone.

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, Rela, SectionHeader, Sym};
use std::collections::BTreeMap;

/// Where the code object is loaded.
pub const BASE: u64 = 0x7f_1234_5000;

/// A symbol; its value is an address in memory, or a number if it lies nowhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Symbol {
    pub value: u64,
    pub size: u64,
    pub kind: u8,
    pub bind: u8,
    pub visibility: u8,
    pub placed: bool,
}

pub struct Loaded {
    pub header: FileHeader64<LE>,
    pub segments: Vec<ProgramHeader64<LE>>,
    pub memory: Vec<u8>,
    /// `.symtab` without sections, and without names of the assembler, which lld drops where it merges constants.
    pub symbols: BTreeMap<String, Symbol>,
    pub dynamic: BTreeMap<String, Symbol>,
    /// Pointers that were relocated: where they are and what they point to.
    pub pointers: Vec<(u64, u64)>,
}

impl Loaded {
    pub fn new(hsaco: &[u8]) -> Loaded {
        let file = ElfFile64::<LE>::parse(hsaco).expect("an ELF file");
        let header = *file.elf_header();
        let segments = header.program_headers(LE, hsaco).expect("program headers").to_vec();
        let loads = || segments.iter().filter(|s| s.p_type(LE) == elf::PT_LOAD);
        let end = loads().map(|s| s.p_vaddr(LE) + s.p_memsz(LE)).max().expect("a loaded segment");
        let mut memory = vec![0; end as usize];
        for segment in loads() {
            let data = segment.data(LE, hsaco).expect("its bytes");
            memory[segment.p_vaddr(LE) as usize..][..data.len()].copy_from_slice(data);
        }
        let table = |table: &object::read::elf::SymbolTable<'_, FileHeader64<LE>>| {
            let named = table.iter().filter(|s| s.st_type() != elf::STT_SECTION && s.st_name(LE) != 0);
            let symbol = |s: &elf::Sym64<LE>| {
                let placed = ![elf::SHN_ABS, elf::SHN_UNDEF].contains(&s.st_shndx(LE));
                let symbol = Symbol {
                    value: s.st_value(LE) + if placed { BASE } else { 0 },
                    size: s.st_size(LE),
                    kind: s.st_type().0,
                    bind: s.st_bind().0,
                    visibility: s.st_visibility().0,
                    placed,
                };
                let name = table.symbol_name(LE, s).expect("a name");
                (String::from_utf8(name.to_vec()).expect("UTF-8"), symbol)
            };
            named.map(symbol).filter(|(name, _)| !name.starts_with(".L")).collect::<BTreeMap<_, _>>()
        };
        let mut loaded = Loaded {
            header,
            memory,
            symbols: table(file.elf_symbol_table()),
            dynamic: table(file.elf_dynamic_symbol_table()),
            pointers: Vec::new(),
            segments,
        };
        for section in file.elf_section_table().iter() {
            let Some((records, _)) = section.rela(LE, hsaco).expect("relocations") else { continue };
            for record in records {
                loaded.relocate(record, file.elf_dynamic_symbol_table());
            }
        }
        loaded
    }

    fn relocate(&mut self, record: &elf::Rela64<LE>, symbols: &object::read::elf::SymbolTable<'_, FileHeader64<LE>>) {
        let target = match record.r_type(LE, false).0 {
            // R_AMDGPU_RELATIVE64
            13 => BASE.wrapping_add_signed(record.r_addend(LE)),
            // R_AMDGPU_ABS64
            3 => {
                let index = record.symbol(LE, false).expect("a symbol");
                let symbol = symbols.symbol(index).expect("the symbol");
                (BASE + symbol.st_value(LE)).wrapping_add_signed(record.r_addend(LE))
            }
            other => panic!("a dynamic relocation of type {other}"),
        };
        let place = BASE + record.r_offset(LE);
        let at = record.r_offset(LE) as usize;
        self.memory[at..at + 8].copy_from_slice(&target.to_le_bytes());
        self.pointers.push((place, target));
    }

    /// The bytes at an address.
    pub fn bytes(&self, address: u64, size: u64) -> &[u8] {
        &self.memory[(address - BASE) as usize..][..size as usize]
    }

    pub fn u64(&self, address: u64) -> u64 {
        u64::from_le_bytes(self.bytes(address, 8).try_into().expect("8 bytes"))
    }

    /// The symbol around an address, with the offset in it.
    pub fn symbol_at(&self, address: u64) -> Option<(&str, u64)> {
        let around = |s: &Symbol| s.placed && s.value <= address && address - s.value < s.size;
        let (name, symbol) = self.symbols.iter().find(|(_, s)| around(s))?;
        Some((name, address - symbol.value))
    }

    /// What an address means whatever the layout: a place in a symbol, a pointer, or bytes without a name.
    pub fn meaning(&self, address: u64) -> String {
        match self.symbol_at(address) {
            Some((name, offset)) => format!("{name}+{offset}"),
            None => match self.pointers.iter().find(|(place, _)| *place == address) {
                Some((_, target)) => format!("pointer to {}", self.meaning(*target)),
                None => format!("{:02x?}", self.bytes(address, 6)),
            },
        }
    }
}
