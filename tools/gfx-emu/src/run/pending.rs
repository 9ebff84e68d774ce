//! Loads that are on their way, as code must think of them: their results are there at once, but not to be used.

use crate::decode::{COUNTERS, Counter, Named, scalar};

/// What loads which registers, and what of it has been waited for.
#[derive(Debug)]
pub struct Pending {
    /// How many operations were issued and how many of them are certainly done, by counter.
    pub issued: [u32; COUNTERS],
    pub done: [u32; COUNTERS],
    /// For each register, counter and number of the last operation that loads it; none is 0.
    vectors: Box<[u32]>,
    scalars: [u32; scalar::ALL],
    /// Registers whose last operation is not done, a bit each.
    loading: Named,
    /// Whether there are any.
    any: bool,
}

/// Bits of an entry that number operations.
const NUMBER: u32 = (1 << 30) - 1;

impl Pending {
    /// For so many vector registers.
    pub fn new(registers: usize) -> Pending {
        Pending {
            issued: [0; COUNTERS],
            done: [0; COUNTERS],
            vectors: vec![0; registers].into(),
            scalars: [0; scalar::ALL],
            loading: Named::default(),
            any: false,
        }
    }

    /// As new, for the next workgroup.
    pub fn reset(&mut self) {
        (self.issued, self.done) = ([0; COUNTERS], [0; COUNTERS]);
        self.vectors.fill(0);
        self.scalars.fill(0);
        (self.loading, self.any) = (Named::default(), false);
    }

    /// Whether anything is on its way to registers.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any
    }

    /// Whether anything is on its way to some of these registers.
    #[inline(always)]
    pub fn touches(&self, named: &Named) -> bool {
        self.any && self.loading.meets(named)
    }

    /// Counts an operation; its number.
    pub fn issue(&mut self, counter: Counter) -> u32 {
        self.issued[counter as usize] += 1;
        (counter as u32) << 30 | self.issued[counter as usize] & NUMBER
    }

    /// The counter of what loads a register, if it is not done.
    fn of(&self, entry: u32) -> Option<Counter> {
        let counter = [Counter::Load, Counter::Store, Counter::Lds, Counter::Scalar][(entry >> 30) as usize];
        (entry & NUMBER > self.done[counter as usize]).then_some(counter)
    }

    /// Whether registers are loaded that nobody has waited for: the first, and the counter.
    #[inline(always)]
    pub fn vector(&self, first: u16, count: u16) -> Option<(u16, Counter)> {
        let register = (first..first + count).find(|&r| self.loading.has_vector(r))?;
        Some((register, self.of(*self.vectors.get(register as usize)?)?))
    }

    /// The same of scalar registers.
    #[inline(always)]
    pub fn scalar(&self, first: u16, count: u16) -> Option<(u16, Counter)> {
        let register = (first..first + count).find(|&r| self.loading.has_scalar(r))?;
        Some((register, self.of(*self.scalars.get(register as usize)?)?))
    }

    /// Notes what loads registers.
    pub fn load_vector(&mut self, first: u16, count: u16, operation: u32) {
        self.any = true;
        self.loading.add_vectors(first, count);
        self.vectors[first as usize..(first + count) as usize].fill(operation);
    }

    /// Notes what loads scalar registers.
    pub fn load_scalar(&mut self, first: u16, count: u16, operation: u32) {
        self.any = true;
        self.loading.add_scalars(first, count);
        self.scalars[first as usize..(first + count) as usize].fill(operation);
    }

    /// A wait until at most so many operations of a counter remain; whether there were more.
    pub fn wait(&mut self, counter: Counter, left: u32) -> bool {
        let at = counter as usize;
        let outstanding = self.issued[at] - self.done[at];
        // Scalar loads come back in any order.
        if outstanding <= left || (counter == Counter::Scalar && left > 0) {
            return false;
        }
        self.done[at] = self.issued[at] - left;
        if self.any {
            self.settle();
        }
        true
    }

    /// Takes registers out whose loads are done.
    fn settle(&mut self) {
        let mut loading = self.loading;
        loading.keep_vectors(|r| self.of(self.vectors[r]).is_some());
        loading.keep_scalars(|r| self.of(self.scalars[r]).is_some());
        self.any = !loading.is_empty();
        self.loading = loading;
    }
}
