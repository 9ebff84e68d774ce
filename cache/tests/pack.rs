//! Packs: made, read back, imported; and every way of damaging one.

use hrx_cache::{Cache, CacheOptions, KeyBuilder, Lookup, PackError, pack, unpack};
use proptest::prelude::*;

fn sample() -> Vec<u8> {
    let keys = ["a", "b"].map(|n| KeyBuilder::new("test").part("name", n).finish());
    pack([(keys[0], &b"meta"[..], &b"payload one"[..]), (keys[1], &b""[..], &[7u8; 300][..])])
}

#[test]
fn a_pack_is_imported_into_a_cache() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::open(CacheOptions::at(dir.path())).expect("a cache");
    let entries = unpack(&sample()).expect("a pack");
    let done = cache.import(&entries).expect("imported");
    assert_eq!((done.written, done.skipped), (2, 0));
    for (key, entry) in &entries {
        let Ok(Lookup::Hit(found)) = cache.get(key) else { panic!("{key} was imported") };
        assert_eq!((found.meta(), found.payload()), (entry.meta(), entry.payload()));
    }
    assert_eq!(Cache::disabled().import(&entries).expect("nothing to do").skipped, 2);
}

#[test]
fn an_empty_pack_has_no_entries() {
    assert_eq!(unpack(&pack([])), Ok(vec![]));
}

#[test]
fn foreign_and_later_files_are_refused() {
    assert_eq!(unpack(b""), Err(PackError::Magic));
    assert_eq!(unpack(b"GGUF and so on"), Err(PackError::Magic));
    let mut later = sample();
    later[8] = 9;
    assert_eq!(unpack(&later), Err(PackError::Version { found: 9 }));
}

proptest! {
    #[test]
    fn any_cut_or_changed_byte_is_found(at in 0usize..500, bit in 0u8..8) {
        let whole = sample();
        let at = at % whole.len();
        prop_assert!(unpack(&whole[..at]).is_err());
        let mut changed = whole.clone();
        changed[at] ^= 1 << bit;
        prop_assert!(unpack(&changed).is_err());
    }
}
