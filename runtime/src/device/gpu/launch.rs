//! Recorded stages on a stream: launch by launch, or as a graph.
//!
//! Work in a stream is done in order, so stages need no barriers of their own. In a graph launches of one stage are
//! branches, where the driver says so. A graph holds the arguments that its
//! launches had when it was captured, and its grids. Both follow from the run-time variables alone, everything else that
//! changes from step to step being in memory; so a graph is good for as long as the variables are the same, which in
//! generation is always. The second replay in a row with the same variables captures one.

use super::call::{CallError, Handle};
use super::context::{Branch, Context};
use super::driver::Driver;
use super::kernel::GpuKernel;
use super::shared::Graphs;
use crate::device::slots::Slots;
use crate::device::{Arg, DeviceError, LaunchTime, Recorded};
use crate::exec::Warn;
use hrx_compiler::LARGEST_VIEW;
use std::sync::Arc;
use std::time::Duration;

/// The most workgroups along the second and third axis of a grid.
const MOST_YZ: u64 = 65_535;

/// A launch with its arguments as the kernel reads them.
pub(super) struct GpuLaunch {
    kernel: Arc<GpuKernel>,
    slots: Slots,
    /// In words, so that it is aligned.
    arguments: Vec<u64>,
    grid: [u32; 3],
}

impl GpuLaunch {
    pub(super) fn new(kernel: Arc<GpuKernel>, args: Vec<Arg>) -> Result<GpuLaunch, DeviceError> {
        let slots = Slots::new(&kernel.shape, args)?;
        let arguments = vec![0; kernel.layout.bytes.div_ceil(8)];
        Ok(GpuLaunch { kernel, slots, arguments, grid: [0; 3] })
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

    fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }

    /// Puts the launch into a stream, to begin `early` if it can. The driver copies the arguments.
    fn launch(&self, driver: &dyn Driver, stream: Handle, early: bool) -> Result<(), CallError> {
        // Drivers refuse empty grids.
        if self.is_empty() {
            return Ok(());
        }
        let kernel = &self.kernel;
        // SAFETY: the arguments are laid out as the code says; `record`'s caller promised that the memory suits the kernel.
        unsafe { driver.launch(kernel.function, self.grid, &kernel.layout, &self.arguments, (stream, early)) }
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
pub(super) struct GpuRecorded {
    context: Arc<Context>,
    launches: Vec<GpuLaunch>,
    /// The stage of each.
    stages: Vec<usize>,
    /// The variables that the launches are set to.
    vars: Option<Vec<i32>>,
    way: Way,
    warn: Warn,
}

// SAFETY: handles that are only passed to the driver, which takes them from any thread.
unsafe impl Send for GpuRecorded {}

impl GpuRecorded {
    /// The launches of stages, in the stages' order.
    pub(super) fn new(context: &Arc<Context>, stages: Vec<Vec<GpuLaunch>>, graphs: bool, warn: Warn) -> GpuRecorded {
        let way = if graphs && context.driver.graphs().is_some() { Way::Waiting } else { Way::Launches };
        let numbers = stages.iter().enumerate().flat_map(|(i, s)| s.iter().map(move |_| i)).collect();
        let launches = stages.into_iter().flatten().collect();
        GpuRecorded { context: Arc::clone(context), launches, stages: numbers, vars: None, way, warn }
    }

    fn forget_graph(&mut self) {
        let Way::Graph(graph) = self.way else { return };
        self.way = Way::Waiting;
        // The graph may be what the device is at. Failures have nobody to go to here: the next call has them, too.
        let _ = self.context.synchronize();
        if let Some(graphs) = self.context.driver.graphs() {
            // SAFETY: the graph is ours, and has ended.
            let _ = self.context.call(|_| unsafe { graphs.end_executable(graph) });
        }
    }

    /// Captures the launches as they are set.
    fn capture(&self, graphs: &Graphs) -> Result<Handle, DeviceError> {
        let (stream, branches) = (self.context.stream, self.context.branches()?);
        self.context.call(|driver| {
            // SAFETY: the stream is the context's. What is begun is ended whatever happens between.
            unsafe {
                graphs.begin(stream)?;
                let launched = self.launch_in(driver, branches);
                let graph = graphs.captured(stream);
                // What went wrong first is what is told.
                let graph = match (launched, graph) {
                    (Ok(()), graph) => graph?,
                    (Err(e), graph) => {
                        let _ = graph.and_then(|g| graphs.end(g));
                        return Err(e);
                    }
                };
                let executable = graphs.executable(graph);
                let ended = graphs.end(graph);
                executable.and_then(|e| ended.map(|()| e))
            }
        })
    }

    /// Launches stage by stage, launches of one stage in several streams: the others wait for the first, and that for
    /// them. In a capture this makes branches of a graph. A launch that is alone in its stage, behind another such one,
    /// may begin before that has ended.
    fn launch_in(&self, driver: &dyn Driver, branches: &[Branch]) -> Result<(), CallError> {
        let Some((main, others)) = branches.split_first() else { return Ok(()) };
        let shared = driver.shared();
        let (mut first, mut alone) = (0, false);
        while let Some(&stage) = self.stages.get(first) {
            let end = first + self.stages[first..].iter().take_while(|&&s| s == stage).count();
            let launches: Vec<&GpuLaunch> = self.launches[first..end].iter().filter(|l| !l.is_empty()).collect();
            let beside = &others[..others.len().min(launches.len().saturating_sub(1))];
            // SAFETY: streams and events are the context's; each event has been recorded when it is waited for.
            unsafe {
                if !beside.is_empty() {
                    shared.record(main.event, main.stream)?;
                }
                beside.iter().try_for_each(|b| shared.await_event(b.stream, main.event, 0))?;
            }
            for (i, launch) in launches.iter().enumerate() {
                let at = i % (beside.len() + 1);
                let early = beside.is_empty() && alone;
                launch.launch(driver, if at == 0 { main.stream } else { beside[at - 1].stream }, early)?;
                alone = beside.is_empty();
            }
            for b in beside {
                // SAFETY: as above.
                unsafe {
                    shared.record(b.event, b.stream)?;
                    shared.await_event(main.stream, b.event, 0)?;
                }
            }
            first = end;
        }
        Ok(())
    }

    /// Puts all launches into the stream.
    fn enqueue(&mut self, repeated: bool) -> Result<(), DeviceError> {
        let context = Arc::clone(&self.context);
        let (graphs, stream) = (context.driver.graphs(), context.stream);
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
            // SAFETY: graph and stream are this device's.
            (Way::Graph(graph), Some(graphs)) => context.call(|_| unsafe { graphs.launch(*graph, stream) }),
            _ => context.call(|d| self.launches.iter().try_for_each(|l| l.launch(d, stream, false))),
        }
    }
}

impl GpuRecorded {
    /// Sets the launches to variables; says whether they were so already.
    fn set(&mut self, vars: &[i32]) -> Result<bool, DeviceError> {
        let repeated = self.vars.as_deref() == Some(vars);
        if !repeated {
            self.forget_graph();
            // Not set until all are.
            self.vars = None;
            self.launches.iter_mut().try_for_each(|l| l.set(vars))?;
            self.vars = Some(vars.to_vec());
        }
        Ok(repeated)
    }
}

impl Recorded for GpuRecorded {
    fn replay(&mut self, vars: &[i32]) -> Result<(), DeviceError> {
        self.start(vars)?;
        self.context.synchronize()
    }

