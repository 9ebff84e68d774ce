//! Waves and registers, against what LLVM writes of kernels that use so many.

use crate::llvm::{assembly_of, comments, llc, machine};
use hrx_compiler::target::amd::{Accumulators, Block, CHIPS, Chip, Limit, Resources};

/// Kernels that each use the registers that one of the constraints names, in workgroups of one wave.
fn kernels(constraints: &[String], wave: u32) -> String {
    let mut ir = String::new();
    for (i, c) in constraints.iter().enumerate() {
        ir += &format!(
            "define amdgpu_kernel void @k{i}() #0 {{\n  call void asm sideeffect \"\", \"{c}\"()\n  ret void\n}}\n"
        );
    }
    ir + &format!("attributes #0 = {{ \"amdgpu-flat-work-group-size\"=\"{wave},{wave}\" }}\n")
}

fn one_wave(wave: u32, vgprs: u32, sgprs: u32) -> Resources {
    Resources { wave, vgprs, sgprs, lds_bytes: 0, waves_per_workgroup: 1 }
}

fn occupancy(chip: &Chip, used: &Resources) -> u32 {
    chip.occupancy(used).unwrap_or_else(|e| panic!("{e}")).waves_per_simd
}

/// Every number of VGPRs, on every chip and for every size of waves, gives LLVM's occupancy and encoding.
#[test]
fn vgprs_limit_waves_as_llvm_says() {
    for chip in CHIPS {
        for vgprs in chip.vgprs {
            let most = vgprs.addressable;
            let constraints: Vec<_> = (0..most).map(|r| format!("~{{v{r}}}")).collect();
            let asm = assembly_of(&kernels(&constraints, vgprs.wave), &machine(chip, Some(vgprs.wave)));
            let (waves, blocks) = (comments(&asm, "Occupancy"), comments(&asm, "VGPRBlocks"));
            let sgprs = comments(&asm, "TotalNumSgprs");
            assert_eq!((waves.len(), blocks.len()), (most as usize, most as usize), "{}", chip.name);
            for n in 1..=most {
                let at = n as usize - 1;
                let used = one_wave(vgprs.wave, n, sgprs[at]);
                assert_eq!(occupancy(chip, &used), waves[at], "{} wave{} {n} VGPRs", chip.name, vgprs.wave);
                assert_eq!(n.div_ceil(vgprs.encoding) - 1, blocks[at], "{} {n} VGPRs, encoded", chip.name);
            }
        }
    }
}

/// No register beyond the addressable ones can be used.
#[test]
fn no_more_vgprs_than_addressable() {
    for chip in CHIPS {
        let most = chip.vgprs[0].addressable;
        let asm = assembly_of(&kernels(&[format!("~{{v{most}}}")], chip.wave), &machine(chip, None));
        assert_eq!(comments(&asm, "NumVgprs"), [0], "{}", chip.name);
        assert!(chip.occupancy(&one_wave(chip.wave, chip.wave_registers(&chip.vgprs[0]) + 1, 0)).is_err());
    }
}

#[test]
fn accumulators_as_llvm_has_them() {
    for chip in CHIPS {
        let wave = chip.wave;
        let cases: Vec<(u32, u32)> = [1, 33, 64, 100, 129, 255, 256]
            .into_iter()
            .flat_map(|v| [1, 28, 60, 130, 255, 256].map(|a| (v, a)))
            .collect();
        let constraints: Vec<_> = cases.iter().map(|(v, a)| format!("~{{v{}}},~{{a{}}}", v - 1, a - 1)).collect();
        if chip.accumulators == Accumulators::None {
            let asm = assembly_of(&kernels(&constraints[..1], wave), &machine(chip, None));
            assert!(!asm.contains("NumAgprs"), "{} has accumulators", chip.name);
            continue;
        }
        let asm = assembly_of(&kernels(&constraints, wave), &machine(chip, None));
        let (total, waves) = (comments(&asm, "TotalNumVgprs"), comments(&asm, "Occupancy"));
        assert_eq!(chip.accumulators == Accumulators::Unified, asm.contains("accum_offset"), "{}", chip.name);
        for (i, &(v, a)) in cases.iter().enumerate() {
            let all = match chip.accumulators {
                Accumulators::Unified => v.next_multiple_of(4) + a,
                Accumulators::Separate | Accumulators::None => v.max(a),
            };
            assert_eq!(all, total[i], "{} {v} VGPRs, {a} accumulators", chip.name);
            assert_eq!(occupancy(chip, &one_wave(wave, all, 0)), waves[i], "{} {v} + {a}", chip.name);
        }
        let asm = assembly_of(&kernels(&["~{a256}".to_string()], wave), &machine(chip, None));
        assert_eq!(comments(&asm, "NumAgprs"), [0], "{} has more accumulators", chip.name);
    }
}

