//! Recorded stages on a stream: launch by launch, or as a graph.
//!
//! Work in a stream is done in order, so stages need no barriers of their own. A graph holds the arguments that its
//! launches had when it was captured, and its grids. Both follow from the run-time variables alone, everything else that
//! changes from step to step being in memory; so a graph is good for as long as the variables are the same, which in
//! generation is always. The second replay in a row with the same variables captures one.

use super::api::{CAPTURE_THREAD_LOCAL, Graphs, Handle, HipError, LAUNCH_BUFFER, LAUNCH_END, LAUNCH_SIZE, made};
use super::context::Context;
use super::kernel::HipKernel;
use super::library::Library;
use crate::device::slots::Slots;
use crate::device::{Arg, DeviceError, Recorded};
use crate::exec::Warn;
use hrx_compiler::LARGEST_VIEW;
use std::ptr::null_mut;
use std::sync::Arc;

/// The most workgroups along the second and third axis of a grid.
const MOST_YZ: u64 = 65_535;

/// A launch with its arguments as the kernel reads them.
pub(super) struct HipLaunch {
    kernel: Arc<HipKernel>,
    slots: Slots,
    /// In words, so that it is aligned.
    arguments: Vec<u64>,
    grid: [u32; 3],
}

impl HipLaunch {
    pub(super) fn new(kernel: Arc<HipKernel>, args: Vec<Arg>) -> Result<HipLaunch, DeviceError> {
        let slots = Slots::new(&kernel.shape, args)?;
        let arguments = vec![0; kernel.layout.bytes.div_ceil(8)];
        Ok(HipLaunch { kernel, slots, arguments, grid: [0; 3] })
    }

    /// Sets the variables.
    fn set(&mut self, vars: &[i32]) -> Result<(), DeviceError> {
        let (shape, layout) = (&self.kernel.shape, &self.kernel.layout);
        let grid = self.slots.set(shape, vars)?;
        self.slots.check_views(shape, LARGEST_VIEW)?;
        // A launch is given to the hardware in work items, as 32 bits.
        let items = grid[0].saturating_mul(u64::from(layout.block));
        if items > u64::from(u32::MAX) || grid[1] > MOST_YZ || grid[2] > MOST_YZ {
            return Err(shape.refuse(format!("a grid of {grid:?} workgroups of {} lanes", layout.block)));
        }
        self.grid = grid.map(|n| n as u32);
        let mut bytes = vec![0; 8 * self.arguments.len()];
        layout.write(self.slots.values(), &mut bytes);
        let (words, _) = bytes.as_chunks::<8>();
        self.arguments.iter_mut().zip(words).for_each(|(to, &w)| *to = u64::from_le_bytes(w));
        Ok(())
    }

    /// Puts the launch into a stream. HIP copies the arguments.
    fn launch(&self, library: &Library, stream: Handle) -> Result<(), HipError> {
        // HIP refuses empty grids.
        if self.grid.contains(&0) {
            return Ok(());
        }
        let [x, y, z] = self.grid;
        let mut bytes = self.kernel.layout.bytes;
        let mut extra: [Handle; 5] = [
            LAUNCH_BUFFER,
            self.arguments.as_ptr().cast_mut().cast(),
            LAUNCH_SIZE,
            (&raw mut bytes).cast(),
            LAUNCH_END,
        ];
        let (function, block) = (self.kernel.function, self.kernel.layout.block);
        // SAFETY: the arguments are laid out as the code object says; `record`'s caller promised that the memory suits the
        // kernel.
        unsafe {
            library.hip.hipModuleLaunchKernel(function, x, y, z, block, 1, 1, 0, stream, null_mut(), extra.as_mut_ptr())
        }
    }
}

/// How replays are put into the stream.
enum Way {
    /// Launch by launch, always.
    Launches,
    /// By a graph when the variables repeat; none is there yet.
    Waiting,
    /// By this graph, as long as the variables stay.
    Graph(Handle),
}

/// Recorded stages.
pub(super) struct HipRecorded {
    context: Arc<Context>,
    launches: Vec<HipLaunch>,
    /// The variables that the launches are set to.
    vars: Option<Vec<i32>>,
    way: Way,
    warn: Warn,
}

// SAFETY: handles that are only passed to HIP, which takes them from any thread.
unsafe impl Send for HipRecorded {}

impl HipRecorded {
    pub(super) fn new(context: &Arc<Context>, launches: Vec<HipLaunch>, graphs: bool, warn: Warn) -> HipRecorded {
        let way = if graphs && context.library.graphs.is_some() { Way::Waiting } else { Way::Launches };
        HipRecorded { context: Arc::clone(context), launches, vars: None, way, warn }
    }

    fn forget_graph(&mut self) {
        if let Way::Graph(graph) = self.way {
            self.way = Way::Waiting;
            if let Some(graphs) = &self.context.library.graphs {
                // SAFETY: the graph is ours; replays end before they return. A failure has nobody to go to.
                let _ = self.context.call(|_| unsafe { graphs.hipGraphExecDestroy(graph) });
            }
        }
    }

    /// Captures the launches as they are set.
    fn capture(&self, graphs: &Graphs) -> Result<Handle, DeviceError> {
        let stream = self.context.stream;
        self.context.call(|library| {
            // SAFETY: the stream is the context's. What is begun is ended whatever happens between.
            unsafe {
                graphs.hipStreamBeginCapture(stream, CAPTURE_THREAD_LOCAL)?;
                let launched = self.launches.iter().try_for_each(|l| l.launch(library, stream));
                let graph = made(|g| graphs.hipStreamEndCapture(stream, g));
                // What went wrong first is what is told.
                let graph = match (launched, graph) {
                    (Ok(()), graph) => graph?,
                    (Err(e), graph) => {
                        let _ = graph.and_then(|g| graphs.hipGraphDestroy(g));
                        return Err(e);
                    }
                };
                let executable = made(|e| graphs.hipGraphInstantiateWithFlags(e, graph, 0));
                let destroyed = graphs.hipGraphDestroy(graph);
                executable.and_then(|e| destroyed.map(|()| e))
            }
        })
    }

    /// Puts all launches into the stream.
    fn enqueue(&mut self, repeated: bool) -> Result<(), DeviceError> {
        let context = Arc::clone(&self.context);
        let graphs = context.library.graphs.as_ref();
        if let (Way::Waiting, true, Some(graphs)) = (&self.way, repeated, graphs) {
            self.way = match self.capture(graphs) {
                Ok(graph) => Way::Graph(graph),
                Err(e) => {
                    (self.warn)(&format!("kernels are launched one by one, without a graph: {e}"));
                    Way::Launches
                }
            };
        }
        match (&self.way, graphs) {
            (Way::Graph(graph), Some(graphs)) => {
                // SAFETY: graph and stream are this device's.
                context.call(|_| unsafe { graphs.hipGraphLaunch(*graph, context.stream) })
            }
            _ => context.call(|library| self.launches.iter().try_for_each(|l| l.launch(library, context.stream))),
        }
    }
}

impl Recorded for HipRecorded {
    fn replay(&mut self, vars: &[i32]) -> Result<(), DeviceError> {
        let repeated = self.vars.as_deref() == Some(vars);
        if !repeated {
            self.forget_graph();
            // Not set until all are.
            self.vars = None;
            self.launches.iter_mut().try_for_each(|l| l.set(vars))?;
            self.vars = Some(vars.to_vec());
        }
        self.enqueue(repeated)?;
        self.context.synchronize()
    }
}

impl Drop for HipRecorded {
    fn drop(&mut self) {
        self.forget_graph();
    }
}
