//! What is known of the bytes of device memory: whether they were written, and who accessed them last in a launch.

use super::mapping::Mapping;
use crate::Error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Which bytes were written, a bit each.
#[derive(Debug)]
pub struct Written {
    bits: Mapping,
    /// Whether all are, so that bits need not be looked at.
    all: AtomicBool,
    len: usize,
}

impl Written {
    /// For so many bytes, none of them written.
    pub fn new(len: usize) -> Result<Written, Error> {
        Ok(Written { bits: Mapping::new(len.div_ceil(64) * 8)?, all: AtomicBool::new(false), len })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at * 8 < self.bits.len(), "a word of the bits");
        // SAFETY: the word is inside the mapping, aligned, and only ever accessed as an atomic.
        unsafe { AtomicU64::from_ptr(self.bits.start().cast::<u64>().add(at)) }
    }

    /// Marks bytes as written.
    pub fn mark(&self, at: usize, len: usize) {
        if self.all.load(Relaxed) || len == 0 {
            return;
        }
        if len == self.len {
            self.all.store(true, Relaxed);
            return;
        }
        self.each(at, len, |word, mask| {
            if word.load(Relaxed) & mask != mask {
                word.fetch_or(mask, Relaxed);
            }
            true
        });
    }

    /// Marks bytes as never written.
    pub fn forget(&self, at: usize, len: usize) {
        if self.all.load(Relaxed) && len > 0 {
            for word in 0..self.len.div_ceil(64) {
                self.word(word).store(u64::MAX, Relaxed);
            }
            self.all.store(false, Relaxed);
        }
        self.each(at, len, |word, mask| {
            word.fetch_and(!mask, Relaxed);
            true
        });
    }

    /// Whether all bytes are known to be written.
    #[inline(always)]
    pub fn is_whole(&self) -> bool {
        self.all.load(Relaxed)
    }

    /// Whether all these bytes were written.
    pub fn is(&self, at: usize, len: usize) -> bool {
        self.all.load(Relaxed) || self.each(at, len, |word, mask| word.load(Relaxed) & mask == mask)
    }

    /// Applies a test to each word of bits; stops where it fails.
    fn each(&self, at: usize, len: usize, mut f: impl FnMut(&AtomicU64, u64) -> bool) -> bool {
        let end = at + len;
        let mut from = at;
        while from < end {
            let word = from / 64;
            let to = end.min((word + 1) * 64);
            let mask = (u64::MAX >> (64 - (to - from))) << (from % 64);
            if !f(self.word(word), mask) {
                return false;
            }
            from = to;
        }
        true
    }
}

/// Who accesses: a workgroup, a wave of it, how many barriers it has passed, and whether atomically.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(pub u32);

const ATOMIC: u32 = 1;
const EPOCHS: u32 = 256;

impl Tag {
    /// A tag that is never zero.
    pub fn new(workgroup: u64, wave: u32, epoch: u32, atomic: bool) -> Tag {
        let workgroup = (workgroup % ((1 << 18) - 1)) as u32 + 1;
        Tag(workgroup << 14 | (wave & 31) << 9 | (epoch % EPOCHS) << 1 | u32::from(atomic))
    }

    fn workgroup(self) -> u32 {
        self.0 >> 14
    }

    fn wave(self) -> u32 {
        self.0 >> 9 & 31
    }

    fn epoch(self) -> u32 {
        self.0 >> 1 & (EPOCHS - 1)
    }

    /// Whether two accesses, of which one writes, are not ordered. `late` says that the later one has passed so many
    /// barriers that the count of the earlier one is not certain, `acquired` that its wave has synchronised with others.
    #[inline(always)]
    fn races(self, later: Tag, late: bool, acquired: bool) -> bool {
        if self.0 == 0 || self == later || self.0 & later.0 & ATOMIC != 0 {
            return false;
        }
        if self.workgroup() != later.workgroup() {
            return !acquired;
        }
        self.wave() != later.wave() && self.epoch() == later.epoch() && !late && !acquired
    }
}

/// How an access is made.
#[derive(Clone, Copy, Debug)]
pub struct Accessor {
    /// Who.
    pub tag: Tag,
    /// Whether its count of barriers is beyond what tags hold.
    pub late: bool,
    /// Whether the wave has synchronised with other workgroups through memory.
    pub acquired: bool,
    /// The launch.
    pub launch: u32,
}

