//! The audit of generated code: good code passes, and each kind of fault is found where there is one.

use crate::hsaco::{linked, read};
use crate::support::{CHIPS, ONE, SEVERAL, object_with};
use hrx_compiler::audit::{Fault, audit};
use hrx_compiler::link;
use hrx_compiler::target::amd::{Chip, find};

const SPILLS: &str = include_str!("ir/spills.ll");
const SCRATCH: &str = include_str!("ir/scratch.ll");

fn chip(name: &str) -> &'static Chip {
    find(name).expect("a chip of the table")
}

/// The file of a kernel with words of its code replaced: those at the indices, counted from the end where negative.
fn patched(file: &[u8], words: &[(isize, u32)]) -> Vec<u8> {
    let hsaco = read(file, "the file to patch");
    let code = hsaco.kernels[0].code;
    let start = code.as_ptr() as usize - file.as_ptr() as usize;
    let mut patched = file.to_vec();
    for &(index, word) in words {
        let at = if index < 0 { start + code.len() } else { start }.checked_add_signed(4 * index).expect("in the code");
        patched[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    patched
}

#[test]
fn good_code_passes() {
    for name in CHIPS {
        assert_eq!(audit(&linked(ONE, name), "scale", chip(name)), [], "{name}");
    }
}

#[test]
fn spills_and_scratch_memory_are_found() {
    for name in CHIPS {
        let faults = audit(&linked(SCRATCH, name), "scratch", chip(name));
        assert!(matches!(faults[0], Fault::Scratch(bytes) if bytes >= 256), "{name}: {faults:?}");
        let by_instruction = faults.iter().any(|f| matches!(f, Fault::ScratchAccess { .. }));
        // Older chips access it by buffer instructions, which only its size gives away.
        assert_eq!(
            by_instruction,
            ["gfx942", "gfx1100", "gfx1151", "gfx1201", "gfx11-generic"].contains(&name),
            "{name}"
        );

        let faults = audit(&linked(SPILLS, name), "spills", chip(name));
        let spilled = |f: &Fault| matches!(f, Fault::Spilled { registers: "VGPR", count } if *count > 0);
        assert!(faults.iter().any(spilled), "{name}: {faults:?}");
    }
}

#[test]
fn other_chips_kernels_and_waves_are_found() {
    let file = linked(ONE, "gfx1100");
    let faults = audit(&file, "scale", chip("gfx1101"));
    assert_eq!(faults, [Fault::Chip("gfx1100".into())]);
    assert_eq!(audit(&file, "other", chip("gfx1100")), [Fault::Kernels("scale".into())]);
    let several = audit(&linked(SEVERAL, "gfx1100"), "first", chip("gfx1100"));
    assert_eq!(several, [Fault::Kernels("first, nothing, with_lds, with_scratch".into())]);
    let wide = object_with(ONE, "gfx1100", "+wavefrontsize64", 5);
    let faults = audit(&link(&wide, "wide").expect("linked"), "scale", chip("gfx1100"));
    assert!(faults.contains(&Fault::Wave(64)), "{faults:?}");
}

#[test]
fn damage_is_found() {
    let (file, gfx1100) = (linked(ONE, "gfx1100"), chip("gfx1100"));
    let unknown = audit(&patched(&file, &[(0, 0xffff_ffff)]), "scale", gfx1100);
    assert!(matches!(&unknown[..], [Fault::Unknown { offset: 0, .. }, ..]), "{unknown:?}");
    // s_nop 0 where the program ended.
    let open = audit(&patched(&file, &[(-1, 0xbf80_0000)]), "scale", gfx1100);
    assert_eq!(open, [Fault::End("s_nop 0".into())]);
    let cut = audit(&file[..file.len() / 2], "scale", gfx1100);
    assert!(matches!(&cut[..], [Fault::Unreadable(_)]), "{cut:?}");
    assert!(matches!(&audit(&[], "scale", gfx1100)[..], [Fault::Unreadable(_)]));
}

#[test]
fn too_much_lds_is_found() {
    // No chip's compiler makes such a file: the limit is lowered instead.
    let small = Chip { lds: 512, ..*chip("gfx1100") };
    let lds = "@tile = internal addrspace(3) global [256 x float] poison, align 16
define amdgpu_kernel void @uses_lds(ptr addrspace(1) %out, i32 %at) {
  %slot = getelementptr [256 x float], ptr addrspace(3) @tile, i32 0, i32 %at
  store volatile float 1.0, ptr addrspace(3) %slot
  ret void
}";
    let file = linked(lds, "gfx1100");
    assert_eq!(audit(&file, "uses_lds", chip("gfx1100")), []);
    assert_eq!(audit(&file, "uses_lds", &small), [Fault::Lds { bytes: 1024, limit: 512 }]);
}

#[test]
fn calls_that_grow_the_stack_are_found() {
    let dynamic = "@table = internal addrspace(1) constant [1 x ptr] [ptr @callee]
define internal void @callee() noinline { ret void }
define amdgpu_kernel void @indirect(i32 %at) {
  %slot = getelementptr [1 x ptr], ptr addrspace(1) @table, i32 0, i32 %at
  %f = load ptr, ptr addrspace(1) %slot
  call void %f()
  ret void
}";
    let faults = audit(&linked(dynamic, "gfx1100"), "indirect", chip("gfx1100"));
    assert!(faults.contains(&Fault::DynamicStack), "{faults:?}");
}
