//! Disassembly, held to llvm-objdump's.

use crate::hsaco::{linked, read};
use crate::loaded::{BASE, Loaded};
use crate::support::{CALL, CHIPS, ONE, each, lld, report};
use hrx_compiler::disasm::LineKind;
use hrx_compiler::hsaco::{Generation, PROCESSORS};
use hrx_compiler::{disassemble, link};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Instructions by their addresses, as llvm-objdump prints them.
fn printed(file: &[u8], generation: Generation) -> BTreeMap<u64, String> {
    let halves = if generation >= Generation::Gfx11 { "--mattr=+real-true16" } else { "--mattr=" };
    let text = report("llvm-objdump", &["-d", halves], file);
    let line = |line: &str| {
        let (text, comment) = line.strip_prefix('\t')?.split_once("//")?;
        let (address, _) = comment.trim().split_once(':')?;
        Some((u64::from_str_radix(address, 16).expect("an address"), words(text)))
    };
    text.lines().filter_map(line).collect()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn instructions_are_those_of_objdump() {
    each(|what, _, object| {
        for file in [link(object, what).expect("linked"), lld(object, &[])] {
            let hsaco = read(&file, what);
            let processor = hsaco.identity.processor.expect("a known chip");
            let printed = printed(&file, processor.generation);
            for kernel in &hsaco.kernels {
                let wave = kernel.descriptor.wavefront_size().expect("a wave");
                let lines = disassemble(processor.name, wave, kernel.code).expect("lines");
                for line in &lines {
                    assert_eq!(line.kind, LineKind::Instruction, "{what}: {}: {line:?}", kernel.name);
                    // objdump takes 32 lanes for all that may have them, and names other registers for 64.
                    if wave == 32 || processor.generation < Generation::Gfx10 {
                        let theirs = &printed[&(kernel.entry + line.offset as u64)];
                        assert_eq!(words(&line.text), *theirs, "{what}: {}", kernel.name);
                    }
                }
                let last = lines.last().expect("an instruction");
                assert_eq!(last.text, "s_endpgm", "{what}: {}", kernel.name);
            }
        }
    });
}

#[test]
fn lanes_of_a_wave_matter() {
    // v_cmp_eq_u32 of gfx11, whose result is a bit for each lane.
    let code = 0x7c94_0300_u32.to_le_bytes();
    let text = |wave| disassemble("gfx1100", wave, &code).expect("lines")[0].text.clone();
    assert_eq!([text(32), text(64)], ["v_cmp_eq_u32_e32 vcc_lo, v0, v1", "v_cmp_eq_u32_e32 vcc, v0, v1"]);
}

#[test]
fn halves_of_registers() {
    // v_mov_b16, which Triton's compiler emits.
    for chip in ["gfx1100", "gfx1201", "gfx12-generic", "gfx1250"] {
        let code = 0x7e02_3880_u32.to_le_bytes();
        let lines = disassemble(chip, 32, &code).expect("lines");
        assert_eq!(lines[0].text, "v_mov_b16_e32 v1.l, 0", "{chip}");
    }
}

#[test]
fn code_is_followed_by_padding() {
    for chip in CHIPS {
        let file = linked(CALL, chip);
        let hsaco = read(&file, chip);
        let loaded = Loaded::new(&file);
        let wave = hsaco.kernels[0].descriptor.wavefront_size().expect("a wave");
        // From the last kernel to the end of the segment.
        let last = hsaco.kernels.iter().max_by_key(|k| k.entry).expect("a kernel");
        let text = loaded.segments.iter().find(|s| s.p_flags.get(object::LittleEndian).0 & 1 != 0).expect("code");
        let end = text.p_vaddr.get(object::LittleEndian) + text.p_memsz.get(object::LittleEndian);
        let code = loaded.bytes(BASE + last.entry, end - last.entry);
        let lines = disassemble(chip, wave, code).expect("lines");
        assert!(lines.iter().all(|l| l.kind != LineKind::Unknown), "{chip}: {lines:?}");
        let padding: Vec<_> = lines.iter().filter(|l| l.kind == LineKind::Padding).collect();
        // LLVM pads for chips that prefetch.
        let wanted = usize::from(code.len() > last.code.len());
        assert_eq!(padding.len(), wanted, "{chip}");
        assert_eq!(padding.iter().map(|l| l.bytes.len()).sum::<usize>(), code.len() - last.code.len(), "{chip}");
        assert_eq!(wanted == 1, chip != "gfx906", "{chip}");
    }
}

#[test]
fn padding_is_what_nothing_jumps_to() {
    let [end, nop, code_end, zero, branch] = [0xbfb0_0000_u32, 0xbf80_0000, 0xbf9f_0000, 0, 0xbfa0_0001];
    let kinds = |words: &[u32]| {
        let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let lines = disassemble("gfx1100", 32, &code).expect("lines");
        let letter = |kind| match kind {
            LineKind::Instruction => 'i',
            LineKind::Padding => 'p',
            LineKind::Unknown => 'u',
        };
        lines.iter().map(|l| letter(l.kind)).collect::<String>()
    };
    assert_eq!(kinds(&[end]), "i");
    assert_eq!(kinds(&[end, code_end, code_end, code_end]), "ip");
    assert_eq!(kinds(&[end, zero, zero]), "ip");
    assert_eq!(kinds(&[end, nop, nop, code_end, zero, end]), "ipi");
    // A jump may go there.
    assert_eq!(kinds(&[branch, end, nop, nop, end]), "iiiii");
    assert_eq!(kinds(&[nop, nop]), "ii");
    assert_eq!(kinds(&[end, u32::MAX, end]), "iui");
}

#[test]
fn what_is_no_instruction_is_said() {
    let lines = disassemble("gfx1100", 32, &[0xff; 10]).expect("lines");
    let shown: Vec<_> = lines.iter().map(|l| (l.offset, l.bytes.len(), &*l.text, l.kind)).collect();
    let unknown = LineKind::Unknown;
    let word = ".long 0xffffffff";
    assert_eq!(shown, [(0, 4, word, unknown), (4, 4, word, unknown), (8, 2, ".byte 0xff, 0xff", unknown)]);
    assert_eq!(disassemble("gfx1100", 32, &[]).expect("nothing"), []);
}

#[test]
fn chips_and_waves_that_are_not_there() {
    for (chip, wave, reason) in [
        ("gfx9999", 32, "target gfx9999: no AMD GPU that is known"),
        ("x86-64", 64, "target x86-64: no AMD GPU that is known"),
        ("gfx1100\0", 32, "no AMD GPU that is known"),
        ("gfx700", 64, "target gfx700: LLVM disassembles nothing older than gfx8"),
        ("gfx906", 32, "target gfx906: it has no waves of 32 lanes"),
        ("gfx1250", 64, "target gfx1250: it has no waves of 64 lanes"),
        ("gfx1100", 48, "target gfx1100: it has no waves of 48 lanes"),
    ] {
        let error = disassemble(chip, wave, &[]).expect_err("it was disassembled").to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn every_processor_is_disassembled() {
    for processor in PROCESSORS.iter().filter(|p| p.generation >= Generation::Gfx8) {
        let file = linked(ONE, processor.name);
        let kernel = &read(&file, processor.name).kernels[0];
        let wave = kernel.descriptor.wavefront_size().expect("a wave");
        let lines = disassemble(processor.name, wave, kernel.code).expect("lines");
        assert!(lines.iter().all(|l| l.kind == LineKind::Instruction), "{}: {lines:?}", processor.name);
    }
}

/// Words that made LLVM's disassembler end the process, each in the middle of code and at its end.
#[test]
fn words_that_llvm_does_not_survive() {
    for (chip, words) in [
        // SDWA that selects what there is not.
        ("gfx803", [0x15b4_e8f9_u32, 0xe7d4_169d]),
        ("gfx906", [0x0707_caf9, 0x4192_8789]),
        ("gfx1030", [0x2022_fcf9, 0xd2e7_d105]),
        // Literals of instructions that take none.
        ("gfx906", [0xe9f7_e16d, 0xff30_04ee]),
        ("gfx942", [0xe256_0756, 0xff13_a41d]),
        ("gfx942", [0xd3fb_3351, 0x106d_ff07]),
        ("gfx803", [0xd0d7_00ff, 0]),
        ("gfx906", [0xd289_00ff, 0]),
        ("gfx1201", [0xbe8a_4fff, 5]),
    ] {
        let code = words.map(u32::to_le_bytes).concat();
        let twice = [&code[..], &code[..]].concat();
        for code in [&code[..], &code[..4], &twice[..]] {
            let wave = if chip.starts_with("gfx1") { 32 } else { 64 };
            let lines = disassemble(chip, wave, code).expect("lines");
            assert_eq!(lines[0].kind, LineKind::Unknown, "{chip}: {words:08x?}: {lines:?}");
        }
    }
    // Literals that are cut off.
    for (chip, wave, word) in
        [("gfx1100", 32, 0x8731_ff06_u32), ("gfx1250", 32, 0xbf08_ff33), ("gfx906", 64, 0x8731_ff06)]
    {
        let whole = [word, 5].map(u32::to_le_bytes).concat();
        let lines = disassemble(chip, wave, &whole).expect("lines");
        assert_eq!((lines.len(), lines[0].kind), (1, LineKind::Instruction), "{chip}: {lines:?}");
        for end in 4..8 {
            let lines = disassemble(chip, wave, &whole[..end]).expect("lines");
            assert!(lines.iter().all(|l| l.kind == LineKind::Unknown), "{chip}: {lines:?}");
        }
    }
}

proptest! {
    // The same bytes each time: LLVM is not made for all there are, and would take the other tests with it.
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(22), ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn any_bytes_are_lines(code in proptest::collection::vec(any::<u8>(), 0..400), chip in 0..CHIPS.len()) {
        let chip = CHIPS[chip];
        let wave = if chip.starts_with("gfx9") { 64 } else { 32 };
        let lines = disassemble(chip, wave, &code).expect("lines");
        let bytes: Vec<u8> = lines.iter().flat_map(|l| l.bytes.iter().copied()).collect();
        prop_assert_eq!(&bytes, &code);
        let mut offset = 0;
        for line in &lines {
            prop_assert_eq!(line.offset, offset);
            prop_assert!(!line.text.is_empty() && !line.text.contains('\n'), "{:?}", line);
            offset += line.bytes.len();
        }
    }
}
