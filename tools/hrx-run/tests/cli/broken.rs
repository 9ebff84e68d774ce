//! Files and requests that can't be used: one line that says what and where.

use crate::support::{bare, command, ran, small};
use std::path::Path;
use std::process::Command;

/// Where the description of a tensor has its parts, counted from the end of its name: the number of dimensions, two
/// dimensions, the type, the offset.
const DIMS: usize = 4;
const TYPE: usize = DIMS + 16;
const OFFSET: usize = TYPE + 4;

const TENSOR: &str = "blk.0.attn_q.weight";

fn find(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).position(|w| w == text.as_bytes()).expect(text)
}

/// Puts bytes at a place after the tensor's name.
fn patch(bytes: &mut [u8], at: usize, value: &[u8]) {
    let at = find(bytes, TENSOR) + TENSOR.len() + at;
    bytes[at..at + value.len()].copy_from_slice(value);
}

type Damage = fn(&mut Vec<u8>);

/// What is done to a good file, and what the error says besides the file's name.
const DAMAGES: [(&str, Damage, &[&str]); 9] = [
    ("cut in the data", |b| b.truncate(b.len() / 2), &["byte ", "to end within the file"]),
    ("cut in the metadata", |b| b.truncate(100), &["byte "]),
    ("empty", Vec::clear, &["byte 0"]),
    ("magic", |b| b[0] = b'J', &["byte 0", "magic"]),
    ("past the end", |b| patch(b, OFFSET, &(1u64 << 40).to_le_bytes()), &["byte ", TENSOR, "to end within the file"]),
    ("overflow", |b| patch(b, DIMS, &[0xff; 16]), &["byte ", TENSOR]),
    (
        "type",
        |b| patch(b, TYPE, &999u32.to_le_bytes()),
        &["byte ", TENSOR, "unknown type 999", "Q4_K=12", "docs/quants.md"],
    ),
    (
        "architecture",
        |b| {
            let at = find(b, "general.architecture") + "general.architecture".len() + 4 + 8;
            b[at..at + 5].copy_from_slice(b"zebra");
        },
        &["unknown architecture `zebra`", "llama", "docs/models.md"],
    ),
    (
        "missing tensor",
        |b| {
            let at = find(b, TENSOR);
            b[at..at + 3].copy_from_slice(b"old");
        },
        &["no tensor", TENSOR],
    ),
];

#[test]
fn damaged_files_are_refused_with_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("damaged.gguf");
    let (stats, logits) = (dir.path().join("s.json"), dir.path().join("l.npy"));
    for (name, damage, words) in DAMAGES {
        let mut bytes = std::fs::read(small()).unwrap();
        damage(&mut bytes);
        std::fs::write(&file, bytes).unwrap();
        let args = ["--tokens", "1,2", "--stats", stats.to_str().unwrap(), "--logits", logits.to_str().unwrap()];
        let ran = ran(&mut command(&file, &args));
        let error = ran.error();
        assert!(ran.out.is_empty(), "{name}");
        assert!(error.contains("damaged.gguf") && words.iter().all(|w| error.contains(w)), "{name}: {error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{name}: nothing is written");
    }
}

#[test]
fn what_cant_be_done_is_said_in_one_line() {
    let missing = Path::new("/nowhere/model.gguf");
    let good = small();
    for (model, args, words) in [
        (missing, &["-p", "x"][..], &["/nowhere/model.gguf", "open", "No such file"][..]),
        (Path::new("/"), &["-p", "x"], &["/"]),
        (&good, &["-f", "/nowhere/prompt.txt"], &["/nowhere/prompt.txt", "read", "No such file"]),
        (&good, &["-p", "x", "--device", "abacus"], &["no device abacus", "cpu"]),
        (&good, &["-p", "x", "--device", "hip:x"], &["no device hip:x", "hip:N"]),
        (&good, &["-p", "x", "--device", "emu:gfx1"], &["target gfx1: unknown"]),
        (&good, &["-p", "x", "--device", "emu:host"], &["emu:host can't be used", "no GPU's processor"]),
        (&good, &["--tokens", "1,320"], &["token 320", "320"]),
        (&good, &["-p", "hello there", "-c", "4"], &["context of 4 tokens"]),
        (&good, &["-p", ""], &["prompt is empty"]),
        (&good, &["-p", "x", "-c", "4294967295"], &["context of 4294967295 tokens"]),
        (&good, &["--tokens", "1", "--logits", "/nowhere/l.npy"], &["/nowhere/l.npy", "No such file"]),
        (&good, &["-p", "x", "-n", "1", "--stats", "/"], &["/"]),
    ] {
        let ran = ran(&mut command(model, args));
        if args.contains(&"--stats") {
            // The text was there before, with its timings.
            assert!(ran.code == Some(1) && ran.err.lines().last().unwrap().starts_with("error: /"), "{ran:?}");
            continue;
        }
        let error = ran.error();
        assert!(words.iter().all(|w| error.contains(w)) && ran.out.is_empty(), "{args:?}: {error}");
    }
}

#[test]
fn a_context_too_large_for_memory_says_how_much_it_wants() {
    // Less address space than the cache takes, which the kernel refuses as it does where memory is not overcommitted.
    let inner = bare(&small(), &["-p", "x", "-c", "2000000", "--no-cache"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 1500000; exec \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
    let ran = ran(&mut limited);
    let error = ran.error();
    assert!(error.contains("KV cache") && error.contains("memory"), "{error}");
}

#[test]
fn a_gpu_that_cannot_be_used_is_one_line_that_says_why() {
    for device in ["hip", "hip:0", "emu:gfx1100"] {
        let ran = ran(command(&small(), &["-p", "x", "--device", device]).env("HRX_HIP_LIBRARY", "/nowhere/hip.so"));
        let error = ran.error();
        let begin = format!("{device} can't be used: /nowhere/hip.so can't be opened: ");
        assert!(error.contains(&begin) && ran.out.is_empty(), "{error}");
    }
    let ran = ran(command(&small(), &["-p", "x", "--device", "hip"]).env("HRX_HIP_LIBRARY", "libm.so.6"));
    assert!(ran.error().contains("libm.so.6 has no hipGetErrorName: it is not HIP's library"), "{}", ran.error());
}
