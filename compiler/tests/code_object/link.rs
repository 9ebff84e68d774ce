//! HSACOs of our linker against those of `ld.lld`, as a loader sees them.

use crate::loaded::{BASE, Loaded};
use crate::support::{CALL, ONE, VISIBLE, each, lld, object, object_with, report};
use hrx_compiler::link;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, Sym};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn ours(object: &[u8], what: &str) -> Vec<u8> {
    link(object, what).unwrap_or_else(|e| panic!("{e}"))
}

/// A place in code or a descriptor that a linker fills in, by the symbol it lies in.
struct Filled {
    /// The function or descriptor, and the offset in it.
    symbol: String,
    at: u64,
    r_type: u32,
    addend: i64,
}

/// What a relocatable object wants to be filled in, outside of data that holds pointers.
fn filled(object: &[u8]) -> Vec<Filled> {
    let header = FileHeader64::<LE>::parse(object).expect("an object");
    let sections = header.sections(LE, object).expect("sections");
    let symbols = sections.symbols(LE, object, elf::SHT_SYMTAB).expect("symbols");
    let mut list = Vec::new();
    for section in sections.iter() {
        let Some((records, _)) = section.rela(LE, object).expect("relocations") else { continue };
        for record in records.iter().filter(|r| r.r_type(LE, false).0 != 3) {
            let offset = record.r_offset(LE);
            let around = |s: &&elf::Sym64<LE>| {
                let is_here = u32::from(s.st_shndx(LE).0) == section.sh_info(LE) && s.st_type() != elf::STT_SECTION;
                is_here && s.st_value(LE) <= offset && offset - s.st_value(LE) < s.st_size(LE)
            };
            let symbol = symbols.iter().find(around).expect("a relocation inside of a symbol");
            let name = symbols.symbol_name(LE, symbol).expect("a name");
            list.push(Filled {
                symbol: String::from_utf8(name.to_vec()).expect("UTF-8"),
                at: offset - symbol.st_value(LE),
                r_type: record.r_type(LE, false).0,
                addend: record.r_addend(LE),
            });
        }
    }
    list
}

/// What was filled in. A pair of low and high halves is one address: the high half must be what the low one says.
fn target(loaded: &Loaded, filled: &[Filled], at: usize) -> Option<u64> {
    let place = |f: &Filled| loaded.symbols[&f.symbol].value + f.at;
    let word = |f: &Filled| u32::from_le_bytes(loaded.bytes(place(f), 4).try_into().expect("4 bytes"));
    let this = &filled[at];
    let relative = match this.r_type {
        // R_AMDGPU_REL64
        5 => loaded.u64(place(this)),
        // R_AMDGPU_REL32_LO, R_AMDGPU_GOTPCREL32_LO: the high half follows.
        10 | 8 => {
            let next = &filled[at + 1];
            assert_eq!(next.r_type, this.r_type + 1, "{}+{}", this.symbol, this.at);
            let relative = u64::from(word(this)) | u64::from(word(next)) << 32;
            // Both halves are of addresses that differ as the places do.
            assert_eq!(next.addend - this.addend, (next.at - this.at) as i64);
            relative
        }
        11 | 9 => return None,
        other => panic!("relocation type {other}"),
    };
    Some(place(this).wrapping_add(relative).wrapping_sub(this.addend as u64))
}

/// What each place refers to. An addend is the distance to the instruction that reads the program counter, 4 or 8, and
/// for references by section the place in the section too, a multiple of 16 in these modules.
fn meanings(loaded: &Loaded, filled: &[Filled]) -> Vec<String> {
    let mut list = Vec::new();
    for (at, this) in filled.iter().enumerate() {
        if let Some(address) = target(loaded, filled, at) {
            let literal = this.addend % 16;
            let address = address.wrapping_add((this.addend - literal) as u64);
            list.push(format!("{}+{} refers to {}", this.symbol, this.at, loaded.meaning(address)));
        }
    }
    list
}

/// A symbol's bytes without what a linker fills in.
fn unfilled(loaded: &Loaded, filled: &[Filled], name: &str) -> Vec<u8> {
    let symbol = &loaded.symbols[name];
    let mut bytes = loaded.bytes(symbol.value, symbol.size).to_vec();
    for f in filled.iter().filter(|f| f.symbol == name) {
        let width = if f.r_type == 5 { 8 } else { 4 };
        bytes[f.at as usize..][..width].fill(0);
    }
    bytes
}

