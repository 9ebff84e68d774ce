//! Registers, LDS, scratch memory, and how many waves are resident.

use super::report::{NextOccupancy, Occupancy, Resources, Workgroup};
use crate::hsaco::Kernel;
use crate::target::Chip;
use crate::target::amd::{Accumulators, Block, FactError, Limit, Resources as Used};

/// What a kernel takes, by its metadata, or by its descriptor where that is missing.
pub fn resources(kernel: &Kernel<'_>, chip: Option<&Chip>, wave: u32) -> Resources {
    let (descriptor, said) = (&kernel.descriptor, kernel.metadata.as_ref());
    let vgprs = said.and_then(|m| m.vgpr_count).or_else(|| descriptor.vgprs());
    let granule = chip.and_then(|c| c.vgprs_for(wave).ok()).map(|v| v.granule);
    Resources {
        vgprs,
        vgprs_allocated: vgprs.zip(granule).map(|(n, granule)| n.max(1).next_multiple_of(granule)),
        agprs: said.and_then(|m| m.agpr_count),
        sgprs: said.and_then(|m| m.sgpr_count).or_else(|| descriptor.sgprs()),
        vgpr_spills: said.and_then(|m| m.vgpr_spill_count),
        sgpr_spills: said.and_then(|m| m.sgpr_spill_count),
        lds_bytes: descriptor.group_segment_fixed_size,
        scratch_bytes: descriptor.private_segment_fixed_size,
        dynamic_stack: descriptor.uses_dynamic_stack(),
        argument_bytes: said.and_then(|m| m.kernarg_segment_size),
    }
}

/// The workgroups that a kernel may be launched with, or that it is asked about.
///
/// # Errors
/// If it can't be launched with those that are asked about.
pub fn workgroup(kernel: &Kernel<'_>, wave: u32, asked: Option<[u32; 3]>) -> Result<Option<Workgroup>, String> {
    let said = kernel.metadata.as_ref();
    let required = said.and_then(|m| m.reqd_workgroup_size);
    let most = said.and_then(|m| m.max_flat_workgroup_size);
    let shown = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
    if let (Some(required), Some(asked)) = (required, asked)
        && required != asked
    {
        return Err(format!("its workgroups are of {} work items, not {}", shown(required), shown(asked)));
    }
    let size = asked.or(required);
    let exact = size.map(|s| s.iter().try_fold(1_u32, |n, &side| n.checked_mul(side)).filter(|&n| n > 0));
    let work_items = match (exact, most) {
        (Some(None), _) => {
            return Err(format!("workgroups of {} work items are impossible", shown(size.unwrap_or_default())));
        }
        (Some(Some(n)), Some(most)) if n > most => {
            return Err(format!("its workgroups are of at most {most} work items, not {n}"));
        }
        (Some(n), _) => n,
        (None, most) => most.filter(|&n| n > 0),
    };
    Ok(work_items.map(|work_items| Workgroup {
        work_items,
        size,
        at_most: size.is_none(),
        waves: work_items.div_ceil(wave),
    }))
}

/// A chip with what one CU has for a workgroup that does not get a WGP.
fn of_cu(chip: &Chip) -> Chip {
    Chip {
        block: Block::Cu,
        simds: chip.simds / 2,
        max_workgroups: chip.max_workgroups / 2,
        lds_block: chip.lds_block / 2,
        ..*chip
    }
}

/// How many waves are resident; none if the kernel doesn't say all that it depends on.
///
/// # Errors
/// If not even one workgroup fits on the chip.
pub fn occupancy(
    chip: &Chip,
    kernel: &Kernel<'_>,
    resources: &Resources,
    workgroup: &Workgroup,
    wave: u32,
) -> Result<Option<Occupancy>, FactError> {
    let cu;
    let chip = match (chip.block, kernel.descriptor.wgp_mode()) {
        (Block::Wgp, Some(false)) => {
            cu = of_cu(chip);
            &cu
        }
        _ => chip,
    };
    let Some(vgprs) = resources.vgprs else { return Ok(None) };
    let sgprs = match (resources.sgprs, chip.sgprs.pool) {
        (Some(n), _) => n,
        // Every wave has a full set.
        (None, None) => 1,
        (None, Some(_)) => return Ok(None),
    };
    let vgprs = match chip.accumulators {
        Accumulators::Separate => vgprs.max(resources.agprs.unwrap_or(0)),
        Accumulators::None | Accumulators::Unified => vgprs,
    };
    let used = Used { wave, vgprs, sgprs, lds_bytes: resources.lds_bytes, waves_per_workgroup: workgroup.waves };
    let found = chip.occupancy(&used)?;
    Ok(Some(Occupancy {
        block: chip.block.name().into(),
        workgroups: found.workgroups,
        waves_per_simd: found.waves_per_simd,
        max_waves_per_simd: chip.max_waves,
        limits: found.limits.iter().map(|l| l.name().into()).collect(),
        next: next(chip, &used, found.workgroups, &found.limits),
    }))
}

/// What one more workgroup needs.
fn next(chip: &Chip, used: &Used, workgroups: u32, limits: &[Limit]) -> Option<NextOccupancy> {
    if limits.iter().any(|l| matches!(l, Limit::Waves | Limit::Workgroups)) {
        return None;
    }
    let limited = |limit| limits.contains(&limit);
    // What is limited and not asked about is out of the way.
    let free = Used {
        vgprs: if limited(Limit::Vgprs) { 1 } else { used.vgprs },
        sgprs: if limited(Limit::Sgprs) { 1 } else { used.sgprs },
        lds_bytes: if limited(Limit::Lds) { 0 } else { used.lds_bytes },
        ..*used
    };
    let enough = |with: &Used| chip.occupancy(with).is_ok_and(|o| o.workgroups > workgroups);
    let most = |limit, value: u32, with: fn(u32, Used) -> Used| {
        if !limited(limit) {
            return None;
        }
        // The most that is enough lies in `low..value`.
        let (mut low, mut high) = (0, value);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if enough(&with(middle, free)) { low = middle } else { high = middle }
        }
        Some(low)
    };
    let vgprs = most(Limit::Vgprs, used.vgprs, |vgprs, u| Used { vgprs, ..u });
    let sgprs = most(Limit::Sgprs, used.sgprs, |sgprs, u| Used { sgprs, ..u });
    let lds_bytes = most(Limit::Lds, used.lds_bytes, |lds_bytes, u| Used { lds_bytes, ..u });
    if [vgprs, sgprs, lds_bytes].contains(&Some(0)) {
        return None;
    }
    let with = Used {
        vgprs: vgprs.unwrap_or(used.vgprs),
        sgprs: sgprs.unwrap_or(used.sgprs),
        lds_bytes: lds_bytes.unwrap_or(used.lds_bytes),
        ..*used
    };
    let then = chip.occupancy(&with).ok().filter(|o| o.workgroups > workgroups)?;
    Some(NextOccupancy { workgroups: then.workgroups, waves_per_simd: then.waves_per_simd, vgprs, sgprs, lds_bytes })
}
