//! HSACOs.

use hrx_compiler::hsaco::Hsaco;

use crate::Reached;
use crate::elf::refused;

/// Reads a code object. What it hands out lies within the file.
pub fn hsaco(data: &[u8]) -> Reached {
    match Hsaco::read(data) {
        Err(error) => refused(error, data),
        Ok(hsaco) => {
            assert!(!hsaco.identity.to_string().is_empty());
            for kernel in &hsaco.kernels {
                assert!(data.as_ptr_range().contains(&kernel.code.as_ptr()), "code of {}", kernel.name);
                assert!(kernel.descriptor.fields().all(|(name, _)| kernel.descriptor.field(name).is_some()));
                let d = &kernel.descriptor;
                let _ = (d.vgprs(), d.sgprs(), d.accum_offset(), d.shared_vgprs(), d.workitem_id_dimensions());
                let _ = (d.float_mode(), d.wavefront_size(), d.preloaded_kernargs());
            }
            Reached::End
        }
    }
}