#[test]
fn a_loader_sees_what_lld_links() {
    each(|what, kernels, object| {
        let hsaco = ours(object, what);
        let (mine, theirs) = (Loaded::new(&hsaco), Loaded::new(&lld(object, &[])));
        let (h, t) = (&mine.header, &theirs.header);
        assert_eq!(h.e_ident.os_abi, t.e_ident.os_abi, "{what}");
        assert_eq!(h.e_ident.abi_version, t.e_ident.abi_version, "{what}");
        assert_eq!((h.e_type(LE), h.e_machine(LE)), (t.e_type(LE), t.e_machine(LE)), "{what}");
        assert_eq!(h.e_flags(LE), t.e_flags(LE), "{what}");

        let properties = |loaded: &Loaded, table: fn(&Loaded) -> Vec<(String, crate::loaded::Symbol)>| {
            let mut list = table(loaded);
            list.retain(|(name, _)| name != "_DYNAMIC");
            list.iter_mut().filter(|(_, s)| s.placed).for_each(|(_, s)| s.value = 0);
            list
        };
        let symbols = |l: &Loaded| l.symbols.clone().into_iter().collect::<Vec<_>>();
        let dynamic = |l: &Loaded| l.dynamic.clone().into_iter().collect::<Vec<_>>();
        assert_eq!(properties(&mine, symbols), properties(&theirs, symbols), "{what}");
        assert_eq!(properties(&mine, dynamic), properties(&theirs, dynamic), "{what}");
        for (name, symbol) in &mine.dynamic {
            assert_eq!(symbol.value, mine.symbols[name].value, "{what}: {name}");
        }

        let filled = filled(object);
        for (name, _) in mine.symbols.iter().filter(|(_, s)| s.kind == elf::STT_FUNC.0 || s.kind == elf::STT_OBJECT.0) {
            let in_data = mine.pointers.iter().any(|(place, _)| mine.symbol_at(*place).is_some_and(|s| s.0 == name));
            if !in_data {
                assert_eq!(unfilled(&mine, &filled, name), unfilled(&theirs, &filled, name), "{what}: {name}");
            }
        }
        assert_eq!(meanings(&mine, &filled), meanings(&theirs, &filled), "{what}");

        let pointers = |loaded: &Loaded| {
            let shown = |p: &(u64, u64)| match loaded.symbol_at(p.0) {
                Some(_) => format!("{} points to {}", loaded.meaning(p.0), loaded.meaning(p.1)),
                None => loaded.meaning(p.0),
            };
            loaded.pointers.iter().map(shown).collect::<BTreeSet<_>>()
        };
        assert_eq!(pointers(&mine), pointers(&theirs), "{what}");

        for kernel in kernels {
            let descriptor = &mine.symbols[&format!("{kernel}.kd")];
            let entry = descriptor.value.wrapping_add(mine.u64(descriptor.value + 16));
            assert_eq!(entry, mine.symbols[*kernel].value, "{what}: {kernel}");
            // Instruction fetch starts at a cache line, and LLVM aligns kernels for it.
            assert_eq!((entry - BASE) % 256, 0, "{what}: {kernel}");
        }
    });
}

#[test]
fn segments_are_as_the_loader_wants_them() {
    each(|what, _, object| {
        let hsaco = ours(object, what);
        let loaded = Loaded::new(&hsaco);
        let kinds: Vec<_> = loaded.segments.iter().map(|s| (s.p_type(LE), s.p_flags(LE))).collect();
        let (r, w, x) = (elf::PF_R, elf::PF_W, elf::PF_X);
        let wanted = [
            (elf::PT_PHDR, r),
            (elf::PT_LOAD, r),
            (elf::PT_LOAD, r | x),
            (elf::PT_LOAD, r | w),
            (elf::PT_DYNAMIC, r | w),
            (elf::PT_NOTE, r),
        ];
        assert_eq!(kinds, wanted, "{what}");
        let loads: Vec<_> = loaded.segments.iter().filter(|s| s.p_type(LE) == elf::PT_LOAD).collect();
        for pair in loads.windows(2) {
            let end = pair[0].p_vaddr(LE) + pair[0].p_memsz(LE);
            assert!(end.next_multiple_of(4096) <= pair[1].p_vaddr(LE), "{what}: two segments on one page");
            assert_eq!(pair[0].p_filesz(LE), pair[0].p_memsz(LE), "{what}");
        }
        for load in loads {
            assert_eq!(load.p_align(LE), 4096, "{what}");
            assert_eq!(load.p_offset(LE) % 4096, load.p_vaddr(LE) % 4096, "{what}");
            assert!(load.p_offset(LE) + load.p_filesz(LE) <= hsaco.len() as u64, "{what}");
        }
        // ROCm's loader takes the end of the section table for the end of the file.
        let header = &loaded.header;
        let end = header.e_shoff(LE) + u64::from(header.e_shnum(LE)) * u64::from(header.e_shentsize(LE));
        assert_eq!(end, hsaco.len() as u64, "{what}");
    });
}

