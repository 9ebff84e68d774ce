//! What the linker and the reader of code objects share: the check of the file header, and numbers that the `object`
//! crate has not, from LLVM's "User Guide for AMDGPU Backend", sections "Code Object" and "Relocation Records".

use object::LittleEndian;
use object::elf::{self, FileHeader64, NoteType, OsAbi, RelocationType};
use object::read::elf::FileHeader;
use std::ops::RangeInclusive;

/// Every code object is of this class.
pub(crate) type Elf = FileHeader64<LittleEndian>;
pub(crate) const LE: LittleEndian = LittleEndian;

/// `e_ident[EI_OSABI]` of code for ROCm.
const ELFOSABI_AMDGPU_HSA: OsAbi = OsAbi(64);

/// Code object versions that have kernel descriptors and MessagePack metadata.
const VERSIONS: RangeInclusive<u32> = 3..=6;

/// The note that holds kernel metadata as MessagePack, by its owner and type.
pub(crate) const METADATA_NOTE: (&[u8], NoteType) = (b"AMDGPU", NoteType(32));

/// The suffix that makes the symbol of a kernel's descriptor of the kernel's name.
pub(crate) const DESCRIPTOR_SUFFIX: &str = ".kd";

pub(crate) const R_AMDGPU_ABS64: RelocationType = RelocationType(3);
pub(crate) const R_AMDGPU_REL32: RelocationType = RelocationType(4);
pub(crate) const R_AMDGPU_REL64: RelocationType = RelocationType(5);
pub(crate) const R_AMDGPU_GOTPCREL: RelocationType = RelocationType(7);
pub(crate) const R_AMDGPU_GOTPCREL32_LO: RelocationType = RelocationType(8);
pub(crate) const R_AMDGPU_GOTPCREL32_HI: RelocationType = RelocationType(9);
pub(crate) const R_AMDGPU_REL32_LO: RelocationType = RelocationType(10);
pub(crate) const R_AMDGPU_REL32_HI: RelocationType = RelocationType(11);
pub(crate) const R_AMDGPU_RELATIVE64: RelocationType = RelocationType(13);

/// Files that people take for code objects, by their first bytes.
const OTHERS: [(&[u8], &str); 5] = [
    (b"MZ", "a PE file"),
    (b"__CLANG_OFFLOAD_BUNDLE__", "a bundle of code objects, one of which has to be taken out first"),
    (b"CCOB", "a compressed bundle of code objects, one of which has to be taken out first"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"\x7fELF", "a damaged or 32-bit ELF file"),
];

/// The file header, if it is that of code for AMD GPUs and ROCm, of a version that is known.
pub(crate) fn header(bytes: &[u8]) -> Result<&Elf, String> {
    if bytes.is_empty() {
        return Err("an empty file".into());
    }
    let Ok(header) = Elf::parse(bytes) else {
        let other = OTHERS.iter().find(|(magic, _)| bytes.starts_with(magic));
        return Err(other.map_or("no ELF file", |(_, what)| what).into());
    };
    if header.e_ident.data != elf::ELFDATA2LSB || header.e_machine(LE) != elf::EM_AMDGPU {
        return Err(format!("not for AMD GPUs but for ELF machine {}", header.e_machine(LE).0));
    }
    if header.e_ident.os_abi != ELFOSABI_AMDGPU_HSA {
        return Err(format!("not for ROCm (amdhsa) but for OS ABI {}", header.e_ident.os_abi.0));
    }
    let version = version(header);
    if !VERSIONS.contains(&version) {
        let [first, last] = [VERSIONS.start(), VERSIONS.end()];
        return Err(format!("code object version {version}: versions {first} to {last} are known"));
    }
    Ok(header)
}

/// The code object version: `e_ident[EI_ABIVERSION]` is two less.
pub(crate) fn version(header: &Elf) -> u32 {
    u32::from(header.e_ident.abi_version) + 2
}

/// A name from a file as messages show it: one line, not too long, whatever it is made of.
pub(crate) fn shown(name: &[u8]) -> String {
    const MOST: usize = 100;
    let text = String::from_utf8_lossy(name);
    let mut line: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        line.push('…');
    }
    line
}
