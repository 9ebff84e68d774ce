//! How the arguments of a kernel lie, as its code object says.

use crate::device::gpu::kernel::Layout;
use hrx_compiler::hsaco::{Hsaco, KernelMetadata};
use hrx_compiler::target::amd::Chip;
use hrx_ir::tile::{Kernel, Param};

/// Reads the layout from a code object and holds it to the kernel that it was compiled from.
///
/// # Errors
/// What does not fit: the number or size of arguments, the workgroup, the wave.
pub(super) fn layout(kernel: &Kernel, chip: &Chip, object: &[u8]) -> Result<Layout, String> {
    let hsaco = Hsaco::read(object).map_err(|e| e.to_string())?;
    let found = hsaco.kernel(&kernel.name).ok_or("its code object does not have it")?;
    let metadata = found.metadata.as_ref().ok_or("its code object has no metadata for it")?;
    let block = kernel.waves.saturating_mul(chip.wave);
    check(kernel, metadata, chip.wave, block)
}

fn check(kernel: &Kernel, metadata: &KernelMetadata, wave: u32, block: u32) -> Result<Layout, String> {
    if let Some(other) = metadata.wavefront_size.filter(|&w| w != wave) {
        return Err(format!("its code is for waves of {other} lanes, the chip's are of {wave}"));
    }
    if let Some(other) = metadata.reqd_workgroup_size.filter(|&s| s != [block, 1, 1]) {
        return Err(format!("its code wants workgroups of {other:?}; {} waves are {block} lanes", kernel.waves));
    }
    // Hidden arguments are behind the others, and the runtime's to fill.
    let hidden = |kind: &Option<String>| kind.as_deref().is_some_and(|k| k.starts_with("hidden_"));
    let args: Vec<_> = metadata.args.iter().flatten().filter(|a| !hidden(&a.value_kind)).collect();
    if args.len() != kernel.params.len() {
        return Err(format!("its code takes {} arguments, not {}", args.len(), kernel.params.len()));
    }
    let mut fields = Vec::with_capacity(args.len());
    let mut end = 0usize;
    for (i, (arg, param)) in args.iter().zip(&kernel.params).enumerate() {
        let (kind, size) = match param {
            Param::View(_) => ("global_buffer", 8),
            Param::Scalar(_) => ("by_value", 4),
        };
        let said = arg.value_kind.as_deref().unwrap_or("of no kind");
        if said != kind || arg.size != Some(size) {
            let bytes = arg.size.map_or("an unknown number of".into(), |s| s.to_string());
            return Err(format!("its code takes {bytes} bytes {said} as argument {i}, not {size} bytes {kind}"));
        }
        let offset = arg.offset.and_then(|o| usize::try_from(o).ok()).filter(|o| *o >= end && *o < 1 << 16);
        let offset = offset.ok_or_else(|| format!("argument {i} of its code lies in another or nowhere"))?;
        end = offset + size as usize;
        fields.push((offset, size as usize));
    }
    match metadata.kernarg_segment_size {
        Some(size) if size < end as u64 => Err(format!("its {end} bytes of arguments are more than {size}")),
        _ => Ok(Layout { fields, bytes: end, block, local: 0, awaits: false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hrx_compiler::Target;
    use hrx_compiler::hsaco::Argument;
    use hrx_ir::tile::parse_kernel;

    fn kernel() -> Kernel {
        let text = "kernel @double(v0: i32, m0: in f32[v0, 32], m1: out f32[v0, 32]) grid (v0, 1, 1) ids (v1, v2, v3) {
            v4: i32 = const 0
            v5: f32[1, 32] = load m0[v1, v4]
            v6: f32[1, 32] = add v5, v5
            store m1[v1, v4], v6
        }";
        parse_kernel(text).expect("a kernel")
    }

    #[test]
    fn arguments_lie_where_the_code_object_says() {
        for (name, wave) in [("gfx1100", 32), ("gfx942", 64)] {
            let Ok(Target::Amd(chip)) = Target::from_name(name) else { panic!("a chip") };
            let object = hrx_compiler::compile(&kernel(), &Target::Amd(chip)).expect("compiles").object;
            let layout = layout(&kernel(), chip, &object).expect("a layout");
            let fields = vec![(0, 4), (8, 8), (16, 8)];
            assert_eq!(layout, Layout { fields, bytes: 24, block: wave, local: 0, awaits: false });
            let mut bytes = [0xAA; 24];
            layout.write(&[7, 0x0102_0304_0506_0708, u64::MAX], &mut bytes);
            let wanted = [&[7, 0, 0, 0, 0xAA, 0xAA, 0xAA, 0xAA][..], &[8, 7, 6, 5, 4, 3, 2, 1], &[0xFF; 8]].concat();
            assert_eq!(bytes[..], wanted[..]);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let arg = |offset, size, kind: &str| Argument {
            offset: Some(offset),
            size: Some(size),
            value_kind: Some(kind.into()),
            ..Argument::default()
        };
        let good = || vec![arg(0, 4, "by_value"), arg(8, 8, "global_buffer"), arg(16, 8, "global_buffer")];
        let check = |change: &dyn Fn(&mut KernelMetadata)| {
            let mut metadata = KernelMetadata {
                args: Some(good()),
                wavefront_size: Some(32),
                reqd_workgroup_size: Some([32, 1, 1]),
                kernarg_segment_size: Some(24),
                ..KernelMetadata::default()
            };
            change(&mut metadata);
            super::check(&kernel(), &metadata, 32, 32)
        };
        assert!(check(&|_| ()).is_ok());
        let with = |args: Vec<Argument>| check(&move |m| m.args = Some(args.clone())).expect_err("refused");
        assert_eq!(with(good()[..2].to_vec()), "its code takes 2 arguments, not 3");
        let hidden = [good(), vec![arg(24, 4, "hidden_block_count_x")]].concat();
        assert!(check(&|m| m.args = Some(hidden.clone())).is_ok());
        let swapped = vec![arg(0, 8, "global_buffer"), arg(8, 8, "global_buffer"), arg(16, 4, "by_value")];
        assert_eq!(with(swapped), "its code takes 8 bytes global_buffer as argument 0, not 4 bytes by_value");
        let overlapping = vec![arg(0, 4, "by_value"), arg(8, 8, "global_buffer"), arg(12, 8, "global_buffer")];
        assert_eq!(with(overlapping), "argument 2 of its code lies in another or nowhere");
        let refused = |change: &dyn Fn(&mut KernelMetadata)| check(change).expect_err("refused");
        let e = refused(&|m| m.kernarg_segment_size = Some(16));
        assert_eq!(e, "its 24 bytes of arguments are more than 16");
        let e = refused(&|m| m.wavefront_size = Some(64));
        assert_eq!(e, "its code is for waves of 64 lanes, the chip's are of 32");
        let e = refused(&|m| m.reqd_workgroup_size = Some([64, 1, 1]));
        assert_eq!(e, "its code wants workgroups of [64, 1, 1]; 1 waves are 32 lanes");
    }
}
