//! Device memory: allocations by address, what is known of their bytes, and access by the host.

mod mapping;
mod shadow;

pub use mapping::Mapping;
pub use shadow::{Accesses, Accessor, LazyAccesses, Tag, Written};

use crate::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

/// A piece of device memory.
#[derive(Debug)]
pub struct Allocation {
    mapping: Mapping,
    /// Which bytes were written.
    pub written: Written,
    /// Who accessed them.
    pub accesses: LazyAccesses,
    freed: AtomicBool,
}

impl Allocation {
    fn new(len: usize) -> Result<Allocation, Error> {
        let (mapping, written) = (Mapping::new(len)?, Written::new(len)?);
        Ok(Allocation { mapping, written, accesses: LazyAccesses::new(), freed: AtomicBool::new(false) })
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.mapping.start() as u64
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.mapping.len() as u64
    }

    /// Whether it was freed.
    pub fn is_freed(&self) -> bool {
        self.freed.load(Relaxed)
    }

    /// Who accessed its bytes; none if there is no memory for that.
    pub fn accesses(&self) -> Option<&Accesses> {
        self.accesses.get_or_init(|| Accesses::new(self.mapping.len()).ok()).as_ref()
    }

    /// Copies bytes out. They must lie inside.
    pub fn read(&self, at: u64, to: &mut [u8]) {
        assert!(at + to.len() as u64 <= self.len(), "inside the allocation");
        // SAFETY: the range is inside the mapping, which lives as long as self; what other threads write meanwhile are
        // plain bytes, of which any mixture is a value.
        unsafe { std::ptr::copy_nonoverlapping(self.mapping.start().add(at as usize), to.as_mut_ptr(), to.len()) }
    }

    /// Copies bytes in. They must lie inside.
    pub fn write(&self, at: u64, from: &[u8]) {
        assert!(at + from.len() as u64 <= self.len(), "inside the allocation");
        // SAFETY: as for reading.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.mapping.start().add(at as usize), from.len()) }
    }

    /// The word at an offset, which must lie inside.
    #[inline]
    pub fn word(&self, at: u64) -> u32 {
        debug_assert!(at + 4 <= self.len());
        // SAFETY: callers have found the range inside.
        unsafe { self.mapping.start().add(at as usize).cast::<u32>().read_unaligned() }
    }

    /// Two bytes at an offset, which must lie inside.
    #[inline]
    pub fn short(&self, at: u64) -> u16 {
        debug_assert!(at + 2 <= self.len());
        // SAFETY: callers have found the range inside.
        unsafe { self.mapping.start().add(at as usize).cast::<u16>().read_unaligned() }
    }

    /// The byte at an offset, which must lie inside.
    #[inline]
    pub fn byte(&self, at: u64) -> u8 {
        debug_assert!(at < self.len());
        // SAFETY: callers have found it inside.
        unsafe { self.mapping.start().add(at as usize).read() }
    }

    /// Writes the word at an offset, which must lie inside.
    #[inline]
    pub fn set_word(&self, at: u64, value: u32) {
        debug_assert!(at + 4 <= self.len());
        // SAFETY: callers have found the range inside.
        unsafe { self.mapping.start().add(at as usize).cast::<u32>().write_unaligned(value) }
    }
}

/// All device memory, by addresses.
#[derive(Debug, Default)]
pub struct Memory {
    table: RwLock<Arc<Table>>,
}

/// Allocations sorted by address; those that were freed are among them.
pub type Table = Vec<Arc<Allocation>>;

/// Freed allocations whose addresses are kept from reuse.
const KEPT: usize = 4096;

/// The allocation with an address, or the last before it.
pub fn find(table: &Table, address: u64) -> Option<usize> {
    table.partition_point(|a| a.address() <= address).checked_sub(1)
}

impl Memory {
    /// The allocations as they are now.
    pub fn table(&self) -> Arc<Table> {
        self.table.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    fn change<T>(&self, f: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table.write().unwrap_or_else(|e| e.into_inner());
        f(Arc::make_mut(&mut table))
    }

    /// New memory.
    pub fn alloc(&self, bytes: u64) -> Result<Arc<Allocation>, Error> {
        let len = usize::try_from(bytes).map_err(|_| Error::Memory { bytes, reason: "too much".into() })?;
        let new = Arc::new(Allocation::new(len)?);
        self.change(|table| {
            let at = table.partition_point(|a| a.address() < new.address());
            table.insert(at, new.clone());
        });
        Ok(new)
    }

    /// Frees memory by the address that it was given at.
    pub fn free(&self, address: u64) -> Result<(), Error> {
        let refused = |reason: &str| Error::Address { call: "free", address, bytes: 0, reason: reason.into() };
        self.change(|table| {
            let at = find(table, address).filter(|&at| table[at].address() == address);
            let found = at.ok_or_else(|| refused("no allocation starts there"))?;
            if table[found].freed.swap(true, Relaxed) {
                return Err(refused("it was freed before"));
            }
            table[found].mapping.give_back();
            if table.iter().filter(|a| a.is_freed()).count() > KEPT {
                let first = table.iter().position(|a| a.is_freed());
                first.map(|first| table.remove(first));
            }
            Ok(())
        })
    }

    /// Takes memory back that no program knows of.
    pub fn release(&self, address: u64) {
        self.change(|table| {
            if let Some(at) = find(table, address).filter(|&at| table[at].address() == address) {
                table.remove(at);
            }
        });
    }

    /// The allocation that a range lies in, and the offset there.
    pub fn range(&self, call: &'static str, address: u64, bytes: u64) -> Result<(Arc<Allocation>, u64), Error> {
        let refused = |reason: String| Error::Address { call, address, bytes, reason };
        let table = self.table();
        let found = find(&table, address).map(|at| &table[at]).filter(|a| address - a.address() <= a.len());
        let found = found.ok_or_else(|| refused("no device memory".into()))?;
        let at = address - found.address();
        if found.is_freed() {
            return Err(refused("it was freed".into()));
        }
        if bytes > found.len() - at {
            return Err(refused(format!("the allocation ends after {} bytes", found.len() - at)));
        }
        Ok((found.clone(), at))
    }
}
