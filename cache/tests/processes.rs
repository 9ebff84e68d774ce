//! Several processes on one directory, and processes that the system refuses to serve. The
//! children are this test executable again, running the one test that the environment selects.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hrx_cache::{Cache, CacheError, CacheOptions, Key, KeyBuilder, Lookup, Stored};

const ROLE: &str = "HRX_CACHE_TEST_ROLE";
const DIR: &str = "HRX_CACHE_TEST_DIR";
const KEYS: usize = 8;
const ROUNDS: usize = 150;

fn key(n: usize) -> Key {
    KeyBuilder::new("process tests").part("n", n.to_le_bytes()).finish()
}

/// A value that shows by itself whether it is whole: its bytes all equal, its length told by them.
fn value(n: usize, variant: u8) -> Vec<u8> {
    vec![variant; 3000 * (n + 1) + usize::from(variant) * 17]
}

fn is_whole(n: usize, bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|&variant| bytes == value(n, variant))
}

fn open(dir: &Path) -> Cache {
    Cache::open(CacheOptions::at(dir)).expect("open")
}

/// This executable, made to run only the test `child_process` in the given role.
fn child(role: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", "child_process", "--nocapture"]).env(ROLE, role).env(DIR, dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finish(child: Child) -> String {
    let output = child.wait_with_output().expect("child");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "a child failed:\n{text}");
    text.into_owned()
}

fn run(command: &mut Command) -> String {
    finish(command.spawn().expect("spawn"))
}

/// Not a test of its own: the body of the child processes.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let dir = PathBuf::from(std::env::var_os(DIR).expect("directory"));
    match role.as_str() {
        "hammer" => hammer(&dir),
        "refused" => refused(&dir),
        "index" => assert!(!use_once(&dir), "recorded into a locked index"),
        other => panic!("unknown role {other}"),
    }
}

fn hammer(dir: &Path) {
    let cache = open(dir);
    let mut random = u64::from(std::process::id()) | 1;
    for round in 0..ROUNDS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let n = random as usize % KEYS;
        match cache.get(&key(n)).expect("look-up") {
            Lookup::Hit(entry) => assert!(is_whole(n, entry.payload()), "half a value was read"),
            Lookup::Miss => {}
            Lookup::Damaged(damage) => panic!("{damage}"),
        }
        let stored = cache.put(&key(n), b"meta", &value(n, (random >> 32) as u8));
        assert_eq!(stored.expect("put"), Stored::Written);
        match round % 50 {
            20 => drop(cache.clear().expect("clear")),
            40 => assert!(cache.verify().expect("verify").damaged.is_empty()),
            45 => drop(cache.prune(20_000).expect("prune")),
            _ => {}
        }
    }
}

#[test]
fn many_processes_share_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let children: Vec<Child> = (0..6).map(|_| child("hammer", dir.path()).spawn().expect("spawn")).collect();
    for child in children {
        finish(child);
    }
    let cache = open(dir.path());
    let verified = cache.verify().expect("verify");
    assert!(verified.damaged.is_empty(), "{:?}", verified.damaged);
    assert_eq!(cache.stat().expect("stat").temporary, 0);
}

/// Directories come and go under the writers, at every moment of a write.
#[test]
fn writing_while_others_clear() {
    writing_while(|dir| {
        open(dir).clear().expect("clear");
    });
}

/// So does the whole cache, with the files that are being written: `rm -r` of its directory.
#[test]
fn writing_while_others_remove_everything() {
    writing_while(|dir| {
        // Fails where a directory gets a new file meanwhile.
        let _ = std::fs::remove_dir_all(dir);
    });
}

/// Two writers put values while two others do `clear` to the cache's directory again and again.
fn writing_while(clear: fn(&Path)) {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("cache");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    clear(&dir);
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let cache = open(&dir);
                scope.spawn(move || {
                    (0..2000).try_for_each(|n| cache.put(&key(writer), b"", &value(0, n as u8)).map(drop))
                })
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(|w| w.join().expect("a writer")).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        for result in results {
            result.expect("put");
        }
    });
    let verified = open(&dir).verify().expect("verify");
    assert!(verified.damaged.is_empty(), "{:?}", verified.damaged);
}

/// In a directory with the entry of key 0 where nothing larger can be written.
fn refused(dir: &Path) {
    let cache = open(dir);
    assert!(cache.get(&key(0)).expect("look-up").hit().is_some(), "reading goes on");
    let error = cache.put(&key(1), b"", &[7; 200_000]).expect_err("written where nothing can be");
    assert!(matches!(error, CacheError::Io { .. }));
    println!("warning: {error}");
    assert_eq!(cache.put(&key(2), b"", b"x").expect("the second time"), Stored::Skipped);
    assert!(matches!(cache.get(&key(1)).expect("look-up"), Lookup::Miss));
    assert_eq!(cache.stat().expect("stat").temporary, 0, "half a file stays");
    cache.record_uses();
}

fn with_one_entry(dir: &Path) {
    open(dir).put(&key(0), b"", b"value").expect("put");
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// A small tmpfs, unmounted at the end; `None` where mounting is not allowed.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(dir.path()).stderr(Stdio::null());
        let mounted = is_root() && mount.status().is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("skipped: a tmpfs cannot be mounted here");
        }
        mounted.then_some(Self(dir))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn full_disk() {
    let Some(disk) = Tmpfs::mount("size=128k") else {
        return;
    };
    with_one_entry(disk.0.path());
    let text = run(&mut child("refused", disk.0.path()));
    assert!(text.contains("No space left on device"), "{text}");
}

