//! What registers hold when a kernel starts. From LLVM's "User Guide for AMDGPU Backend", section "Initial Kernel
//! Execution State".

use super::super::asm::special;
use super::super::report::Workgroup;
use super::state::{Scalar, State};
use super::value::{Lanes, Origin, Sum, Symbols};
use crate::hsaco::{Generation, Kernel};

/// Low bits that are zero in pointers among the arguments: buffers of ROCm's runtimes are aligned to 256 bytes at least.
pub const POINTER_ZEROS: u32 = 8;

/// SGPRs that a kernel may ask for, in the order in which it gets them: the field of the descriptor, and how many.
const USER: &[(&str, u16)] = &[
    ("enable_sgpr_private_segment_buffer", 4),
    ("enable_sgpr_dispatch_ptr", 2),
    ("enable_sgpr_queue_ptr", 2),
    ("enable_sgpr_kernarg_segment_ptr", 2),
    ("enable_sgpr_dispatch_id", 2),
    ("enable_sgpr_flat_scratch_init", 2),
    ("enable_sgpr_private_segment_size", 1),
];

/// The state that a kernel starts with.
pub fn state(
    kernel: &Kernel<'_>,
    generation: Generation,
    wave: u32,
    workgroup: Option<&Workgroup>,
    symbols: &mut Symbols,
) -> State {
    let mut state = State::new(symbols);
    scalars(kernel, &mut state, symbols);
    work_items(kernel, generation, wave, workgroup, &mut state, symbols);
    state
}

fn scalars(kernel: &Kernel<'_>, state: &mut State, symbols: &mut Symbols) {
    let descriptor = &kernel.descriptor;
    let mut next = 0;
    for &(field, count) in USER {
        if descriptor.field(field) != Some(1) {
            continue;
        }
        if field == "enable_sgpr_kernarg_segment_ptr" {
            state.scalar[next as usize] = Scalar::Value(symbols.value(Origin::Arguments, POINTER_ZEROS, u32::MAX));
        }
        next += count;
    }
    // Arguments that are there before the first load.
    let first = descriptor.field("kernarg_preload_spec_offset").unwrap_or(0);
    for i in 0..descriptor.preloaded_kernargs().unwrap_or(0) {
        let register = u32::from(next) + i;
        if register < u32::from(special::VCC) {
            state.scalar[register as usize] = Scalar::Value(argument(kernel, 4 * (first + i), symbols));
        }
    }
}

/// The word of the arguments at an offset in bytes.
pub fn argument(kernel: &Kernel<'_>, offset: u32, symbols: &mut Symbols) -> Sum {
    let arguments = kernel.metadata.as_ref().and_then(|m| m.args.as_deref()).unwrap_or_default();
    let pointer = arguments
        .iter()
        .any(|a| a.offset == Some(u64::from(offset)) && a.value_kind.as_deref().is_some_and(|k| k == "global_buffer"));
    symbols.value(Origin::Argument(offset), if pointer { POINTER_ZEROS } else { 0 }, u32::MAX)
}

/// The numbers of work items in their workgroup, in one register or three.
fn work_items(
    kernel: &Kernel<'_>,
    generation: Generation,
    wave: u32,
    workgroup: Option<&Workgroup>,
    state: &mut State,
    symbols: &mut Symbols,
) {
    let dimensions = kernel.descriptor.workitem_id_dimensions().unwrap_or(3);
    let size = match workgroup {
        Some(Workgroup { size: Some(size), .. }) => Some(*size),
        // A kernel that asks for x alone is taken to be launched with nothing else.
        Some(w) if dimensions == 1 => Some([w.work_items, 1, 1]),
        _ => None,
    };
    let [x, y, z] = match size {
        Some(size) => numbers(size, wave, symbols),
        None => [None, None, None],
    };
    let packed = matches!(generation, Generation::Gfx90a | Generation::Gfx11 | Generation::Gfx12 | Generation::Gfx125);
    if packed {
        let at = |value: &Option<Sum>, bit: u32| Some(value.as_ref()?.scale(&Lanes::All(1 << bit)));
        let all = x.and_then(|x| Some(x.add(&at(&y, 10)?).add(&at(&z, 20)?)));
        state.set_vector(0, all);
    } else {
        for (register, value) in [x, y, z].into_iter().enumerate().take(dimensions as usize) {
            state.set_vector(register, value);
        }
    }
}

