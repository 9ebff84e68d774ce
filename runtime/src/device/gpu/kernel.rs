//! A kernel loaded on a device, and how its arguments lie in memory.

use super::call::Handle;
use super::context::Context;
use crate::device::DeviceError;
use crate::device::slots::Shape;
use hrx_ir::tile::Kernel;
use std::ffi::CString;
use std::sync::Arc;

/// Where the arguments of a kernel are, and what a launch of it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::device) struct Layout {
    /// Offset and bytes of each parameter.
    pub(in crate::device) fields: Vec<(usize, usize)>,
    /// Bytes of all.
    pub(in crate::device) bytes: usize,
    /// Work items of a workgroup.
    pub(in crate::device) block: u32,
    /// Bytes of local memory that a launch asks for, beside those that the code declares.
    pub(in crate::device) local: u32,
    /// Whether its code waits for the launches in front, so that it may be launched before they have ended.
    pub(in crate::device) awaits: bool,
}

impl Layout {
    /// Writes one value a parameter where the code expects it. What is between stays.
    pub(in crate::device) fn write(&self, values: &[u64], to: &mut [u8]) {
        for (&(offset, size), value) in self.fields.iter().zip(values) {
            to[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
}

/// A loaded kernel.
pub(in crate::device) struct GpuKernel {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) layout: Layout,
    context: Arc<Context>,
    module: Handle,
    pub(super) function: Handle,
}

// SAFETY: handles that are only passed to the driver, which takes them from any thread.
unsafe impl Send for GpuKernel {}
// SAFETY: as above.
unsafe impl Sync for GpuKernel {}

impl GpuKernel {
    /// Loads a kernel's code: the compiler's object, and the machine code of it where that is another thing.
    pub(super) fn load(
        context: &Arc<Context>,
        kernel: &Kernel,
        object: &[u8],
        machine_code: &[u8],
    ) -> Result<GpuKernel, DeviceError> {
        let shape = Shape::new(kernel)?;
        let layout = context.driver.layout(kernel, object).map_err(|reason| shape.refuse(reason))?;
        let symbol = CString::new(kernel.name.as_str()).map_err(|_| shape.refuse("a 0 in its name".into()))?;
        // SAFETY: the image is a whole one, as has been seen to, and is copied by the call.
        let module = context.call(|d| unsafe { d.load(machine_code) })?;
        let (context, function) = (Arc::clone(context), std::ptr::null_mut());
        let mut loaded = GpuKernel { name: kernel.name.clone(), shape, layout, context, module, function };
        // SAFETY: the module is loaded, the name ends with 0.
        loaded.function = loaded.context.call(|d| unsafe { d.function(module, &symbol, &loaded.layout) })?;
        Ok(loaded)
    }
}

impl Drop for GpuKernel {
    fn drop(&mut self) {
        // SAFETY: what launches the kernel holds it. A failure has nobody to go to.
        let _ = self.context.call(|d| unsafe { d.shared().unload(self.module) });
    }
}
