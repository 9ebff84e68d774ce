//! Kernel descriptors, held to what llvm-objdump prints about them.

use crate::hsaco::{linked, read};
use crate::support::{CALL, CHIPS, MODES, SEVERAL, each, report};
use hrx_compiler::hsaco::{Denormals, Descriptor, Generation, Hsaco, PROCESSORS, Rounding};
use hrx_compiler::link;
use std::collections::BTreeMap;

/// What llvm-objdump makes of each kernel's descriptor: values by the assembler's directives.
fn directives(file: &[u8]) -> Said {
    let text = report("llvm-objdump", &["-D", "-j", ".rodata"], file);
    let mut kernels = BTreeMap::new();
    for part in text.split(".amdhsa_kernel ").skip(1) {
        let mut lines = part.lines();
        let name = lines.next().expect("a name").to_owned();
        let values = lines.take_while(|line| *line != ".end_amdhsa_kernel").filter_map(|line| {
            let (directive, value) = line.trim().strip_prefix(".amdhsa_")?.split_once(' ')?;
            Some((directive.to_owned(), value.parse().expect("a number")))
        });
        kernels.insert(name, values.collect());
    }
    kernels
}

/// What we make of a directive; nothing for those that the assembler adds to the counts of registers.
fn decoded(descriptor: &Descriptor, directive: &str) -> Option<u32> {
    let field = |name: &str| Some(descriptor.field(name).unwrap_or_else(|| panic!("no field {name}")));
    match directive {
        "group_segment_fixed_size" => Some(descriptor.group_segment_fixed_size),
        "private_segment_fixed_size" => Some(descriptor.private_segment_fixed_size),
        "kernarg_size" => Some(descriptor.kernarg_size),
        "next_free_vgpr" => Some(descriptor.vgprs().expect("VGPRs")),
        // From gfx10 on the field is always 0 and the directive says 8.
        "next_free_sgpr" => descriptor.sgprs(),
        "accum_offset" => Some(descriptor.accum_offset().expect("an offset")),
        "reserve_vcc" | "reserve_flat_scratch" | "reserve_xnack_mask" => None,
        "dx10_clamp" => field("enable_dx10_clamp"),
        "ieee_mode" => field("enable_ieee_mode"),
        "fp16_overflow" => field("fp16_ovfl"),
        "workgroup_processor_mode" => field("wgp_mode"),
        "memory_ordered" => field("mem_ordered"),
        "forward_progress" => field("fwd_progress"),
        "round_robin_scheduling" => field("enable_wg_rr_en"),
        "named_barrier_count" => field("named_bar_cnt"),
        "wavefront_size32" => field("enable_wavefront_size32"),
        "system_sgpr_private_segment_wavefront_offset" => field("enable_private_segment"),
        "system_vgpr_workitem_id" => field("enable_vgpr_workitem_id"),
        "exception_fp_ieee_invalid_op" => field("enable_exception_ieee_754_fp_invalid_operation"),
        "exception_fp_denorm_src" => field("enable_exception_fp_denormal_source"),
        "exception_fp_ieee_div_zero" => field("enable_exception_ieee_754_fp_division_by_zero"),
        "exception_fp_ieee_overflow" => field("enable_exception_ieee_754_fp_overflow"),
        "exception_fp_ieee_underflow" => field("enable_exception_ieee_754_fp_underflow"),
        "exception_fp_ieee_inexact" => field("enable_exception_ieee_754_fp_inexact"),
        "exception_int_div_zero" => field("enable_exception_int_divide_by_zero"),
        "user_sgpr_kernarg_preload_length" => field("kernarg_preload_spec_length"),
        "user_sgpr_kernarg_preload_offset" => field("kernarg_preload_spec_offset"),
        other => match other.strip_prefix("system_sgpr_").or(other.strip_prefix("user_sgpr_")) {
            Some("count") => field("user_sgpr_count"),
            Some(register) => field(&format!("enable_sgpr_{register}")),
            None => field(other),
        },
    }
}

type Said = BTreeMap<String, BTreeMap<String, u32>>;

fn check_descriptors(file: &[u8], said: Said, what: &str) {
    let hsaco = read(file, what);
    for (kernel, directives) in said {
        let descriptor = hsaco.kernel(&kernel).expect("the kernel").descriptor;
        for (directive, value) in directives {
            if let Some(ours) = decoded(&descriptor, &directive) {
                assert_eq!(ours, value, "{what}: {kernel}: {directive}");
            }
        }
    }
}

pub fn check_all_descriptors(file: &[u8], what: &str) {
    let said = directives(file);
    assert_eq!(said.len(), read(file, what).kernels.len(), "{what}");
    check_descriptors(file, said, what);
}

#[test]
fn descriptors_say_what_objdump_says() {
    each(|what, _, object| check_all_descriptors(&link(object, what).expect("linked"), what));
}

/// Fields that a compiler leaves zero, for the command processor: LLVM decodes no descriptor in which they are not.
const ZERO: [&str; 8] = [
    "priority",
    "priv",
    "debug_mode",
    "bulky",
    "cdbg_user",
    "enable_exception_address_watch",
    "enable_exception_memory",
    "granulated_lds_size",
];

