//! The reader of HSACOs, held to what LLVM's own programs print about the same files.

use crate::descriptor::check_all_descriptors;
use crate::loaded::{BASE, Loaded};
use crate::support::{CALL, ONE, VISIBLE, each, lld, object, object_with, report, stripped};
use hrx_compiler::disasm::LineKind;
use hrx_compiler::hsaco::{Argument, Hsaco, KernelMetadata, Setting};
use hrx_compiler::{disassemble, link};
use proptest::prelude::*;
use std::collections::BTreeMap;

pub fn read<'a>(file: &'a [u8], what: &str) -> Hsaco<'a> {
    Hsaco::read(file).unwrap_or_else(|e| panic!("{what}: {e}"))
}

pub fn linked(ir: &str, chip: &str) -> Vec<u8> {
    link(&object(ir, chip), chip).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_processor_of_llvm_is_known() {
    let mut file = linked(ONE, "gfx1100");
    for mach in 0x20..=0x70_u32 {
        file[48..52].copy_from_slice(&mach.to_le_bytes());
        let text = report("llvm-readobj", &["--file-headers"], &file);
        let said = text.lines().find_map(|l| l.trim().strip_prefix("EF_AMDGPU_MACH_AMDGCN_")?.split_once(' '));
        let said = said.map(|(name, _)| name.to_lowercase().replace('_', "-"));
        assert_eq!(read(&file, "a number").identity.processor.map(|p| p.name.to_owned()), said, "{mach:#x}");
    }
}

#[test]
fn settings_of_features() {
    use Setting::*;
    for (chip, features, xnack, sramecc, shown) in [
        ("gfx90a", "", Any, Any, "gfx90a"),
        ("gfx90a", "+xnack,-sramecc", On, Off, "gfx90a:sramecc-:xnack+"),
        ("gfx90a", "-xnack,+sramecc", Off, On, "gfx90a:sramecc+:xnack-"),
        ("gfx942", "-xnack", Off, Any, "gfx942:xnack-"),
        ("gfx906", "+sramecc", Any, On, "gfx906:sramecc+"),
        ("gfx1030", "", Unsupported, Unsupported, "gfx1030"),
    ] {
        let file = link(&object_with(ONE, chip, features, 5), chip).expect("linked");
        let hsaco = read(&file, chip);
        assert_eq!((hsaco.identity.xnack, hsaco.identity.sramecc), (xnack, sramecc), "{chip} {features}");
        assert_eq!(hsaco.identity.to_string(), shown);
        let target = hsaco.metadata.and_then(|m| m.target);
        assert_eq!(target, Some(format!("amdgcn-amd-amdhsa--{shown}")));
    }
}

#[test]
fn version_3_has_a_bit_for_a_feature() {
    let mut file = linked(ONE, "gfx906");
    file[8] = 1;
    for (flags, shown) in [(0x2f, "gfx906"), (0x12f, "gfx906:xnack+"), (0x32f, "gfx906:sramecc+:xnack+")] {
        file[48..52].copy_from_slice(&u32::to_le_bytes(flags));
        let identity = read(&file, "version 3").identity;
        assert_eq!((identity.version, identity.to_string()), (3, shown.into()));
    }
}

/// A kernel's metadata as llvm-readobj prints it: keys and values, those of arguments with their number.
fn printed(file: &[u8]) -> Vec<BTreeMap<String, String>> {
    let text = report("llvm-readelf", &["--notes"], file);
    let kernels = text.split_once("amdhsa.kernels:").expect("kernels").1;
    let kernels = kernels.split_once("\namdhsa.target").expect("a target").0;
    let mut list: Vec<BTreeMap<String, String>> = Vec::new();
    let mut argument = 0;
    // A list's key, for items in lines of their own.
    let mut list_key = String::new();
    for line in kernels.lines().filter(|l| !l.trim().is_empty()) {
        let indent = line.len() - line.trim_start().len();
        let (item, rest) = match line.trim_start().strip_prefix("- ") {
            Some(rest) => (true, rest.trim()),
            None => (false, line.trim()),
        };
        let Some((key, value)) = rest.split_once(':') else {
            let values = list.last_mut().expect("a kernel").entry(list_key.clone()).or_default();
            *values = format!("{values} {rest}").trim().to_owned();
            continue;
        };
        let value = value.trim().trim_matches('\'').to_owned();
        if item && indent < 6 {
            list.push(BTreeMap::new());
            argument = 0;
        } else if item {
            argument += 1;
        }
        let in_argument = indent > 4 || item && indent > 2;
        let key = if in_argument { format!("{argument}{key}") } else { key.to_owned() };
        if value.is_empty() || value == "[]" {
            list_key = key;
        } else {
            list.last_mut().expect("a kernel").insert(key, value);
        }
    }
    list
}

/// Our metadata in that form.
fn ours(kernel: &KernelMetadata) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    let mut put = |key: String, value: Option<String>| {
        if let Some(value) = value {
            map.insert(key, value);
        }
    };
    let numbers = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let number = |flag: Option<bool>| flag.map(|f| u8::from(f).to_string());
    let k = kernel.clone();
    for (key, value) in [
        (".name", k.name),
        (".symbol", k.symbol),
        (".kind", k.kind),
        (".language", k.language),
        (".language_version", k.language_version.as_deref().map(numbers)),
        (".kernarg_segment_size", k.kernarg_segment_size.map(|n| n.to_string())),
        (".kernarg_segment_align", k.kernarg_segment_align.map(|n| n.to_string())),
        (".group_segment_fixed_size", k.group_segment_fixed_size.map(|n| n.to_string())),
        (".private_segment_fixed_size", k.private_segment_fixed_size.map(|n| n.to_string())),
        (".uses_dynamic_stack", k.uses_dynamic_stack.map(|f| f.to_string())),
        (".wavefront_size", k.wavefront_size.map(|n| n.to_string())),
        (".sgpr_count", k.sgpr_count.map(|n| n.to_string())),
        (".vgpr_count", k.vgpr_count.map(|n| n.to_string())),
        (".agpr_count", k.agpr_count.map(|n| n.to_string())),
        (".sgpr_spill_count", k.sgpr_spill_count.map(|n| n.to_string())),
        (".vgpr_spill_count", k.vgpr_spill_count.map(|n| n.to_string())),
        (".max_flat_workgroup_size", k.max_flat_workgroup_size.map(|n| n.to_string())),
        (".reqd_workgroup_size", k.reqd_workgroup_size.as_ref().map(|l| numbers(l))),
        (".workgroup_size_hint", k.workgroup_size_hint.as_ref().map(|l| numbers(l))),
        (".uniform_work_group_size", number(k.uniform_work_group_size)),
        (".workgroup_processor_mode", number(k.workgroup_processor_mode)),
    ] {
        put(key.into(), value);
    }
    for (at, argument) in (1..).zip(k.args.unwrap_or_default()) {
        let a = argument;
        for (key, value) in [
            (".name", a.name),
            (".type_name", a.type_name),
            (".offset", a.offset.map(|n| n.to_string())),
            (".size", a.size.map(|n| n.to_string())),
            (".value_kind", a.value_kind),
            (".address_space", a.address_space),
            (".access", a.access),
            (".actual_access", a.actual_access),
            (".pointee_align", a.pointee_align.map(|n| n.to_string())),
            (".is_const", a.is_const.map(|f| f.to_string())),
            (".is_restrict", a.is_restrict.map(|f| f.to_string())),
            (".is_volatile", a.is_volatile.map(|f| f.to_string())),
        ] {
            put(format!("{at}{key}"), value);
        }
    }
    map
}

