//! Arguments that compilers add to a kernel's own: sizes of the launch and the like. Kinds and meanings are from LLVM's
//! "User Guide for AMDGPU Backend", sections "Code Object V3 Metadata" to V5.

use crate::gpu::Dispatch;
use crate::module::Kernel;
use crate::run::{PRIVATE_APERTURE, SHARED_APERTURE};

/// The value of a hidden argument; zero for what the emulator has not (queues, heaps, calls to the host).
fn value(kind: &str, dispatch: &Dispatch) -> Option<u64> {
    let axis = match kind.as_bytes().last() {
        Some(b'x') => 0,
        Some(b'y') => 1,
        Some(b'z') => 2,
        _ => 3,
    };
    let of = |sizes: [u32; 3]| sizes.get(axis).copied().map(u64::from);
    match kind {
        "hidden_block_count_x" | "hidden_block_count_y" | "hidden_block_count_z" => of(dispatch.grid),
        "hidden_group_size_x" | "hidden_group_size_y" | "hidden_group_size_z" => of(dispatch.block),
        "hidden_grid_dims" => {
            let sizes = [0, 1, 2].map(|i| u64::from(dispatch.grid[i]) * u64::from(dispatch.block[i]));
            Some(if sizes[2] > 1 { 3 } else { 1 + u64::from(sizes[1] > 1) })
        }
        "hidden_dynamic_lds_size" => Some(dispatch.dynamic_lds.into()),
        "hidden_private_base" => Some(PRIVATE_APERTURE.into()),
        "hidden_shared_base" => Some(SHARED_APERTURE.into()),
        _ if kind.starts_with("hidden_") => Some(0),
        _ => None,
    }
}

/// Writes a kernel's hidden arguments among its arguments, which may end before them. Grids are whole workgroups, so that
/// nothing remains and nothing is offset.
pub fn fill(kernel: &Kernel, dispatch: &Dispatch, kernarg: &mut [u8]) {
    for argument in kernel.metadata.args.iter().flatten() {
        let Some(value) = argument.value_kind.as_deref().and_then(|kind| value(kind, dispatch)) else { continue };
        let (Some(offset), Some(size)) = (argument.offset, argument.size) else { continue };
        let (offset, size) = (offset as usize, (size as usize).min(8));
        if let Some(place) = offset.checked_add(size).and_then(|end| kernarg.get_mut(offset..end)) {
            place.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
}
