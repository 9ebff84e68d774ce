//! NVIDIA GPUs: what is known of each compute capability, for host and device code.
//!
//! Code is PTX, which the driver assembles for the GPU that is there. PTX for a capability runs on every later one (PTX
//! ISA, "PTX Module Directives: .target"), so a GPU that is newer than the rows here gets the code of the newest row that
//! is not beyond it ([`for_capability`]). What is older than the first row is refused.
//!
//! The words are those of the other GPUs: a wave is NVIDIA's warp, LDS its shared memory, a workgroup its thread block, a
//! SIMD one of the four partitions of a multiprocessor.

mod matrix;
mod report;

pub use report::report;

use crate::target::amd::MatrixOp;
use crate::target::fact::{Fact, Known, Source, known};
use std::hash::{Hash, Hasher};

/// Lanes of a wave, of every NVIDIA GPU so far ([`Source::CudaGuide`]).
pub const WARP: u32 = 32;

/// Registers of a lane that code can name.
pub const THREAD_REGISTERS: Known<u32> = Known { value: 255, source: Source::CudaGuide };

/// Registers of a multiprocessor, 32 bits each.
pub const REGISTERS: Known<u32> = Known { value: 64 << 10, source: Source::CudaGuide };

/// Registers are given to a wave in multiples of this.
pub const REGISTER_GRANULE: Known<u32> = Known { value: 256, source: Source::TuningGuide };

/// Partitions of a multiprocessor, each with a scheduler and a fourth of the registers.
pub const PARTITIONS: Known<u32> = Known { value: 4, source: Source::Whitepaper };

/// Threads of a workgroup.
pub const MAX_THREADS: Known<u32> = Known { value: 1024, source: Source::CudaGuide };

/// Bytes of a line of the caches; memory is read in sectors of a fourth of it.
pub const LINE: Known<u32> = Known { value: 128, source: Source::CudaGuide };

/// Banks of LDS, each 4 bytes wide.
pub const BANKS: Known<u32> = Known { value: 32, source: Source::CudaGuide };

/// Bytes of LDS that code can declare; what a workgroup has beyond them, launches ask the driver for.
pub const DECLARED_SHARED: Known<u32> = Known { value: 48 << 10, source: Source::CudaGuide };

/// What a compute capability is to the code generator and to the host.
#[derive(Debug)]
pub struct Chip {
    /// LLVM's and PTX's name of it.
    pub name: &'static str,
    /// NVIDIA's name of its generation.
    pub generation: &'static str,
    /// The compute capability: major, minor.
    pub capability: [u32; 2],
    /// The instructions of its matrix unit.
    pub matrix_ops: &'static [MatrixOp],
    /// Most waves of a multiprocessor.
    pub max_waves: Known<u32>,
    /// Most workgroups of a multiprocessor.
    pub max_workgroups: Known<u32>,
    /// Bytes of LDS that a workgroup can have at most.
    pub most_shared: Known<u32>,
    /// Bytes of LDS of a multiprocessor.
    pub shared: Known<u32>,
    /// KiB of L2 of the typical board.
    pub l2: Fact<u32>,
    /// The typical board.
    pub board: Board,
}

/// A graphics card or an accelerator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Board {
    /// Its name.
    pub name: &'static str,
    /// Its multiprocessors.
    pub multiprocessors: Known<u32>,
    /// Memory bandwidth in GB/s.
    pub bandwidth: Known<f32>,
    /// Peak of dense `f16` matrix products with `f32` sums, in TFLOP/s.
    pub f16_matrix: Fact<f32>,
}

/// Chips are the rows of [`CHIPS`], and a name is that of one row.
impl PartialEq for Chip {
    fn eq(&self, other: &Chip) -> bool {
        self.name == other.name
    }
}

impl Eq for Chip {}

