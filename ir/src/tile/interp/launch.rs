//! From arguments to programs.

use super::super::kernel::{Access, Extent, Kernel, Param, Value, View, local_view_bytes};
use super::super::types::Elem;
use super::access::{Bound, Bus, program_ids};
use super::arith::Tile;
use super::exec::Machine;
use super::fault::{Fault, FaultKind, Site};
use super::memory::{Buffer, Memory};
use super::race::Trace;
use super::{Arg, Options, Report};
use crate::tile::Content;
use cranelift_entity::SecondaryMap;

/// The most bytes of local memory the interpreter gives a program: far more than any target has.
const MAX_LOCAL: u64 = 64 << 20;

/// Runs a verified kernel over its whole grid. `args` has one entry for each of the kernel's parameters, in their order.
///
/// # Errors
/// The first fault; the memory then holds what was written up to it.
pub fn run(kernel: &Kernel, args: &[Arg], memory: &mut Memory, options: &Options) -> Result<Report, Fault> {
    let buffers = memory.buffers.len();
    let result = launch(kernel, args, memory, options);
    memory.buffers.truncate(buffers);
    result
}

fn launch(kernel: &Kernel, args: &[Arg], memory: &mut Memory, options: &Options) -> Result<Report, Fault> {
    let fault = |site, kind| Fault { kernel: kernel.name.as_str().into(), site, kind };
    let launch_fault = |kind| fault(None, kind);
    let env = scalars(kernel, args).map_err(launch_fault)?;
    let (views, locals) = bind(kernel, args, memory, &env).map_err(launch_fault)?;
    let grid = grid(kernel, &env).map_err(launch_fault)?;
    let traces = if options.check_races { traces(kernel, &views, memory) } else { Vec::new() };
    let programs = grid.iter().fold(1u64, |n, &g| n.saturating_mul(u64::from(g)));
    if programs >= u64::from(u32::MAX) {
        return Err(launch_fault(FaultKind::Args(format!("the grid {grid:?} has too many programs to interpret"))));
    }
    let mut machine = Machine {
        kernel,
        views: &views,
        precision: options.precision,
        bus: Bus { memory, traces, program: 0, grid },
        env,
        fuel: options.fuel,
        executed: 0,
        at: None,
    };
    let run = programs.min(u64::from(options.most_programs));
    // The first and the last, and evenly between them.
    let number_of = |i: u64| if run < 2 { 0 } else { (i * (programs - 1) / (run - 1)) as u32 };
    for number in (0..run).map(number_of) {
        let program = program_ids(number, grid);
        machine.bus.program = number + 1;
        for &local in &locals {
            machine.bus.memory.buffers[local].forget();
        }
        for (&v, id) in kernel.program_ids.iter().zip(program) {
            machine.env[v] = Some(Tile::ints(vec![i64::from(id)]));
        }
        machine.at = None;
        let done = machine.step().and_then(|()| machine.block(kernel.body));
        if let Err(kind) = done {
            let op = machine.at.map_or("", |inst| kernel.insts[inst].op.name());
            return Err(fault(Some(Site { program, inst: machine.at, op }), kind));
        }
    }
    Ok(Report { programs: run, instructions: machine.executed - run })
}

/// The scalar parameters' values; checks number and kinds of all arguments.
fn scalars(kernel: &Kernel, args: &[Arg]) -> Result<SecondaryMap<Value, Option<Tile>>, FaultKind> {
    if args.len() != kernel.params.len() {
        let text = format!("{} arguments for {} parameters", args.len(), kernel.params.len());
        return Err(FaultKind::Args(text));
    }
    let mut env = SecondaryMap::new();
    for (slot, (param, arg)) in kernel.params.iter().zip(args).enumerate() {
        let (wants, tile) = match param {
            Param::View(_) => ("a buffer".to_owned(), matches!(arg, Arg::Buffer(..)).then_some(None)),
            Param::Scalar(v) => {
                let elem = kernel.ty(*v).elem;
                let tile = match (arg, elem) {
                    (Arg::I32(n), Elem::I32) => Some(Some((*v, Tile::ints(vec![i64::from(*n)])))),
                    (Arg::F32(x), Elem::F32) => Some(Some((*v, Tile::floats(vec![f64::from(*x)])))),
                    _ => None,
                };
                (elem.to_string(), tile)
            }
        };
        match tile {
            Some(Some((v, tile))) => env[v] = Some(tile),
            Some(None) => {}
            None => return Err(FaultKind::Args(format!("slot {slot} takes {wants}, not {arg:?}"))),
        }
    }
    Ok(env)
}