/// The numbers of a wave's work items in x, y and z, as far as all waves have them alike.
fn numbers([x, y, z]: [u32; 3], wave: u32, symbols: &mut Symbols) -> [Option<Sum>; 3] {
    let each = |f: &dyn Fn(u32) -> u32| Sum::known(Lanes::new((0..wave).map(f).collect()));
    let mut part = |which: u8, most: u32| symbols.value(Origin::Wave(which), 0, most);
    let waves = |items: u32| items.div_ceil(wave) - 1;
    let Some(all) = x.checked_mul(y).and_then(|n| n.checked_mul(z)).filter(|&n| n > 0) else {
        return [None, None, None];
    };
    if all <= wave {
        return [each(&|l| l % x), each(&|l| l / x % y), each(&|l| l / (x * y) % z)].map(Some);
    }
    if y * z == 1 {
        return [
            Some(each(&|l| l).add(&part(0, waves(x)).scale(&Lanes::All(wave)))),
            Some(Sum::number(0)),
            Some(Sum::number(0)),
        ];
    }
    if x % wave == 0 {
        let x = each(&|l| l).add(&part(0, waves(x)).scale(&Lanes::All(wave)));
        return [Some(x), Some(part(1, y - 1)), Some(part(2, z - 1))];
    }
    if wave % x != 0 {
        return [None, None, None];
    }
    // Whole rows.
    let rows = wave / x;
    let row = each(&|l| l / x);
    let x_numbers = Some(each(&|l| l % x));
    if z == 1 {
        return [x_numbers, Some(row.add(&part(1, waves(all)).scale(&Lanes::All(rows)))), Some(Sum::number(0))];
    }
    if y % rows == 0 {
        let y_numbers = row.add(&part(1, y / rows - 1).scale(&Lanes::All(rows)));
        return [x_numbers, Some(y_numbers), Some(part(2, z - 1))];
    }
    if rows % y == 0 {
        let layers = each(&|l| l / (x * y)).add(&part(2, waves(all)).scale(&Lanes::All(rows / y)));
        return [x_numbers, Some(each(&|l| l / x % y)), Some(layers)];
    }
    [x_numbers, None, None]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every work item of a workgroup is some lane of some wave, with the numbers that are followed.
    #[test]
    fn numbers_are_those_of_the_flat_number() {
        for wave in [32, 64] {
            for size in [[64, 1, 1], [16, 16, 1], [32, 4, 2], [8, 8, 8], [128, 2, 1], [4, 4, 4], [5, 3, 1], [1, 1, 64]]
            {
                let [x, y, z] = size;
                let mut symbols = Symbols::default();
                let found = numbers(size, wave, &mut symbols).map(|n| n.expect("followed"));
                let mut parts = [0; 3];
                for first in (0..x * y * z).step_by(wave as usize) {
                    for lane in 0..wave.min(x * y * z) {
                        let flat = first + lane;
                        let truth = [flat % x, flat / x % y, flat / (x * y)];
                        for (n, truth) in found.iter().zip(truth) {
                            let Some((symbol, times)) = n.terms.first() else {
                                assert_eq!(n.lanes.at(lane as usize), truth, "{size:?}");
                                continue;
                            };
                            let Origin::Wave(which) = symbols.origin(*symbol) else { panic!("not of the wave") };
                            let rest = truth - n.lanes.at(lane as usize);
                            if lane == 0 {
                                assert_eq!(rest % times.at(0), 0);
                                parts[which as usize] = rest / times.at(0);
                            }
                            assert_eq!(rest, parts[which as usize] * times.at(lane as usize), "{size:?}, lane {lane}");
                        }
                    }
                }
            }
        }
        let mut symbols = Symbols::default();
        assert_eq!(
            numbers([24, 4, 1], 32, &mut symbols),
            [None, None, None],
            "rows begin at other lanes in other waves"
        );
    }
}
