//! How the arguments of a kernel lie, as its PTX says.

use crate::device::gpu::kernel::Layout;
use hrx_compiler::ptx::Ptx;
use hrx_compiler::target::nvidia::WARP;
use hrx_ir::tile::{Kernel, Param};

/// What waits for the launches in front.
const AWAIT: &str = "griddepcontrol.wait";

/// Reads the layout from PTX and holds it to the kernel that it was compiled from.
///
/// # Errors
/// What does not fit: the number or size of arguments, the workgroup.
pub(super) fn layout(kernel: &Kernel, object: &[u8]) -> Result<Layout, String> {
    let ptx = Ptx::read(object).map_err(|e| e.to_string())?;
    let found = ptx.kernel(&kernel.name).ok_or("its PTX does not have it")?;
    let block = kernel.waves.saturating_mul(WARP);
    if found.threads != block {
        return Err(format!(
            "its code wants workgroups of {}; {} waves are {block} lanes",
            found.threads, kernel.waves
        ));
    }
    if found.params.len() != kernel.params.len() {
        return Err(format!("its code takes {} arguments, not {}", found.params.len(), kernel.params.len()));
    }
    let mut fields = Vec::with_capacity(found.params.len());
    let mut end = 0;
    for (i, (got, param)) in found.params.iter().zip(&kernel.params).enumerate() {
        let bytes = match param {
            Param::View(_) => 8,
            Param::Scalar(_) => 4,
        };
        if got.bytes as usize != bytes {
            return Err(format!("its code takes {} bytes as argument {i}, not {bytes}", got.bytes));
        }
        let offset = usize::next_multiple_of(end, bytes);
        end = offset + bytes;
        fields.push((offset, bytes));
    }
    let awaits = found.instructions.iter().any(|i| i.name() == AWAIT);
    Ok(Layout { fields, bytes: end, block, local: found.dynamic_shared, awaits })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hrx_compiler::Target;
    use hrx_ir::tile::parse_kernel;

    const DOUBLE: &str =
        "kernel @double(v0: i32, m0: in f32[v0, 32], m1: out f32[v0, 32]) grid (v0, 1, 1) ids (v1, v2, v3) {
        v4: i32 = const 0
        v5: f32[1, 32] = load m0[v1, v4]
        v6: f32[1, 32] = add v5, v5
        store m1[v1, v4], v6
    }";

    #[test]
    fn arguments_lie_by_their_alignment_and_other_kernels_are_refused() {
        let target = Target::from_name("sm_90").expect("a target");
        let kernel = parse_kernel(DOUBLE).expect("a kernel");
        let object = hrx_compiler::compile(&kernel, &target).expect("compiles").object;
        let wanted = Layout { fields: vec![(0, 4), (8, 8), (16, 8)], bytes: 24, block: 32, local: 0, awaits: true };
        assert_eq!(layout(&kernel, &object), Ok(wanted));

        let refused = |text: String| layout(&parse_kernel(&text).expect("a kernel"), &object).expect_err("refused");
        assert_eq!(refused(DOUBLE.replace("@double", "@half")), "its PTX does not have it");
        let fewer = DOUBLE
            .replace("m0: in f32[v0, 32], m1: out", "m1: inout")
            .replace("load m0", "load m1")
            .replace("m1", "m0");
        assert_eq!(refused(fewer), "its code takes 3 arguments, not 2");
        let mut wider = kernel.clone();
        wider.waves = 4;
        assert_eq!(layout(&wider, &object), Err("its code wants workgroups of 32; 4 waves are 128 lanes".into()));
    }
}
