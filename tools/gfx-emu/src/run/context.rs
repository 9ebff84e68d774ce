//! What instructions reach beside their wave: memory, LDS, the launch, and where faults are reported.

use super::wave::{Wave, each};
use crate::check::banks::Patterns;
use crate::check::lds::LdsShadow;
use crate::decode::{Code, Counter, Registers};
use crate::exec::Next;
use crate::memory::{Accessor, Allocation, Table, Tag, find};
use crate::report::{Counters, Kind, Report};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Addresses whose high halves these are are LDS and scratch memory, for flat accesses.
pub const SHARED_APERTURE: u32 = 0x0001_0000;
/// See [`SHARED_APERTURE`].
pub const PRIVATE_APERTURE: u32 = 0x0002_0000;

/// What is the same for all of a launch.
#[derive(Debug)]
pub struct Launch {
    pub kernel: String,
    pub code: Arc<Code>,
    /// Where the code object is in memory.
    pub bias: u64,
    pub table: Arc<Table>,
    pub check: bool,
    pub number: u32,
    pub generation: hrx_compiler::hsaco::Generation,
    /// Registers that the kernel descriptor asks for.
    pub registers: Registers,
    /// Whether any instruction names others.
    pub beyond: bool,
}

/// An access to LDS after a wave has signalled that it came to a barrier, and before it waits there.
#[derive(Clone, Copy, Debug)]
pub struct Between {
    pub at: u32,
    pub bytes: u32,
    pub wave: u32,
    pub atomic: bool,
    pub writes: bool,
    pub reads: bool,
}

/// Faults so far: the first of each kind at each instruction.
pub type Reports = BTreeMap<(usize, Kind), (u64, Report)>;

/// A workgroup on its way, and what belongs to the thread that runs it.
#[derive(Debug)]
pub struct Context<'a> {
    pub launch: &'a Launch,
    pub lds: Vec<u8>,
    pub shadow: LdsShadow,
    /// Barriers passed.
    pub epoch: u32,
    /// Waves that have signalled since.
    pub signals: u32,
    /// Accesses to LDS of waves that have signalled and not waited: others need not wait for them.
    pub between: Vec<Between>,
    pub workgroup: [u32; 3],
    /// Its number in the grid.
    pub linear: u64,
    pub reports: Reports,
    pub counters: Counters,
    /// How many more, or fewer, times an instruction is executed than the one before it.
    visits: Vec<i64>,
    /// The allocation that was accessed last.
    pub last: usize,
    /// The instruction.
    pub pc: usize,
    pub wave: u32,
    /// Waves of the workgroup.
    pub waves: u32,
    /// Why an instruction could not be executed.
    pub trouble: String,
    /// Bank conflicts.
    pub patterns: Patterns,
    /// Room for matrix products.
    pub tiles: crate::exec::matrix::Tiles,
}

