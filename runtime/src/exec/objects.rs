//! Kernels to objects of a target: from the cache, or from the compiler. No device is needed.

use crate::error::Error;
use hrx_cache::{Cache, Key, KeyBuilder, Lookup};
use hrx_compiler::Target;
use hrx_ir::tile::Kernel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where warnings go: a damaged cache entry, a cache that can't be written.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The kernel cache is cut back to this size when something was added to it, the least recently used entries first.
const CACHE_LIMIT: u64 = 1 << 30;

/// The key of a cache entry's metadata under which the time of compiling is.
const COMPILE_MS: &str = "compile_ms";

/// A cache, and what its failing means.
pub struct KernelCache {
    /// The cache; may be a disabled one.
    pub cache: Cache,
    /// Whether somebody asked for this very cache, so that it is an error if kernels can't be kept in it. Else it is a
    /// warning, and kernels are compiled each time.
    pub required: bool,
}

impl From<Cache> for KernelCache {
    fn from(cache: Cache) -> KernelCache {
        KernelCache { cache, required: false }
    }
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct KernelObject {
    /// The hash of everything that the code depends on.
    pub key: Key,
    /// The object.
    pub bytes: Vec<u8>,
    /// Processor time of compiling it, now or when the cache's entry was made; none where the entry does not say.
    pub time: Option<Duration>,
    /// Whether it came from the cache.
    pub cached: bool,
}

/// What [`Objects::get`] returns.
#[derive(Debug)]
pub struct Made {
    /// An object a kernel, in the order of the kernels.
    pub objects: Vec<KernelObject>,
    /// Wall-clock time of compiling those that were not in the cache.
    pub compile: Duration,
}

/// The objects of one target.
pub struct Objects {
    target: Target,
    cache: KernelCache,
    warn: Warn,
    /// Said once: that the cache can't be used.
    cache_failed: AtomicBool,
}

impl Objects {
    /// Objects for a target, with a cache (which may be a disabled one).
    pub fn new(target: Target, cache: impl Into<KernelCache>, warn: Warn) -> Objects {
        Objects { target, cache: cache.into(), warn, cache_failed: AtomicBool::new(false) }
    }

    /// Says what a person is to know.
    pub(super) fn warn(&self, text: &str) {
        (self.warn)(text);
    }

    /// What the objects are compiled for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Everything that a kernel's code depends on, hashed.
    pub fn key(&self, kernel: &Kernel) -> Key {
        KeyBuilder::new("hrx kernel")
            .part("kernel", kernel.to_string())
            .part("target", self.target.name())
            .part("codegen", hrx_compiler::CODEGEN_VERSION.to_le_bytes())
            .part("compiler", env!("CARGO_PKG_VERSION"))
            .part("llvm", hrx_compiler::LLVM_VERSION)
            .finish()
    }

    /// The object of each kernel. Those that are not in the cache are compiled side by side and put there.
    ///
    /// # Errors
    /// If a kernel can't be compiled, or can't be kept in a cache that is required.
    pub fn get(&self, kernels: &[&Kernel]) -> Result<Made, Error> {
        let keys: Vec<Key> = kernels.iter().map(|k| self.key(k)).collect();
        let mut objects: Vec<Option<KernelObject>> =
            keys.iter().map(|&key| self.look_up(key)).collect::<Result<_, Error>>()?;
        let missing: Vec<usize> = (0..kernels.len()).filter(|&i| objects[i].is_none()).collect();
        let to_compile: Vec<&Kernel> = missing.iter().map(|&i| kernels[i]).collect();
        let start = Instant::now();
        let compiled = hrx_compiler::compile_all(&to_compile, &self.target);
        let compile = if missing.is_empty() { Duration::ZERO } else { start.elapsed() };
        for (&i, result) in missing.iter().zip(compiled) {
            let c = result?;
            let key = keys[i];
            self.keep(&key, kernels[i], &c)?;
            objects[i] = Some(KernelObject { key, bytes: c.object, time: Some(c.time), cached: false });
        }
        if !missing.is_empty()
            && let Err(e) = self.cache.cache.prune(CACHE_LIMIT)
        {
            self.failed(e)?;
        }
        Ok(Made { objects: objects.into_iter().flatten().collect(), compile })
    }

    /// The object of a key from the cache. A damaged entry is said, and means "not there".
    pub(super) fn look_up(&self, key: Key) -> Result<Option<KernelObject>, Error> {
        Ok(match self.cache.cache.get(&key) {
            Ok(Lookup::Hit(entry)) => {
                let time = compile_time(entry.meta());
                Some(KernelObject { key, bytes: entry.payload().to_vec(), time, cached: true })
            }
            Ok(Lookup::Miss) => None,
            Ok(Lookup::Damaged(damage)) => {
                (self.warn)(&format!("{damage}; compiling the kernel again"));
                None
            }
            Err(e) => {
                self.failed(e)?;
                None
            }
        })
    }

    /// What the cache says of a kernel for people and tools, JSON; the time of compiling it where it is known.
    pub fn meta(&self, kernel: &Kernel, time: Option<Duration>) -> Vec<u8> {
        let mut meta = serde_json::json!({ "kernel": kernel.name, "target": self.target.name() });
        if let Some(time) = time {
            meta[COMPILE_MS] = serde_json::json!(time.as_secs_f64() * 1e3);
        }
        meta.to_string().into_bytes()
    }

    fn keep(&self, key: &Key, kernel: &Kernel, compiled: &hrx_compiler::Compiled) -> Result<(), Error> {
        self.keep_bytes(key, &self.meta(kernel, Some(compiled.time)), &compiled.object)
    }

    pub(super) fn keep_bytes(&self, key: &Key, meta: &[u8], bytes: &[u8]) -> Result<(), Error> {
        match self.cache.cache.put(key, meta, bytes) {
            Ok(_) => Ok(()),
            Err(e) => self.failed(e),
        }
    }

    fn failed(&self, e: hrx_cache::CacheError) -> Result<(), Error> {
        if self.cache.required {
            return Err(e.into());
        }
        if !self.cache_failed.swap(true, Ordering::Relaxed) {
            (self.warn)(&format!("kernels are not cached: {e}"));
        }
        Ok(())
    }
}

/// The time of compiling that an entry's metadata has.
fn compile_time(meta: &[u8]) -> Option<Duration> {
    let meta: serde_json::Value = serde_json::from_slice(meta).ok()?;
    Duration::try_from_secs_f64(meta.get(COMPILE_MS)?.as_f64()? / 1e3).ok()
}
