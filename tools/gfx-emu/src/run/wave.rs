//! The state of a wave.

use super::pending::Pending;
use crate::decode::{ACCUMULATORS, CONSTANTS, Code, scalar};
use crate::exec::valu::Lane;

/// Where a wave stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Ready,
    /// At a barrier, at the instruction of that number.
    Barrier(usize),
    /// Waits for others to signal.
    Split(usize),
    Ended,
}

/// Places for operands that are not registers as they are.
pub type Scratchpad = [Lane; 8];

/// A wave.
#[derive(Debug)]
pub struct Wave {
    /// Scalar registers by the parser's numbers.
    pub s: [u32; scalar::ALL],
    /// Those that hold nothing that was written, a bit each.
    pub unknown_s: [u64; 3],
    /// Vector registers: number times halves plus half. After them are rows of other operands (`decode::simple`).
    pub v: Box<[Lane]>,
    /// Registers among the rows.
    registers: usize,
    /// Lanes of each row that hold nothing that was written.
    pub unknown_v: Box<[u64]>,
    /// Sets of 32 lanes.
    pub halves: usize,
    /// The next instruction.
    pub pc: usize,
    /// Its number in the workgroup.
    pub number: u32,
    pub state: State,
    /// Lanes that it started with.
    pub started: u64,
    /// Rounding and subnormals, as in the mode register.
    pub mode: u32,
    /// Scratch memory of all lanes, one after the other.
    pub scratch: Vec<u8>,
    /// Of each byte, whether it was written.
    pub scratch_written: Vec<bool>,
    /// Bytes of each lane.
    pub scratch_bytes: u32,
    pub pending: Pending,
    /// Barriers of the workgroup that it has signalled.
    pub signalled: u32,
    /// Whether it has synchronised with other workgroups through memory.
    pub acquired: bool,
    pub pad: Box<Scratchpad>,
    pub out: Box<[Lane; 2]>,
    /// The same of the second operation of a pair.
    pub second: Box<[Lane; 2]>,
    /// Instructions executed.
    pub executed: u64,
}

/// What registers hold before anything is written to them.
const GARBAGE: u32 = 0xbad0_bad0;

impl Wave {
    /// A wave of so many lanes, with accumulators or without, for code.
    pub fn new(lanes: u32, accumulators: bool, code: &Code) -> Wave {
        let registers = if accumulators { 2 * ACCUMULATORS } else { ACCUMULATORS } as usize;
        let halves = lanes as usize / 32;
        let mut v = vec![[GARBAGE; 32]; code.rows() * halves];
        for (row, &bits) in v[CONSTANTS as usize * halves..].chunks_mut(halves).zip(&code.constants) {
            row.fill([bits; 32]);
        }
        Wave {
            s: [0; scalar::ALL],
            unknown_s: [u64::MAX; 3],
            v: v.into(),
            registers,
            unknown_v: vec![0; code.rows()].into(),
            halves,
            pc: 0,
            number: 0,
            state: State::Ready,
            started: 0,
            mode: 0,
            scratch: Vec::new(),
            scratch_written: Vec::new(),
            scratch_bytes: 0,
            pending: Pending::new(registers),
            signalled: 0,
            acquired: false,
            pad: Box::new([[0; 32]; 8]),
            out: Box::new([[0; 32]; 2]),
            second: Box::new([[0; 32]; 2]),
            executed: 0,
        }
    }

    /// As new, for the next workgroup.
    pub fn reset(&mut self, number: u32, scratch_bytes: u32) {
        self.s.fill(0);
        self.unknown_s = [u64::MAX; 3];
        self.v[..self.registers * self.halves].fill([GARBAGE; 32]);
        self.unknown_v[..self.registers].fill(u64::MAX);
        self.pc = 0;
        self.number = number;
        self.state = State::Ready;
        let lanes = 32 * self.halves;
        self.scratch_bytes = scratch_bytes;
        self.scratch.clear();
        self.scratch.resize(lanes * scratch_bytes as usize, 0);
        self.scratch_written.clear();
        self.scratch_written.resize(lanes * scratch_bytes as usize, false);
        self.pending.reset();
        self.signalled = 0;
        self.acquired = false;
        self.executed = 0;
        for always in [scalar::M0, scalar::NULL, scalar::EXEC, scalar::EXEC + 1, scalar::SCC] {
            self.know_scalar(always, 1);
        }
        for special in scalar::SHARED_BASE..scalar::ALL as u16 {
            self.know_scalar(special, 1);
        }
    }