fn extent(e: Extent, env: &SecondaryMap<Value, Option<Tile>>) -> Result<i64, FaultKind> {
    let n = match e {
        Extent::Const(n) => i64::from(n),
        Extent::Param(v) => match &env[v] {
            Some(Tile::Int(d)) if d.len() == 1 => d[0],
            _ => return Err(FaultKind::malformed(format!("the extent {v} is no i32 parameter"))),
        },
    };
    if n < 0 { Err(FaultKind::Args(format!("the extent {e} is {n}"))) } else { Ok(n) }
}

type Views = SecondaryMap<View, Option<Bound>>;

/// Resolves the views: parameters to the buffers passed, local ones to buffers added behind those.
fn bind(
    kernel: &Kernel,
    args: &[Arg],
    memory: &mut Memory,
    env: &SecondaryMap<Value, Option<Tile>>,
) -> Result<(Views, Vec<usize>), FaultKind> {
    let mut views = Views::new();
    let mut locals = Vec::new();
    let given = memory.buffers.len();
    for (view, data) in kernel.views.iter() {
        let unit = data.content.unit_bytes() as usize;
        let (buffer, start) = if data.access == Access::Local {
            let bytes = local_view_bytes(data).filter(|&n| n <= MAX_LOCAL);
            let bytes = bytes.ok_or_else(|| FaultKind::malformed(format!("{view} is no reasonable local memory")))?;
            let id = memory.push(Buffer::uninit(bytes as usize));
            locals.push(id.0);
            (id.0, 0)
        } else {
            let Some(slot) = kernel.slot_of_view(view) else { continue };
            let Some(Arg::Buffer(id, start)) = args.get(slot) else { continue };
            if id.0 >= given {
                return Err(FaultKind::Args(format!("slot {slot}: there is no buffer {}", id.0)));
            }
            let len = memory.buffers[id.0].bytes.len();
            let aligned = matches!(data.content, Content::Quant(_)) || start % unit == 0;
            if *start > len || !aligned {
                let text = format!("slot {slot}: {} cannot start at byte {start} of {len}", data.content);
                return Err(FaultKind::Args(text));
            }
            (id.0, *start)
        };
        let dims = data.dims.iter().map(|&e| extent(e, env)).collect::<Result<Vec<_>, _>>()?;
        let strides = data.strides.iter().map(|&e| Ok(extent(e, env)?.saturating_mul(unit as i64)));
        let strides = strides.collect::<Result<Vec<_>, FaultKind>>()?;
        views[view] = Some(Bound { buffer, start, dims, strides, unit });
    }
    Ok((views, locals))
}

fn grid(kernel: &Kernel, env: &SecondaryMap<Value, Option<Tile>>) -> Result<[u32; 3], FaultKind> {
    let param = |v: Value| match &env[v] {
        Some(Tile::Int(d)) => d.first().copied().unwrap_or(0),
        _ => 0,
    };
    let mut out = [0; 3];
    for (n, expr) in out.iter_mut().zip(&kernel.grid) {
        let programs = expr.eval(&param);
        *n = i32::try_from(programs)
            .map_err(|_| FaultKind::Args(format!("the grid's axis {expr} has {programs} programs")))?
            as u32;
    }
    Ok(out)
}

/// Traces of the buffers that the kernel may write and others may see.
fn traces(kernel: &Kernel, views: &Views, memory: &Memory) -> Vec<Option<Trace>> {
    let mut traces: Vec<Option<Trace>> = memory.buffers.iter().map(|_| None).collect();
    for (view, data) in kernel.views.iter() {
        let shared = data.access.writes() && data.access != Access::Local;
        if let (true, Some(bound)) = (shared, &views[view]) {
            traces[bound.buffer].get_or_insert_with(|| Trace::new(memory.buffers[bound.buffer].bytes.len()));
        }
    }
    traces
}
