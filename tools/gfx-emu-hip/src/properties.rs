//! Device properties in both layouts: that of `hipGetDeviceProperties`, and that of `hipGetDevicePropertiesR0600`, which
//! programs compiled against ROCm 6 or later call.
//!
//! A property is a value at an offset; fields that are not in the list are zero. Offsets are from the struct
//! `hipDeviceProp_t` of hip/hip_runtime_api.h, versions 5.2 and 6.0, as clang lays it out.

use hrx_compiler::target::amd::Chip;

/// What is known of the emulated device.
pub struct Properties {
    /// The chip.
    pub chip: &'static Chip,
    /// Bytes of memory.
    pub memory: usize,
}

/// Offsets of the fields that are filled, in one layout.
struct Layout {
    bytes: usize,
    memory: usize,
    lds: usize,
    wave: usize,
    block: usize,
    block_axes: usize,
    grid_axes: usize,
    major: usize,
    minor: usize,
    units: usize,
    work_items: usize,
    concurrent: usize,
    host_memory: usize,
    lds_unit: usize,
    arch: usize,
}

const OLD: Layout = Layout {
    bytes: 792,
    memory: 256,
    lds: 264,
    wave: 276,
    block: 280,
    block_axes: 284,
    grid_axes: 296,
    major: 328,
    minor: 332,
    units: 336,
    work_items: 344,
    concurrent: 360,
    host_memory: 388,
    lds_unit: 376,
    arch: 396,
};

const R0600: Layout = Layout {
    bytes: 1472,
    memory: 288,
    lds: 296,
    wave: 308,
    block: 320,
    block_axes: 324,
    grid_axes: 336,
    major: 360,
    minor: 364,
    units: 388,
    work_items: 624,
    concurrent: 576,
    host_memory: 400,
    lds_unit: 1416,
    arch: 1160,
};

/// The most workgroups along each axis.
pub const GRID: [i32; 3] = [i32::MAX, 65_536, 65_536];

impl Properties {
    /// In the layout of ROCm 5.
    pub fn old(&self) -> Vec<u8> {
        self.write(&OLD)
    }

    /// In the layout of ROCm 6.
    pub fn r0600(&self) -> Vec<u8> {
        self.write(&R0600)
    }

    /// What people call the device.
    pub fn name(&self) -> String {
        format!("emulated {}", self.chip.name)
    }

    /// Compute units of the typical board; one if none is known.
    pub fn units(&self) -> i32 {
        self.chip.board().map_or(1, |b| b.cus as i32)
    }

    /// Major version, and minor version with stepping, as HIP gives them: 11 and 0 for gfx1100, 9 and 4 for gfx942.
    pub fn version(&self) -> [i32; 2] {
        let digits = self.chip.name.trim_start_matches("gfx");
        let (major, rest) = digits.split_at(digits.len().saturating_sub(2));
        [major.parse().unwrap_or(0), rest.chars().next().and_then(|c| c.to_digit(16)).map_or(0, |n| n as i32)]
    }

    fn write(&self, layout: &Layout) -> Vec<u8> {
        let mut bytes = vec![0; layout.bytes];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let chip = self.chip;
        let items = chip.max_work_items as i32;
        let words = |values: &[i32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        put(0, self.name().as_bytes());
        put(layout.memory, &self.memory.to_le_bytes());
        put(layout.lds, &(chip.lds as usize).to_le_bytes());
        put(layout.wave, &words(&[chip.wave as i32]));
        put(layout.block, &words(&[items]));
        put(layout.block_axes, &words(&[items; 3]));
        put(layout.grid_axes, &words(&GRID));
        let [major, minor] = self.version();
        put(layout.major, &words(&[major]));
        put(layout.minor, &words(&[minor]));
        put(layout.units, &words(&[self.units()]));
        put(layout.work_items, &words(&[(chip.simds * chip.max_waves * chip.wave) as i32]));
        put(layout.concurrent, &words(&[1]));
        put(layout.host_memory, &words(&[1]));
        put(layout.lds_unit, &(chip.lds_block as usize).to_le_bytes());
        put(layout.arch, chip.name.as_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hrx_compiler::target::amd::CHIPS;

    #[test]
    fn both_layouts_say_the_same() {
        for chip in CHIPS {
            let properties = Properties { chip, memory: 1 << 34 };
            for (bytes, layout) in [(properties.old(), &OLD), (properties.r0600(), &R0600)] {
                let word = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
                let name = |at: usize| bytes[at..].split(|b| *b == 0).next().map(String::from_utf8_lossy);
                assert_eq!(bytes.len(), layout.bytes);
                assert_eq!(name(layout.arch).as_deref(), Some(chip.name));
                assert_eq!(name(0), Some(properties.name().into()));
                assert_eq!(word(layout.wave), chip.wave as i32);
                assert_eq!(word(layout.memory + 4), 4, "the high half of 16 GiB");
                assert_eq!(word(layout.block_axes + 8), chip.max_work_items as i32);
                assert_eq!(word(layout.grid_axes), i32::MAX);
            }
        }
    }

    #[test]
    fn versions_are_read_of_names() {
        let version = |name: &str| {
            let chip = CHIPS.iter().find(|c| c.name == name).expect("a chip");
            Properties { chip, memory: 0 }.version()
        };
        assert_eq!((version("gfx1100"), version("gfx942"), version("gfx1151")), ([11, 0], [9, 4], [11, 5]));
    }

    #[test]
    fn offsets_of_the_older_layout_are_hips() {
        use hip_sys::hiprt::hipDeviceProp_t as P;
        use std::mem::{offset_of, size_of};
        let theirs = [
            offset_of!(P, totalGlobalMem),
            offset_of!(P, sharedMemPerBlock),
            offset_of!(P, warpSize),
            offset_of!(P, maxThreadsPerBlock),
            offset_of!(P, maxThreadsDim),
            offset_of!(P, maxGridSize),
            offset_of!(P, major),
            offset_of!(P, minor),
            offset_of!(P, multiProcessorCount),
            offset_of!(P, maxThreadsPerMultiProcessor),
            offset_of!(P, concurrentKernels),
            offset_of!(P, canMapHostMemory),
            offset_of!(P, maxSharedMemoryPerMultiProcessor),
            offset_of!(P, gcnArchName),
            size_of::<P>(),
        ];
        let Layout { bytes, memory, lds, wave, block, block_axes, grid_axes, major, minor, units, work_items, .. } =
            OLD;
        let ours = [
            memory,
            lds,
            wave,
            block,
            block_axes,
            grid_axes,
            major,
            minor,
            units,
            work_items,
            OLD.concurrent,
            OLD.host_memory,
            OLD.lds_unit,
            OLD.arch,
            bytes,
        ];
        assert_eq!(ours, theirs);
    }
}
