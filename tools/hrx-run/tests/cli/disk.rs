//! Disks that are full or read-only.

use crate::support::{Ran, bare, command, ids, model, ran, small};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A small file system of its own, if this process may mount one.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(options: &str) -> Option<Disk> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "hrx-test"]).arg(dir.path()).output();
        if mounted.is_ok_and(|o| o.status.success()) {
            return Some(Disk(dir));
        }
        eprintln!("skipped: no file system can be mounted here");
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|s| s.success()) || std::thread::panicking());
    }
}

/// Files under a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    entries.flat_map(|p| if p.is_dir() { files(&p) } else { vec![p] }).collect()
}

#[test]
fn logits_on_a_full_disk_are_an_error_and_leave_nothing() {
    let Some(disk) = Disk::mount("size=32k") else { return };
    let file = disk.path("logits.npy");
    let tokens = ids(&model("llama-Q4_1").0.all_tokens());
    let ran = ran(&mut command(&small(), &["--tokens", &tokens, "--logits", file.to_str().unwrap()]));
    let error = ran.error();
    assert!(error.contains("logits.npy") && error.contains("No space left"), "{error}");
    assert_eq!(files(disk.0.path()), [] as [PathBuf; 0]);
}

#[test]
fn stats_on_a_full_disk_are_an_error_and_leave_nothing() {
    let Some(disk) = Disk::mount("size=4k") else { return };
    std::fs::write(disk.path("filler"), [0; 4096]).unwrap();
    let file = disk.path("stats.json");
    let ran = ran(&mut command(&small(), &["-p", "x", "-n", "1", "--stats", file.to_str().unwrap()]));
    let last = ran.err.lines().last().unwrap();
    assert_eq!(ran.code, Some(1));
    assert!(last.starts_with("error: ") && last.contains("stats.json") && last.contains("No space left"), "{last}");
    assert_eq!(files(disk.0.path()), [disk.path("filler")]);
}

#[test]
fn standard_output_that_is_full_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let args = ["-p", "Hello", "-n", "4", "--ignore-eos"];
    let child = command(&small(), &args).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    let error = ran.error();
    assert!(error.contains("standard output") && error.contains("No space left"), "{error}");
}

/// A cache that was asked for is an error that says where. The default one is a warning: the text comes all the same.
#[track_caller]
fn cannot_be_used(cache: &Path) {
    let asked_for = ran(bare(&small(), &["-p", "Hello"]).arg("--cache-dir").arg(cache));
    let error = asked_for.error();
    assert!(error.contains("kernel cache") && error.contains(cache.to_str().unwrap()), "{error}");

    let args = ["-p", "Hello there", "-n", "6", "--temp", "0"];
    let expected = ran(&mut command(&small(), &args)).text();
    let ran = ran(bare(&small(), &args).env("HRX_CACHE_DIR", cache));
    let warnings: Vec<&str> = ran.err.lines().filter(|l| l.starts_with("warning: ")).collect();
    let [warning] = warnings[..] else { panic!("not one warning: {}", ran.err) };
    assert!(warning.contains("not cached") && warning.contains(cache.to_str().unwrap()), "{warning}");
    assert_eq!(ran.text(), expected);
}

#[test]
fn a_cache_on_a_full_disk_leaves_nothing_half_written() {
    let Some(disk) = Disk::mount("size=32k") else { return };
    cannot_be_used(&disk.path("cache"));
    let half = files(disk.0.path()).into_iter().filter(|f| f.extension().is_none_or(|e| e != "entry"));
    assert_eq!(half.collect::<Vec<_>>(), [] as [PathBuf; 0]);
    let cache = hrx_cache::Cache::open(hrx_cache::CacheOptions::at(disk.path("cache"))).unwrap();
    assert!(cache.verify().unwrap().damaged.is_empty());
}

#[test]
fn a_read_only_cache_is_said() {
    let Some(disk) = Disk::mount("size=32k,ro") else { return };
    cannot_be_used(&disk.path("cache"));
    cannot_be_used(Path::new("/dev/null"));
}
