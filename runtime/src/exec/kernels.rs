//! Requests to loaded kernels: from memory, or from [`Objects`].

use super::machine_code::MachineCode;
use super::objects::{KernelCache, KernelObject, Objects, Warn};
use crate::device::{Device, KernelId, open_device};
use crate::error::Error;
use crate::model::{ModelOptions, open_cache};
use hrx_cache::Key;
use hrx_ir::tile::Kernel;
use hrx_templates::{Request, Template};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
    /// Time of assembling it, where the device's driver does that; none where that came from the cache.
    pub assemble: Option<Duration>,
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
    /// Wall-clock time of the driver's assembler, a part of `total`.
    pub assemble: Duration,
}

/// The kernels of one device.
pub struct KernelStore {
    device: Arc<dyn Device>,
    objects: Objects,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    loaded: HashMap<Key, KernelId>,
    requests: HashMap<Request, KernelId>,
    reports: Vec<KernelReport>,
    stats: KernelStats,
}

impl KernelStore {
    /// A store for a device, with a cache (which may be a disabled one).
    pub fn new(device: Arc<dyn Device>, cache: impl Into<KernelCache>, warn: Warn) -> KernelStore {
        let objects = Objects::new(device.target().clone(), cache, warn);
        KernelStore { device, objects, state: Mutex::default() }
    }

    /// Opens a device and a cache as the options say.
    ///
    /// # Errors
    /// If there is no such device, it can't be used, or the cache directory that the options name can't.
    pub fn open(options: &ModelOptions) -> Result<KernelStore, Error> {
        let device = open_device(&options.device, options.threads, &options.warn)?;
        let cache = open_cache(&options.cache, &options.warn)?;
        Ok(KernelStore::new(device, cache, Arc::clone(&options.warn)))
    }

    /// The device that the kernels are loaded on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Tells whoever opened the store.
    pub(crate) fn warn(&self, text: &str) {
        self.objects.warn(text);
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
        self.objects.key(kernel)
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
        let mut ids: Vec<Option<KernelId>> = {
            let state = self.state.lock().unwrap_or_else(|e| e.into_inner());
            keys.iter().map(|k| state.loaded.get(k).copied()).collect()
        };
        let new: Vec<usize> = (0..kernels.len()).filter(|&i| ids[i].is_none()).collect();
        let to_make: Vec<&Kernel> = new.iter().map(|&i| &kernels[i]).collect();
        let made = self.objects.get(&to_make)?;
        let assembling = Instant::now();
        let code = match self.device.assembler() {
            Some(assembler) => self.objects.machine_code(assembler, &to_make, &made.objects)?,
            None => Vec::new(),
        };
        let assemble = if code.iter().any(|c| !c.cached) { assembling.elapsed() } else { Duration::ZERO };
        let mut reports = Vec::with_capacity(new.len());
        for (n, (&i, object)) in new.iter().zip(&made.objects).enumerate() {
            ids[i] = Some(self.load_object(&kernels[i], object, code.get(n))?);
            let (name, facts) = (kernels[i].name.clone(), facts[i].clone());
            let compile = object.time.filter(|_| !object.cached);
            let assemble = code.get(n).filter(|c| !c.cached).and_then(|c| c.time);
            reports.push(KernelReport { name, facts, key: object.key, compile, assemble, bytes: object.bytes.len() });
        }
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let ids: Vec<KernelId> = ids.into_iter().flatten().collect();
        for (key, &id) in keys.iter().zip(&ids) {
            state.loaded.insert(*key, id);
        }
        let stats = &mut state.stats;
        let misses = reports.iter().filter(|r| r.compile.is_some()).count();
        stats.kernels += reports.len();
        stats.misses += misses;
        stats.hits += reports.len() - misses;
        stats.compile += made.compile;
        stats.assemble += assemble;
        stats.total += start.elapsed();
        state.reports.extend(reports);
        Ok(ids)
    }

    /// Loads an object, with its machine code where that is another thing. Code from the cache that the device refuses is
    /// made again.
    fn load_object(
        &self,
        kernel: &Kernel,
        object: &KernelObject,
        code: Option<&MachineCode>,
    ) -> Result<KernelId, Error> {
        let (Some(code), Some(assembler)) = (code, self.device.assembler()) else {
            return Ok(self.device.load(kernel, &object.bytes)?);
        };
        match self.device.load_assembled(kernel, &object.bytes, &code.bytes) {
            Err(e) if code.cached => {
                self.objects.warn(&format!("machine code of {} from the cache: {e}; assembling it again", kernel.name));
                let code = self.objects.machine_code_again(assembler, kernel, object)?;
                Ok(self.device.load_assembled(kernel, &object.bytes, &code.bytes)?)
            }
            loaded => Ok(loaded?),
        }
    }
}