#[test]
fn the_hash_table_is_that_of_lld() {
    each(|what, _, object| {
        let table = |file: &[u8]| {
            let header = FileHeader64::<LE>::parse(file).expect("an ELF file");
            let sections = header.sections(LE, file).expect("sections");
            let (_, hash) = sections.section_by_name(LE, b".hash").expect("a hash table");
            hash.data(LE, file).expect("its bytes").to_vec()
        };
        let (mine, theirs) = (ours(object, what), lld(object, &["--hash-style=sysv"]));
        let order = |file: &[u8]| report("llvm-nm", &["-D", "-p", "--format=just-symbols"], file);
        assert_eq!(order(&mine), order(&theirs), "{what}");
        assert_eq!(table(&mine), table(&theirs), "{what}");
    });
}

#[test]
fn goblin_finds_kernels_by_name_and_by_hash() {
    each(|what, kernels, object| {
        let hsaco = ours(object, what);
        let file = goblin::elf::Elf::parse(&hsaco).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(file.is_lib && file.little_endian && file.is_64, "{what}");
        let header = FileHeader64::<LE>::parse(&*hsaco).expect("an ELF file");
        let sections = header.sections(LE, &*hsaco).expect("sections");
        let symbols = sections.symbols(LE, &*hsaco, elf::SHT_DYNSYM).expect("dynamic symbols");
        let (hash, _) = sections.hash(LE, &*hsaco).expect("sections").expect("a hash table");
        let versions = object::read::elf::VersionTable::default();
        let hashed = |name: &str| {
            let name = name.as_bytes();
            hash.find(LE, name, elf::hash(name), None, &symbols, &versions).map(|(_, s)| s.st_value(LE))
        };
        for kernel in kernels.iter().flat_map(|k| [k.to_string(), format!("{k}.kd")]) {
            let named = |symbols: &goblin::elf::Symtab<'_>, names: &goblin::strtab::Strtab<'_>| {
                symbols.iter().find(|s| names.get_at(s.st_name) == Some(&kernel)).map(|s| s.st_value)
            };
            let value = named(&file.dynsyms, &file.dynstrtab);
            assert!(value.is_some(), "{what}: {kernel}");
            assert_eq!(named(&file.syms, &file.strtab), value, "{what}: {kernel}");
            assert_eq!(hashed(&kernel), value, "{what}: {kernel}");
        }
        assert_eq!(hashed("absent"), None);
        let notes: Vec<_> = file.iter_note_headers(&hsaco).expect("a note").map(|n| n.expect("a whole note")).collect();
        assert_eq!(notes.len(), 1, "{what}");
        assert_eq!((notes[0].name, notes[0].n_type), ("AMDGPU", 32), "{what}");
    });
}

#[test]
fn llvm_tools_have_no_complaints() {
    each(|what, kernels, object| {
        let hsaco = ours(object, what);
        let all = report("llvm-readobj", &["--all", "--hash-table", "--section-mapping"], &hsaco);
        report("llvm-readelf", &["--all", "--hash-symbols"], &hsaco);
        let theirs = lld(object, &[]);
        let notes = |file: &[u8]| {
            let text = report("llvm-readobj", &["--notes"], file);
            text[text.find("amdhsa.kernels").unwrap_or_else(|| panic!("{what}: {text}"))..].to_owned()
        };
        assert_eq!(notes(&hsaco), notes(&theirs), "{what}");
        let code = report("llvm-objdump", &["-d"], &hsaco);
        assert!(code.contains("s_endpgm") && !code.contains(".long"), "{what}:\n{code}");
        for kernel in kernels {
            assert!(all.contains(&format!(".name:           {kernel}\n")), "{what}: {kernel}");
            let directives = |file: &[u8]| {
                let text = report(
                    "llvm-objdump",
                    &["-D", "-j", ".rodata", &format!("--disassemble-symbols={kernel}.kd")],
                    file,
                );
                let at = text.find(".amdhsa_kernel").unwrap_or_else(|| panic!("{what}: {kernel}: {text}"));
                text[at..].to_owned()
            };
            assert_eq!(directives(&hsaco), directives(&theirs), "{what}: {kernel}");
        }
    });
}

