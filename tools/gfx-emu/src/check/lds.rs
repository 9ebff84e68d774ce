//! Who wrote and read each byte of LDS since the last barrier, and which bytes were ever written.

/// Words that are looked at together.
const TOGETHER: usize = 4;

/// Of some words that follow each other: a byte each.
#[derive(Clone, Copy, Default, Debug)]
#[repr(align(64))]
struct Granule {
    /// The count of barriers that writers and readers are of.
    epoch: [u32; TOGETHER],
    /// The wave that wrote each byte, plus one.
    writers: [u32; TOGETHER],
    /// The wave that read it, plus one; 255 for several.
    readers: [u32; TOGETHER],
    /// All ones for a byte that was ever written.
    written: [u32; TOGETHER],
}

/// One word of them.
#[derive(Clone, Copy)]
struct Word {
    epoch: u32,
    writers: u32,
    readers: u32,
    written: u32,
}

/// What is known of all words.
#[derive(Debug, Default)]
pub struct LdsShadow {
    granules: Vec<Granule>,
}

/// What an access found.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// A wave that wrote the bytes, or read them and this access writes.
    pub race: Option<(&'static str, u32)>,
    /// Whether bytes were read that nobody wrote.
    pub unwritten: bool,
}

const SEVERAL: u32 = 255;

/// A byte in all four.
const fn all_bytes(byte: u32) -> u32 {
    byte * 0x0101_0101
}

/// The mark of writers that are atomic.
const ATOMIC: u8 = 254;

/// All ones if so.
#[inline(always)]
fn ones(condition: bool) -> u32 {
    if condition { u32::MAX } else { 0 }
}

impl Granule {
    #[inline(always)]
    fn note<const WRITES: bool, const FIRST: usize, const COUNT: usize>(&mut self, me: u32, epoch: u32) -> bool {
        if WRITES { self.writes::<FIRST, COUNT>(me, epoch) } else { self.reads::<FIRST, COUNT>(me, epoch) }
    }

    /// Notes that a wave reads words, if there is nothing to find; whether that is so.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // Of four arrays at once, and of constant places.
    fn reads<const FIRST: usize, const COUNT: usize>(&mut self, me: u32, epoch: u32) -> bool {
        let mut bad = 0;
        let (mut writers, mut readers) = (self.writers, self.readers);
        for i in FIRST..FIRST + COUNT {
            let fresh = ones(self.epoch[i] == epoch);
            writers[i] &= fresh;
            let marks = self.readers[i] & fresh;
            let mine = ones(marks == 0) | ones(marks == me);
            // Several bytes of different waves are left to others.
            let alike = ones(marks == marks.rotate_left(8));
            bad |= !self.written[i] | !(ones(writers[i] == 0) | ones(writers[i] == me)) | !(mine | alike);
            readers[i] = me & mine | !mine;
        }
        if bad != 0 {
            return false;
        }
        for i in FIRST..FIRST + COUNT {
            self.epoch[i] = epoch;
        }
        (self.writers, self.readers) = (writers, readers);
        true
    }

    /// The same of words that it writes.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // Of four arrays at once, and of constant places.
    fn writes<const FIRST: usize, const COUNT: usize>(&mut self, me: u32, epoch: u32) -> bool {
        let mut bad = 0;
        let mut readers = self.readers;
        for i in FIRST..FIRST + COUNT {
            let fresh = ones(self.epoch[i] == epoch);
            let writers = self.writers[i] & fresh;
            readers[i] &= fresh;
            let mine = |marks: u32| ones(marks == 0) | ones(marks == me);
            bad |= !(mine(writers) & mine(readers[i]));
        }
        if bad != 0 {
            return false;
        }
        for i in FIRST..FIRST + COUNT {
            (self.epoch[i], self.writers[i], self.written[i]) = (epoch, me, u32::MAX);
        }
        self.readers = readers;
        true
    }
}

impl LdsShadow {
    /// For so many bytes.
    pub fn new(bytes: usize) -> LdsShadow {
        LdsShadow { granules: vec![Granule::default(); bytes.div_ceil(4 * TOGETHER)] }
    }

    /// Forgets all, for the next workgroup.
    pub fn reset(&mut self) {
        self.granules.fill(Granule::default());
    }

    fn word(&self, index: u32) -> Word {
        let (granule, i) = (&self.granules[index as usize / TOGETHER], index as usize % TOGETHER);
        Word {
            epoch: granule.epoch[i],
            writers: granule.writers[i],
            readers: granule.readers[i],
            written: granule.written[i],
        }
    }

    fn set_word(&mut self, index: u32, word: Word) {
        let (granule, i) = (&mut self.granules[index as usize / TOGETHER], index as usize % TOGETHER);
        granule.epoch[i] = word.epoch;
        granule.writers[i] = word.writers;
        granule.readers[i] = word.readers;
        granule.written[i] = word.written;
    }

