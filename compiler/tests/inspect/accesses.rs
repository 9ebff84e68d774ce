//! Lines, banks and iterations, held to what the source says.

use crate::{built, kernel};
use hrx_compiler::inspect::{Class, KernelReport, LineCount};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A kernel whose lanes load `width` bytes each, `stride` bytes apart, and write a word of LDS, `lds_stride` bytes apart.
fn source(width: u32, stride: u32, lds_stride: u32) -> String {
    let kind = ["i32", "<2 x i32>", "<3 x i32>", "<4 x i32>"][width as usize / 4 - 1];
    let first =
        if width == 4 { "%first = add i32 %v, 0".into() } else { format!("%first = extractelement {kind} %v, i32 0") };
    format!(
        "declare i32 @llvm.amdgcn.workitem.id.x()
@tile = internal addrspace(3) global [16384 x i8] poison, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %y, ptr addrspace(1) %x) #0 {{
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %far = mul i32 %item, {stride}
  %px = getelementptr i8, ptr addrspace(1) %x, i32 %far
  %v = load volatile {kind}, ptr addrspace(1) %px, align 4
  {first}
  %near = mul i32 %item, {lds_stride}
  %to = getelementptr i8, ptr addrspace(3) @tile, i32 %near
  store volatile i32 %first, ptr addrspace(3) %to, align 4
  ret void
}}
attributes #0 = {{ \"amdgpu-flat-work-group-size\"=\"64,64\" \"amdgpu-no-workitem-id-y\" \"amdgpu-no-workitem-id-z\" }}
"
    )
}

/// Lanes of a wave and bytes of the line that the report counts.
fn chips() -> [(&'static str, u32, u32); 3] {
    [("gfx906", 64, 64), ("gfx1030", 32, 128), ("gfx1201", 32, 256)]
}

fn of_class(k: &KernelReport, class: Class) -> Vec<usize> {
    k.global.iter().filter(|a| a.class == class).map(|a| a.offset).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn strided_loads_touch_the_lines_that_they_touch(
        words in 1..5_u32,
        stride in prop_oneof![(0..80_u32).prop_map(|n| 4 * n), Just(1024), Just(4096)],
        chip in 0..3_usize,
        lds_words in 0..40_u32,
    ) {
        let (chip, wave, line) = chips()[chip];
        let width = 4 * words;
        let report = kernel(&built(&source(width, stride, 4 * lds_words), chip), "k");
        let loads = of_class(&report, Class::VmemLoad);
        // Wider ones may be several of narrower, which the group has together.
        let groups: Vec<_> = report.groups.iter().filter(|g| g.class == Class::VmemLoad).collect();
        prop_assert_eq!(groups.len(), 1, "{}", report);
        prop_assert_eq!(groups[0].offsets.clone(), loads);
        let bytes: BTreeSet<u32> = (0..wave).flat_map(|l| (0..width).map(move |b| l * stride + b)).collect();
        let lines: BTreeSet<u32> = bytes.iter().map(|b| b / line).collect();
        prop_assert_eq!(groups[0].distinct_bytes as usize, bytes.len());
        // Arguments are aligned to more than a line; waves begin at multiples of their lanes.
        let aligned = (wave * stride).is_multiple_of(line);
        let LineCount { least, most } = groups[0].lines;
        prop_assert!(least as usize <= lines.len() && lines.len() <= most as usize, "{}", report);
        prop_assert!(!aligned || least == most, "{}", report);
        prop_assert_eq!(groups[0].resource.as_deref(), Some("argument 1 (x)"));

        // Each of 32 lanes gives a word to its bank.
        let banks = |lanes: std::ops::Range<u32>| {
            let words: BTreeSet<u32> = lanes.map(|l| l * lds_words).collect();
            let mut busy = BTreeMap::new();
            words.iter().for_each(|w| *busy.entry(w % 32).or_insert(0_u32) += 1);
            busy.into_values().max().unwrap_or(0)
        };
        let truth: u32 = (0..wave / 32).map(|half| banks(32 * half..32 * half + 32)).sum();
        prop_assert_eq!(report.lds.len(), 1, "{}", report);
        prop_assert_eq!((report.lds[0].cycles, report.lds[0].at_least), (truth, false), "{}", report);
        prop_assert_eq!(report.lds[0].best_cycles, wave / 32);
    }
}

#[test]
fn sixteen_bytes_of_lds_on_chips_where_phases_are_documented() {
    // Rows of 64 bytes: eight lanes that follow each other meet in half of the banks; of reads, lanes 0 to 3 and 20 to 23
    // do likewise. Rows of 80 bytes take all banks.
    let source = |row: u32| {
        format!(
            "declare i32 @llvm.amdgcn.workitem.id.x()
@tile = internal addrspace(3) global [16384 x i8] poison, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %y) #0 {{
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %near = mul i32 %item, {row}
  %to = getelementptr i8, ptr addrspace(3) @tile, i32 %near
  store volatile <4 x i32> zeroinitializer, ptr addrspace(3) %to, align 16
  %v = load volatile <4 x i32>, ptr addrspace(3) %to, align 16
  store volatile <4 x i32> %v, ptr addrspace(1) %y, align 16
  ret void
}}
attributes #0 = {{ \"amdgpu-flat-work-group-size\"=\"64,64\" \"amdgpu-no-workitem-id-y\" \"amdgpu-no-workitem-id-z\" }}
"
        )
    };
    let cycles = |row| {
        let report = kernel(&built(&source(row), "gfx942"), "k");
        let shown: Vec<_> = report.lds.iter().map(|a| (a.class, a.cycles, a.best_cycles, a.at_least)).collect();
        shown
    };
    assert_eq!(cycles(64), [(Class::LdsWrite, 32, 8, false), (Class::LdsRead, 32, 8, false)]);
    assert_eq!(cycles(80), [(Class::LdsWrite, 8, 8, false), (Class::LdsRead, 8, 8, false)]);
    assert_eq!(cycles(16), [(Class::LdsWrite, 8, 8, false), (Class::LdsRead, 8, 8, false)]);
}
