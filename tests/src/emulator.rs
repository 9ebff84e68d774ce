//! Kernels as the bytes that a GPU would run, in the emulator of GPUs.

use crate::host::{Buffers, Input};
use gfx_emu::{Dispatch, Gpu, Kind, Options, Run};
use hrx_compiler::target::amd::{self, Chip};
use hrx_compiler::{Target, compile};
use hrx_ir::tile::{Kernel, Param, Value};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A chip of each kind that the emulator knows.
pub fn chips() -> Vec<&'static Chip> {
    ["gfx1100", "gfx1201", "gfx942", "gfx1151", "gfx1030", "gfx906"].into_iter().filter_map(amd::find).collect()
}

/// The chip to run a kernel for, which its name and size pick, so that the kernels of a test spread over chips.
pub fn chip_for(kernel: &Kernel) -> &'static Chip {
    let all = chips();
    let mut hasher = DefaultHasher::new();
    (&kernel.name, kernel.insts.len(), kernel.params.len()).hash(&mut hasher);
    all[hasher.finish() as usize % all.len()]
}

/// The buffers of a kernel's slots after its whole grid has run, and what the emulator counted.
///
/// With the variable `HRX_KEEP`, code objects that are reported are kept in that folder.
///
/// # Errors
/// What the compiler or the emulator says, and the first faults that the sanitizer found.
pub fn run(kernel: &Kernel, inputs: &[Input], chip: &'static Chip) -> Result<(Buffers, Run), String> {
    let said = |e: &dyn std::fmt::Display| format!("{}: {e}", chip.name);
    let object = compile(kernel, &Target::Amd(chip)).map_err(|e| said(&e))?.object;
    let options = Options { shuffle: true, seed: kernel.insts.len() as u64, ..Options::default() };
    let gpu = Gpu::new(chip, options).map_err(|e| said(&e))?;
    let module = gpu.load(&object).map_err(|e| said(&e))?;
    let code = module.kernel(&kernel.name).ok_or("the kernel is not in its code object")?;
    let mut kernarg = vec![0; code.kernarg_size()];
    let mut scalars: HashMap<Value, i64> = HashMap::new();
    let mut slots: Vec<Option<(u64, usize)>> = Vec::new();
    let arguments = code.metadata.args.clone().unwrap_or_default();
    for (at, (input, param)) in inputs.iter().zip(&kernel.params).enumerate() {
        let buffer = match input {
            Input::Bytes(bytes) => {
                let address = gpu.alloc(bytes.len() as u64).map_err(|e| said(&e))?;
                gpu.write(address, bytes).map_err(|e| said(&e))?;
                Some((address, bytes.len()))
            }
            Input::Room(n) => {
                let address = gpu.alloc(*n as u64).map_err(|e| said(&e))?;
                gpu.write(address, &vec![0xA5; *n]).map_err(|e| said(&e))?;
                gpu.mark_uninitialised(address, *n as u64).map_err(|e| said(&e))?;
                Some((address, *n))
            }
            Input::Same(of) => slots[*of],
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
            _ => return Err(format!("{input:?} for {param:?}")),
        };
        let offset = arguments.get(at).and_then(|a| a.offset).ok_or("an argument without a place")? as usize;
        kernarg[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    let grid = [0, 1, 2].map(|axis| kernel.grid[axis].eval(&|v| scalars.get(&v).copied().unwrap_or(0)) as u32);
    let items = code.metadata.max_flat_workgroup_size.ok_or("no size of workgroups")?;
    let mut done = Run::default();
    if !grid.contains(&0) {
        let dispatch = Dispatch { grid, block: [items, 1, 1], dynamic_lds: 0 };
        gpu.fill_hidden_args(&code, &dispatch, &mut kernarg);
        done = gpu.launch(&code, dispatch, &kernarg).map_err(|e| said(&e))?;
    }
    // Where waves hold copies of a tile, one of them stores it. In place, the others may read what it has stored: what
    // they make of it goes nowhere.
    let in_place = inputs.iter().any(|i| matches!(i, Input::Same(_)));
    done.reports.retain(|r| !(in_place && r.kind == Kind::GlobalRace && r.message.contains("are read")));
    if !done.reports.is_empty() {
        if let Some(folder) = std::env::var_os("HRX_KEEP") {
            let path = std::path::Path::new(&folder).join(format!("{}-{}.hsaco", kernel.name, chip.name));
            std::fs::write(path, &object).map_err(|e| said(&e))?;
        }
        let lines: Vec<String> = done.reports.iter().take(5).map(ToString::to_string).collect();
        return Err(format!("{}: {} reports\n{}", chip.name, done.reports.len(), lines.join("\n")));
    }
    let mut out: Buffers = Vec::new();
    for slot in slots {
        let bytes = match slot {
            Some((address, len)) => {
                let mut bytes = vec![0; len];
                gpu.read(address, &mut bytes).map_err(|e| said(&e))?;
                Some(bytes)
            }
            None => None,
        };
        out.push(bytes);
    }
    Ok((out, done))
}
