//! Machine code of objects, where the device's driver makes it: from the cache, or from the driver's assembler.

use super::objects::{KernelObject, Objects};
use crate::device::{Assembler, DeviceError};
use crate::error::Error;
use hrx_cache::{Key, KeyBuilder};
use hrx_ir::tile::Kernel;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Machine code of one object.
#[derive(Clone, Debug)]
pub struct MachineCode {
    /// The code.
    pub bytes: Vec<u8>,
    /// How long assembling took, now or when the cache's entry was made; none where the entry does not say.
    pub time: Option<Duration>,
    /// Whether it came from the cache.
    pub cached: bool,
}

/// Everything that the machine code of an object depends on, hashed: the object itself, and what assembles it.
fn key(object: &KernelObject, identity: &str) -> Key {
    KeyBuilder::new("hrx machine code").part("object", &object.bytes).part("assembler", identity).finish()
}

impl Objects {
    /// The machine code of each kernel's object. What is not in the cache is assembled side by side and put there.
    ///
    /// # Errors
    /// If one can't be assembled, or can't be kept in a cache that is required.
    pub fn machine_code(
        &self,
        assembler: &dyn Assembler,
        kernels: &[&Kernel],
        objects: &[KernelObject],
    ) -> Result<Vec<MachineCode>, Error> {
        let identity = assembler.identity();
        let keys: Vec<Key> = objects.iter().map(|o| key(o, &identity)).collect();
        let found = keys.iter().map(|&key| self.look_up(key)).collect::<Result<Vec<_>, Error>>()?;
        let missing: Vec<usize> = (0..kernels.len()).filter(|&i| found[i].is_none()).collect();
        let assembled = side_by_side(&missing, |i| assemble(assembler, kernels[i], &objects[i].bytes));
        let mut made: Vec<Option<MachineCode>> =
            found.into_iter().map(|o| o.map(|o| MachineCode { bytes: o.bytes, time: o.time, cached: true })).collect();
        for (&i, result) in missing.iter().zip(assembled) {
            let code = result?;
            self.keep_bytes(&keys[i], &self.meta(kernels[i], code.time), &code.bytes)?;
            made[i] = Some(code);
        }
        Ok(made.into_iter().flatten().collect())
    }

    /// Machine code that is assembled again, because what the cache had was refused by the device.
    ///
    /// # Errors
    /// As [`machine_code`](Objects::machine_code).
    pub fn machine_code_again(
        &self,
        assembler: &dyn Assembler,
        kernel: &Kernel,
        object: &KernelObject,
    ) -> Result<MachineCode, Error> {
        let code = assemble(assembler, kernel, &object.bytes)?;
        self.keep_bytes(&key(object, &assembler.identity()), &self.meta(kernel, code.time), &code.bytes)?;
        Ok(code)
    }
}

fn assemble(assembler: &dyn Assembler, kernel: &Kernel, object: &[u8]) -> Result<MachineCode, DeviceError> {
    let start = Instant::now();
    let bytes = assembler.assemble(kernel, object)?;
    Ok(MachineCode { bytes, time: Some(start.elapsed()), cached: false })
}

/// The results for each of the numbers, on as many threads as there are processors.
fn side_by_side<T: Send + Sync>(numbers: &[usize], f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(numbers.len());
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<T>> = numbers.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&number) = numbers.get(at) else { break };
            // Each place is handed out once, so it is empty.
            let _ = results[at].set(f(number));
        }
    };
    std::thread::scope(|s| {
        (1..threads).for_each(|_| {
            s.spawn(work);
        });
        work();
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}