#[test]
fn sections_keep_their_alignment() {
    each(|what, _, object| {
        let loaded = Loaded::new(&ours(object, what));
        let header = FileHeader64::<LE>::parse(object).expect("an object");
        let sections = header.sections(LE, object).expect("sections");
        let symbols = sections.symbols(LE, object, elf::SHT_SYMTAB).expect("symbols");
        for (index, symbol) in symbols.enumerate() {
            let name = symbols.symbol_name(LE, symbol).expect("a name");
            let Some(linked) = loaded.symbols.get(str::from_utf8(name).expect("UTF-8")).filter(|s| s.placed) else {
                continue;
            };
            let section = symbols.symbol_section(LE, symbol, index).expect("a section").expect("a section");
            let align = sections.section(section).expect("the section").sh_addralign(LE);
            assert_eq!((linked.value - BASE - symbol.st_value(LE)) % align, 0, "{what}: {name:?}");
        }
    });
}

#[test]
fn a_high_half_is_the_high_half() {
    let object = object(CALL, "gfx1100");
    let filled = filled(&object);
    let at = filled.iter().position(|f| f.r_type == 11).expect("R_AMDGPU_REL32_HI");
    let (_, records) = section_header(&object, ".rela.text");
    let far = patched(&object, records + 24 * at + 16, &(filled[at].addend + (5 << 32)).to_le_bytes());
    let high = |object: &[u8]| {
        let loaded = Loaded::new(&ours(object, "call"));
        let place = loaded.symbols[&filled[at].symbol].value + filled[at].at;
        u32::from_le_bytes(loaded.bytes(place, 4).try_into().expect("4 bytes"))
    };
    assert_eq!(high(&far), high(&object).wrapping_add(5));
}

#[test]
fn equal_objects_give_equal_files() {
    each(|what, _, object| {
        assert_eq!(ours(object, what), ours(object, "another name"), "{what}");
        // A copy at an odd address.
        let mut shifted = vec![0];
        shifted.extend_from_slice(object);
        assert_eq!(ours(&shifted[1..], what), ours(object, what), "{what}");
    });
}

#[test]
fn older_code_objects_keep_their_version() {
    for version in [4, 5, 6] {
        let hsaco = ours(&object_with(ONE, "gfx1100", "", version), "one");
        assert_eq!(u32::from(hsaco[8]) + 2, version);
    }
}

fn refusal(object: &[u8]) -> String {
    let error = link(object, "demo").expect_err("it was linked").to_string();
    assert!(error.starts_with("object of demo: "), "{error}");
    assert!(!error.contains('\n'), "{error}");
    error
}

/// An object with bytes replaced.
fn patched(object: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut object = object.to_vec();
    object[at..at + bytes.len()].copy_from_slice(bytes);
    object
}

/// Where the table of a section's header is: the header of the section of that name.
fn section_header(object: &[u8], name: &str) -> (usize, usize) {
    let header = FileHeader64::<LE>::parse(object).expect("an object");
    let sections = header.sections(LE, object).expect("sections");
    let (index, section) = sections.section_by_name(LE, name.as_bytes()).expect("the section");
    (header.e_shoff(LE) as usize + 64 * index.0, section.sh_offset(LE) as usize)
}

