//! A golden model split over several files.

use crate::support::{command, ran, small};
use hrx::gguf::Gguf;
use hrx::gguf::write::Builder;
use std::path::{Path, PathBuf};

const GREEDY: [&str; 6] = ["-p", "Hello there", "-n", "8", "--temp", "0"];

/// The small model in `count` files, tensors dealt out in turn; metadata are in the first.
fn split(dir: &Path, count: u16) -> Vec<PathBuf> {
    let gguf = Gguf::open(&small()).unwrap();
    let write = |number: u16| {
        let mut file = Builder::new();
        if number == 0 {
            gguf.metadata().iter().for_each(|(key, value)| {
                file.value(key, value);
            });
        }
        file.value("split.no", number).value("split.count", count);
        file.value("split.tensors.count", gguf.tensors().len() as i32);
        for tensor in gguf.tensors().iter().skip(number.into()).step_by(count.into()) {
            file.tensor(tensor.name(), tensor.dims(), tensor.ggml_type(), gguf.data(tensor).to_vec());
        }
        let path = dir.join(format!("small-{:05}-of-{count:05}.gguf", number + 1));
        std::fs::write(&path, file.to_bytes().unwrap()).unwrap();
        path
    };
    (0..count).map(write).collect()
}

#[test]
fn the_first_file_runs_the_whole_model() {
    let dir = tempfile::tempdir().unwrap();
    let files = split(dir.path(), 3);
    assert_eq!(ran(&mut command(&files[0], &GREEDY)).text(), ran(&mut command(&small(), &GREEDY)).text());
    let explained = ran(&mut command(&files[0], &["--explain"])).text();
    assert!(explained.contains("small-00001-of-00003.gguf and 2 more"), "{explained}");
}

#[test]
fn files_that_are_missing_or_not_the_first_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let files = split(dir.path(), 2);
    let second = ran(&mut command(&files[1], &GREEDY));
    let error = second.error();
    assert!(error.contains("shard 2 of 2: open the first one, `small-00001-of-00002.gguf`"), "{error}");
    std::fs::remove_file(&files[1]).unwrap();
    let missing = ran(&mut command(&files[0], &GREEDY));
    let error = missing.error();
    assert!(error.contains("small-00002-of-00002.gguf") && error.contains("(of 2) is missing"), "{error}");
    let renamed = dir.path().join("other.gguf");
    std::fs::rename(&files[0], &renamed).unwrap();
    let named = ran(&mut command(&renamed, &GREEDY));
    assert!(named.error().contains("its name has to end in `-00001-of-00002.gguf`"), "{}", named.error());
}
