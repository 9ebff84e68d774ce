//! A content-addressed store for compiled kernels.
//!
//! The store knows bytes, not kernels. Whoever makes a value also makes its
//! [`Key`] from everything that the value depends on (with [`KeyBuilder`]); two
//! equal keys therefore mean equal values, and an entry never goes stale.
//!
//! ```text
//! DIR/ab/abcdef….entry   one value: header, metadata, payload, checksum   (see `entry`)
//! DIR/tmp/…              values being written; renamed into place when whole (see `temp`)
//! DIR/index/             use counts in sled, optional                        (see `index`)
//! ```
//!
//! What holds:
//!
//! * The entry files are the only truth. The file name, the key inside the file and a BLAKE3
//!   checksum over the whole file must agree whenever an entry is read; whatever does not is
//!   removed and reported as [`Lookup::Damaged`], so that the caller builds the value again and
//!   can say so.
//! * Any number of processes may share a directory without locks: a file comes into being under
//!   its final name only by a rename of a complete file. Two writers of one key both succeed, a
//!   reader sees one of the two, never a half.
//! * Nothing here is needed to be right. [`Cache::get`] and [`Cache::put`] return errors that the
//!   caller prints as a warning before going on without the cache. After the first failed write
//!   (full disk, read-only directory) the later ones are skipped in silence: one warning a run.
//! * A look-up opens no database and takes no lock: stat, open, read, hash.
//!
//! The directory holds machine code that will be executed: it is created for its owner alone
//! (mode 0700). A checksum detects damage, not malice.

mod entry;
mod error;
#[cfg_attr(feature = "index", path = "index.rs")]
#[cfg_attr(not(feature = "index"), path = "index_off.rs")]
mod index;
mod key;
mod maintain;
mod pack;
mod store;
mod temp;

pub use entry::{Entry, FORMAT_VERSION, Fault, MAX_META_BYTES};
pub use error::CacheError;
pub use key::{Key, KeyBuilder, ParseKeyError};
pub use maintain::{Cleared, Listed, Pruned, Stat, Verified};
pub use pack::{Imported, PACK_VERSION, PackError, pack, unpack};
pub use store::{Cache, CacheOptions, Damage, Durability, Lookup, Stored};
