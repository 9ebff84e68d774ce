//! The relocations that code for ROCm has: what each writes and where.

use crate::code_object::{
    R_AMDGPU_ABS64, R_AMDGPU_GOTPCREL, R_AMDGPU_GOTPCREL32_HI, R_AMDGPU_GOTPCREL32_LO, R_AMDGPU_REL32,
    R_AMDGPU_REL32_HI, R_AMDGPU_REL32_LO, R_AMDGPU_REL64,
};
use object::elf::{RelocationType, SHT_CREL, SHT_REL, SHT_RELA, SHT_RELR, SectionType};

/// What a relocation computes. S is the symbol's address, A the addend, P the place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// S + A
    Absolute,
    /// S + A - P
    Relative,
    /// The address of the symbol's entry of the global offset table, + A - P.
    GotRelative,
}

/// Which bits of the value a relocation writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    /// All 64.
    Word64,
    /// 32 bits, of which the value must be the sign extension.
    Word32,
    /// The low 32.
    Low32,
    /// The high 32.
    High32,
}

impl Field {
    pub(super) fn bytes(self) -> u64 {
        if self == Field::Word64 { 8 } else { 4 }
    }
}

/// A kind of relocation.
#[derive(Debug)]
pub(super) struct Kind {
    r_type: RelocationType,
    pub(super) value: Value,
    pub(super) field: Field,
}

const fn row(r_type: RelocationType, value: Value, field: Field) -> Kind {
    Kind { r_type, value, field }
}

static KINDS: [Kind; 8] = [
    row(R_AMDGPU_REL32_LO, Value::Relative, Field::Low32),
    row(R_AMDGPU_REL32_HI, Value::Relative, Field::High32),
    row(R_AMDGPU_REL64, Value::Relative, Field::Word64),
    row(R_AMDGPU_REL32, Value::Relative, Field::Word32),
    row(R_AMDGPU_ABS64, Value::Absolute, Field::Word64),
    row(R_AMDGPU_GOTPCREL32_LO, Value::GotRelative, Field::Low32),
    row(R_AMDGPU_GOTPCREL32_HI, Value::GotRelative, Field::High32),
    row(R_AMDGPU_GOTPCREL, Value::GotRelative, Field::Word32),
];

/// The kind of that type.
pub(super) fn kind(r_type: RelocationType) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.r_type == r_type)
}

/// Whether sections of a type hold relocations.
pub(super) fn is_relocations(section: SectionType) -> bool {
    [SHT_RELA, SHT_REL, SHT_RELR, SHT_CREL].contains(&section)
}

impl Field {
    /// Writes a value to the start of `to`, which must be long enough.
    pub(super) fn write(self, to: &mut [u8], value: u64) -> Result<(), String> {
        match self {
            Field::Word64 => to[..8].copy_from_slice(&value.to_le_bytes()),
            Field::Low32 => to[..4].copy_from_slice(&(value as u32).to_le_bytes()),
            Field::High32 => to[..4].copy_from_slice(&((value >> 32) as u32).to_le_bytes()),
            Field::Word32 => {
                let word = i32::try_from(value as i64).map_err(|_| "a relocation that does not fit 32 bits")?;
                to[..4].copy_from_slice(&word.to_le_bytes());
            }
        }
        Ok(())
    }
}
