//! Registers, waves and what limits how many waves are resident.

use super::{Chip, FactError};

/// The vector registers of a SIMD, as waves of one size see them: a register is one 32-bit value for each lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vgprs {
    /// Lanes of the wave.
    pub wave: u32,
    /// Registers that the waves of a SIMD share.
    pub total: u32,
    /// A wave's registers are allocated in multiples of this.
    pub granule: u32,
    /// The kernel descriptor counts them in multiples of this.
    pub encoding: u32,
    /// Registers that an instruction can name, accumulators not among them.
    pub addressable: u32,
}

/// Registers that matrix instructions accumulate in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accumulators {
    /// None: they accumulate in VGPRs.
    None,
    /// A file of its own, as large as that of the VGPRs and limited like it.
    Separate,
    /// Part of the same file: VGPRs and accumulators of a wave are allocated together.
    Unified,
}

/// Scalar registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sgprs {
    /// Registers that an instruction can name.
    pub addressable: u32,
    /// Registers that the waves of a SIMD share, and the granule of allocation; none where every wave has a full set.
    pub pool: Option<(u32, u32)>,
}

/// What the waves of one workgroup share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Block {
    /// A compute unit.
    Cu,
    /// A workgroup processor: two compute units. LLVM compiles for it unless the feature `cumode` is on.
    Wgp,
}

impl Block {
    /// Compute units in it.
    pub const fn cus(self) -> u32 {
        match self {
            Block::Cu => 1,
            Block::Wgp => 2,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Block::Cu => "CU",
            Block::Wgp => "WGP",
        }
    }
}

/// What a kernel uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resources {
    /// Lanes of a wave.
    pub wave: u32,
    /// VGPRs of a wave. Where accumulators are part of the same file, their sum (VGPRs rounded up to 4); where they
    /// have a file of their own, the larger of the two.
    pub vgprs: u32,
    /// SGPRs of a wave, with VCC and the other hidden ones.
    pub sgprs: u32,
    /// LDS of a workgroup in bytes.
    pub lds_bytes: u32,
    /// Waves of a workgroup.
    pub waves_per_workgroup: u32,
}

/// What keeps more workgroups from being resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Places for waves.
    Waves,
    /// Vector registers.
    Vgprs,
    /// Scalar registers.
    Sgprs,
    /// LDS.
    Lds,
    /// Places for workgroups of more than one wave (barriers).
    Workgroups,
}

impl Limit {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Waves => "waves",
            Limit::Vgprs => "VGPRs",
            Limit::Sgprs => "SGPRs",
            Limit::Lds => "LDS",
            Limit::Workgroups => "workgroups",
        }
    }
}

/// How many waves are resident.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Occupancy {
    /// Workgroups of a CU or WGP.
    pub workgroups: u32,
    /// Waves of a SIMD; of the fullest, where they don't divide evenly.
    pub waves_per_simd: u32,
    /// Everything that would have to be used less for one more workgroup.
    pub limits: Vec<Limit>,
}

impl Chip {
    /// The vector registers, for waves of so many lanes.
    ///
    /// # Errors
    /// If the chip has no such waves.
    pub fn vgprs_for(&self, wave: u32) -> Result<&'static Vgprs, FactError> {
        self.vgprs
            .iter()
            .find(|v| v.wave == wave)
            .ok_or_else(|| FactError::Absent { chip: self.name, what: format!("waves of {wave} lanes") })
    }

    /// VGPRs and accumulators that a wave can have in all.
    pub fn wave_registers(&self, vgprs: &Vgprs) -> u32 {
        match self.accumulators {
            Accumulators::Unified => 2 * vgprs.addressable,
            Accumulators::None | Accumulators::Separate => vgprs.addressable,
        }
    }

    /// How many waves of a kernel are resident, and why not more.
    ///
    /// # Errors
    /// If not even one workgroup fits.
    pub fn occupancy(&self, used: &Resources) -> Result<Occupancy, FactError> {
        let vgprs = self.vgprs_for(used.wave)?;
        let waves = used.waves_per_workgroup;
        let within = |what, used, most| {
            if used > most { Err(FactError::TooMuch { chip: self.name, what, used, most }) } else { Ok(()) }
        };
        if waves == 0 {
            return Err(FactError::Absent { chip: self.name, what: "workgroups of 0 waves".into() });
        }
        within("work items of a workgroup", waves.saturating_mul(used.wave), self.max_work_items)?;
        within("VGPRs of a wave", used.vgprs, self.wave_registers(vgprs))?;
        // The pool counts VCC and the hidden registers too, which instructions can't name.
        within("SGPRs of a wave", used.sgprs, self.sgprs.addressable + 6)?;
        within("bytes of LDS of a workgroup", used.lds_bytes, self.lds)?;

        let workgroups_of = |waves_per_simd: u32| waves_per_simd * self.simds / waves;
        let mut bounds = vec![
            (Limit::Waves, workgroups_of(self.max_waves)),
            (Limit::Vgprs, workgroups_of(vgprs.total / used.vgprs.max(1).next_multiple_of(vgprs.granule))),
        ];
        if let Some((total, granule)) = self.sgprs.pool {
            bounds.push((Limit::Sgprs, workgroups_of(total / used.sgprs.max(1).next_multiple_of(granule))));
        }
        if used.lds_bytes > 0 {
            bounds.push((Limit::Lds, self.lds_block / used.lds_bytes.next_multiple_of(self.lds_granule.value)));
        }
        if waves > 1 {
            bounds.push((Limit::Workgroups, self.max_workgroups));
        }
        let workgroups = bounds.iter().map(|&(_, n)| n).min().unwrap_or(0);
        if workgroups == 0 {
            // Only registers can leave no place for a workgroup whose waves and LDS are within bounds.
            let per_simd = waves.div_ceil(self.simds);
            let most = vgprs.total / per_simd / vgprs.granule * vgprs.granule;
            within("VGPRs of a wave, for all waves of the workgroup at once", used.vgprs, most)?;
            let most = self.sgprs.pool.map_or(0, |(total, granule)| total / per_simd / granule * granule);
            return Err(FactError::TooMuch {
                chip: self.name,
                what: "SGPRs of a wave, for all waves of the workgroup at once",
                used: used.sgprs,
                most,
            });
        }
        Ok(Occupancy {
            workgroups,
            waves_per_simd: (workgroups * waves).div_ceil(self.simds),
            limits: bounds.into_iter().filter(|&(_, n)| n == workgroups).map(|(limit, _)| limit).collect(),
        })
    }
}
