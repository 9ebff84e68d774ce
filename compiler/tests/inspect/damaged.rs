//! Damaged, foreign and impossible code objects: one line each, never a panic.

use crate::{STREAM, built, inspected, kernel};
use hrx_compiler::CompileError;
use hrx_compiler::inspect::{Inspection, Options, inspect};
use proptest::prelude::*;

/// Everything that can be made of a file; errors must be of one line.
fn survives(file: &[u8]) -> Result<Inspection, String> {
    match inspect(file, &Options::default()) {
        Ok(found) => {
            let text = found.to_string();
            assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
            assert!(found.html().ends_with("</html>\n"));
            Ok(found)
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
            Err(line)
        }
    }
}

/// Replaces the one place that has these bytes.
fn patched(file: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let places: Vec<usize> = (0..file.len() - from.len()).filter(|&i| file[i..].starts_with(from)).collect();
    let &[at] = &places[..] else { panic!("{} places", places.len()) };
    let mut patched = file.to_vec();
    patched[at..at + to.len()].copy_from_slice(to);
    patched
}

#[test]
fn more_lds_than_there_is() {
    // The descriptor of the only kernel with LDS starts with its size.
    let file = built(STREAM, "gfx1100");
    let size = |bytes: u32| [&bytes.to_le_bytes()[..], &[0; 4], &272_u32.to_le_bytes()].concat();
    let file = patched(&file, &size(4096), &size(70_000));
    let options = Options { kernel: Some("columns"), ..Options::default() };
    let error = inspect(&file, &options).expect_err("too much").to_string();
    assert_eq!(error, "kernel columns: gfx1100: bytes of LDS of a workgroup: 70000 asked for, of 65536");
    // The others are as they were.
    assert!(kernel(&file, "scale").occupancy.is_some());
}

#[test]
fn more_registers_than_there_are() {
    let source = "define amdgpu_kernel void @k(ptr addrspace(1) %y) #0 !reqd_work_group_size !7 {
  store i32 1, ptr addrspace(1) %y, align 4
  ret void
}
attributes #0 = { \"amdgpu-flat-work-group-size\"=\"1024,1024\" }
!7 = !{i32 1024, i32 1, i32 1}
";
    // 16 waves on 4 SIMDs of 256 registers each.
    let file = built(source, "gfx906");
    let count = |n: u8| [&b".vgpr_count"[..], &[n]].concat();
    let used = kernel(&file, "k").resources.vgprs.expect("known") as u8;
    let error = survives(&patched(&file, &count(used), &count(100))).expect_err("too many");
    assert_eq!(
        error,
        "kernel k: gfx906: VGPRs of a wave, for all waves of the workgroup at once: 100 asked for, of 64"
    );
}

#[test]
fn processors_that_are_not_known() {
    let mut file = built(STREAM, "gfx1100");
    // e_flags of a 64-bit ELF header: the processor is the low byte.
    file[48] = 0xfe;
    assert_eq!(survives(&file), Err("code object: for a processor that is not known, number 0xfe".into()));
    // LLVM ends the process if asked to disassemble for it.
    file[48] = 0x20;
    let error = survives(&file).expect_err("gfx600");
    assert!(error.contains("LLVM disassembles nothing older than gfx8"), "{error}");
}

#[test]
fn foreign_files() {
    for (file, said) in [
        (&b""[..], "an empty file"),
        (b"GGUF", "no ELF file"),
        (b"__CLANG_OFFLOAD_BUNDLE__....", "a bundle of code objects, one of which has to be taken out first"),
        (b"BC\xc0\xde", "LLVM bitcode"),
    ] {
        assert_eq!(survives(file), Err(format!("code object: {said}")));
    }
    let relocatable = crate::support::object(STREAM, "gfx1100");
    let error = survives(&relocatable).expect_err("a relocatable object");
    assert!(error.contains("a relocatable object, which has to be linked first"), "{error}");
    assert!(matches!(inspect(&relocatable, &Options::default()), Err(CompileError::CodeObject { .. })));
}

#[test]
fn code_that_is_no_code() {
    let file = built(STREAM, "gfx1100");
    let found = inspected(&file);
    // Every instruction of every kernel is overwritten: jumps go anywhere, words are none.
    for word in [u32::MAX, 0xbfa0_ffff, 0xbfa2_8000, 0xbfb0_0000, 0] {
        let mut broken = file.clone();
        let hsaco = hrx_compiler::hsaco::Hsaco::read(&file).expect("read");
        for kernel in &hsaco.kernels {
            let start = kernel.code.as_ptr() as usize - file.as_ptr() as usize;
            for at in (start..start + kernel.code.len()).step_by(4) {
                broken[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
        let report = survives(&broken).expect("a report");
        assert_eq!(report.kernels.len(), found.kernels.len(), "{word:#x}");
    }
    // A kernel of nothing but words that are no instructions says so.
    let mut broken = file.clone();
    let hsaco = hrx_compiler::hsaco::Hsaco::read(&file).expect("read");
    let code = hsaco.kernel("scale").expect("it").code;
    let start = code.as_ptr() as usize - file.as_ptr() as usize;
    broken[start..start + code.len()].fill(0xff);
    let report = kernel(&broken, "scale");
    assert!(report.notes.iter().any(|n| n.ends_with("are no instructions that LLVM knows of gfx1100")), "{report}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_files_get_a_line_or_a_report(
        chip in prop_oneof![Just("gfx906"), Just("gfx942"), Just("gfx1100"), Just("gfx1201")],
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        thread_local! {
            static FILES: std::cell::RefCell<std::collections::HashMap<&'static str, Vec<u8>>> = Default::default();
        }
        let mut file = FILES.with(|f| f.borrow_mut().entry(chip).or_insert_with(|| built(STREAM, chip)).clone());
        for (at, byte) in &changes {
            let at = at.index(file.len());
            file[at] = *byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        let _ = survives(&file);
    }

    #[test]
    fn any_bytes_get_a_line(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(survives(&bytes).is_err());
    }
}
