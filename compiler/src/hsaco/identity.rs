//! What a code object is for, by its ELF header. Numbers are from LLVM's "User Guide for AMDGPU Backend", sections "ELF
//! Code Object: Header" and "Target ID".

use Generation::*;
use std::fmt;

/// Processors whose kernel descriptors have the same fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Generation {
    /// gfx600 to gfx602.
    Gfx6,
    /// gfx700 to gfx705.
    Gfx7,
    /// gfx801 to gfx810.
    Gfx8,
    /// gfx900 to gfx90c, but for gfx90a.
    Gfx9,
    /// gfx90a, gfx942, gfx950: one file of VGPRs and AGPRs.
    Gfx90a,
    /// gfx1010 to gfx1036.
    Gfx10,
    /// gfx1100 to gfx1153.
    Gfx11,
    /// gfx1200, gfx1201.
    Gfx12,
    /// gfx1250, gfx1251.
    Gfx125,
}

/// A processor, or a generic one, whose code runs on several.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Processor {
    /// Its number, `EF_AMDGPU_MACH` of ELF flags.
    pub mach: u32,
    /// LLVM's name for it.
    pub name: &'static str,
    /// Its generation.
    pub generation: Generation,
}

const fn row(mach: u32, name: &'static str, generation: Generation) -> Processor {
    Processor { mach, name, generation }
}

/// All processors that LLVM 22 knows.
pub static PROCESSORS: &[Processor] = &[
    row(0x020, "gfx600", Gfx6),
    row(0x021, "gfx601", Gfx6),
    row(0x03a, "gfx602", Gfx6),
    row(0x022, "gfx700", Gfx7),
    row(0x023, "gfx701", Gfx7),
    row(0x024, "gfx702", Gfx7),
    row(0x025, "gfx703", Gfx7),
    row(0x026, "gfx704", Gfx7),
    row(0x03b, "gfx705", Gfx7),
    row(0x028, "gfx801", Gfx8),
    row(0x029, "gfx802", Gfx8),
    row(0x02a, "gfx803", Gfx8),
    row(0x02b, "gfx810", Gfx8),
    row(0x03c, "gfx805", Gfx8),
    row(0x02c, "gfx900", Gfx9),
    row(0x02d, "gfx902", Gfx9),
    row(0x02e, "gfx904", Gfx9),
    row(0x02f, "gfx906", Gfx9),
    row(0x030, "gfx908", Gfx9),
    row(0x031, "gfx909", Gfx9),
    row(0x032, "gfx90c", Gfx9),
    row(0x051, "gfx9-generic", Gfx9),
    row(0x03f, "gfx90a", Gfx90a),
    row(0x04c, "gfx942", Gfx90a),
    row(0x04f, "gfx950", Gfx90a),
    row(0x05f, "gfx9-4-generic", Gfx90a),
    row(0x033, "gfx1010", Gfx10),
    row(0x034, "gfx1011", Gfx10),
    row(0x035, "gfx1012", Gfx10),
    row(0x036, "gfx1030", Gfx10),
    row(0x037, "gfx1031", Gfx10),
    row(0x038, "gfx1032", Gfx10),
    row(0x039, "gfx1033", Gfx10),
    row(0x03d, "gfx1035", Gfx10),
    row(0x03e, "gfx1034", Gfx10),
    row(0x042, "gfx1013", Gfx10),
    row(0x045, "gfx1036", Gfx10),
    row(0x052, "gfx10-1-generic", Gfx10),
    row(0x053, "gfx10-3-generic", Gfx10),
    row(0x041, "gfx1100", Gfx11),
    row(0x043, "gfx1150", Gfx11),
    row(0x044, "gfx1103", Gfx11),
    row(0x046, "gfx1101", Gfx11),
    row(0x047, "gfx1102", Gfx11),
    row(0x04a, "gfx1151", Gfx11),
    row(0x054, "gfx11-generic", Gfx11),
    row(0x055, "gfx1152", Gfx11),
    row(0x058, "gfx1153", Gfx11),
    row(0x048, "gfx1200", Gfx12),
    row(0x04e, "gfx1201", Gfx12),
    row(0x059, "gfx12-generic", Gfx12),
    row(0x049, "gfx1250", Gfx125),
    row(0x05a, "gfx1251", Gfx125),
];

/// The processor of that name.
pub fn processor(name: &str) -> Option<&'static Processor> {
    PROCESSORS.iter().find(|p| p.name == name)
}

/// What code assumes of a feature that a machine may have switched on or off.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Setting {
    /// The processor has not got it.
    Unsupported,
    /// The code runs either way.
    Any,
    /// It must be off.
    Off,
    /// It must be on.
    On,
}

/// What a code object is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Code object version: 3 to 6.
    pub version: u32,
    /// The ELF flags that the rest is from.
    pub flags: u32,
    /// The processor, if its number is known.
    pub processor: Option<&'static Processor>,
    /// Of a generic processor, the version of what its code may assume.
    pub generic_version: Option<u8>,
    /// Replay of memory instructions after page faults.
    pub xnack: Setting,
    /// Error correction of on-chip memory, which changes how narrow loads write registers.
    pub sramecc: Setting,
}

impl Identity {
    /// By a code object's version and ELF flags.
    pub(super) fn new(version: u32, flags: u32) -> Identity {
        let setting = |bits: u32| match bits & 3 {
            0 => Setting::Unsupported,
            1 => Setting::Any,
            2 => Setting::Off,
            _ => Setting::On,
        };
        let switch = |bit: u32| if flags & bit == 0 { Setting::Off } else { Setting::On };
        let (xnack, sramecc) = match version {
            // One bit each: whether code is for a machine with it.
            ..=3 => (switch(0x100), switch(0x200)),
            4.. => (setting(flags >> 8), setting(flags >> 10)),
        };
        Identity {
            version,
            flags,
            processor: PROCESSORS.iter().find(|p| p.mach == flags & 0xff),
            generic_version: (version >= 6).then_some((flags >> 24) as u8).filter(|&v| v > 0),
            xnack,
            sramecc,
        }
    }

    /// The processor's generation, if the processor is known.
    pub fn generation(&self) -> Option<Generation> {
        self.processor.map(|p| p.generation)
    }
}

/// A target ID as ROCm writes it: `gfx90a:sramecc+:xnack-`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.processor {
            Some(p) => f.write_str(p.name)?,
            None => write!(f, "unknown processor {:#x}", self.flags & 0xff)?,
        }
        for (name, setting) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            match setting {
                // Version 3 can't say that a processor has no such feature: what is off is left out, as ROCm does.
                Setting::Off if self.version <= 3 => {}
                Setting::On => write!(f, ":{name}+")?,
                Setting::Off => write!(f, ":{name}-")?,
                Setting::Any | Setting::Unsupported => {}
            }
        }
        Ok(())
    }
}
