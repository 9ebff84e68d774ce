//! Damaged objects: loading gives a kernel or an error, and never anything else. Nothing that was damaged is called.

use hrx_compiler::{LoadedKernel, Target, compile};
use hrx_ir::quant::FORMATS;
use hrx_templates::{Linear, LinearTiling, Template, WeightType};
use proptest::prelude::*;
use std::sync::OnceLock;

/// An object with code, constants and relocations, and the kernel's name.
fn object() -> &'static (Vec<u8>, String) {
    static OBJECT: OnceLock<(Vec<u8>, String)> = OnceLock::new();
    OBJECT.get_or_init(|| {
        let tiling = LinearTiling { tokens: 1, rows: 2, program_rows: 32, unroll: 1 };
        let kernel = Linear::new(8, 64, WeightType::Quant(&FORMATS[0]), tiling).kernel().expect("supported");
        (compile(&kernel, &Target::x86_64_v3()).expect("compiles").object, kernel.name)
    })
}

fn refusal(bytes: &[u8], name: &str) -> String {
    match LoadedKernel::load(bytes, name) {
        Ok(_) => panic!("it was loaded"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_whole_object_is_loaded() {
    let (bytes, name) = object();
    assert!(LoadedKernel::load(bytes, name).expect("a kernel").image_bytes() >= 4096);
}

#[test]
fn what_is_wrong_is_said() {
    let (bytes, name) = object();
    assert!(refusal(&[], name).contains(name.as_str()));
    assert!(refusal(b"\x7fELF", name).contains(name.as_str()));
    let other = refusal(bytes, "another");
    assert!(other.contains("no function another"), "{other}");
    let mut executable = bytes.clone();
    executable[16] = 2; // e_type ET_EXEC
    let kind = refusal(&executable, name);
    assert!(kind.contains("not a relocatable x86-64 object"), "{kind}");
    let mut arm = bytes.clone();
    arm[18] = 183; // e_machine EM_AARCH64
    let machine = refusal(&arm, name);
    assert!(machine.contains("not a relocatable x86-64 object"), "{machine}");
}

#[test]
fn every_truncation_is_refused() {
    let (bytes, name) = object();
    let refused = (0..bytes.len()).filter(|&n| LoadedKernel::load(&bytes[..n], name).is_err()).count();
    // Section headers are at the end: without them nothing is left to load.
    assert_eq!(refused, bytes.len());
}

#[test]
fn any_byte_may_be_wrong() {
    let (bytes, name) = object();
    let mut damaged = bytes.clone();
    let mut refused = 0;
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7F, 0x80, 0xFF, bytes[at] ^ 0x10] {
            damaged[at] = value;
            refused += usize::from(LoadedKernel::load(&damaged, name).is_err());
        }
        damaged[at] = bytes[at];
    }
    assert!(refused > bytes.len() / 10, "only {refused} refused");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn many_bytes_may_be_wrong(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0..4u8), 1..12)) {
        let (bytes, name) = object();
        let mut damaged = bytes.clone();
        for (at, value, size) in edits {
            let at = at.index(damaged.len());
            let n = (1 << size).min(damaged.len() - at);
            damaged[at..at + n].copy_from_slice(&value.to_le_bytes()[..n]);
        }
        // Either is right: damage to code can't be seen.
        let _ = LoadedKernel::load(&damaged, name);
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(LoadedKernel::load(&bytes, "k").is_err());
        let elf = [&object().0[..64], &bytes].concat();
        prop_assert!(LoadedKernel::load(&elf, "k").is_err());
    }
}
