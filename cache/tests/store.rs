//! The store on a real directory: round trips, damage, maintenance, directories that refuse.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hrx_cache::{Cache, CacheError, CacheOptions, Fault, Key, KeyBuilder, Lookup, Stored};
use tempfile::TempDir;

fn key(n: usize) -> Key {
    KeyBuilder::new("store tests")
        .part("n", n.to_le_bytes())
        .finish()
}

fn open(dir: &Path) -> Cache {
    Cache::open(CacheOptions::at(dir)).expect("open")
}

fn new() -> (TempDir, Cache) {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = open(&dir.path().join("cache"));
    (dir, cache)
}

fn get(cache: &Cache, key: &Key) -> Lookup {
    cache.get(key).expect("look-up")
}

fn payload(lookup: Lookup) -> Option<Vec<u8>> {
    lookup.hit().map(|entry| entry.payload().to_vec())
}

fn file(cache: &Cache, key: &Key) -> PathBuf {
    let hex = key.to_string();
    cache
        .dir()
        .expect("enabled")
        .join(&hex[..2])
        .join(format!("{hex}.entry"))
}

fn temporary_files(cache: &Cache) -> u64 {
    cache.stat().expect("stat").temporary
}

#[test]
fn values_come_back() {
    let (_dir, cache) = new();
    assert!(matches!(get(&cache, &key(0)), Lookup::Miss));
    assert!(
        !cache.dir().unwrap().exists(),
        "opening and reading create nothing"
    );
    for (n, size) in [0, 1, 100, 100_000].into_iter().enumerate() {
        let value = vec![n as u8; size];
        assert_eq!(
            cache.put(&key(n), b"{}", &value).expect("put"),
            Stored::Written
        );
        let entry = get(&cache, &key(n)).hit().expect("a hit");
        assert_eq!((entry.meta(), entry.payload()), (&b"{}"[..], &value[..]));
    }
    cache.put(&key(0), b"new", b"newer").expect("put again");
    assert_eq!(
        payload(get(&cache, &key(0))).as_deref(),
        Some(&b"newer"[..])
    );
    let found = cache.get_many(&[key(0), key(9), key(1)]);
    let hits: Vec<_> = found
        .into_iter()
        .map(|l| l.expect("look-up").hit().is_some())
        .collect();
    assert_eq!(hits, [true, false, true]);
    assert_eq!(temporary_files(&cache), 0);
    let mode = fs::metadata(cache.dir().unwrap())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(
        mode & 0o077,
        0,
        "others can write code that we execute: {mode:o}"
    );
}

#[test]
fn disabled_cache_has_nothing() {
    let cache = Cache::disabled();
    assert_eq!(cache.put(&key(0), b"", b"x").expect("put"), Stored::Skipped);
    assert!(matches!(get(&cache, &key(0)), Lookup::Miss));
    assert_eq!(cache.stat().expect("stat").entries, 0);
    assert!(cache.list().expect("list").is_empty() && !cache.record_uses());
}

/// Replaces the entry by what `damage` does to its file; the look-up must say `expected`, remove
/// the file, miss the next time, and take a new value.
fn check_damage(damage: impl FnOnce(&Path), expected: impl Fn(&Fault) -> bool) {
    let (_dir, cache) = new();
    let path = file(&cache, &key(0));
    cache.put(&key(0), b"meta", b"payload").expect("put");
    damage(&path);
    match get(&cache, &key(0)) {
        Lookup::Damaged(found) => {
            assert!(expected(&found.reason), "{found}");
            assert!(found.removed && found.path == path, "{found}");
        }
        other => panic!("damage was not noticed: {other:?}"),
    }
    assert!(matches!(get(&cache, &key(0)), Lookup::Miss));
    cache.put(&key(0), b"meta", b"again").expect("put");
    assert_eq!(
        payload(get(&cache, &key(0))).as_deref(),
        Some(&b"again"[..])
    );
}

#[test]
fn damage_is_reported_and_removed() {
    check_damage(
        |path| fs::write(path, b"").unwrap(),
        |f| matches!(f, Fault::Truncated { .. }),
    );
    check_damage(
        |path| fs::write(path, [b'x'; 500]).unwrap(),
        |f| *f == Fault::Magic,
    );
    let edit = |change: fn(&mut Vec<u8>)| {
        move |path: &Path| {
            let mut bytes = fs::read(path).unwrap();
            change(&mut bytes);
            fs::write(path, bytes).unwrap();
        }
    };
    check_damage(edit(|bytes| bytes[8] = 200), |f| {
        *f == Fault::Version { found: 200 }
    });
    check_damage(edit(|bytes| bytes[70] ^= 4), |f| *f == Fault::Checksum);
    check_damage(edit(|bytes| bytes.truncate(100)), |f| {
        matches!(f, Fault::Length { .. })
    });
    let foreign = |path: &Path| {
        let (_dir, other) = new();
        other.put(&key(1), b"meta", b"payload").expect("put");
        fs::copy(file(&other, &key(1)), path).unwrap();
    };
    check_damage(foreign, |f| *f == Fault::Key { found: key(1) });
    let sparse = |path: &Path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    check_damage(sparse, |f| *f == Fault::TooLarge { bytes: 1 << 40 });
    let directory = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    check_damage(directory, |f| *f == Fault::NotAFile);
    let link = |path: &Path| {
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    };
    check_damage(link, |f| *f == Fault::NotAFile);
}