    fn start(&mut self, vars: &[i32]) -> Result<(), DeviceError> {
        let repeated = self.set(vars)?;
        self.enqueue(repeated)
    }

    fn profile(&mut self, vars: &[i32]) -> Result<Vec<LaunchTime>, DeviceError> {
        self.set(vars)?;
        let marks = Marks::new(&self.context, 2 * (self.launches.len() + EMPTY_PAIRS))?;
        let (empty, pairs) = marks.events.split_at(2 * EMPTY_PAIRS);
        let stream = self.context.stream;
        self.context.call(|driver| {
            let record = |event| {
                // SAFETY: event and stream are this device's.
                unsafe { driver.shared().record(event, stream) }
            };
            empty.iter().try_for_each(|&event| record(event))?;
            for (launch, pair) in self.launches.iter().zip(pairs.chunks_exact(2)) {
                record(pair[0])?;
                launch.launch(driver, stream, false)?;
                record(pair[1])?;
            }
            Ok(())
        })?;
        self.context.synchronize()?;
        let mut nothing: Vec<Duration> =
            empty.chunks_exact(2).map(|pair| marks.between(pair[0], pair[1])).collect::<Result<_, _>>()?;
        nothing.sort_unstable();
        let nothing = nothing[EMPTY_PAIRS / 2];
        let time = |((launch, &stage), pair): ((&GpuLaunch, &usize), &[Handle])| {
            let start = marks.between(pairs[0], pair[0])?;
            let end = start + marks.between(pair[0], pair[1])?.saturating_sub(nothing);
            let programs = launch.grid.iter().map(|&n| u64::from(n)).product();
            Ok(LaunchTime { kernel: launch.kernel.name.clone(), stage, programs, start, end })
        };
        self.launches.iter().zip(&self.stages).zip(pairs.chunks_exact(2)).map(time).collect()
    }
}

/// Pairs of events with nothing between them, to see what they take themselves.
const EMPTY_PAIRS: usize = 15;

/// Timed events, ended when they are dropped.
struct Marks<'a> {
    context: &'a Context,
    events: Vec<Handle>,
}

impl<'a> Marks<'a> {
    fn new(context: &'a Context, count: usize) -> Result<Marks<'a>, DeviceError> {
        let mut marks = Marks { context, events: Vec::with_capacity(count) };
        context.call(|driver| {
            (0..count).try_for_each(|_| {
                marks.events.push(driver.new_event(true)?);
                Ok(())
            })
        })?;
        Ok(marks)
    }

    /// The time between two that have been reached.
    fn between(&self, from: Handle, to: Handle) -> Result<Duration, DeviceError> {
        // SAFETY: the events are timed ones, and were waited for.
        self.context.call(|driver| unsafe { driver.elapsed(from, to) })
    }
}

impl Drop for Marks<'_> {
    fn drop(&mut self) {
        // SAFETY: the events are ours. A failure has nobody to go to.
        let end = |driver: &dyn Driver, event| unsafe { driver.shared().end_event(event) };
        let _ = self.context.call(|driver| self.events.iter().try_for_each(|&e| end(driver, e)));
    }
}

impl Drop for GpuRecorded {
    fn drop(&mut self) {
        self.forget_graph();
        // What has been started needs its kernels and memory.
        let _ = self.context.synchronize();
    }
}
