//! Launches.

use crate::call::functions;
use crate::graph::Operation;
use crate::machine::Machine;
use crate::module::Function;
use crate::state::{Handle, State, say};
use crate::status::Status;
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

/// Entries of `extra`.
const END: u64 = 3;
const BUFFER: u64 = 1;
const SIZE: u64 = 2;

/// Three numbers, as HIP's `dim3`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dim3 {
    /// Along the first axis.
    pub x: u32,
    /// Along the second.
    pub y: u32,
    /// Along the third.
    pub z: u32,
}

impl From<Dim3> for [u32; 3] {
    fn from(d: Dim3) -> [u32; 3] {
        [d.x, d.y, d.z]
    }
}

/// A launch.
pub struct Launch {
    /// The kernel.
    pub function: Arc<Function>,
    /// Workgroups along each axis.
    pub grid: [u32; 3],
    /// Work items of a workgroup along each axis.
    pub block: [u32; 3],
    /// Bytes of LDS besides the kernel's own.
    pub lds: u32,
    /// The arguments that the program passed.
    pub arguments: Vec<u8>,
}

impl Launch {
    /// Runs it. What was wrong is told, and its status returned.
    pub fn run(&self, machine: &Machine) -> Option<Status> {
        match machine.launch(self) {
            Ok(faults) => {
                faults.iter().for_each(|f| say(&f.text));
                faults.iter().map(|f| f.status).next()
            }
            Err(text) => {
                say(&text);
                Some(Status::LAUNCH_FAILURE)
            }
        }
    }
}

/// How a program passes arguments.
#[derive(Clone, Copy)]
pub struct Passed {
    /// One address an argument, or null.
    pub params: *mut *mut c_void,
    /// A list that names a buffer with all of them, or null.
    pub extra: *mut *mut c_void,
}

functions! {
    /// Launches a kernel of a module.
    fn hipModuleLaunchKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        lds: c_uint,
        stream: Handle,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) |state| {
        let function = state.functions.get(&(function as u64)).cloned().ok_or(Status::INVALID_HANDLE)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(state, function, grid, block, lds, stream, Passed { params, extra })
    };
    /// Launches a kernel of a program by its host function.
    fn hipLaunchKernel(
        function: *const c_void,
        grid: Dim3,
        block: Dim3,
        params: *mut *mut c_void,
        lds: usize,
        stream: Handle,
    ) |state| {
        let function = state.kernel_of(function as u64)?;
        let lds = u32::try_from(lds).map_err(|_| Status::INVALID_VALUE)?;
        let passed = Passed { params, extra: std::ptr::null_mut() };
        launch(state, function, grid.into(), block.into(), lds, stream, passed)
    };
}

fn launch(
    state: &mut State,
    function: Arc<Function>,
    grid: [u32; 3],
    block: [u32; 3],
    lds: u32,
    stream: Handle,
    passed: Passed,
) -> Result<(), Status> {
    check(&function, grid, block)?;
    // SAFETY: HIP's callers pass as many arguments as the kernel has, each as long.
    let arguments = unsafe { arguments(&function, passed)? };
    let launch = Launch { function, grid, block, lds, arguments };
    state.give(stream, Operation::Launch(Arc::new(launch)))
}

/// Refuses grids and workgroups that hardware or kernel do not take.
fn check(function: &Function, grid: [u32; 3], block: [u32; 3]) -> Result<(), Status> {
    let items = block.iter().map(|&n| u64::from(n)).product::<u64>();
    let wrong = |text: String| {
        say(&format!("{}: {text}", function.name));
        Err(Status::INVALID_CONFIGURATION)
    };
    if grid.contains(&0) || items == 0 {
        return wrong(format!("a launch of {grid:?} workgroups of {block:?} work items"));
    }
    if items > u64::from(function.most_items) {
        return wrong(format!("a workgroup of {items} work items; it takes {}", function.most_items));
    }
    if let Some(required) = function.required.filter(|&r| r != block) {
        return wrong(format!("a workgroup of {block:?} work items; it takes {required:?}"));
    }
    // The grid is given to the hardware in work items, as 32 bits.
    match grid.iter().zip(block).find(|(g, b)| u64::from(**g) * u64::from(*b) > u64::from(u32::MAX)) {
        Some((g, b)) => wrong(format!("a grid of {g} workgroups of {b} along one axis")),
        None => Ok(()),
    }
}

/// The arguments in the kernel's layout.
///
/// # Safety
/// What is passed suits the kernel.
unsafe fn arguments(function: &Function, passed: Passed) -> Result<Vec<u8>, Status> {
    let mut bytes = vec![0u8; function.explicit];
    if !passed.extra.is_null() {
        let (mut buffer, mut size) = (None, None);
        let mut at = 0;
        // SAFETY: the list ends with its mark, and every other mark has an entry behind it.
        unsafe {
            loop {
                match *passed.extra.add(at) as u64 {
                    END => break,
                    BUFFER => buffer = Some((*passed.extra.add(at + 1)).cast::<u8>().cast_const()),
                    SIZE => size = Some(*(*passed.extra.add(at + 1)).cast::<usize>()),
                    _ => return Err(Status::INVALID_VALUE),
                }
                at += 2;
            }
            let (Some(buffer), Some(size)) = (buffer, size) else { return Err(Status::INVALID_VALUE) };
            if size < function.explicit {
                say(&format!("{}: {size} bytes of arguments; it takes {}", function.name, function.explicit));
                return Err(Status::INVALID_VALUE);
            }
            std::ptr::copy_nonoverlapping(buffer, bytes.as_mut_ptr(), function.explicit);
        }
        return Ok(bytes);
    }
    if passed.params.is_null() && !function.arguments.is_empty() {
        return Err(Status::INVALID_VALUE);
    }
    for (i, &(offset, size)) in function.arguments.iter().enumerate() {
        // SAFETY: there is an address for each argument, of as many bytes.
        unsafe {
            let from = (*passed.params.add(i)).cast::<u8>().cast_const();
            if from.is_null() {
                return Err(Status::INVALID_VALUE);
            }
            std::ptr::copy_nonoverlapping(from, bytes[offset..offset + size].as_mut_ptr(), size);
        }
    }
    Ok(bytes)
}
