//! Models split over several files.

use std::fs;

use super::*;

/// Shard `number` (from 0) of `count`, with one tensor.
fn shard(number: u16, count: u16, tensors: i32) -> Builder {
    let mut file = Builder::new();
    file.value("split.no", number).value("split.count", count).value("split.tensors.count", tensors);
    file.tensor(&format!("t{number}"), &[2], GgmlType::F32, vec![number as u8; 8]);
    file
}

#[test]
fn split_files_are_joined() {
    let dir = tempfile::tempdir().unwrap();
    let path = |number: usize| dir.path().join(format!("m-{number:05}-of-00003.gguf"));
    let write = |number: usize, file: &Builder| fs::write(path(number), file.to_bytes().unwrap()).unwrap();
    let open = |path: &Path| Gguf::open(path).map_err(|error| error.to_string());
    let fails = |path: &Path, parts: &[&str]| {
        let message = open(path).expect_err("a bad split was taken");
        for part in parts {
            assert!(message.contains(part), "no {part:?} in: {message}");
        }
    };
    write(1, &shard(0, 3, 3));
    write(2, &shard(1, 3, 3));
    fails(&path(1), &["m-00003-of-00003.gguf", "missing"]);
    write(3, &shard(2, 3, 3));
    let gguf = open(&path(1)).unwrap();
    assert_eq!((gguf.shards(), gguf.tensors().len()), (3, 3));
    for (number, tensor) in gguf.tensors().iter().enumerate() {
        assert_eq!((tensor.shard(), gguf.data(tensor)), (number, &[number as u8; 8][..]));
        assert_eq!(gguf.mapping(number).path(), path(number + 1));
        gguf.release(tensor);
        assert_eq!(gguf.data(tensor), [number as u8; 8]);
    }

    fails(&path(2), &["shard 2 of 3", "open the first one, `m-00001-of-00003.gguf`"]);
    let renamed = dir.path().join("model.gguf");
    fs::copy(path(1), &renamed).unwrap();
    fails(&renamed, &["model.gguf", "shard 1 of 3", "-00001-of-00003.gguf"]);
    write(3, &shard(1, 3, 3));
    fails(&path(1), &["m-00003-of-00003.gguf", "this file is number 2 of 3, want shard number 3 of 3"]);
    write(3, &shard(2, 4, 3));
    fails(&path(1), &["number 3 of 4"]);
    write(3, &sample());
    fails(&path(1), &["not part of a split model"]);
    write(3, &shard(2, 3, 3).tensor("more", &[1], GgmlType::F32, vec![0; 4]).clone());
    fails(&path(1), &["have 4 tensors", "`split.tensors.count` is 3"]);
    write(3, &shard(2, 3, 3).tensor("t0", &[1], GgmlType::F32, vec![0; 4]).clone());
    write(1, &shard(0, 3, 4));
    fails(&path(1), &["m-00003-of-00003.gguf", "`t0` again"]);
    fs::write(path(3), b"GGUF").unwrap();
    fails(&path(1), &["m-00003-of-00003.gguf", "version"]);
}

#[test]
fn split_files_in_memory() {
    let all = |count: u16| (0..count).map(|n| shard(n, 3, 3).to_bytes().unwrap()).collect::<Vec<_>>();
    assert_eq!(Gguf::from_shards(&all(3)).unwrap().tensors().len(), 3);
    let error = Gguf::from_shards(&all(2)).unwrap_err().to_string();
    assert!(error.contains("3 shard(s), but 2 were given"), "{error}");
    let mut no_number = Builder::new();
    no_number.value("split.count", 2u16);
    let error = Gguf::from_bytes(no_number.to_bytes().unwrap()).unwrap_err();
    assert!(matches!(&error, GgufError::MissingKey { key, .. } if key == "split.no"), "{error}");
}
