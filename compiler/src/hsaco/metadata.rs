//! The metadata note of a code object: what a launch has to know of its kernels, as MessagePack. Keys are from LLVM's
//! "User Guide for AMDGPU Backend", sections "Code Object V3 Metadata" to V5.

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};
use std::fmt;

/// Maps in arrays in maps: a note's depth is 5. Deeper ones are hostile.
const MAX_DEPTH: usize = 32;

/// The metadata of a code object.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Metadata {
    /// Major and minor version of the metadata, not of the code object.
    #[serde(rename = "amdhsa.version")]
    pub version: Option<Vec<u32>>,
    /// The target, as `amdgcn-amd-amdhsa--gfx90a:xnack-`.
    #[serde(rename = "amdhsa.target")]
    pub target: Option<String>,
    /// Format strings of `printf` calls.
    #[serde(rename = "amdhsa.printf")]
    pub printf: Option<Vec<String>>,
    /// Kernels.
    #[serde(rename = "amdhsa.kernels")]
    pub kernels: Option<Vec<KernelMetadata>>,
}

/// The metadata of a kernel. What a compiler doesn't say is `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct KernelMetadata {
    /// Its name in the source.
    #[serde(rename = ".name")]
    pub name: Option<String>,
    /// The symbol of its descriptor.
    #[serde(rename = ".symbol")]
    pub symbol: Option<String>,
    /// `normal`, `init` or `fini`.
    #[serde(rename = ".kind")]
    pub kind: Option<String>,
    /// The source language.
    #[serde(rename = ".language")]
    pub language: Option<String>,
    /// Its version.
    #[serde(rename = ".language_version")]
    pub language_version: Option<Vec<u32>>,
    /// Arguments in order, hidden ones at the end.
    #[serde(rename = ".args")]
    pub args: Option<Vec<Argument>>,
    /// Bytes of all arguments.
    #[serde(rename = ".kernarg_segment_size")]
    pub kernarg_segment_size: Option<u64>,
    /// What they are aligned to.
    #[serde(rename = ".kernarg_segment_align")]
    pub kernarg_segment_align: Option<u64>,
    /// Bytes of LDS of a workgroup, without what a launch adds.
    #[serde(rename = ".group_segment_fixed_size")]
    pub group_segment_fixed_size: Option<u64>,
    /// Bytes of scratch memory of a lane.
    #[serde(rename = ".private_segment_fixed_size")]
    pub private_segment_fixed_size: Option<u64>,
    /// Whether scratch memory may grow beyond that.
    #[serde(rename = ".uses_dynamic_stack", default, deserialize_with = "flag")]
    pub uses_dynamic_stack: Option<bool>,
    /// Lanes of a wave.
    #[serde(rename = ".wavefront_size")]
    pub wavefront_size: Option<u32>,
    /// SGPRs that code uses, VCC and the like included.
    #[serde(rename = ".sgpr_count")]
    pub sgpr_count: Option<u32>,
    /// VGPRs that code uses; on processors with one file, AGPRs included.
    #[serde(rename = ".vgpr_count")]
    pub vgpr_count: Option<u32>,
    /// AGPRs that code uses.
    #[serde(rename = ".agpr_count")]
    pub agpr_count: Option<u32>,
    /// SGPRs that were spilled.
    #[serde(rename = ".sgpr_spill_count")]
    pub sgpr_spill_count: Option<u32>,
    /// VGPRs that were spilled.
    #[serde(rename = ".vgpr_spill_count")]
    pub vgpr_spill_count: Option<u32>,
    /// Most lanes of a workgroup.
    #[serde(rename = ".max_flat_workgroup_size")]
    pub max_flat_workgroup_size: Option<u32>,
    /// The only size of a workgroup that it may be launched with.
    #[serde(rename = ".reqd_workgroup_size")]
    pub reqd_workgroup_size: Option<[u32; 3]>,
    /// A likely size of a workgroup.
    #[serde(rename = ".workgroup_size_hint")]
    pub workgroup_size_hint: Option<[u32; 3]>,
    /// Whether the grid is whole workgroups.
    #[serde(rename = ".uniform_work_group_size", default, deserialize_with = "flag")]
    pub uniform_work_group_size: Option<bool>,
    /// Whether a workgroup has the two CUs of a WGP.
    #[serde(rename = ".workgroup_processor_mode", default, deserialize_with = "flag")]
    pub workgroup_processor_mode: Option<bool>,
}

/// An argument.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct Argument {
    /// Its name in the source.
    #[serde(rename = ".name")]
    pub name: Option<String>,
    /// Its type in the source.
    #[serde(rename = ".type_name")]
    pub type_name: Option<String>,
    /// Where it is among the arguments, in bytes.
    #[serde(rename = ".offset")]
    pub offset: Option<u64>,
    /// Its bytes.
    #[serde(rename = ".size")]
    pub size: Option<u64>,
    /// What it is: `by_value`, `global_buffer`, `hidden_block_count_x`…
    #[serde(rename = ".value_kind")]
    pub value_kind: Option<String>,
    /// Where a pointer points to: `global`, `local`, `constant`…
    #[serde(rename = ".address_space")]
    pub address_space: Option<String>,
    /// The access that the source allows: `read_only`, `write_only`, `read_write`.
    #[serde(rename = ".access")]
    pub access: Option<String>,
    /// The access that code makes.
    #[serde(rename = ".actual_access")]
    pub actual_access: Option<String>,
    /// What a pointer to LDS is aligned to.
    #[serde(rename = ".pointee_align")]
    pub pointee_align: Option<u64>,
    /// Whether what it points to is constant.
    #[serde(rename = ".is_const", default, deserialize_with = "flag")]
    pub is_const: Option<bool>,
    /// Whether nothing else points to what it points to.
    #[serde(rename = ".is_restrict", default, deserialize_with = "flag")]
    pub is_restrict: Option<bool>,
    /// Whether what it points to is volatile.
    #[serde(rename = ".is_volatile", default, deserialize_with = "flag")]
    pub is_volatile: Option<bool>,
}

impl Metadata {
    /// Reads a note's bytes.
    pub(super) fn read(note: &[u8]) -> Result<Metadata, String> {
        let mut reader = rmp_serde::Deserializer::from_read_ref(note);
        reader.set_max_depth(MAX_DEPTH);
        Metadata::deserialize(&mut reader).map_err(|e| format!("metadata: {e}"))
    }
}

/// Whether something holds: compilers write a truth value or a number.
fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    struct Flag;

    impl Visitor<'_> for Flag {
        type Value = Option<bool>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a truth value, 0 or 1")
        }

        fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
            Ok(Some(value))
        }

        fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
            match value {
                0 | 1 => Ok(Some(value == 1)),
                other => Err(E::invalid_value(serde::de::Unexpected::Unsigned(other), &self)),
            }
        }
    }

    from.deserialize_any(Flag)
}