#[test]
fn what_is_wrong_is_said() {
    let object = object(CALL, "gfx1100");
    let check = |object: &[u8], reason: &str| {
        let error = refusal(object);
        assert!(error.contains(reason), "{error}, not {reason}");
    };
    check(&[], "an empty file");
    check(b"MZ\x90\0\x03\0\0\0", "a PE file");
    check(&object[..40], "a damaged or 32-bit ELF file");
    check(&patched(&object, 4, &[1]), "a damaged or 32-bit ELF file");
    check(&patched(&object, 18, &[62]), "for ELF machine 62");
    check(&patched(&object, 16, &[3]), "not a relocatable object");
    check(&patched(&object, 7, &[65]), "OS ABI 65");
    check(&patched(&object, 8, &[0]), "code object version 2");
    check(&patched(&object, 8, &[5]), "code object version 7");
    check(&ours(&object, "twice"), "not a relocatable object");

    let (text, _) = section_header(&object, ".text");
    check(&patched(&object, text + 48, &8192_u64.to_le_bytes()), "section .text is aligned to 8192");
    check(&patched(&object, text + 48, &24_u64.to_le_bytes()), "section .text is aligned to 24");
    check(&patched(&object, text + 32, &(u64::MAX - 7).to_le_bytes()), "section .text");
    check(&patched(&object, text + 4, &14_u32.to_le_bytes()), "section .text is of a kind");
    let (note, _) = section_header(&object, ".note");
    check(&patched(&object, note + 8, &0_u64.to_le_bytes()), "no metadata note");
    let (relocations, first) = section_header(&object, ".rela.text");
    check(&patched(&object, relocations + 4, &9_u32.to_le_bytes()), "relocations without addends");
    for r_type in [0, 1, 2, 6, 13, 14, 200] {
        let reason = format!("relocation type {r_type}, which kernels don't have");
        check(&patched(&object, first + 8, &(r_type as u32).to_le_bytes()), &reason);
    }
    check(&patched(&object, first + 8, &3_u32.to_le_bytes()), "in read-only data or code");
    check(&patched(&object, first + 12, &9999_u32.to_le_bytes()), "a symbol that is not there");
    check(&patched(&object, first + 12, &0_u32.to_le_bytes()), "a symbol that is not there");
    check(&patched(&object, first, &0x1_0000_u64.to_le_bytes()), "outside the section");
    check(&patched(&object, first, &(u64::MAX - 1).to_le_bytes()), "outside the section");
    let far = patched(&patched(&object, first + 8, &[4]), first + 16, &(1_u64 << 40).to_le_bytes());
    check(&far, "does not fit 32 bits");
}

#[test]
fn symbols_that_kernels_cannot_have() {
    let undefined = |declaration: &str, body: &str| {
        let ir = format!("{declaration}\ndefine amdgpu_kernel void @k(ptr addrspace(1) %p) {{\n{body}\nret void\n}}\n");
        refusal(&object(&ir, "gfx1100"))
    };
    let error = undefined("declare void @outside()", "call void @outside()");
    assert!(error.contains("outside is not defined"), "{error}");
    let load = "%v = load i32, ptr addrspace(1) @elsewhere\nstore i32 %v, ptr addrspace(1) %p";
    let error = undefined("@elsewhere = external addrspace(1) global i32", load);
    assert!(error.contains("elsewhere is not defined"), "{error}");

    let object = object(VISIBLE, "gfx1100");
    let (_, symbols) = section_header(&object, ".symtab");
    let header = FileHeader64::<LE>::parse(&*object).expect("an object");
    let table = header.sections(LE, &*object).expect("sections");
    let table = table.symbols(LE, &*object, elf::SHT_SYMTAB).expect("symbols");
    let at = |name: &str| {
        let found = table.enumerate().find(|(_, s)| table.symbol_name(LE, s) == Ok(name.as_bytes()));
        symbols + 24 * found.expect("the symbol").0.0
    };
    let place = at("counter") + 6;
    for (section, reason) in [
        (0xfff2_u16, "counter is a common symbol"),
        (0xff00, "counter lies in reserved section 0xff00"),
        (0xfff1, "counter is a number, but code refers to its address"),
        (0x7000, "counter lies in no section"),
    ] {
        let error = refusal(&patched(&object, place, &section.to_le_bytes()));
        assert!(error.contains(reason), "{error}");
    }
    let error = refusal(&patched(&object, at("counter") + 4, &[0x16]));
    assert!(error.contains("counter is thread-local"), "{error}");
    let error = refusal(&patched(&object, at("seen") + 16, &999_u64.to_le_bytes()));
    assert!(error.contains("seen reaches beyond its section"), "{error}");
}

#[test]
fn every_truncation_is_refused() {
    let object = object(CALL, "gfx1100");
    // The table of sections is at the end.
    for len in 0..object.len() {
        refusal(&object[..len]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_may_be_wrong(
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        module in 0..2,
    ) {
        static OBJECTS: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
        let objects = OBJECTS.get_or_init(|| [object(CALL, "gfx1100"), object(VISIBLE, "gfx942")]);
        let mut bytes = objects[module as usize].clone();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // A linked file is no more than the object, what links add and page alignment.
        if let Ok(hsaco) = link(&bytes, "damaged") {
            prop_assert!(hsaco.len() < 2 * bytes.len() + 0x4000);
        }
    }
}
