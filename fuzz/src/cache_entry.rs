//! Entry files of the cache.

use hrx_cache::{Entry, Fault, Key};

use crate::Reached;

/// Where an entry file keeps its key (see hrx-cache's `entry`).
const KEY: std::ops::Range<usize> = 24..56;
const CHECKSUM_BYTES: usize = 32;

/// Decodes the bytes as they are, and once more with the right key and checksum, because nearly no
/// mutation survives the checksum. What is accepted must encode to the same content again.
pub fn cache_entry(data: &[u8]) -> Reached {
    let key = match data.get(KEY).map(<[u8; 32]>::try_from) {
        Some(Ok(bytes)) => Key::from_bytes(bytes),
        _ => Key::from_bytes([0; 32]),
    };
    let as_it_is = Entry::decode(&key, data.to_vec());
    if let Ok(entry) = &as_it_is {
        check_round_trip(&key, entry);
    }
    let body = &data[..data.len().saturating_sub(CHECKSUM_BYTES)];
    let mended = [body, blake3::hash(body).as_bytes()].concat();
    let other = Key::from_bytes(key.as_bytes().map(|byte| !byte));
    assert!(Entry::decode(&other, mended.clone()).is_err(), "the entry of another key");
    match Entry::decode(&key, mended) {
        Ok(entry) => {
            assert!(as_it_is.is_ok() || !data.ends_with(blake3::hash(body).as_bytes()));
            check_round_trip(&key, &entry);
            Reached::End
        }
        Err(Fault::Checksum) => panic!("the checksum just computed is refused"),
        Err(Fault::Truncated { .. } | Fault::Magic | Fault::Version { .. }) => Reached::FirstCheck,
        Err(_) => Reached::Inside,
    }
}

fn check_round_trip(key: &Key, entry: &Entry) {
    let again = Entry::encode(key, entry.meta(), entry.payload());
    let again = Entry::decode(key, again).expect("what was encoded can be decoded");
    assert_eq!((again.meta(), again.payload()), (entry.meta(), entry.payload()));
}
