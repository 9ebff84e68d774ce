//! Requests to loaded kernels: from memory, from the cache, or from the compiler.

use crate::device::{Device, KernelId};
use crate::error::Error;
use hrx_cache::{Cache, Key, KeyBuilder, Lookup};
use hrx_ir::tile::Kernel;
use hrx_templates::{Request, Template};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The kernel cache is cut back to this size when something was added to it, the least recently used entries first.
const CACHE_LIMIT: u64 = 1 << 30;

/// Where warnings go: a damaged cache entry, a cache that can't be written.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// What happened to one kernel.
#[derive(Clone, Debug)]
pub struct KernelReport {
    /// Its name.
    pub name: String,
    /// The facts it was made from.
    pub facts: String,
    /// The hash of everything its code depends on.
    pub key: Key,
    /// Processor time of compiling it; none where it came from the cache.
    pub compile: Option<Duration>,
    /// Bytes of its object.
    pub bytes: usize,
}

/// Sums over all kernels of a store.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct KernelStats {
    /// Kernels in all.
    pub kernels: usize,
    /// Found in the cache.
    pub hits: usize,
    /// Compiled.
    pub misses: usize,
    /// Wall-clock time of instantiating templates, looking kernels up, compiling and loading them.
    pub total: Duration,
    /// Wall-clock time of compiling, a part of `total`.
    pub compile: Duration,
}

/// The kernels of one device.
pub struct KernelStore {
    device: Arc<dyn Device>,
    cache: Cache,
    warn: Warn,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    loaded: HashMap<Key, KernelId>,
    requests: HashMap<Request, KernelId>,
    reports: Vec<KernelReport>,
    stats: KernelStats,
    /// Said once: that the cache can't be used.
    cache_failed: bool,
}

impl KernelStore {
    /// A store for a device, with a cache (which may be a disabled one).
    pub fn new(device: Arc<dyn Device>, cache: Cache, warn: Warn) -> KernelStore {
        KernelStore { device, cache, warn, state: Mutex::default() }
    }

    /// The device that the kernels are loaded on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// What happened so far.
    pub fn stats(&self) -> KernelStats {
        self.state.lock().unwrap_or_else(|e| e.into_inner()).stats
    }

    /// What happened to each kernel so far.
    pub fn reports(&self) -> Vec<KernelReport> {
        self.state.lock().unwrap_or_else(|e| e.into_inner()).reports.clone()
    }

    /// Everything that a kernel's code depends on, hashed.
    pub fn key(&self, kernel: &Kernel) -> Key {
        KeyBuilder::new("hrx kernel")
            .part("kernel", kernel.to_string())
            .part("target", self.device.target().name())
            .part("codegen", hrx_compiler::CODEGEN_VERSION.to_le_bytes())
            .part("compiler", env!("CARGO_PKG_VERSION"))
            .part("llvm", hrx_compiler::LLVM_VERSION)
            .finish()
    }

    /// The loaded kernel for each request, in their order. Those that are nowhere are compiled side by side.
    ///
    /// # Errors
    /// If a template refuses its facts, or a kernel can't be compiled or loaded. What is wrong with the cache is a
    /// warning.
    pub fn get(&self, requests: &[Request]) -> Result<Vec<KernelId>, Error> {
        let new: Vec<&Request> = {
            let state = self.state.lock().unwrap_or_else(|e| e.into_inner());
            let mut seen = std::collections::HashSet::new();
            requests.iter().filter(|r| !state.requests.contains_key(*r) && seen.insert(*r)).collect()
        };
        let start = Instant::now();
        let kernels = new.iter().map(|r| r.kernel()).collect::<Result<Vec<_>, _>>()?;
        let facts: Vec<String> = new.iter().map(|r| format!("{r:?}")).collect();
        let ids = self.load_all(&kernels, &facts, start)?;
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        for (request, id) in new.into_iter().zip(ids) {
            state.requests.insert(request.clone(), id);
        }
        Ok(requests.iter().map(|r| state.requests[r]).collect())
    }

