//! Who wrote and read each byte of LDS since the last barrier, and which bytes were ever written.

/// Of a word: a byte each.
#[derive(Clone, Copy, Default, Debug)]
struct Word {
    /// The count of barriers that writers and readers are of.
    epoch: u32,
    /// The wave that wrote each byte, plus one.
    writers: u32,
    /// The wave that read it, plus one; 255 for several.
    readers: u32,
    /// All ones for a byte that was ever written.
    written: u32,
}

/// What is known of all words.
#[derive(Debug, Default)]
pub struct LdsShadow {
    words: Vec<Word>,
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

impl LdsShadow {
    /// For so many bytes.
    pub fn new(bytes: usize) -> LdsShadow {
        LdsShadow { words: vec![Word::default(); bytes.div_ceil(4)] }
    }

    /// Forgets all, for the next workgroup.
    pub fn reset(&mut self) {
        self.words.fill(Word::default());
    }

    /// Notes that a wave reads whole words which lie inside, if there is nothing to find; whether that is so.
    #[inline(always)]
    pub fn reads<const WORDS: usize>(&mut self, first: usize, wave: u32, epoch: u32) -> bool {
        let Some(words) = self.words[first..].first_chunk_mut::<WORDS>() else { return false };
        let me = all_bytes(wave + 1);
        for word in words {
            let fresh = word.epoch == epoch;
            if word.written != u32::MAX || (fresh && word.writers != 0 && word.writers != me) {
                return false;
            }
            if !fresh {
                (word.epoch, word.writers, word.readers) = (epoch, 0, me);
            } else if word.readers != me {
                word.readers = match word.readers {
                    0 => me,
                    readers if readers == all_bytes(readers & 255) => all_bytes(SEVERAL),
                    // Bytes of different waves.
                    _ => return false,
                };
            }
        }
        true
    }

    /// The same of whole words that it writes.
    #[inline(always)]
    pub fn writes<const WORDS: usize>(&mut self, first: usize, wave: u32, epoch: u32) -> bool {
        let Some(words) = self.words[first..].first_chunk_mut::<WORDS>() else { return false };
        let me = all_bytes(wave + 1);
        let mine = |marks: u32| marks == 0 || marks == me;
        if !words.iter().all(|word| word.epoch != epoch || (mine(word.writers) && mine(word.readers))) {
            return false;
        }
        for word in words {
            let readers = if word.epoch == epoch { word.readers } else { 0 };
            *word = Word { epoch, writers: me, readers, written: u32::MAX };
        }
        true
    }

    /// Notes an atomic access, which lies inside: it races with what is not atomic of other waves.
    pub fn note_atomic(&mut self, at: u32, bytes: u32, wave: u32, epoch: u32) -> Found {
        let mut found = Found::default();
        let me = (wave + 1) as u8;
        for index in at / 4..(at + bytes).div_ceil(4) {
            let word = &mut self.words[index as usize];
            if word.epoch != epoch {
                (word.epoch, word.writers, word.readers) = (epoch, 0, 0);
            }
            found.unwritten |= word.written != u32::MAX;
            for (marks, verb) in [(word.writers, "wrote"), (word.readers, "read")] {
                let other = marks.to_le_bytes().into_iter().find(|&w| ![0, ATOMIC, me].contains(&w));
                found.race = found.race.or(other.map(|w| (verb, u32::from(w) - 1)));
            }
            word.writers = u32::from(ATOMIC) * 0x0101_0101;
            word.written = u32::MAX;
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
            let word = &mut self.words[index as usize];
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
        }
        found
    }
}