impl Hash for Chip {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

const fn guide(value: u32) -> Known<u32> {
    Known { value, source: Source::CudaGuide }
}

const fn sheet(value: f32) -> Known<f32> {
    Known { value, source: Source::DataSheet }
}

const fn paper(value: u32) -> Known<u32> {
    Known { value, source: Source::Whitepaper }
}

/// All rows, by rising capability.
pub static CHIPS: &[Chip] = &[
    Chip {
        name: "sm_80",
        generation: "Ampere",
        capability: [8, 0],
        matrix_ops: matrix::SM80,
        max_waves: guide(64),
        max_workgroups: guide(32),
        most_shared: guide(163 << 10),
        shared: guide(164 << 10),
        l2: known(40 << 10, Source::Whitepaper),
        board: Board {
            name: "A100 SXM 80GB",
            multiprocessors: paper(108),
            bandwidth: sheet(2039.0),
            f16_matrix: known(312.0, Source::DataSheet),
        },
    },
    Chip {
        name: "sm_86",
        generation: "Ampere",
        capability: [8, 6],
        matrix_ops: matrix::SM86,
        max_waves: guide(48),
        max_workgroups: guide(16),
        most_shared: guide(99 << 10),
        shared: guide(100 << 10),
        l2: known(6 << 10, Source::Whitepaper),
        board: Board {
            name: "GeForce RTX 3090",
            multiprocessors: paper(82),
            bandwidth: sheet(936.0),
            f16_matrix: known(71.0, Source::Whitepaper),
        },
    },
    Chip {
        name: "sm_89",
        generation: "Ada",
        capability: [8, 9],
        matrix_ops: matrix::SM86,
        max_waves: guide(48),
        max_workgroups: guide(24),
        most_shared: guide(99 << 10),
        shared: guide(100 << 10),
        l2: known(72 << 10, Source::Whitepaper),
        board: Board {
            name: "GeForce RTX 4090",
            multiprocessors: paper(128),
            bandwidth: sheet(1008.0),
            f16_matrix: known(165.2, Source::Whitepaper),
        },
    },
    Chip {
        name: "sm_90",
        generation: "Hopper",
        capability: [9, 0],
        matrix_ops: matrix::SM90,
        max_waves: guide(64),
        max_workgroups: guide(32),
        most_shared: guide(227 << 10),
        shared: guide(228 << 10),
        l2: known(50 << 10, Source::Whitepaper),
        board: Board {
            name: "H200 SXM",
            multiprocessors: paper(132),
            bandwidth: sheet(4800.0),
            f16_matrix: known(989.5, Source::DataSheet),
        },
    },
    Chip {
        name: "sm_100",
        generation: "Blackwell",
        capability: [10, 0],
        matrix_ops: matrix::SM100,
        max_waves: guide(64),
        max_workgroups: guide(32),
        most_shared: guide(227 << 10),
        shared: guide(228 << 10),
        l2: None,
        board: Board {
            name: "B200 SXM",
            multiprocessors: paper(148),
            bandwidth: sheet(8000.0),
            f16_matrix: known(2250.0, Source::DataSheet),
        },
    },
    Chip {
        name: "sm_120",
        generation: "Blackwell",
        capability: [12, 0],
        matrix_ops: matrix::SM86,
        max_waves: guide(48),
        max_workgroups: guide(24),
        most_shared: guide(99 << 10),
        shared: guide(100 << 10),
        l2: known(96 << 10, Source::Whitepaper),
        board: Board {
            name: "GeForce RTX 5090",
            multiprocessors: paper(170),
            bandwidth: sheet(1792.0),
            f16_matrix: known(209.5, Source::Whitepaper),
        },
    },
];

/// The row of that name.
pub fn find(name: &str) -> Option<&'static Chip> {
    CHIPS.iter().find(|c| c.name == name)
}

/// The row whose code runs on a GPU of that compute capability: the newest that is not beyond it.
pub fn for_capability(capability: [u32; 2]) -> Option<&'static Chip> {
    CHIPS.iter().rfind(|c| c.capability <= capability)
}

impl Chip {
    /// Vector registers of a partition, as waves see them: each has a value for every lane.
    pub fn partition_registers(&self) -> u32 {
        REGISTERS.value / PARTITIONS.value / WARP
    }

    /// Most workgroups of a multiprocessor by threads, LDS and places, whatever their registers. Each takes a little LDS
    /// of its own for the system.
    pub fn workgroups(&self, threads: u32, lds: u32) -> u32 {
        let waves = threads.div_ceil(WARP).max(1);
        let each = lds + (self.shared.value - self.most_shared.value);
        (self.max_waves.value / waves).min(self.shared.value / each).min(self.max_workgroups.value)
    }