    /// The loaded form of a kernel from anywhere, by its content.
    ///
    /// # Errors
    /// If it breaks a rule of tile IR, or can't be compiled or loaded.
    pub fn load(&self, kernel: &Kernel) -> Result<KernelId, Error> {
        let ids = self.load_all(std::slice::from_ref(kernel), &[String::new()], Instant::now())?;
        Ok(ids[0])
    }

    fn load_all(&self, kernels: &[Kernel], facts: &[String], start: Instant) -> Result<Vec<KernelId>, Error> {
        let keys: Vec<Key> = kernels.iter().map(|k| self.key(k)).collect();
        let known: Vec<Option<KernelId>> = {
            let state = self.state.lock().unwrap_or_else(|e| e.into_inner());
            keys.iter().map(|k| state.loaded.get(k).copied()).collect()
        };
        let mut objects: Vec<Option<(Vec<u8>, Option<Duration>)>> = Vec::with_capacity(kernels.len());
        for (key, known) in keys.iter().zip(&known) {
            let cached = if known.is_none() { self.look_up(key) } else { None };
            objects.push(cached.map(|bytes| (bytes, None)));
        }
        let missing: Vec<usize> = (0..kernels.len()).filter(|&i| known[i].is_none() && objects[i].is_none()).collect();
        let to_compile: Vec<&Kernel> = missing.iter().map(|&i| &kernels[i]).collect();
        let compile_start = Instant::now();
        let compiled = hrx_compiler::compile_all(&to_compile, self.device.target());
        let compile = if missing.is_empty() { Duration::ZERO } else { compile_start.elapsed() };
        for (&i, result) in missing.iter().zip(compiled) {
            let c = result?;
            self.keep(&keys[i], &kernels[i], &c);
            objects[i] = Some((c.object, Some(c.time)));
        }
        if !missing.is_empty()
            && let Err(e) = self.cache.prune(CACHE_LIMIT)
        {
            self.cache_failed(&e);
        }
        let mut ids = Vec::with_capacity(kernels.len());
        let mut reports = Vec::new();
        for (i, kernel) in kernels.iter().enumerate() {
            ids.push(match (known[i], objects[i].take()) {
                (Some(id), _) => id,
                (None, Some((object, compile))) => {
                    let id = self.device.load(kernel, &object)?;
                    let (name, facts) = (kernel.name.clone(), facts[i].clone());
                    reports.push(KernelReport { name, facts, key: keys[i], compile, bytes: object.len() });
                    id
                }
                (None, None) => unreachable!("every kernel that was not found was compiled"),
            });
        }
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        for (key, &id) in keys.iter().zip(&ids) {
            state.loaded.insert(*key, id);
        }
        let stats = &mut state.stats;
        stats.kernels += reports.len();
        stats.misses += missing.len();
        stats.hits += reports.len() - missing.len();
        stats.compile += compile;
        stats.total += start.elapsed();
        state.reports.extend(reports);
        Ok(ids)
    }

    /// The object of a key from the cache. Whatever is wrong with the cache is said, and means "not there".
    fn look_up(&self, key: &Key) -> Option<Vec<u8>> {
        match self.cache.get(key) {
            Ok(Lookup::Hit(entry)) => Some(entry.payload().to_vec()),
            Ok(Lookup::Miss) => None,
            Ok(Lookup::Damaged(damage)) => {
                (self.warn)(&format!("{damage}; compiling the kernel again"));
                None
            }
            Err(e) => {
                self.cache_failed(&e);
                None
            }
        }
    }

    fn keep(&self, key: &Key, kernel: &Kernel, compiled: &hrx_compiler::Compiled) {
        let meta = serde_json::json!({
            "kernel": kernel.name,
            "target": self.device.target().name(),
            "compile_ms": compiled.time.as_secs_f64() * 1e3,
        });
        if let Err(e) = self.cache.put(key, meta.to_string().as_bytes(), &compiled.object) {
            self.cache_failed(&e);
        }
    }

    fn cache_failed(&self, e: &hrx_cache::CacheError) {
        let first = {
            let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
            !std::mem::replace(&mut state.cache_failed, true)
        };
        if first {
            (self.warn)(&format!("kernels are not cached: {e}"));
        }
    }
}