#[test]
fn metadata_says_what_readelf_says() {
    each(|what, kernels, object| {
        let file = link(object, what).expect("linked");
        let hsaco = read(&file, what);
        let said = printed(&file);
        assert_eq!(said.len(), kernels.len(), "{what}");
        for said in said {
            let name = &said[".name"];
            let kernel = hsaco.kernel(name).unwrap_or_else(|| panic!("{what}: no {name}"));
            assert_eq!(ours(kernel.metadata.as_ref().expect("metadata")), said, "{what}: {name}");
        }
        let metadata = hsaco.metadata.expect("metadata");
        assert_eq!(metadata.version, Some(vec![1, 2]), "{what}");
    });
}

/// Files of other compilers: Triton 3.9 (LLVM 24, without debug information) from a product of f16 matrices, 64 by 64
/// with steps of 32; clang 22 from OpenCL C, code object version 4, xnack on and sramecc off.
const FOREIGN: [(&str, &[u8]); 3] = [
    ("triton-gfx942", include_bytes!("foreign/triton-gfx942.hsaco")),
    ("triton-gfx1201", include_bytes!("foreign/triton-gfx1201.hsaco")),
    ("clang-v4-gfx90a", include_bytes!("foreign/clang-v4-gfx90a.hsaco")),
];

