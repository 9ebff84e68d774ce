//! Each rule of the format broken on purpose, and random damage.

use std::fs;

use proptest::prelude::*;

use super::*;

/// Where `needle` ends in `bytes`.
fn after(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).position(|w| w == needle).unwrap() + needle.len()
}

/// Overwrites bytes at `at`.
fn patched(mut bytes: Vec<u8>, at: usize, new: &[u8]) -> Vec<u8> {
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// Opening `bytes` breaks `rule` at `offset`, and the message has all of `parts`.
#[track_caller]
fn refused(bytes: &[u8], rule: Rule, offset: usize, parts: &[&str]) {
    let error = Gguf::from_bytes(bytes).expect_err("a damaged file was taken");
    let message = error.to_string();
    match error {
        GgufError::Format { rule: found, offset: at, .. } => {
            assert_eq!((found, at), (rule, offset as u64), "{message}");
        }
        other => panic!("want {rule:?}, found {other:?}"),
    }
    for part in parts {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
}

#[test]
fn header_faults() {
    let good = bytes();
    refused(b"", Rule::Truncated, 0, &["<memory>: byte 0: magic", "only 0 bytes"]);
    refused(&patched(good.clone(), 0, b"GGML"), Rule::Magic, 0, &["\"GGML\""]);
    refused(&patched(good.clone(), 4, &1u32.to_le_bytes()), Rule::Version, 4, &["found 1, want 2 or 3"]);
    refused(&patched(good.clone(), 4, &4u32.to_le_bytes()), Rule::Version, 4, &["found 4"]);
    refused(&patched(good.clone(), 4, &3u32.to_be_bytes()), Rule::Endianness, 4, &["big-endian", "version 3"]);
    for (at, what) in [(8, "number of tensors"), (16, "number of metadata entries")] {
        refused(&patched(good.clone(), at, &u64::MAX.to_le_bytes()), Rule::Count, at, &[what, "18446744073709551615"]);
    }
}

#[test]
fn every_truncation_is_refused() {
    let good = bytes();
    // The last byte that is needed is the last tensor's; padding follows.
    let needed = Gguf::from_bytes(&good).unwrap().tensors().iter().map(|t| t.range().end).max().unwrap();
    assert!(Gguf::from_bytes(&good[..needed]).is_ok());
    for length in 0..needed {
        let error = Gguf::from_bytes(&good[..length]).expect_err("a truncated file was taken");
        let GgufError::Format { rule, .. } = error else { panic!("{error:?}") };
        assert!(matches!(rule, Rule::Truncated | Rule::Count | Rule::PastEnd), "{length}: {rule:?}");
    }
}

#[test]
fn metadata_faults() {
    let good = bytes();
    let huge = u64::MAX.to_le_bytes();
    let type_of = |key: &str| after(&good, key.as_bytes());
    let at = type_of("a.u8");
    refused(&patched(good.clone(), at, &[13]), Rule::ValueType, at, &["`a.u8`", "found 13", "string=8"]);
    let at = type_of("a.bool") + 4;
    refused(&patched(good.clone(), at, &[2]), Rule::Bool, at, &["`a.bool`", "found 2, want 0 or 1"]);
    let at = type_of("a.bools") + 4 + 12 + 1;
    refused(&patched(good.clone(), at, &[9]), Rule::Bool, at, &["`a.bools`"]);
    let at = type_of("a.raw") + 4;
    refused(&patched(good.clone(), at, &huge), Rule::Count, at, &["length of value of key `a.raw`"]);
    let at = type_of("a.floats") + 4;
    refused(&patched(good.clone(), at, &[77]), Rule::ValueType, at, &["element type of key `a.floats`"]);
    refused(&patched(good.clone(), at + 4, &huge), Rule::Count, at + 4, &["array length of key `a.floats`"]);
    // A length whose product with the element size wraps around to something small.
    let wraps = (1u64 << 62).to_le_bytes();
    refused(&patched(good.clone(), at + 4, &wraps), Rule::Count, at + 4, &["4611686018427387904"]);
    let at = type_of("a.u8") - 4;
    refused(&patched(good.clone(), at, b"a.i8"), Rule::DuplicateKey, type_of("a.i8") - 12, &["`a.i8` again"]);
    refused(&patched(good.clone(), at, b"\xff\xff\xff\xff"), Rule::Utf8, at - 8, &["key of metadata entry 1", "UTF-8"]);
    let mut long = Builder::new();
    long.value(&"k".repeat(65536), 1u8);
    refused(&long.to_bytes().unwrap(), Rule::Count, 24, &["65536 bytes, want at most 65535"]);
}

#[test]
fn deep_arrays_are_refused() {
    let nest = |levels: usize| {
        let mut value: OwnedValue = vec![1u8].into();
        for _ in 1..levels {
            value = OwnedValue::Array(ValueType::Array, vec![value]);
        }
        let mut file = Builder::new();
        file.value("deep", value);
        file.to_bytes().unwrap()
    };
    assert!(Gguf::from_bytes(nest(4)).is_ok());
    let header = 24 + 8 + 4 + 4;
    refused(&nest(5), Rule::ArrayDepth, header + 4 * 12, &["`deep`"]);
    refused(&nest(2000), Rule::ArrayDepth, header + 4 * 12, &["`deep`"]);
}

#[test]
fn alignment_faults() {
    for wrong in [0u32, 4, 33, 48] {
        let mut file = sample();
        file.value("general.alignment", wrong);
        let bytes = file.to_bytes().unwrap();
        let at = after(&bytes, b"general.alignment") + 4;
        refused(&bytes, Rule::Alignment, at, &["power of two", &format!("found {wrong}")]);
    }
    let mut file = sample();
    file.value("general.alignment", "32");
    let error = Gguf::from_bytes(file.to_bytes().unwrap()).unwrap_err();
    assert!(matches!(error, GgufError::WrongType { .. }), "{error}");
    // The largest alignment there is puts the data section past the end; nothing overflows.
    let mut file = sample();
    file.value("general.alignment", 1u32 << 31);
    let error = Gguf::from_bytes(file.to_bytes().unwrap()).unwrap_err();
    assert!(matches!(error, GgufError::Format { rule: Rule::PastEnd | Rule::Misaligned, .. }), "{error}");
}

#[test]
fn tensor_faults() {
    let good = bytes();
    // The entry of `w`: rank u32, two dimensions, type u32, offset u64.
    let rank = after(&good, b"\x01\0\0\0\0\0\0\0w");
    let (dims, kind, offset) = (rank + 4, rank + 20, rank + 24);
    let put = |at: usize, value: u64| patched(good.clone(), at, &value.to_le_bytes());
    let put32 = |at: usize, value: u32| patched(good.clone(), at, &value.to_le_bytes());

    refused(&put32(rank, 5), Rule::Rank, rank, &["`w`", "found 5, want at most 4"]);
    refused(&put32(rank, u32::MAX), Rule::Rank, rank, &["`w`"]);
    refused(&put32(kind, 99), Rule::TensorType, kind, &["`w`", "unknown type 99", "Q4_0=2", "NVFP4=40"]);
    refused(&put32(kind, 31), Rule::TensorType, kind, &["type 31 (Q4_0_4_4", "removed"]);
    refused(&put(dims, 65), Rule::BlockMultiple, dims, &["[65, 3]", "multiple of 32", "Q4_0"]);
    refused(&put(dims + 8, u64::MAX), Rule::Overflow, dims, &["[64, 18446744073709551615]"]);
    refused(&put(dims, 1 << 62), Rule::Overflow, dims, &["2^63"]);
    // 64 * 2^58 wraps to 0 in 64 bits.
    refused(&put(dims + 8, 1 << 58), Rule::Overflow, dims, &["`w`"]);
    refused(&put(dims + 8, 1 << 40), Rule::PastEnd, offset, &["`w`", "[64, 1099511627776]"]);
    refused(&put(offset, 33), Rule::Misaligned, offset, &["found 33", "alignment, 32"]);
    refused(&put(offset, 1 << 40), Rule::PastEnd, offset, &["1099511627776", "108 bytes of Q4_0 [64, 3]"]);
    refused(&put(offset, u64::MAX - 31), Rule::PastEnd, offset, &["`w`"]);

    let name = rank - 1;
    refused(&patched(good.clone(), name, b"\xff"), Rule::Utf8, name - 8, &["name of tensor 1"]);
    let norm = after(&good, b"\x04\0\0\0\0\0\0\0norm") - 12;
    let twice = patched(good.clone(), norm + 8, b"half");
    let second = after(&good, b"half") - 12;
    refused(&twice, Rule::DuplicateTensor, second, &["`half` again"]);
}

#[test]
fn files_that_are_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let said = |path: &Path| Gguf::open(path).unwrap_err().to_string();
    let missing = said(&dir.path().join("no.gguf"));
    assert!(missing.contains("no.gguf: can't open: "), "{missing}");
    let folder = said(dir.path());
    assert!(folder.contains("directory"), "{folder}");
    let empty = dir.path().join("empty.gguf");
    fs::write(&empty, b"").unwrap();
    assert!(said(&empty).contains("empty.gguf: byte 0: magic"), "{}", said(&empty));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damage_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        wide in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0u32..64), 0..3),
        end in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        // Large and small numbers over whole fields reach the arithmetic that single bytes don't.
        for (at, value, shift) in wide {
            let at = at.index(bytes.len() - 8);
            bytes[at..at + 8].copy_from_slice(&(value >> shift).to_le_bytes());
        }
        if let Some(end) = end {
            bytes.truncate(end.index(bytes.len()));
        }
        match Gguf::from_bytes(&bytes) {
            Ok(gguf) => { gguf.walk(); }
            Err(error) => prop_assert!(error.to_string().starts_with("<memory")),
        }
    }

    #[test]
    fn any_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..256), counts in any::<[u8; 2]>()) {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        for count in counts {
            bytes.extend(u64::from(count % 8).to_le_bytes());
        }
        bytes.extend(tail);
        if let Ok(gguf) = Gguf::from_bytes(&bytes) {
            gguf.walk();
        }
    }
}