/// The same without privileges: a file may not grow beyond 64 KiB.
#[test]
fn write_cut_short() {
    let dir = tempfile::tempdir().expect("a directory");
    with_one_entry(dir.path());
    let direct = child("refused", dir.path());
    let mut limited = Command::new("sh");
    // Units of 512 bytes. The signal is ignored so that the write fails instead.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\""]);
    limited.arg(direct.get_program()).args(direct.get_args());
    limited.env(ROLE, "refused").env(DIR, dir.path());
    limited.stdout(Stdio::piped()).stderr(Stdio::piped());
    let text = run(&mut limited);
    assert!(text.contains("File too large"), "{text}");
}

#[test]
fn read_only_file_system() {
    let Some(disk) = Tmpfs::mount("size=1m") else {
        return;
    };
    with_one_entry(disk.0.path());
    let remount = Command::new("mount").args(["-o", "remount,ro"]).arg(disk.0.path()).status();
    assert!(remount.expect("mount").success());
    let text = run(&mut child("refused", disk.0.path()));
    assert!(text.contains("Read-only file system"), "{text}");
}

/// Permission bits do not bind root, so root sends a child of another user.
#[test]
fn read_only_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    with_one_entry(dir.path());
    let mode = |path: &Path, bits| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("chmod");
    };
    let shard = dir.path().join(&key(0).to_string()[..2]);
    mode(&shard.join(format!("{}.entry", key(0))), 0o444);
    for path in [&shard, &dir.path().join("tmp"), dir.path()] {
        mode(path, 0o555);
    }
    let mut command = child("refused", dir.path());
    if is_root() {
        // A copy, because the build directory may be closed to others.
        let program = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempfile()
            .expect("a file");
        let path = program.into_temp_path();
        fs::copy(std::env::current_exe().expect("own path"), &path).expect("copy");
        let mut other = Command::new(&path);
        other.args(command.get_args()).env(ROLE, "refused").env(DIR, dir.path());
        other.uid(65534).current_dir("/").stdout(Stdio::piped()).stderr(Stdio::piped());
        let text = run(&mut other);
        assert!(text.contains("Permission denied"), "{text}");
    } else {
        let text = run(&mut command);
        assert!(text.contains("Permission denied"), "{text}");
    }
    for path in [dir.path(), &shard, &dir.path().join("tmp")] {
        mode(path, 0o755);
    }
}

/// Stores and reads an entry, which must work whatever the state of the index; says whether the
/// uses were recorded.
fn use_once(dir: &Path) -> bool {
    let cache = open(dir);
    cache.put(&key(0), b"", b"value").expect("put");
    assert!(cache.get(&key(0)).expect("look-up").hit().is_some());
    let recorded = cache.record_uses();
    assert_eq!(cache.list().expect("list").len(), 1);
    recorded
}

#[cfg(feature = "index")]
mod index {
    use super::*;

    fn uses(dir: &Path) -> Option<u64> {
        open(dir).list().expect("list")[0].uses
    }

    /// What `attempt` gives. sled gives its lock back some time after its database is dropped, from a thread of its own:
    /// until then the index is busy.
    fn soon<T>(attempt: impl Fn() -> Option<T>) -> Option<T> {
        (0..200).find_map(|_| {
            attempt().or_else(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                None
            })
        })
    }

    /// As [`use_once`], once the index is free.
    fn use_recorded(dir: &Path) -> bool {
        soon(|| use_once(dir).then_some(())).is_some()
    }

    #[test]
    fn uses_are_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(use_recorded(dir.path()));
        assert_eq!(soon(|| uses(dir.path())), Some(2));
        assert!(use_recorded(dir.path()));
        assert_eq!(soon(|| uses(dir.path())), Some(4));
        open(dir.path()).clear().expect("clear");
        with_one_entry(dir.path());
        assert_eq!(uses(dir.path()), None);
    }

    #[test]
    fn locked_by_another_process() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(use_recorded(dir.path()));
        let lock = sled::open(dir.path().join("index")).expect("sled");
        run(&mut child("index", dir.path()));
        drop(lock);
        assert!(use_recorded(dir.path()), "the index is free again");
        assert_eq!(soon(|| uses(dir.path())), Some(4), "a locked index was thrown away");
    }

    #[test]
    fn garbage_is_replaced() {
        let noise: Vec<u8> = (0..100_000_u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        for target in ["db", "conf", "snap.0000000000000001", "blobs"] {
            let dir = tempfile::tempdir().expect("a directory");
            assert!(use_recorded(dir.path()));
            let path = dir.path().join("index").join(target);
            let _ = fs::remove_dir_all(&path);
            fs::write(&path, &noise).expect("write");
            // Once may find it locked: by a thread of the database that was given up, or by a child of another test that
            // has not yet become another program.
            assert!((0..20).any(|_| use_once(dir.path())), "{target}: the index did not recover");
        }
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("index"), "a file").expect("write");
        assert!(use_recorded(dir.path()), "a file in place of the index stays");
    }
}