#[test]
fn every_bit_is_decoded() {
    // A kernel for each bit of the words from compute_pgm_rsrc3 to kernarg_preload, with that bit flipped.
    let bits: Vec<usize> = (44 * 8..60 * 8).collect();
    let kernel = |at| format!("define amdgpu_kernel void @k{at}() nounwind {{\nret void\n}}\n");
    let ir = bits.iter().map(kernel).collect::<String>();
    for chip in CHIPS.iter().chain(&["gfx803", "gfx1010", "gfx1250"]) {
        let whole = linked(&ir, chip);
        let before = read(&whole, chip);
        let generation = before.identity.generation().expect("a known chip");
        let mut flipped = whole.clone();
        for &bit in &bits {
            let kernel = before.kernel(&format!("k{bit}")).expect("the kernel");
            flipped[kernel.descriptor_address as usize + bit / 8] ^= 1 << (bit % 8);
        }
        let after = read(&flipped, chip);
        let mut said = directives(&flipped);
        for &bit in &bits {
            let name = format!("k{bit}");
            let fields = |h: &Hsaco| h.kernel(&name).expect("the kernel").descriptor.fields().collect::<Vec<_>>();
            let changed: Vec<_> = fields(&before).into_iter().zip(fields(&after)).filter(|(b, a)| b != a).collect();
            assert!(changed.len() <= 1, "{chip}: bit {bit}: {changed:?}");
            let changed = changed.first().map(|(b, _)| b.0);
            let unchecked = match bit {
                // LLVM looks at these for any chip.
                464.. => before.kernels[0].descriptor.preloaded_kernargs().is_none(),
                458 => generation < Generation::Gfx9,
                _ => false,
            };
            let sgprs = generation >= Generation::Gfx10 && changed == Some("granulated_wavefront_sgpr_count");
            let decoded = changed.is_some_and(|name| !ZERO.contains(&name) && !sgprs);
            assert_eq!(said.contains_key(&name), decoded || unchecked, "{chip}: bit {bit}: {changed:?}");
            // There are no waves of 64 lanes on gfx125 for LLVM to count registers of.
            if unchecked || (bit == 458 && generation == Generation::Gfx125) {
                said.remove(&name);
            }
        }
        check_descriptors(&flipped, said, chip);
    }
}

/// LLVM disassembles nothing older.
fn is_disassembled(generation: Generation) -> bool {
    generation >= Generation::Gfx8
}

#[test]
fn every_processor_is_known() {
    for processor in PROCESSORS {
        let file = linked(SEVERAL, processor.name);
        let hsaco = read(&file, processor.name);
        let identity = hsaco.identity;
        assert_eq!(identity.processor.map(|p| p.name), Some(processor.name));
        assert_eq!(identity.generic_version.is_some(), processor.name.ends_with("-generic"));
        // The target that LLVM wrote into the metadata.
        let target = hsaco.metadata.as_ref().and_then(|m| m.target.as_deref());
        assert_eq!(target, Some(&*format!("amdgcn-amd-amdhsa--{identity}")));
        if is_disassembled(processor.generation) {
            check_all_descriptors(&file, processor.name);
        }
    }
}

#[test]
fn modes_are_decoded() {
    let file = linked(MODES, "gfx1100");
    let hsaco = read(&file, "modes");
    let descriptor = |name: &str| hsaco.kernel(name).expect("the kernel").descriptor;
    let flushes = descriptor("flushes");
    let mode = flushes.float_mode();
    assert_eq!((mode.round_32, mode.round_16_64), (Rounding::NearestEven, Rounding::NearestEven));
    assert_eq!((mode.denormals_32, mode.denormals_16_64), (Denormals::FlushBoth, Denormals::FlushOperands));
    assert_eq!((flushes.field("enable_ieee_mode"), flushes.field("enable_dx10_clamp")), (Some(0), Some(0)));
    assert_eq!((flushes.workgroup_ids(), flushes.workitem_id_dimensions()), ([true, false, false], Some(1)));
    // With the workgroup's number 16, of which gfx1100 wants at least as many.
    assert_eq!(flushes.user_sgprs(), Some(15));
    let wide = descriptor("wide");
    assert_eq!((wide.wavefront_size(), wide.wgp_mode()), (Some(64), Some(false)));
    assert_eq!(wide.workitem_id_dimensions(), Some(3));
    assert_eq!(wide.float_mode().denormals_32, Denormals::Keep);
    // 102 of them, in eights for 32 lanes.
    let many = descriptor("many_registers");
    assert_eq!((many.wavefront_size(), many.vgprs(), many.sgprs()), (Some(32), Some(104), None));
    assert_eq!((many.accum_offset(), many.preloaded_kernargs()), (None, None));

    let file = linked(MODES, "gfx942");
    let hsaco = read(&file, "modes");
    let many = hsaco.kernel("many_registers").expect("the kernel").descriptor;
    assert_eq!((many.wavefront_size(), many.vgprs(), many.accum_offset()), (Some(64), Some(104), Some(104)));
    assert_eq!((many.wgp_mode(), many.shared_vgprs()), (None, None));
    assert!(many.sgprs().is_some_and(|n| n >= 78 && n % 8 == 0), "{many:?}");
    let preloads = hsaco.kernel("preloads").expect("the kernel").descriptor;
    assert_eq!(preloads.preloaded_kernargs(), Some(3));

    let file = linked(SEVERAL, "gfx1100");
    let hsaco = read(&file, "several");
    let scratch = hsaco.kernel("with_scratch").expect("the kernel").descriptor;
    assert!(scratch.has_scratch() && !scratch.uses_dynamic_stack());
    assert!(scratch.private_segment_fixed_size >= 256, "{scratch:?}");
    let lds = hsaco.kernel("with_lds").expect("the kernel").descriptor;
    assert_eq!((lds.group_segment_fixed_size, lds.has_scratch()), (1024, false));
    let file = linked(CALL, "gfx1100");
    let hsaco = read(&file, "call");
    assert!(hsaco.kernel("calls_through_table").expect("the kernel").descriptor.uses_dynamic_stack());
}