    /// Lanes.
    pub fn lanes(&self) -> u32 {
        32 * self.halves as u32
    }

    /// Active lanes.
    #[inline(always)]
    pub fn exec(&self) -> u64 {
        let low = u64::from(self.s[scalar::EXEC as usize]);
        if self.halves == 1 { low } else { low | u64::from(self.s[scalar::EXEC as usize + 1]) << 32 }
    }

    /// Sets active lanes.
    pub fn set_exec(&mut self, lanes: u64) {
        self.s[scalar::EXEC as usize] = lanes as u32;
        self.s[scalar::EXEC as usize + 1] = (lanes >> 32) as u32;
    }

    /// A mask of lanes from scalar registers.
    #[inline(always)]
    pub fn mask(&self, first: u16) -> u64 {
        if first == scalar::NULL {
            return 0;
        }
        let low = u64::from(self.s[first as usize]);
        if self.halves == 1 { low } else { low | u64::from(self.s[first as usize + 1]) << 32 }
    }

    /// Writes a mask of lanes to scalar registers.
    #[inline(always)]
    pub fn set_mask(&mut self, first: u16, lanes: u64) {
        if first == scalar::NULL {
            return;
        }
        self.s[first as usize] = lanes as u32;
        if self.halves == 2 {
            self.s[first as usize + 1] = (lanes >> 32) as u32;
        }
    }

    /// The condition bit.
    pub fn scc(&self) -> bool {
        self.s[scalar::SCC as usize] != 0
    }

    /// Sets the condition bit.
    pub fn set_scc(&mut self, set: bool) {
        self.s[scalar::SCC as usize] = set.into();
    }

    /// A scalar value of one or two registers.
    #[inline(always)]
    pub fn scalar(&self, first: u16, words: u8) -> u64 {
        let at = first as usize;
        match first {
            scalar::NULL => 0,
            scalar::VCCZ => u64::from(self.mask(scalar::VCC) == 0),
            scalar::EXECZ => u64::from(self.exec() == 0),
            _ if words == 1 => u64::from(self.s[at]),
            _ => u64::from(self.s[at]) | u64::from(self.s[at + 1]) << 32,
        }
    }

    /// Writes a scalar value.
    #[inline(always)]
    pub fn set_scalar(&mut self, first: u16, words: u8, value: u64) {
        if first == scalar::NULL {
            return;
        }
        self.s[first as usize] = value as u32;
        if words == 2 {
            self.s[first as usize + 1] = (value >> 32) as u32;
        }
    }

    /// Whether scalar registers hold something that nobody wrote.
    #[inline(always)]
    pub fn is_unknown_scalar(&self, first: u16, words: u8) -> bool {
        let bit = |r: u16| self.unknown_s[r as usize / 64] >> (r % 64) & 1 != 0;
        bit(first) || (words > 1 && (1..u16::from(words)).any(|i| bit(first + i)))
    }

    /// Says that scalar registers were written.
    pub fn know_scalar(&mut self, first: u16, words: u8) {
        for r in first..first + u16::from(words) {
            self.unknown_s[r as usize / 64] &= !(1 << (r % 64));
        }
    }

    /// Says what is known of scalar registers.
    #[inline(always)]
    pub fn set_unknown_scalar(&mut self, first: u16, words: u8, unknown: bool) {
        if first == scalar::NULL {
            return;
        }
        if unknown {
            for r in first..first + u16::from(words) {
                self.unknown_s[r as usize / 64] |= 1 << (r % 64);
            }
        } else {
            self.know_scalar(first, words);
        }
    }

    /// A lane's value of a register.
    #[inline(always)]
    pub fn lane(&self, register: u16, lane: u32) -> u32 {
        self.v[register as usize * self.halves + lane as usize / 32][lane as usize % 32]
    }

    /// Writes a lane's value.
    #[inline(always)]
    pub fn set_lane(&mut self, register: u16, lane: u32, value: u32) {
        self.v[register as usize * self.halves + lane as usize / 32][lane as usize % 32] = value;
        self.unknown_v[register as usize] &= !(1 << lane);
    }
}

/// The lanes that are set in a mask, from the lowest.
pub fn each(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        (mask != 0).then(|| {
            mask &= mask - 1;
            lane
        })
    })
}