impl<'a> Context<'a> {
    /// For a thread.
    pub fn new(launch: &'a Launch, lds: usize) -> Context<'a> {
        Context {
            launch,
            lds: vec![0; lds],
            shadow: LdsShadow::new(lds),
            epoch: 0,
            signals: 0,
            between: Vec::new(),
            workgroup: [0; 3],
            linear: 0,
            reports: Reports::new(),
            counters: Counters::default(),
            visits: vec![0; launch.code.insts.len() + 1],
            last: 0,
            pc: 0,
            wave: 0,
            waves: 0,
            trouble: String::new(),
            patterns: Patterns::new(launch.code.insts.len()),
            tiles: Default::default(),
        }
    }

    /// Counts instructions that were executed one after the other.
    #[inline(always)]
    pub fn visited(&mut self, start: usize, end: usize) {
        self.visits[start] += 1;
        self.visits[end] -= 1;
    }

    /// Adds what was visited to the counts of classes.
    pub fn count_visits(&mut self) {
        let mut times = 0;
        for (inst, change) in self.launch.code.insts.iter().zip(&mut self.visits) {
            times += std::mem::take(change);
            self.counters.issued[inst.class as usize] += times as u64;
        }
        self.visits.fill(0);
    }

    /// Ends the launch with an error.
    #[cold]
    pub fn unknown(&mut self, reason: &str) -> Next {
        self.trouble = reason.into();
        Next::Unknown
    }

    /// Whether faults that do no harm to the emulator are looked for.
    #[inline(always)]
    pub fn check(&self) -> bool {
        self.launch.check
    }

    /// Reports a fault at the instruction.
    #[cold]
    pub fn report(&mut self, kind: Kind, lane: Option<u32>, message: impl FnOnce() -> String) {
        let (launch, pc) = (self.launch, self.pc);
        let (workgroup, wave, linear) = (self.workgroup, self.wave, self.linear);
        self.reports.entry((pc, kind)).and_modify(|(_, r)| r.times += 1).or_insert_with(|| {
            let report = Report {
                kernel: launch.kernel.clone(),
                pc: launch.code.address + launch.code.offset(pc),
                instruction: launch.code.texts.get(pc).cloned().unwrap_or_default(),
                workgroup,
                wave,
                lane,
                kind,
                message: message(),
                times: 1,
            };
            (linear, report)
        });
    }

    /// Reports registers that are read or written before the wait for what loads them.
    #[inline(always)]
    pub fn waited(&mut self, w: &Wave, first: u16, count: u16) {
        if w.pending.any() && self.check() {
            self.waited_slow(w, first, count, None);
        }
    }

    /// As [`Context::waited`], of registers that are loaded again: by the same counter, in order.
    pub fn waited_load(&mut self, w: &Wave, first: u16, count: u16, counter: Counter) {
        if w.pending.any() && self.check() {
            self.waited_slow(w, first, count, Some(counter));
        }
    }

    fn waited_slow(&mut self, w: &Wave, first: u16, count: u16, same: Option<Counter>) {
        if let Some((register, counter)) = w.pending.vector(first, count)
            && same != Some(counter)
        {
            let name = vector_name(register);
            self.report(Kind::MissingWait, None, || format!("{name} is still loaded ({})", counter_name(counter)));
        }
    }

    /// The same of scalar registers.
    #[inline(always)]
    pub fn waited_scalar(&mut self, w: &Wave, first: u16, count: u16) {
        if w.pending.any()
            && self.check()
            && let Some((register, counter)) = w.pending.scalar(first, count)
        {
            let message = || format!("s{register} is still loaded ({})", counter_name(counter));
            self.report(Kind::MissingWait, None, message);
        }
    }

    /// Reports registers that the kernel does not have.
    #[cold]
    pub fn counted(&mut self, needs: Registers) {
        if let Some((file, needs, has)) = needs.beyond(self.launch.registers) {
            let message = || format!("{file}{}, where the descriptor asks for {has}", needs - 1);
            self.report(Kind::RegisterCount, None, message);
        }
    }

    /// Reports active lanes whose registers nobody wrote, where that matters.
    pub fn known(&mut self, w: &Wave, first: u16, count: u16, lanes: u64, what: &str) {
        if !self.check() {
            return;
        }
        for register in first..first + count {
            let unknown = w.unknown_v[register as usize] & lanes;
            if let Some(lane) = each(unknown).next() {
                let name = vector_name(register);
                self.report(Kind::UninitialisedRegister, Some(lane), || format!("{name} decides {what}"));
                return;
            }
        }
    }

    /// The same of scalar registers.
    pub fn known_scalar(&mut self, w: &Wave, first: u16, words: u8, what: &str) {
        if self.check() && w.is_unknown_scalar(first, words) {
            self.report(Kind::UninitialisedRegister, None, || format!("s{first} decides {what}"));
        }
    }

    /// Who accesses memory.
    pub fn accessor(&self, w: &Wave, atomic: bool) -> Accessor {
        Accessor {
            tag: Tag::new(self.linear, w.number, self.epoch, atomic),
            late: self.epoch > 255,
            acquired: w.acquired,
            launch: self.launch.number,
        }
    }

    /// The allocation that bytes lie in, and where; what is wrong is reported.
    #[inline(always)]
    pub fn find(&mut self, address: u64, bytes: u32, lane: Option<u32>) -> Option<(&'a Allocation, u64)> {
        let launch: &'a Launch = self.launch;
        let table = &launch.table;
        if let Some(last) = table.get(self.last) {
            let at = address.wrapping_sub(last.address());
            if at < last.len() && u64::from(bytes) <= last.len() - at && !last.is_freed() {
                return Some((last, at));
            }
        }
        self.find_slow(address, bytes, lane)
    }

    /// The allocation that all of some bytes lie in, and where; nothing is reported.
    #[inline(always)]
    pub fn around(&mut self, address: u64, bytes: u64) -> Option<(&'a Allocation, u64)> {
        let launch: &'a Launch = self.launch;
        let table = &launch.table;
        let holds = |index: usize| {
            let found = table.get(index)?;
            let at = address.wrapping_sub(found.address());
            (at < found.len() && bytes <= found.len() - at && !found.is_freed()).then_some((&**found, at))
        };
        if let Some(found) = holds(self.last) {
            return Some(found);
        }
        let index = find(table, address)?;
        let found = holds(index)?;
        self.last = index;
        Some(found)
    }

    #[cold]
    fn find_slow(&mut self, address: u64, bytes: u32, lane: Option<u32>) -> Option<(&'a Allocation, u64)> {
        let launch: &'a Launch = self.launch;
        let table = &launch.table;
        let Some(index) = find(table, address) else {
            self.report(Kind::OutOfBounds, lane, || format!("{bytes} bytes at {address:#x}, before all memory"));
            return None;
        };
        let found = &table[index];
        let at = address - found.address();
        let len = found.len();
        if at < len && u64::from(bytes) <= len - at {
            if found.is_freed() {
                let message = || format!("{bytes} bytes at offset {at} of a freed allocation of {len} bytes");
                self.report(Kind::UseAfterFree, lane, message);
                return None;
            }
            self.last = index;
            return Some((found, at));
        }
        let place = if at <= len + (1 << 20) {
            format!("at offset {at} of an allocation of {len} bytes")
        } else {
            format!("at {address:#x}, where nothing is allocated")
        };
        self.report(Kind::OutOfBounds, lane, || format!("{bytes} bytes {place}"));
        None
    }
}

/// The name of a register of the vector file.
pub fn vector_name(register: u16) -> String {
    match register.checked_sub(crate::decode::ACCUMULATORS) {
        Some(a) => format!("a{a}"),
        None => format!("v{register}"),
    }
}

fn counter_name(counter: Counter) -> &'static str {
    match counter {
        Counter::Load => "vector memory",
        Counter::Store => "stores",
        Counter::Lds => "LDS",
        Counter::Scalar => "scalar memory, in any order",
    }
}
