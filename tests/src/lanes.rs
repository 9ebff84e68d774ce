//! Kernels in lane form, run by its interpreter: what code for GPUs is made from.

use crate::host::{Buffers, Input};
use hrx_compiler::lanes::interp::{Launch, Memory, run as run_program};
use hrx_compiler::lanes::{Facts, build};
use hrx_compiler::passes::lower_lanes;
use hrx_compiler::target::{amd, nvidia};
use hrx_ir::tile::{BlockPart, Kernel, Op, Param, Value};
use std::collections::HashMap;

/// A chip of each kind: waves of 32 and 64 lanes, each matrix unit and none.
pub fn chips() -> Vec<Facts> {
    let amd = ["gfx1100", "gfx1201", "gfx1030", "gfx906", "gfx942"].into_iter().filter_map(amd::find).map(Facts::from);
    amd.chain(nvidia::find("sm_90").map(Facts::from)).collect()
}

/// The chips to run a kernel for: all for a launch of few programs, one of them, by the kernel's name, for many. None in
/// the run that is about MLIR, which repeats tests.
pub fn chips_for(kernel: &Kernel, inputs: &[Input]) -> Vec<Facts> {
    // Lanes take blocks as formats describe them; raw bytes are what the host's expansion makes of them.
    // What packing for vectors reads no GPU does.
    let raw = |op: &Op| match op {
        Op::LoadBlock { part, .. } => {
            matches!(part, BlockPart::Raw(_) | BlockPart::Indices(_) | BlockPart::Factors | BlockPart::MinFactors)
        }
        _ => false,
    };
    if cfg!(feature = "mlir") || kernel.insts.values().any(|i| raw(&i.op)) {
        return Vec::new();
    }
    let slots = kernel.params.iter().zip(inputs);
    let scalars: HashMap<Value, i64> = slots
        .filter_map(|(p, i)| match (p, i) {
            (Param::Scalar(v), Input::I32(n)) => Some((*v, i64::from(*n))),
            _ => None,
        })
        .collect();
    let programs: u64 = kernel.grid.iter().map(|g| g.eval(&|v| scalars.get(&v).copied().unwrap_or(0))).product();
    let all = chips();
    let one = crate::draw(kernel) as usize % all.len();
    if programs > 16 { vec![all[one]] } else { all }
}

/// The buffers of a kernel's slots after its whole grid has run in lane form for a chip.
///
/// # Errors
/// A kernel that can't be brought to lane form, or a fault in it.
pub fn run(kernel: &Kernel, inputs: &[Input], chip: Facts) -> Result<Buffers, String> {
    let lowered = lower_lanes(kernel.clone());
    let lanes = build(&lowered, chip).map_err(|e| format!("{}: {e}", chip.name))?;
    let mut memory = Memory { plain: nvidia::find(chip.name).is_some(), ..Memory::default() };
    let mut launch = Launch::default();
    let mut slots: Vec<Option<usize>> = Vec::new();
    for (input, param) in inputs.iter().zip(&lowered.params) {
        let slot = match (input, param) {
            (Input::I32(n), Param::Scalar(v)) => {
                launch.scalars.insert(*v, *n as u32);
                None
            }
            (Input::F32(x), Param::Scalar(v)) => {
                launch.scalars.insert(*v, x.to_bits());
                None
            }
            (Input::Bytes(bytes), _) => {
                memory.buffers.push(bytes.clone());
                Some(memory.buffers.len() - 1)
            }
            (Input::Room(n), _) => {
                memory.buffers.push(vec![0xA5; *n]);
                Some(memory.buffers.len() - 1)
            }
            (Input::Same(of), _) => slots[*of],
            _ => return Err(format!("{input:?} for {param:?}")),
        };
        if let (Some(slot), Param::View(view)) = (slot, param) {
            memory.views.insert(*view, slot);
        }
        slots.push(slot);
    }
    let scalars = launch.scalars.clone();
    let grid = [0, 1, 2].map(|axis| lowered.grid[axis].eval(&|v| scalars.get(&v).map_or(0, |&n| i64::from(n as i32))));
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                launch.program = [x, y, z].map(|id| id as u32);
                run_program(&lanes, &mut memory, &launch).map_err(|e| format!("{}: {e}\n{lanes}", chip.name))?;
            }
        }
    }
    Ok(slots.into_iter().map(|s| s.map(|s| memory.buffers[s].clone())).collect())
}