#[test]
fn files_of_other_compilers() {
    let mut seen = Vec::new();
    for (what, file) in FOREIGN {
        let hsaco = read(file, what);
        check_all_descriptors(file, what);
        let said = printed(file);
        assert_eq!((said.len(), hsaco.kernels.len()), (1, 1), "{what}");
        let kernel = &hsaco.kernels[0];
        let metadata = kernel.metadata.as_ref().expect("metadata");
        assert_eq!(ours(metadata), said[0], "{what}");
        let processor = hsaco.identity.processor.expect("a known processor");
        let wave = kernel.descriptor.wavefront_size().expect("a wave");
        let lines = disassemble(processor.name, wave, kernel.code).expect("lines");
        assert!(lines.iter().all(|l| l.kind == LineKind::Instruction), "{what}: {lines:?}");
        let product = lines.iter().filter(|l| l.text.contains("mfma") || l.text.contains("wmma")).count();
        seen.push((kernel.name, hsaco.identity.to_string(), hsaco.identity.version, wave, product > 0));
        let vgprs = kernel.descriptor.vgprs().zip(metadata.vgpr_count).expect("counts");
        assert!(vgprs.0 >= vgprs.1 && vgprs.0 < vgprs.1 + 16, "{what}: {vgprs:?}");
    }
    let wanted = [
        ("mm", "gfx942".to_owned(), 5, 64, true),
        ("mm", "gfx1201".to_owned(), 5, 32, true),
        ("shift", "gfx90a:sramecc-:xnack+".to_owned(), 4, 64, false),
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn attributes_of_opencl_are_metadata() {
    let ir = r#"
define amdgpu_kernel void @k(ptr addrspace(1) noalias readonly %in, ptr addrspace(3) align 16 %local) #0
    !kernel_arg_addr_space !1 !kernel_arg_access_qual !2 !kernel_arg_type !3 !kernel_arg_base_type !3
    !kernel_arg_type_qual !4 !kernel_arg_name !5 !reqd_work_group_size !6 !work_group_size_hint !7 {
  %v = load i32, ptr addrspace(1) %in
  store i32 %v, ptr addrspace(3) %local
  ret void
}
attributes #0 = { nounwind "amdgpu-no-implicitarg-ptr" "amdgpu-implicitarg-num-bytes"="0" }
!1 = !{i32 1, i32 3}
!2 = !{!"none", !"none"}
!3 = !{!"int*", !"int*"}
!4 = !{!"const restrict volatile", !""}
!5 = !{!"in", !"local"}
!6 = !{i32 8, i32 4, i32 2}
!7 = !{i32 16, i32 2, i32 1}
!opencl.ocl.version = !{!8}
!8 = !{i32 2, i32 0}
"#;
    let ir = ir.replace("!0", "!9");
    let file = linked(&ir, "gfx942");
    let hsaco = read(&file, "OpenCL");
    let kernel = hsaco.kernel("k").and_then(|k| k.metadata.as_ref()).expect("metadata");
    assert_eq!(kernel.language.as_deref(), Some("OpenCL C"));
    assert_eq!(kernel.language_version, Some(vec![2, 0]));
    assert_eq!(kernel.reqd_workgroup_size, Some([8, 4, 2]));
    assert_eq!(kernel.workgroup_size_hint, Some([16, 2, 1]));
    assert_eq!(kernel.agpr_count, Some(0));
    assert_eq!(kernel.workgroup_processor_mode, None);
    let arguments = kernel.args.as_ref().expect("arguments");
    let first = Argument {
        name: Some("in".into()),
        type_name: Some("int*".into()),
        offset: Some(0),
        size: Some(8),
        value_kind: Some("global_buffer".into()),
        address_space: Some("global".into()),
        actual_access: arguments[0].actual_access.clone(),
        is_const: Some(true),
        is_restrict: Some(true),
        is_volatile: Some(true),
        ..Argument::default()
    };
    assert_eq!(arguments[0], first);
    assert_eq!(arguments[1].value_kind.as_deref(), Some("dynamic_shared_pointer"));
    assert_eq!(arguments[1].pointee_align, Some(16));
    assert_eq!((arguments[1].offset, arguments[1].size), (Some(8), Some(4)));
}

#[test]
fn code_is_that_of_the_symbol() {
    each(|what, kernels, object| {
        let mine = link(object, what).expect("linked");
        for file in [&mine, &lld(object, &[]), &stripped(&lld(object, &[]))] {
            let hsaco = read(file, what);
            let mut names: Vec<_> = kernels.to_vec();
            names.sort_unstable();
            assert_eq!(hsaco.kernels.iter().map(|k| k.name).collect::<Vec<_>>(), names, "{what}");
            let loaded = Loaded::new(file);
            for kernel in &hsaco.kernels {
                let symbol = &loaded.dynamic[kernel.name];
                assert_eq!(kernel.entry, symbol.value - BASE, "{what}: {}", kernel.name);
                assert_eq!(kernel.code, loaded.bytes(symbol.value, symbol.size), "{what}: {}", kernel.name);
                assert!(!kernel.code.is_empty(), "{what}: {}", kernel.name);
                let descriptor = &loaded.dynamic[&format!("{}.kd", kernel.name)];
                assert_eq!(kernel.descriptor_address, descriptor.value - BASE, "{what}: {}", kernel.name);
                assert!(kernel.metadata.is_some(), "{what}: {}", kernel.name);
            }
        }
    });
}

#[test]
fn what_is_unknown_is_nothing() {
    let mut file = linked(ONE, "gfx1100");
    file[48] = 0xf0;
    let hsaco = read(&file, "unknown");
    assert_eq!(hsaco.identity.processor, None);
    assert_eq!(hsaco.identity.to_string(), "unknown processor 0xf0");
    let kernel = hsaco.kernel("scale").expect("the kernel");
    let d = kernel.descriptor;
    assert_eq!(
        (d.vgprs(), d.sgprs(), d.wavefront_size(), d.accum_offset(), d.wgp_mode()),
        (None, None, None, None, None)
    );
    assert_eq!(d.field("enable_sgpr_kernarg_segment_ptr"), Some(1));
    assert_eq!(d.field("wgp_mode"), None);
    assert_eq!(kernel.metadata.as_ref().and_then(|m| m.wavefront_size), Some(32));

    // Without the note.
    let mut file = linked(ONE, "gfx1100");
    let note = 64 + 56 * 5;
    assert_eq!(file[note], 4, "PT_NOTE");
    file[note] = 0;
    let hsaco = read(&file, "no note");
    assert_eq!(hsaco.metadata, None);
    assert_eq!(hsaco.kernel("scale").expect("the kernel").metadata, None);
}

fn refusal(file: &[u8]) -> String {
    let error = Hsaco::read(file).expect_err("it was read").to_string();
    assert!(error.starts_with("code object: ") && !error.contains('\n'), "{error}");
    error
}

fn patched(file: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn what_is_wrong_is_said() {
    let file = linked(ONE, "gfx1100");
    let check = |file: &[u8], reason: &str| {
        let error = refusal(file);
        assert!(error.contains(reason), "{error}, not {reason}");
    };
    check(&[], "an empty file");
    check(b"MZ\x90\0\x03\0\0\0", "a PE file");
    check(b"__CLANG_OFFLOAD_BUNDLE__\x02\0\0\0", "a bundle of code objects");
    check(b"CCOB\x02\0", "a compressed bundle");
    check(b"BC\xc0\xde\x35\x14", "LLVM bitcode");
    check(b"hello", "no ELF file");
    check(&file[..40], "a damaged or 32-bit ELF file");
    check(&patched(&file, 18, &[62]), "not for AMD GPUs but for ELF machine 62");
    check(&patched(&file, 7, &[66]), "OS ABI 66");
    check(&patched(&file, 16, &[2]), "ELF type 2");
    check(&object(ONE, "gfx1100"), "has to be linked first");
    check(&patched(&file, 8, &[0]), "code object version 2: versions 3 to 6 are known");
    check(&patched(&file, 8, &[255]), "code object version 257");
    check(&patched(&file, 40, &[0; 8]), "no symbol table");

    let hsaco = read(&file, "whole");
    let at = hsaco.kernel("scale").expect("the kernel").descriptor_address as usize;
    check(&patched(&file, at + 16, &(1_u64 << 40).to_le_bytes()), "scale.kd: its code lies outside");
    check(&patched(&file, at + 16, &i64::MIN.to_le_bytes()), "scale.kd: its code lies outside");
    check(&patched(&file, at + 16, &0_u64.to_le_bytes()), "scale.kd: its code lies outside");
    // Metadata of a kernel that is not there, and of the wrong type.
    let find = |what: &[u8]| file.windows(what.len()).position(|w| w == what).expect("in the note");
    check(&patched(&file, find(b"scale.kd"), b"other.kd"), "metadata names other.kd");
    let count = find(b".vgpr_count") + 11;
    check(&patched(&file, count, &[0xc3]), "metadata: invalid type");
    check(&patched(&file, find(b".uses_dynamic_stack") + 19, &[7]), "metadata: invalid value");
    check(&patched(&file, find(b"amdhsa.kernels") + 14, &[0xdd, 0xff, 0xff, 0xff, 0xff]), "metadata: ");
    let note = 64 + 56 * 5;
    check(&patched(&file, note + 32, &u64::MAX.to_le_bytes()), "note: ");
}

#[test]
fn hostile_metadata_is_refused() {
    // An array in an array, as deep as the note is long.
    let mut file = linked(ONE, "gfx1100");
    let start = file.windows(14).position(|w| w == b"amdhsa.kernels").expect("in the note") + 14;
    file[start..start + 600].fill(0x91);
    let error = refusal(&file);
    assert!(error.contains("metadata: "), "{error}");
}

#[test]
fn every_truncation_is_refused() {
    let file = linked(CALL, "gfx1100");
    // The table of sections, by which symbols are found, is at the end.
    for len in 0..file.len() {
        refusal(&file[..len]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_may_be_wrong(
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        module in 0..2,
    ) {
        static FILES: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
        let files = FILES.get_or_init(|| [linked(CALL, "gfx1100"), linked(VISIBLE, "gfx942")]);
        let mut bytes = files[module as usize].clone();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(hsaco) = Hsaco::read(&bytes) {
            for kernel in &hsaco.kernels {
                prop_assert!(kernel.code.len() < bytes.len());
                prop_assert!(kernel.descriptor.fields().count() > 20);
            }
        }
    }
}