#[test]
fn too_large_values_are_refused_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let options = CacheOptions {
        max_entry_bytes: 1000,
        ..CacheOptions::at(dir.path())
    };
    let cache = Cache::open(options).expect("open");
    let error = cache.put(&key(0), b"", &[0; 1000]).unwrap_err();
    assert!(
        matches!(
            error,
            CacheError::TooLarge {
                what: "entry",
                limit: 1000,
                ..
            }
        ),
        "{error}"
    );
    let error = cache
        .put(&key(0), &vec![0; (1 << 20) + 1], b"")
        .unwrap_err();
    assert!(
        matches!(
            error,
            CacheError::TooLarge {
                what: "metadata",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        cache.put(&key(0), b"", &[0; 800]).expect("put"),
        Stored::Written
    );
}

#[test]
fn maintenance() {
    let (_dir, cache) = new();
    assert_eq!(cache.stat().expect("stat of nothing").entries, 0);
    let now = SystemTime::now();
    for n in 0..10 {
        cache
            .put(&key(n), format!("meta {n}").as_bytes(), &[0; 1000])
            .expect("put");
        let entry = fs::File::open(file(&cache, &key(n))).unwrap();
        entry
            .set_modified(now - Duration::from_secs(86400 * (100 - n as u64)))
            .unwrap();
    }
    // Using the oldest makes it the newest.
    assert!(get(&cache, &key(0)).hit().is_some());
    let foreign = cache.dir().unwrap().join("ab/README");
    fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    fs::write(&foreign, "not ours").unwrap();

    let listed = cache.list().expect("list");
    let order: Vec<Key> = [0, 9, 8, 7, 6, 5, 4, 3, 2, 1].map(key).to_vec();
    assert_eq!(
        listed.iter().map(|entry| entry.key).collect::<Vec<_>>(),
        order
    );
    assert_eq!(listed[1].meta.as_deref(), Some(&b"meta 9"[..]));
    let stat = cache.stat().expect("stat");
    assert_eq!((stat.entries, stat.bytes), (10, 10 * listed[0].bytes));

    let pruned = cache.prune(3 * listed[0].bytes + 5).expect("prune");
    assert_eq!(
        (pruned.removed.entries, pruned.bytes_left),
        (7, 3 * listed[0].bytes)
    );
    let left: Vec<Key> = cache
        .list()
        .unwrap()
        .iter()
        .map(|entry| entry.key)
        .collect();
    assert_eq!(left, [0, 9, 8].map(key));

    fs::write(file(&cache, &key(8)), "garbage").unwrap();
    let verified = cache.verify().expect("verify");
    assert_eq!((verified.good, verified.damaged.len()), (2, 1));
    assert!(verified.damaged[0].removed && !file(&cache, &key(8)).exists());

    assert_eq!(cache.clear().expect("clear").entries, 2);
    assert_eq!(cache.stat().expect("stat").entries, 0);
    assert!(
        foreign.exists(),
        "clear removed a file that is not the cache's"
    );
    cache.put(&key(1), b"", b"after clear").expect("put");
}

#[test]
fn a_file_in_place_of_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let blocker = dir.path().join("file");
    fs::write(&blocker, "").unwrap();
    let error = Cache::open(CacheOptions::at(&blocker)).unwrap_err();
    assert!(
        error.to_string().contains("file: not a directory"),
        "{error}"
    );

    // One directory further down it shows at the latest when writing, once.
    let below = CacheOptions::at(blocker.join("cache"));
    let error = Cache::open(below).unwrap_err();
    assert!(matches!(&error, CacheError::Io { .. }), "{error}");
    let cache = open(&dir.path().join("later"));
    fs::write(dir.path().join("later"), "").unwrap();
    let error = cache.put(&key(0), b"", b"x").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cache: cannot create directory"),
        "{error}"
    );
    assert_eq!(
        cache.put(&key(0), b"", b"x").expect("silent"),
        Stored::Skipped
    );
}

#[test]
fn twenty_entries_are_read_in_milliseconds() {
    let (_dir, cache) = new();
    let keys: Vec<Key> = (0..20).map(key).collect();
    for (n, key) in keys.iter().enumerate() {
        cache
            .put(key, b"{}", &vec![n as u8; 20_000 + 4_000 * n])
            .expect("put");
    }
    let best = (0..10).map(|_| {
        let start = std::time::Instant::now();
        let again = open(cache.dir().unwrap());
        assert!(
            again
                .get_many(&keys)
                .into_iter()
                .all(|l| l.expect("look-up").hit().is_some())
        );
        start.elapsed()
    });
    let best = best.min().expect("ten times");
    println!(
        "20 entries, {} KB: {best:?}",
        cache.stat().unwrap().bytes / 1000
    );
    assert!(best < Duration::from_millis(5), "{best:?}");
}
