//! LDS, against what LLVM takes and says.

use crate::llvm::{assembly_of, comments, llc, machine, machine_of};
use hrx_compiler::target::amd::{CHIPS, Resources, Source};

/// Kernels that each use so many bytes of LDS in workgroups of so many work items.
fn kernels(cases: &[(u32, u32)]) -> String {
    let mut ir = String::new();
    for (i, (bytes, items)) in cases.iter().enumerate() {
        ir += &format!(
            "@l{i} = internal addrspace(3) global [{bytes} x i8] poison, align 16
define amdgpu_kernel void @k{i}(i8 %v, i32 %at) #{i} {{
  %p = getelementptr i8, ptr addrspace(3) @l{i}, i32 %at
  store volatile i8 %v, ptr addrspace(3) %p
  ret void
}}
attributes #{i} = {{ \"amdgpu-flat-work-group-size\"=\"{items},{items}\" }}
"
        );
    }
    ir
}

#[test]
fn llvm_takes_as_much_and_no_more() {
    for chip in CHIPS {
        let asm = assembly_of(&kernels(&[(chip.lds, 64)]), &machine(chip, None));
        assert_eq!(comments(&asm, "LDSByteSize"), [chip.lds], "{}", chip.name);
        let refused = llc(chip.name, &[], &kernels(&[(chip.lds + 1, 64)])).expect_err("one byte too much");
        let words = format!("local memory ({}) exceeds limit ({})", chip.lds + 1, chip.lds);
        assert!(refused.contains(&words), "{}: {refused}", chip.name);
    }
}

/// LLVM doesn't round up to the granule, so it is asked about multiples of it. It knows the LDS of a block, the waves
/// of its SIMDs and the places for workgroups.
#[test]
fn lds_and_workgroups_limit_waves_as_llvm_says() {
    for chip in CHIPS {
        let granule = chip.lds_granule.value;
        let sizes = [1, 2, 3, 5, 8, 9, 13, 16, 21, 31, 32, 40, 50, 64, 100, 127, 128].map(|n| n * granule);
        let items = [32, 64, 128, 192, 256, 512, 1024];
        let cases: Vec<_> = (sizes.iter().filter(|&&bytes| bytes <= chip.lds))
            .flat_map(|&bytes| items.iter().map(move |&items| (bytes, items)))
            .collect();
        let asm = assembly_of(&kernels(&cases), &machine(chip, None));
        let (vgprs, sgprs) = (comments(&asm, "NumVgprs"), comments(&asm, "TotalNumSgprs"));
        for (i, (&(lds_bytes, items), &llvm)) in cases.iter().zip(&comments(&asm, "Occupancy")).enumerate() {
            let used = Resources {
                wave: chip.wave,
                vgprs: vgprs[i],
                sgprs: sgprs[i],
                lds_bytes,
                waves_per_workgroup: items.div_ceil(chip.wave),
            };
            let ours = chip.occupancy(&used).unwrap_or_else(|e| panic!("{e}")).waves_per_simd;
            assert_eq!(ours, llvm, "{}: {lds_bytes} bytes, {items} work items", chip.name);
        }
    }
}

/// The unit that LLVM counts LDS in, which it writes for Mesa's system. The hardware allocates no less.
#[test]
fn the_granule_is_llvms_or_coarser() {
    for chip in CHIPS {
        let cases: Vec<_> = (1..=8).map(|n| (n * 512 + 1, 64)).collect();
        let asm = assembly_of(&kernels(&cases), &machine_of("amdgcn-mesa-mesa3d", chip, ""));
        let units: Vec<u32> = (asm.lines().filter_map(|l| l.trim().strip_prefix("granulated_lds_size = ")))
            .map(|n| n.parse().expect("a number"))
            .collect();
        assert_eq!(units.len(), cases.len(), "{}", chip.name);
        let more_than_one = units.iter().position(|&n| n > 1).expect("the unit is at most 4 KiB");
        let llvm = 512 * (more_than_one as u32 + 1);
        let ours = chip.lds_granule;
        assert_eq!(ours.value % llvm, 0, "{}: {} bytes, LLVM {llvm}", chip.name, ours.value);
        if ours.source == Source::LlvmTarget && chip.members.is_empty() {
            assert_eq!(ours.value, llvm, "{}", chip.name);
        }
    }
}
