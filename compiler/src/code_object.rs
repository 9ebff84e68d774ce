//! Numbers of ELF files for AMD GPUs that the `object` crate has not, from LLVM's "User Guide for AMDGPU Backend",
//! sections "Code Object" and "Relocation Records".

use object::LittleEndian;
use object::elf::{FileHeader64, NoteType, OsAbi, RelocationType};

/// Every code object is of this class.
pub(crate) type Elf = FileHeader64<LittleEndian>;
pub(crate) const LE: LittleEndian = LittleEndian;

/// `e_ident[EI_OSABI]` of code for ROCm.
pub(crate) const ELFOSABI_AMDGPU_HSA: OsAbi = OsAbi(64);

/// `e_ident[EI_ABIVERSION]` of code object versions 3 to 6, which have kernel descriptors and MessagePack metadata. Each
/// is two less than the version.
pub(crate) const ABI_VERSIONS: std::ops::RangeInclusive<u8> = 1..=4;

/// The version of a code object with that ABI version.
pub(crate) const fn code_object_version(abi_version: u8) -> u8 {
    abi_version + 2
}

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