/// Bytes whose accesses are reset together when a launch first touches them.
const BLOCK: usize = 4096;
const WORDS: usize = BLOCK / 4;

/// Who wrote and who read each word last in a launch.
#[derive(Debug)]
pub struct Accesses {
    /// Pairs of tags, the writer's and the reader's.
    tags: Mapping,
    /// The launch for which a block's tags are.
    launches: Mapping,
}

/// Accesses, made when the first launch touches the memory.
pub type LazyAccesses = OnceLock<Option<Accesses>>;

impl Accesses {
    /// For so many bytes.
    pub fn new(len: usize) -> Result<Accesses, Error> {
        let blocks = len.div_ceil(BLOCK);
        Ok(Accesses { tags: Mapping::new(blocks * WORDS * 8)?, launches: Mapping::new(blocks * 4)? })
    }

    fn tag(&self, at: usize) -> &AtomicU32 {
        assert!(at * 4 < self.tags.len(), "a tag");
        // SAFETY: inside the mapping, aligned, and only ever accessed as an atomic.
        unsafe { AtomicU32::from_ptr(self.tags.start().cast::<u32>().add(at)) }
    }

    fn launch(&self, block: usize) -> &AtomicU32 {
        assert!(block * 4 < self.launches.len(), "a block");
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.launches.start().cast::<u32>().add(block)) }
    }

    /// Forgets what earlier launches did to a block.
    #[cold]
    fn renew(&self, block: usize, launch: u32) {
        for tag in 2 * block * WORDS..2 * (block + 1) * WORDS {
            self.tag(tag).store(0, Relaxed);
        }
        self.launch(block).store(launch, Relaxed);
    }

    /// Notes an access to some bytes if it races with none; whether that is so.
    #[inline(always)]
    pub fn note_clean(&self, at: usize, len: usize, write: bool, who: Accessor) -> bool {
        let (first, end) = (at.div_ceil(4), (at + len) / 4);
        if first >= end {
            return true;
        }
        for block in first / WORDS..=(end - 1) / WORDS {
            if self.launch(block).load(Relaxed) != who.launch {
                self.renew(block, who.launch);
            }
        }
        let races = |tag: &AtomicU32| {
            let tag = tag.load(Relaxed);
            tag != 0 && Tag(tag).races(who.tag, who.late, who.acquired)
        };
        let tags = self.pairs(first, end);
        for [writer, reader] in tags {
            if races(writer) || (write && races(reader)) {
                return false;
            }
        }
        for [writer, reader] in tags {
            let mine = if write { writer } else { reader };
            if mine.load(Relaxed) != who.tag.0 {
                mine.store(who.tag.0, Relaxed);
            }
        }
        true
    }

    /// The tags of words, the writer's and the reader's.
    #[inline(always)]
    fn pairs(&self, first: usize, end: usize) -> &[[AtomicU32; 2]] {
        assert!(first <= end && end * 8 <= self.tags.len(), "tags");
        // SAFETY: inside the mapping, aligned, and only ever accessed as atomics.
        unsafe { std::slice::from_raw_parts(self.tags.start().cast::<[AtomicU32; 2]>().add(first), end - first) }
    }

    /// Notes an access to some bytes, and says whether it races with an earlier one: with a write, or a read.
    #[inline]
    pub fn note(&self, at: usize, len: usize, write: bool, who: Accessor) -> Option<&'static str> {
        // Neighbours in one word may be written by different waves: whole words only are judged.
        let (first, end) = (at.div_ceil(4), (at + len) / 4);
        if first >= end {
            return None;
        }
        for block in first / WORDS..=(end - 1) / WORDS {
            if self.launch(block).load(Relaxed) != who.launch {
                self.renew(block, who.launch);
            }
        }
        let mut found = None;
        for word in first..end {
            let (writer, reader) = (self.tag(2 * word), self.tag(2 * word + 1));
            if Tag(writer.load(Relaxed)).races(who.tag, who.late, who.acquired) {
                found = Some("written");
            }
            let last = Tag(reader.load(Relaxed));
            if write {
                if found.is_none() && last.races(who.tag, who.late, who.acquired) {
                    found = Some("read");
                }
                writer.store(who.tag.0, Relaxed);
            } else if last != who.tag {
                reader.store(who.tag.0, Relaxed);
            }
        }
        found
    }
}
