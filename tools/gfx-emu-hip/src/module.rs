//! Modules: loaded code objects, and their kernels.

use crate::bundle::Image;
use crate::call::{functions, give};
use crate::machine::{Loaded, Machine};
use crate::state::{Handle, State, say};
use crate::status::Status;
use hrx_compiler::hsaco::{Hsaco, KernelMetadata};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

/// A loaded code object.
#[derive(Clone)]
pub struct LoadedModule {
    kernels: HashMap<String, Arc<Function>>,
    image: Arc<Loaded>,
}

/// A kernel.
pub struct Function {
    /// Its name.
    pub name: String,
    /// It in the emulator.
    pub kernel: gfx_emu::Kernel,
    /// Keeps the code object that it is in.
    _image: Arc<Loaded>,
    /// Offset and size of each argument that a program passes.
    pub arguments: Vec<(usize, usize)>,
    /// Bytes of these.
    pub explicit: usize,
    /// The only workgroup that it may be launched with.
    pub required: Option<[u32; 3]>,
    /// The most work items of a workgroup.
    pub most_items: u32,
}

impl LoadedModule {
    /// Loads a code object.
    pub fn load(machine: &Arc<Machine>, bytes: &[u8]) -> Result<LoadedModule, Status> {
        let invalid = |e: &dyn std::fmt::Display| {
            say(&format!("a code object is refused: {e}"));
            Status::INVALID_IMAGE
        };
        let hsaco = Hsaco::read(bytes).map_err(|e| invalid(&e))?;
        let image = Arc::new(machine.load(bytes).map_err(|e| invalid(&e))?);
        let kernels = hsaco.kernels.iter().map(|k| {
            let metadata = k.metadata.as_ref().ok_or_else(|| invalid(&format!("no metadata for {}", k.name)))?;
            let function = Function::new(machine, k.name, &image, metadata);
            Ok((k.name.to_owned(), Arc::new(function.map_err(|e| invalid(&e))?)))
        });
        Ok(LoadedModule { kernels: kernels.collect::<Result<_, _>>()?, image })
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<Arc<Function>> {
        self.kernels.get(name).cloned()
    }

    /// Address and bytes of the variable of that name.
    pub fn variable(&self, name: &str) -> Option<(u64, u64)> {
        self.image.variable(name)
    }
}

impl Function {
    fn new(machine: &Machine, name: &str, image: &Arc<Loaded>, metadata: &KernelMetadata) -> Result<Function, String> {
        let mut arguments = Vec::new();
        for arg in metadata.args.iter().flatten() {
            if arg.value_kind.as_deref().is_some_and(|k| k.starts_with("hidden_")) {
                continue;
            }
            let place = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok()).filter(|&n| n <= 1 << 16);
            match (place(arg.offset), place(arg.size)) {
                (Some(offset), Some(size)) => arguments.push((offset, size)),
                _ => return Err(format!("an argument of {name} is nowhere")),
            }
        }
        Ok(Function {
            name: name.into(),
            kernel: image.kernel(name).ok_or_else(|| format!("{name} is not in it"))?,
            _image: Arc::clone(image),
            explicit: arguments.iter().map(|(o, s)| o + s).max().unwrap_or(0),
            arguments,
            required: metadata.reqd_workgroup_size,
            most_items: metadata.max_flat_workgroup_size.unwrap_or(u32::MAX).min(machine.chip().max_work_items),
        })
    }
}

functions! {
    /// Loads a code object from memory, or the one for the device from a bundle.
    fn hipModuleLoadData(module: *mut Handle, image: *const c_void) |state| {
        // SAFETY: HIP's callers pass a whole image.
        load(state, module, unsafe { Image::at(image) })
    };
    /// The same; the options are for compilers.
    fn hipModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        _count: c_uint,
        _options: *mut c_int,
        _values: *mut Handle,
    ) |state| {
        // SAFETY: HIP's callers pass a whole image.
        load(state, module, unsafe { Image::at(image) })
    };
    /// Loads a file.
    fn hipModuleLoad(module: *mut Handle, path: *const c_char) |state| {
        let bytes = std::fs::read(text(path)?).map_err(|_| Status::FILE_NOT_FOUND)?;
        load(state, module, Image::of(&bytes))
    };
    /// Unloads a module.
    fn hipModuleUnload(module: Handle) |state| {
        state.modules.remove(&(module as u64)).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    };
    /// A kernel of a module.
    fn hipModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) |state| {
        let name = text(name)?;
        let module = state.modules.get(&(module as u64)).ok_or(Status::INVALID_HANDLE)?;
        let found = module.kernel(&name).ok_or(Status::NOT_FOUND)?;
        let handle = state.new_handle();
        // SAFETY: HIP's callers pass room for a handle.
        unsafe { give(function, handle)? };
        state.functions.insert(handle as u64, found);
        Ok(())
    };
    /// A variable of a module.
    fn hipModuleGetGlobal(address: *mut Handle, bytes: *mut usize, module: Handle, name: *const c_char) |state| {
        let name = text(name)?;
        let module = state.modules.get(&(module as u64)).ok_or(Status::INVALID_HANDLE)?;
        let (at, size) = module.variable(&name).ok_or(Status::NOT_FOUND)?;
        // SAFETY: HIP's callers pass room for an address and a number; either may be null.
        unsafe {
            if !bytes.is_null() {
                give(bytes, size as usize)?;
            }
            if address.is_null() { Ok(()) } else { give(address, at as Handle) }
        }
    };
}

/// A text of the caller's.
pub fn text(name: *const c_char) -> Result<String, Status> {
    if name.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: HIP's callers pass strings that end with 0.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

fn load(state: &mut State, module: *mut Handle, image: Image<'_>) -> Result<(), Status> {
    let machine = state.device()?;
    let loaded = LoadedModule::load(&machine, image.code_object(state.chip()?)?)?;
    let handle = state.new_handle();
    // SAFETY: HIP's callers pass room for a handle.
    unsafe { give(module, handle)? };
    state.modules.insert(handle as u64, loaded);
    Ok(())
}