    /// Whether a launch may begin before the one in front of it has ended, and its code wait for that (PTX ISA,
    /// "griddepcontrol": from `sm_90` on).
    pub fn begins_early(&self) -> bool {
        self.capability >= [9, 0]
    }

    /// Registers of a lane come in multiples of this.
    pub fn lane_granule(&self) -> u32 {
        REGISTER_GRANULE.value / WARP
    }

    /// Most waves of a partition.
    pub fn partition_waves(&self) -> u32 {
        self.max_waves.value / PARTITIONS.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::amd::MatrixType;

    #[test]
    fn newer_gpus_get_the_code_of_the_newest_row_and_older_ones_none() {
        let name = |c| for_capability(c).map(|c| c.name);
        assert_eq!(name([7, 5]), None);
        assert_eq!(name([8, 0]), Some("sm_80"));
        assert_eq!(name([8, 7]), Some("sm_86"));
        assert_eq!(name([9, 0]), Some("sm_90"));
        assert_eq!(name([10, 3]), Some("sm_100"));
        assert_eq!(name([12, 1]), Some("sm_120"));
        assert!(CHIPS.windows(2).all(|w| w[0].capability < w[1].capability));
    }

    /// Every element of each tile is in exactly one place.
    #[test]
    fn fragments_are_permutations() {
        for op in CHIPS.iter().flat_map(|c| c.matrix_ops) {
            let (mut a, mut d) = (Vec::new(), Vec::new());
            for lane in 0..WARP {
                a.extend((0..op.factor_elements()).map(|i| op.a_at(lane, i)));
                d.extend((0..op.result_elements()).filter_map(|i| op.d_at(lane, i)));
            }
            for (mut places, size) in [(a, [op.m, op.k]), (d, [op.m, op.n])] {
                places.sort_unstable();
                let all: Vec<(u32, u32)> = (0..size[0]).flat_map(|r| (0..size[1]).map(move |c| (r, c))).collect();
                assert_eq!(places, all, "{op}");
            }
        }
    }

    /// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "mma.m16n8k32": formulas of rows and
    /// columns, the upper columns of D and B being those of the second instruction.
    #[test]
    fn fragments_are_those_of_the_ptx_isa() {
        for op in CHIPS.iter().flat_map(|c| c.matrix_ops) {
            let word = 32 / op.a.bits();
            for lane in 0..WARP {
                let (group, thread) = (lane >> 2, lane & 3);
                for i in 0..op.factor_elements() {
                    // Registers here: both words of a row, then those of the row below by 8; in PTX rows change first.
                    let (register, at) = (i / word, i % word);
                    let (upper_k, upper_row) = (register & 1, register >> 1);
                    let wanted = (group + 8 * upper_row, thread * word + at + upper_k * 4 * word);
                    assert_eq!(op.a_at(lane, i), wanted, "{op}");
                }
                for i in 0..op.result_elements() {
                    let (odd, second, below) = (i & 1, i >> 1 & 1, i >> 2);
                    assert_eq!(op.d_at(lane, i), Some((group + 8 * below, thread * 2 + odd + 8 * second)), "{op}");
                }
            }
            assert!(matches!(op.a, MatrixType::F16 | MatrixType::Bf16 | MatrixType::I8));
        }
    }

    /// Cycles are what the published peak of the typical board says, at some clock that a GPU may have.
    #[test]
    fn cycles_agree_with_the_peak() {
        for chip in CHIPS {
            let op = chip.matrix_ops.iter().find(|op| op.a == MatrixType::F16).expect("f16");
            let (peak, cycles) = (chip.board.f16_matrix.expect("a peak").value, op.cycles.expect("cycles").value);
            let each = op.flops() / cycles * PARTITIONS.value * chip.board.multiprocessors.value;
            let mhz = f64::from(peak) * 1e6 / f64::from(each);
            assert!((1350.0..2650.0).contains(&mhz), "{}: {mhz} MHz", chip.name);
        }
    }
}
