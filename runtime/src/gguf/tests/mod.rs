//! What is written is read back. The modules: `faults` breaks each rule on purpose and at random, `split` joins shards,
//! `golden` opens the golden models.

mod faults;
mod golden;
mod split;

use super::write::{Builder, OwnedValue};
use super::*;

/// A small model with every value type and tensors of three types.
fn sample() -> Builder {
    let mut file = Builder::new();
    file.value("general.architecture", "llama")
        .value("a.u8", 200u8)
        .value("a.i8", -3i8)
        .value("a.u16", 65535u16)
        .value("a.i16", -300i16)
        .value("a.u32", 7u32)
        .value("a.i32", -7i32)
        .value("a.u64", u64::MAX)
        .value("a.i64", i64::MIN)
        .value("a.f32", 1.5f32)
        .value("a.f64", 0.25f64)
        .value("a.huge", 1e300f64)
        .value("a.bool", true)
        .value("a.raw", &b"\xff\xfe"[..])
        .value("a.floats", vec![1.0f32, -2.0])
        .value("a.ints", vec![1i16, -2, 3])
        .value("a.bools", vec![true, false])
        .value("a.empty", Vec::<u32>::new())
        .value("tokens", vec!["hello".as_bytes(), b"", b"\xe2\x96", b"world"])
        .value("a.nested", OwnedValue::Array(ValueType::Array, vec![vec![1u8, 2].into(), vec!["x", "yz"].into()]))
        .tensor("norm", &[8], GgmlType::F32, (0..8u8).flat_map(|v| f32::from(v).to_le_bytes()).collect())
        .tensor("w", &[64, 3], GgmlType::Q4_0, vec![0x5a; 2 * 3 * 18])
        .tensor("half", &[3, 2, 1, 2], GgmlType::F16, vec![1; 24]);
    file
}

fn bytes() -> Vec<u8> {
    sample().to_bytes().unwrap()
}

