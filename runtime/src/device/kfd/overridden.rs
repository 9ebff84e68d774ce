//! `HSA_OVERRIDE_GFX_VERSION`: a variable that makes AMD's runtime take a GPU for another one.
//!
//! It is `major.minor.stepping` in decimal. `HSA_OVERRIDE_GFX_VERSION_N` is for the GPU of node N alone and goes before
//! the one for all. Source: hsa_get_node_properties in ROCm's libhsakmt, src/topology.c.

use super::{Gpu, processor_of};

const NAME: &str = "HSA_OVERRIDE_GFX_VERSION";

/// An override in force for a GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Override {
    /// The variable.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// The processor that AMD's runtime takes the GPU for.
    pub processor: String,
}

/// A variable whose value AMD's runtime refuses.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{variable} is {value:?}, not three numbers such as 11.0.0: AMD's runtime will not start with it")]
pub struct OverrideError {
    /// The variable.
    pub variable: String,
    /// Its value.
    pub value: String,
}

impl Override {
    /// The override in force for the GPU of a node; `variable` looks an environment variable up.
    ///
    /// # Errors
    /// If the value is none.
    pub fn of_node(node: u32, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Override>, OverrideError> {
        let names = [format!("{NAME}_{node}"), NAME.into()];
        let Some((name, value)) = names.into_iter().find_map(|n| variable(&n).map(|v| (n, v))) else {
            return Ok(None);
        };
        let parts: Vec<Option<u32>> = value.split('.').map(|p| p.parse().ok()).collect();
        match parts[..] {
            [Some(major @ 0..=63), Some(minor @ 0..=255), Some(stepping @ 0..=255)] => {
                let processor = processor_of([major, minor, stepping]);
                Ok(Some(Override { variable: name, value, processor }))
            }
            _ => Err(OverrideError { variable: name, value }),
        }
    }

    /// What a person is to know of it.
    pub fn warning(&self, gpu: &Gpu) -> String {
        let Override { variable, value, processor } = self;
        let hardware = &gpu.processor;
        let consequence = if processor == hardware {
            "it changes nothing; unset it"
        } else {
            "code is compiled for what it says and may fail, hang or compute nonsense on the hardware; unset it to \
             use the GPU as it is"
        };
        format!(
            "{variable}={value} is in force: AMD's runtime takes the {hardware} at PCI {} for a {processor}; {consequence}",
            gpu.pci
        )
    }
}
