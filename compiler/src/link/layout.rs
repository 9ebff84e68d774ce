//! Where everything goes: offsets in the file and addresses in memory.

use super::input::{Input, MAX_IMAGE, PAGE, Place};
use super::{Part, Segment};
use object::LittleEndian;
use object::elf::{
    Dyn64, FileHeader64, HashHeader, ProgramHeader64, Rela64, STB_LOCAL, STV_HIDDEN, STV_INTERNAL, SectionHeader64,
    Sym64,
};

/// The program headers: themselves, three loaded segments, the dynamic section and the note.
pub(super) const PROGRAM_HEADERS: u64 = 6;

/// Entries of the dynamic section: five without relocations and the end, four more with them.
pub(super) const fn dynamic_entries(relocations: usize) -> u64 {
    if relocations == 0 { 6 } else { 10 }
}

/// A section of the HSACO.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Region {
    /// Its index in the table of sections; 0 if it is left out.
    pub(super) index: u16,
    pub(super) offset: u64,
    pub(super) address: u64,
    /// Bytes in memory.
    pub(super) size: u64,
    pub(super) align: u64,
}

impl Region {
    pub(super) fn end(&self) -> u64 {
        self.address + self.size
    }
}

/// A loaded segment.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Load {
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) file_size: u64,
    pub(super) memory_size: u64,
}

/// The layout of an HSACO.
pub(super) struct Layout {
    regions: [Region; Part::COUNT],
    pub(super) loads: [Load; 3],
    /// Sections, with the null section.
    pub(super) section_count: u16,
    /// Where the table of sections lies in the file, whose end it is.
    pub(super) sections_at: u64,
    /// Symbols that `.symtab` lists, by the object's order: local ones, then global ones.
    pub(super) locals: Vec<u32>,
    pub(super) globals: Vec<u32>,
    /// Pointers that a loader adds its address to, entries of the global offset table included.
    pub(super) dynamic_relocations: usize,
}

const fn size_of<T>() -> u64 {
    std::mem::size_of::<T>() as u64
}

impl Layout {
    pub(super) fn new(input: &Input<'_>) -> Result<Layout, String> {
        let (locals, globals) = partition(input);
        let pointers = input.relocations.iter().filter(|r| {
            r.kind.value == super::relocation::Value::Absolute && input.symbol(r.symbol).place != Place::Absolute
        });
        let mut layout = Layout {
            regions: [Region::default(); Part::COUNT],
            loads: [Load::default(); 3],
            section_count: 1,
            sections_at: 0,
            dynamic_relocations: pointers.count() + input.got.len(),
            locals,
            globals,
        };
        layout.measure(input)?;
        layout.place();
        if layout.sections_at > MAX_IMAGE || layout.loads[2].address + layout.loads[2].memory_size > MAX_IMAGE {
            return Err("sections larger than 64 MiB".into());
        }
        Ok(layout)
    }

    pub(super) fn region(&self, part: Part) -> &Region {
        &self.regions[part as usize]
    }

    /// Sizes, alignments and which sections there are.
    fn measure(&mut self, input: &Input<'_>) -> Result<(), String> {
        let dynamic_symbols = 1 + self.globals.len() as u64;
        let names = self.globals.iter().map(|&s| input.symbol(s).name.len() as u64 + 1);
        let dynstr = 1 + names.sum::<u64>();
        // Each name is in the object's string table, and a kernel's is in its metadata too.
        if dynstr > 2 * input.strings.len() as u64 + 64 * dynamic_symbols {
            return Err("symbol names that overlap".into());
        }
        let symbols = 1 + (self.locals.len() + self.globals.len()) as u64;
        let all_names: usize = Part::ALL.iter().map(|(_, name, _)| name.len() + 1).sum();
        for (part, _, _) in Part::ALL {
            let extent = input.extents[part as usize];
            let (size, align) = match part {
                Part::DynSym => (dynamic_symbols * size_of::<Sym64<LittleEndian>>(), 8),
                Part::Hash => (size_of::<HashHeader<LittleEndian>>() + 2 * dynamic_symbols * 4, 4),
                Part::DynStr => (dynstr, 1),
                Part::RelaDyn => (self.dynamic_relocations as u64 * size_of::<Rela64<LittleEndian>>(), 8),
                Part::Dynamic => (dynamic_entries(self.dynamic_relocations) * size_of::<Dyn64<LittleEndian>>(), 8),
                Part::Got => (input.got.len() as u64 * 8, 8),
                Part::SymTab => (symbols * size_of::<Sym64<LittleEndian>>(), 8),
                Part::StrTab => (input.strings.len() as u64, 1),
                Part::ShStrTab => (1 + all_names as u64, 1),
                Part::Note | Part::RoData | Part::Text | Part::RelRo | Part::Data | Part::Bss => {
                    (extent.size, extent.align)
                }
            };
            let region = &mut self.regions[part as usize];
            (region.size, region.align) = (size, align);
            if size > 0 || extent.used {
                region.index = self.section_count;
                self.section_count += 1;
            }
        }
        Ok(())
    }

    /// Offsets and addresses. A segment starts where the last one ended in the file, and on a new page in memory: the
    /// two agree within a page, so a loader may map the file.
    fn place(&mut self) {
        let mut offset =
            size_of::<FileHeader64<LittleEndian>>() + PROGRAM_HEADERS * size_of::<ProgramHeader64<LittleEndian>>();
        // What an address is more than an offset: whole pages.
        let mut shift = 0;
        let mut memory_end = 0;
        let mut current = Segment::ReadOnly;
        for (part, _, segment) in Part::ALL {
            let region = &mut self.regions[part as usize];
            if region.index == 0 {
                continue;
            }
            offset = offset.next_multiple_of(region.align);
            if segment != current {
                shift = u64::next_multiple_of(memory_end, PAGE) - (offset & !(PAGE - 1));
                current = segment;
            }
            (region.offset, region.address) = (offset, offset + shift);
            if segment == Segment::NotLoaded {
                region.address = 0;
                offset += region.size;
                continue;
            }
            offset += if part == Part::Bss { 0 } else { region.size };
            memory_end = region.end();
            let load = &mut self.loads[segment as usize];
            if segment != Segment::ReadOnly && load.memory_size == 0 {
                (load.offset, load.address) = (region.offset, region.address);
            }
            load.file_size = offset - load.offset;
            load.memory_size = memory_end - load.address;
        }
        self.sections_at = offset.next_multiple_of(8);
    }

    pub(super) fn file_size(&self) -> u64 {
        self.sections_at + u64::from(self.section_count) * size_of::<SectionHeader64<LittleEndian>>()
    }
}

/// The symbols that an HSACO keeps: hidden ones become local, those of sections and without a place are left out.
fn partition(input: &Input<'_>) -> (Vec<u32>, Vec<u32>) {
    let kept = |s: &super::input::Symbol<'_>| !s.is_section() && matches!(s.place, Place::In(_) | Place::Absolute);
    let mut locals = Vec::with_capacity(input.symbols.len());
    let mut globals = Vec::with_capacity(input.symbols.len());
    for (index, symbol) in (1..).zip(&input.symbols) {
        if kept(symbol) {
            let hidden = [STV_HIDDEN, STV_INTERNAL].contains(&symbol.other.visibility());
            if hidden || symbol.info.st_bind() == STB_LOCAL { &mut locals } else { &mut globals }.push(index);
        }
    }
    (locals, globals)
}