#[test]
fn metadata_is_read_back() {
    let gguf = Gguf::from_bytes(bytes()).unwrap();
    let m = gguf.metadata();
    assert_eq!(m.require_str("general.architecture").unwrap(), "llama");
    assert_eq!(m.u32("a.u8").unwrap(), Some(200));
    assert_eq!(m.i32("a.i8").unwrap(), Some(-3));
    assert_eq!(m.i64("a.u16").unwrap(), Some(65535));
    assert_eq!(m.i32("a.i16").unwrap(), Some(-300));
    assert_eq!(m.require_u32("a.u32").unwrap(), 7);
    assert_eq!(m.require_i64("a.i32").unwrap(), -7);
    assert_eq!(m.require_u64("a.u64").unwrap(), u64::MAX);
    assert_eq!(m.require_i64("a.i64").unwrap(), i64::MIN);
    assert_eq!(m.require_f32("a.f32").unwrap(), 1.5);
    assert_eq!(m.require_f32("a.f64").unwrap(), 0.25);
    assert!(m.require_bool("a.bool").unwrap());
    assert_eq!(m.require_bytes("a.raw").unwrap(), b"\xff\xfe");
    assert_eq!(m.require_f32_array("a.floats").unwrap(), [1.0, -2.0]);
    assert_eq!(m.require_i32_array("a.ints").unwrap(), [1, -2, 3]);
    assert_eq!(m.require_bool_array("a.bools").unwrap(), [true, false]);
    assert_eq!(m.require_u32_array("a.empty").unwrap(), Vec::<u32>::new());
    let tokens = m.require_str_array("tokens").unwrap();
    assert_eq!(tokens.bytes().collect::<Vec<_>>(), [&b"hello"[..], b"", b"\xe2\x96", b"world"]);
    assert_eq!(tokens.strs().map(|s| s.is_ok()).collect::<Vec<_>>(), [true, true, false, true]);
    let nested = format!("{:?}", m.get("a.nested").unwrap());
    assert_eq!(nested, r#"[array; 2][[uint8; 2][1, 2], [string; 2]["x", "yz"]]"#);
    assert_eq!(m.get("none"), None);
    assert_eq!(m.u32("none").unwrap(), None);
    let keys: Vec<&str> = m.iter().map(|(key, _)| key).collect();
    assert_eq!(keys[..3], ["general.architecture", "a.u8", "a.i8"]);
    assert_eq!((keys.len(), keys[19]), (20, "a.nested"));
}

#[test]
fn a_value_of_another_type_is_named() {
    let gguf = Gguf::from_bytes(bytes()).unwrap();
    let m = gguf.metadata();
    let said = |error: GgufError| error.to_string();
    let cases = [
        (said(m.u32("a.f32").unwrap_err()), "`a.f32` is float32, want uint32"),
        (said(m.f32("a.u32").unwrap_err()), "`a.u32` is uint32, want float32"),
        (said(m.u32("a.i32").unwrap_err()), "`a.i32` is -7, which isn't uint32"),
        (said(m.i32("a.u64").unwrap_err()), "`a.u64` is 18446744073709551615, which isn't int32"),
        (said(m.f32("a.huge").unwrap_err()), "isn't float32"),
        (said(m.bool("a.u8").unwrap_err()), "`a.u8` is uint8, want bool"),
        (said(m.str("a.bool").unwrap_err()), "`a.bool` is bool, want string"),
        (said(m.str("a.raw").unwrap_err()), "`a.raw` is not UTF-8"),
        (said(m.str_array("a.floats").unwrap_err()), "array of float32, want array of string"),
        (said(m.f32_array("tokens").unwrap_err()), "array of string, want array of float32"),
        (said(m.u32_array("a.ints").unwrap_err()), "`a.ints` is -2 at index 1, which isn't array"),
        (said(m.u32_array("a.u32").unwrap_err()), "`a.u32` is uint32, want array of uint32"),
        (said(m.require_u32("none").unwrap_err()), "no key `none`"),
        (said(gguf.require_tensor("none").unwrap_err()), "no tensor `none`"),
    ];
    for (message, part) in cases {
        assert!(message.starts_with("<memory>: ") && message.contains(part), "no {part:?} in: {message}");
    }
}

#[test]
fn tensors_are_found_in_place() {
    for version in [2, 3] {
        let bytes = sample().version(version).alignment(64).to_bytes().unwrap();
        let gguf = Gguf::from_bytes(&bytes).unwrap();
        let names: Vec<&str> = gguf.tensors().iter().map(TensorInfo::name).collect();
        assert_eq!(names, ["norm", "w", "half"]);
        let w = gguf.tensor("w").unwrap();
        assert_eq!((w.dims(), w.dim(1), w.dim(2), w.elements()), (&[64, 3][..], 3, 1, 192));
        assert_eq!((w.ggml_type(), w.byte_size(), w.shard()), (GgmlType::Q4_0, 108, 0));
        assert_eq!(gguf.data(w), [0x5a; 108]);
        assert_eq!(gguf.data(w), &bytes[w.range()]);
        for tensor in gguf.tensors() {
            assert!(gguf.data(tensor).as_ptr().addr().is_multiple_of(64));
            gguf.prefetch(tensor);
            gguf.release(tensor);
        }
        // A copy's pages can't be had again, so release() must not have dropped them.
        assert_eq!(gguf.data(w), [0x5a; 108]);
        let kept = gguf.tensor_data(gguf.tensor("half").unwrap());
        drop(gguf);
        assert_eq!(kept[..], [1; 24]);
    }
}

#[test]
fn empty_files_and_tensors_are_files() {
    let gguf = Gguf::from_bytes(Builder::new().to_bytes().unwrap()).unwrap();
    assert!(gguf.metadata().is_empty() && gguf.tensors().is_empty());
    let mut file = Builder::new();
    file.tensor("scalar", &[], GgmlType::F32, vec![0; 4]).tensor("none", &[4, 0], GgmlType::F32, vec![]);
    let gguf = Gguf::from_bytes(file.to_bytes().unwrap()).unwrap();
    assert_eq!(gguf.tensor("scalar").map(|t| (t.elements(), t.byte_size())), Some((1, 4)));
    assert_eq!(gguf.tensor("none").map(|t| (t.elements(), t.byte_size())), Some((0, 0)));
}

#[test]
fn types_agree_with_themselves() {
    for (index, t) in GgmlType::ALL.iter().enumerate() {
        assert_eq!(GgmlType::from_id(t.id()), Some(*t));
        assert!(GgmlType::ALL[..index].iter().all(|other| other.name() != t.name() && other.id() < t.id()));
        assert_eq!(t.bytes_for(t.block_elements() * 3), Some(t.block_bytes() * 3));
    }
    for (index, t) in ValueType::ALL.iter().enumerate() {
        assert_eq!(t.id() as usize, index);
    }
    assert_eq!(GgmlType::Q4_K.bytes_for(255), None);
    assert_eq!(GgmlType::F64.bytes_for(u64::MAX), None);
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    use super::write::WriteError;
    let build = |file: &mut Builder| file.to_bytes().unwrap_err();
    assert_eq!(build(Builder::new().value("k", 1u8).value("k", 2u8)), WriteError::Duplicate("k".into()));
    assert_eq!(build(Builder::new().alignment(12)), WriteError::Alignment(12));
    let mixed = OwnedValue::Array(ValueType::U8, vec![1u8.into(), 1u16.into()]);
    assert!(matches!(build(Builder::new().value("k", mixed)), WriteError::MixedArray { .. }));
    let short = build(Builder::new().tensor("t", &[32], GgmlType::Q8_0, vec![0; 33])).to_string();
    assert_eq!(short, "tensor `t` has 33 bytes of data, but Q8_0 [32] is 34 bytes");
}

/// A vocabulary of the size of gemma's must open in a few milliseconds; here only that nothing is quadratic.
#[test]
fn a_large_vocabulary_is_walked_once() {
    let tokens: Vec<String> = (0..262_144).map(|n| format!("token{n}")).collect();
    let mut file = Builder::new();
    file.value("tokens", tokens.iter().map(String::as_bytes).collect::<Vec<_>>());
    let bytes = file.to_bytes().unwrap();
    let start = std::time::Instant::now();
    let gguf = Gguf::from_bytes(&bytes).unwrap();
    let opened = start.elapsed();
    let found = gguf.metadata().require_str_array("tokens").unwrap();
    assert_eq!(found.len(), tokens.len());
    assert!(found.bytes().eq(tokens.iter().map(String::as_bytes)));
    println!("262144 strings: opened in {opened:?}, opened and compared in {:?}", start.elapsed());
}
