//! Operations on registers where they are, without a copy of the result: part after part, so that a result may go to the
//! registers of an operand.

use super::{Env, Lane, OPERANDS};
use crate::decode::Ty;

/// The rows of a wave's file that an operation reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub from: [u16; OPERANDS],
    pub to: [u16; 2],
}

/// What an operation does to its rows of a file, for 32 lanes.
pub type InPlaceFn = unsafe fn(&Env, &mut [Lane], &Places);

/// A part of the lanes of all operands.
pub type Part<const N: usize> = [[u32; N]; OPERANDS];

impl Places {
    /// So many lanes of operands of these types.
    #[inline(always)]
    pub fn take<const N: usize>(&self, file: &[Lane], types: &[Ty], part: usize) -> Part<N> {
        let mut all = [[0; N]; OPERANDS];
        for (at, ty) in types.iter().enumerate() {
            for word in 2 * at..2 * at + usize::from(ty.words()) {
                all[word] = file[self.from[word] as usize].as_chunks::<N>().0[part];
            }
        }
        all
    }

    /// Writes so many lanes of a result of so many words.
    #[inline(always)]
    pub fn give<const N: usize>(&self, file: &mut [Lane], words: u8, part: usize, out: &[[u32; N]; 2]) {
        for (out, to) in out.iter().zip(self.to).take(words.into()) {
            file[to as usize].as_chunks_mut::<N>().0[part] = *out;
        }
    }
}
