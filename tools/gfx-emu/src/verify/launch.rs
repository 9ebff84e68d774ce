//! One launch of a kernel of tile IR: buffers to the device and back.

use crate::{Dispatch, Gpu, Kernel as Code, Run};
use hrx_ir::tile::interp::{Buffers, Input};
use hrx_ir::tile::{Kernel, Param, Value};
use std::collections::HashMap;

/// What memory holds that nobody wrote: as in the interpreter.
const UNWRITTEN: u8 = 0xA5;

/// Runs a kernel, whose code is loaded, over its whole grid; gives the bytes of each slot's buffer and what was found.
/// The buffers are freed.
///
/// # Errors
/// Inputs that do not go with the kernel's parameters, and what the emulator says of a launch.
pub fn launch(gpu: &Gpu, code: &Code, kernel: &Kernel, inputs: &[Input]) -> Result<(Buffers, Run), String> {
    let mut slots: Vec<Option<(u64, usize)>> = Vec::new();
    let done = run(gpu, code, kernel, inputs, &mut slots);
    let read = |slot: &Option<(u64, usize)>| {
        slot.map(|(address, len)| {
            let mut bytes = vec![0; len];
            gpu.read(address, &mut bytes).map(|()| bytes).map_err(|e| e.to_string())
        })
        .transpose()
    };
    let buffers: Result<Buffers, String> = slots.iter().map(read).collect();
    for (input, slot) in inputs.iter().zip(&slots) {
        if let (false, Some((address, _))) = (matches!(input, Input::Same(_)), slot) {
            gpu.free(*address).map_err(|e| e.to_string())?;
        }
    }
    Ok((buffers?, done?))
}

fn run(
    gpu: &Gpu,
    code: &Code,
    kernel: &Kernel,
    inputs: &[Input],
    slots: &mut Vec<Option<(u64, usize)>>,
) -> Result<Run, String> {
    let said = |e: crate::Error| e.to_string();
    if inputs.len() != kernel.params.len() {
        return Err(format!("{} inputs for {} parameters", inputs.len(), kernel.params.len()));
    }
    let mut kernarg = vec![0; code.kernarg_size()];
    let mut scalars: HashMap<Value, i64> = HashMap::new();
    let places: Vec<usize> =
        code.metadata.args.iter().flatten().map_while(|a| a.offset).map(|offset| offset as usize).collect();
    for (at, (input, param)) in inputs.iter().zip(&kernel.params).enumerate() {
        let buffer = match input {
            Input::Bytes(bytes) => {
                let address = gpu.alloc(bytes.len() as u64).map_err(said)?;
                gpu.write(address, bytes).map_err(said)?;
                Some((address, bytes.len()))
            }
            Input::Room(n) => {
                let address = gpu.alloc(*n as u64).map_err(said)?;
                gpu.fill(address, *n as u64, &[UNWRITTEN]).map_err(said)?;
                gpu.mark_uninitialised(address, *n as u64).map_err(said)?;
                Some((address, *n))
            }
            Input::Same(of) => slots.get(*of).copied().flatten(),
            Input::I32(_) | Input::F32(_) => None,
        };
        slots.push(buffer);
        let bytes = match (input, param, buffer) {
            (Input::I32(n), Param::Scalar(v), _) => {
                scalars.insert(*v, i64::from(*n));
                n.to_le_bytes().to_vec()
            }
            (Input::F32(x), Param::Scalar(_), _) => x.to_le_bytes().to_vec(),
            (_, Param::View(_), Some((address, _))) => address.to_le_bytes().to_vec(),
            _ => return Err(format!("slot {at} is given {input:?}, its parameter is {param:?}")),
        };
        let place = places.get(at).and_then(|&offset| kernarg.get_mut(offset..offset + bytes.len()));
        place.ok_or_else(|| format!("the code object has no place for argument {at}"))?.copy_from_slice(&bytes);
    }
    let axis = |axis: usize| {
        let n = kernel.grid[axis].eval(&|v| scalars.get(&v).copied().unwrap_or(0));
        u32::try_from(n).map_err(|_| format!("{n} programs along axis {axis}"))
    };
    let grid = [axis(0)?, axis(1)?, axis(2)?];
    let items = code.metadata.max_flat_workgroup_size.ok_or("the code object does not say how large workgroups are")?;
    if grid.contains(&0) {
        return Ok(Run::default());
    }
    let dispatch = Dispatch { grid, block: [items, 1, 1], dynamic_lds: 0 };
    gpu.fill_hidden_args(code, &dispatch, &mut kernarg);
    gpu.launch(code, dispatch, &kernarg).map_err(said)
}
