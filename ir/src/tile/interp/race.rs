//! Who touched each byte of a buffer.

/// The programs that touched each byte, numbered from 1; 0 is none.
pub(super) struct Trace {
    writer: Vec<u32>,
    /// Two different readers, so that one of them is not the writer that comes later.
    readers: Vec<[u32; 2]>,
}

impl Trace {
    pub(super) fn new(len: usize) -> Trace {
        Trace { writer: vec![0; len], readers: vec![[0; 2]; len] }
    }

    /// Notes a read; `Err` with another program that wrote one of the bytes.
    pub(super) fn read(&mut self, bytes: std::ops::Range<usize>, program: u32) -> Result<(), u32> {
        for at in bytes {
            let writer = self.writer[at];
            if writer != 0 && writer != program {
                return Err(writer);
            }
            let [first, second] = &mut self.readers[at];
            if *first == 0 {
                *first = program;
            } else if *first != program && *second == 0 {
                *second = program;
            }
        }
        Ok(())
    }

    /// Notes a write; `Err` with another program that touched one of the bytes.
    pub(super) fn write(&mut self, bytes: std::ops::Range<usize>, program: u32) -> Result<(), u32> {
        for at in bytes {
            let [first, second] = self.readers[at];
            if let Some(other) = [self.writer[at], first, second].into_iter().find(|&p| p != 0 && p != program) {
                return Err(other);
            }
            self.writer[at] = program;
        }
        Ok(())
    }
}