    /// Notes that a wave reads or writes whole words which lie inside, if there is nothing to find; whether that is so. If
    /// not, others may be noted already, and may be noted again.
    #[inline(always)]
    pub fn note_clean<const WRITES: bool>(&mut self, first: usize, count: usize, wave: u32, epoch: u32) -> bool {
        let me = all_bytes(wave + 1);
        let (mut at, end) = (first, first + count);
        while at < end {
            let Some(granule) = self.granules.get_mut(at / TOGETHER) else { return false };
            let (clean, next) = match (at % TOGETHER, end - at) {
                (0, TOGETHER..) => (granule.note::<WRITES, 0, TOGETHER>(me, epoch), at + TOGETHER),
                (0, _) => (granule.note::<WRITES, 0, 1>(me, epoch), at + 1),
                (1, _) => (granule.note::<WRITES, 1, 1>(me, epoch), at + 1),
                (2, _) => (granule.note::<WRITES, 2, 1>(me, epoch), at + 1),
                _ => (granule.note::<WRITES, 3, 1>(me, epoch), at + 1),
            };
            if !clean {
                return false;
            }
            at = next;
        }
        true
    }

    /// Notes an atomic access, which lies inside: it races with what is not atomic of other waves.
    pub fn note_atomic(&mut self, at: u32, bytes: u32, wave: u32, epoch: u32) -> Found {
        let mut found = Found::default();
        let me = (wave + 1) as u8;
        for index in at / 4..(at + bytes).div_ceil(4) {
            let mut word = self.word(index);
            if word.epoch != epoch {
                (word.epoch, word.writers, word.readers) = (epoch, 0, 0);
            }
            found.unwritten |= word.written != u32::MAX;
            for (marks, verb) in [(word.writers, "wrote"), (word.readers, "read")] {
                let other = marks.to_le_bytes().into_iter().find(|&w| ![0, ATOMIC, me].contains(&w));
                found.race = found.race.or(other.map(|w| (verb, u32::from(w) - 1)));
            }
            word.writers = all_bytes(ATOMIC.into());
            word.written = u32::MAX;
            self.set_word(index, word);
        }
        found
    }

    /// Notes an access, which lies inside.
    #[inline]
    pub fn note(&mut self, at: u32, bytes: u32, wave: u32, epoch: u32, write: bool, read: bool) -> Found {
        let mut found = Found::default();
        let me = wave + 1;
        let all = me * 0x0101_0101;
        let end = at + bytes;
        for index in at / 4..end.div_ceil(4) {
            let mut word = self.word(index);
            let from = at.max(4 * index) - 4 * index;
            let to = end.min(4 * index + 4) - 4 * index;
            let mask = (u64::from(u32::MAX) >> (32 - 8 * (to - from)) << (8 * from)) as u32;
            if word.epoch != epoch {
                (word.epoch, word.writers, word.readers) = (epoch, 0, 0);
            }
            found.unwritten |= read && word.written & mask != mask;
            let writers = word.writers & mask;
            if writers != 0 && writers != all & mask {
                let other = (0..4).map(|b| writers >> (8 * b) & 255).find(|&w| w != 0 && w != me);
                if let Some(other) = other {
                    found.race = Some(("wrote", other - 1));
                }
            }
            if write {
                let readers = word.readers & mask;
                if readers != 0 && readers != all & mask && found.race.is_none() {
                    let other = (0..4).map(|b| readers >> (8 * b) & 255).find(|&w| w != 0 && w != me);
                    if let Some(other) = other {
                        found.race = Some(("read", other - 1));
                    }
                }
                word.writers = word.writers & !mask | all & mask;
                word.written |= mask;
            }
            if read {
                let readers = word.readers & mask;
                if readers == 0 || readers == all & mask {
                    word.readers = word.readers & !mask | all & mask;
                } else {
                    for byte in (0..4).filter(|b| mask >> (8 * b) & 1 != 0) {
                        let reader = word.readers >> (8 * byte) & 255;
                        let now = if reader == 0 || reader == me { me } else { SEVERAL };
                        word.readers = word.readers & !(255 << (8 * byte)) | now << (8 * byte);
                    }
                }
            }
            self.set_word(index, word);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Accesses by whole words find what single ones find, and leave what these leave.
    #[test]
    fn clean_notes_are_notes_that_find_nothing() {
        let mut random = Random::new(5);
        let (mut one, mut other) = (LdsShadow::new(256), LdsShadow::new(256));
        let (mut epoch, mut clean, mut found) = (0, 0, 0);
        for _ in 0..20_000 {
            let bits = random.bits();
            epoch += u32::from(bits & 15 == 0);
            let (wave, write, words) = ((bits >> 4 & 3) as u32, bits >> 6 & 3 == 0, 1 + (bits >> 8 & 7) as u32);
            let at = 4 * (bits >> 16 & 31) as u32;
            if bits >> 12 & 7 == 0 {
                // Part of a word.
                let all = [&mut one, &mut other].map(|shadow| shadow.note(at + 1, 2, wave, epoch, write, !write));
                assert_eq!(all[0], all[1]);
                continue;
            }
            let expected = one.note(at, 4 * words, wave, epoch, write, !write);
            let (first, count) = (at as usize / 4, words as usize);
            let is_clean = match write {
                true => other.note_clean::<true>(first, count, wave, epoch),
                false => other.note_clean::<false>(first, count, wave, epoch),
            };
            if is_clean {
                clean += 1;
                assert_eq!(expected, Found::default());
            } else {
                let after = other.note(at, 4 * words, wave, epoch, write, !write);
                assert_eq!(expected, after);
                found += u32::from(expected != Found::default());
            }
        }
        assert!(clean > 1000 && found > 1000, "{clean} {found}");
    }
}