/// LLVM's occupancy of SGPRs is a table that predates the granule of 16 that it allocates with: it counts 81 to 88 as
/// if the granule were 8, and 97 to 100 as 96. There it may say one wave more.
#[test]
fn sgprs_limit_waves_as_llvm_says() {
    for chip in CHIPS {
        let most = chip.sgprs.addressable;
        let constraints: Vec<_> = (0..most).map(|r| format!("~{{s{r}}}")).collect();
        // The hidden registers count too, so the last few are beyond what a kernel may have; LLVM says so and ends.
        let constraints = &constraints[..most as usize - 6];
        let asm = assembly_of(&kernels(constraints, chip.wave), &machine(chip, None));
        let (total, waves) = (comments(&asm, "TotalNumSgprs"), comments(&asm, "Occupancy"));
        for (&n, &llvm) in total.iter().zip(&waves) {
            let ours = occupancy(chip, &one_wave(chip.wave, 1, n));
            let differs = chip.sgprs.pool.is_some() && (81..=88).contains(&n) || (97..=100).contains(&n);
            if differs {
                assert!(ours == llvm || ours + 1 == llvm, "{} {n} SGPRs: {ours}, LLVM {llvm}", chip.name);
            } else {
                assert_eq!(ours, llvm, "{} {n} SGPRs", chip.name);
            }
        }
        // One more than the addressable: an error, or no such register.
        let beyond = llc(chip.name, &[], &kernels(&[format!("~{{s{most}}}")], chip.wave));
        assert!(beyond.map_or(true, |asm| comments(&asm, "TotalNumSgprs")[0] <= 6), "{}", chip.name);
        let last = llc(chip.name, &[], &kernels(&[format!("~{{s{}}}", most - 1)], chip.wave));
        assert!(last.is_ok_and(|asm| comments(&asm, "TotalNumSgprs")[0] >= most), "{}", chip.name);
    }
}

#[test]
fn waves_and_workgroups_as_llvm_takes_them() {
    let ir = "define amdgpu_kernel void @k() {\n  ret void\n}\n";
    for chip in CHIPS {
        let asm = assembly_of(ir, &machine(chip, None));
        let metadata = |key: &str| {
            let line = asm.lines().find_map(|l| l.trim().strip_prefix(key)).expect("LLVM writes it");
            line.trim().parse::<u32>().expect("a number")
        };
        assert_eq!(metadata(".wavefront_size:"), chip.wave, "{}", chip.name);
        assert_eq!(metadata(".max_flat_workgroup_size:"), chip.max_work_items, "{}", chip.name);
        assert_eq!(chip.vgprs[0].wave, chip.wave, "{}: the first row is that of generated code", chip.name);
        // Two sizes of waves are two features that LLVM takes; where there is one, the other is refused.
        let other = 96 - chip.wave;
        let feature = format!("-mattr=+wavefrontsize{other}");
        let compiled = llc(chip.name, &[&feature], ir)
            .is_ok_and(|asm| asm.contains(&format!(".wavefront_size: {other}")) && !asm.contains("is not supported"));
        assert_eq!(compiled, chip.vgprs_for(other).is_ok(), "{} waves of {other}", chip.name);
        // In WGP mode, which LLVM takes where there is one, a workgroup spans two CUs.
        assert_eq!(asm.contains(".amdhsa_workgroup_processor_mode 1"), chip.block == Block::Wgp, "{}", chip.name);
    }
}

#[test]
fn code_of_generic_targets_needs_version_6() {
    let ir = "define amdgpu_kernel void @k() {\n  ret void\n}\n";
    for chip in CHIPS {
        let old = llc(chip.name, &["--amdhsa-code-object-version=5"], ir);
        assert_eq!(old.is_ok(), chip.members.is_empty(), "{}: {old:?}", chip.name);
        assert_eq!(chip.code_object_version() == 6, old.is_err(), "{}", chip.name);
        assert!(llc(chip.name, &["--amdhsa-code-object-version=6"], ir).is_ok(), "{}", chip.name);
    }
}

/// Joint limits, by hand: gfx1100 has 4 SIMDs of 16 waves and 1536 VGPRs, and 128 KiB of LDS in a WGP.
#[test]
fn all_limits_are_named() {
    let chip = hrx_compiler::target::amd::find("gfx1100").expect("is there");
    let used = |vgprs, lds_bytes, waves_per_workgroup| Resources {
        wave: 32,
        vgprs,
        sgprs: 32,
        lds_bytes,
        waves_per_workgroup,
    };
    let limits = |r: Resources| {
        let o = chip.occupancy(&r).expect("fits");
        (o.workgroups, o.waves_per_simd, o.limits)
    };
    assert_eq!(limits(used(96, 0, 8)), (8, 16, vec![Limit::Waves, Limit::Vgprs]));
    assert_eq!(limits(used(97, 0, 8)), (6, 12, vec![Limit::Vgprs]));
    assert_eq!(limits(used(97, 21 << 10, 8)), (6, 12, vec![Limit::Vgprs, Limit::Lds]));
    assert_eq!(limits(used(32, 16 << 10, 8)), (8, 16, vec![Limit::Waves, Limit::Lds]));
    assert_eq!(limits(used(32, 0, 2)), (32, 16, vec![Limit::Waves, Limit::Workgroups]));
    assert_eq!(limits(used(32, 64 << 10, 1)), (2, 1, vec![Limit::Lds]));
    let refused = |r: Resources| chip.occupancy(&r).expect_err("doesn't fit").to_string();
    assert_eq!(refused(used(257, 0, 1)), "gfx1100: VGPRs of a wave: 257 asked for, of 256");
    assert_eq!(refused(used(1, 65537, 1)), "gfx1100: bytes of LDS of a workgroup: 65537 asked for, of 65536");
    assert_eq!(refused(used(1, 0, 33)), "gfx1100: work items of a workgroup: 1056 asked for, of 1024");
    assert_eq!(refused(used(1, 0, 0)), "gfx1100 has no workgroups of 0 waves");
    let gfx906 = hrx_compiler::target::amd::find("gfx906").expect("is there");
    let wave64 = Resources { wave: 64, ..used(65, 0, 16) };
    let refused = gfx906.occupancy(&wave64).expect_err("4 waves a SIMD don't fit").to_string();
    assert_eq!(refused, "gfx906: VGPRs of a wave, for all waves of the workgroup at once: 65 asked for, of 64");
    let refused = gfx906.occupancy(&used(1, 0, 1)).expect_err("no waves of 32").to_string();
    assert_eq!(refused, "gfx906 has no waves of 32 lanes");
}
