//! What a fact is: a value that names its source, or nothing. A question that needs an unknown fact is refused.

use std::fmt;

/// Where a fact was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// LLVM's processor definitions and subtarget queries. Tests hold these facts to the LLVM that is linked.
    LlvmTarget,
    /// LLVM's list of intrinsics. Tests select every row of it and of its complement.
    LlvmIntrinsics,
    /// LLVM's scheduling models: passes of four cycles. Tests hold them to llvm-mca.
    LlvmSchedule,
    /// LLVM's user guide of the target.
    LlvmUsage,
    /// The buffer resources that MLIR makes.
    MlirBuffer,
    /// ROCm's tables of hardware.
    RocmSpecs,
    /// Mesa's table of hardware.
    MesaInfo,
    /// Mesa's buffer descriptors.
    MesaDescriptors,
    /// The kernel driver's tables of caches.
    KernelCaches,
    /// AMD's calculator of matrix instructions: layouts and cycles of CDNA 1, CDNA 2 and RDNA 3.
    MatrixCalculator,
    /// ROCm's article on matrix cores of CDNA 3 and 4: layouts, cycles, peaks.
    RocmMatrixBlog,
    /// ROCm's article on FP8 products on CDNA 4: its table of LDS.
    RocmFp8Blog,
    /// GPUOpen's article on WMMA of RDNA 4, which compares RDNA 2 to 4.
    GpuOpenRdna4,
    /// The hardware table of ROCm's analytical model of matrix products.
    Origami,
    /// The configuration of ROCm's composable kernels.
    ComposableKernel,
    /// AMD's white paper on CDNA 2, which compares MI100 and MI250X.
    Cdna2Paper,
    /// AMD's announcement of the Radeon RX 6000 series.
    Rx6000News,
    /// AMD's product page or data sheet of the board.
    ProductPage,
    /// The GPU database of TechPowerUp.
    TechPowerUp,
    /// A measurement published by users of the board.
    Measured,
    /// NVIDIA's CUDA C++ Programming Guide: its table of compute capabilities.
    CudaGuide,
    /// NVIDIA's CUDA Binary Utilities and tuning guides.
    TuningGuide,
    /// NVIDIA's PTX ISA.
    PtxIsa,
    /// NVIDIA's white paper on the architecture.
    Whitepaper,
    /// NVIDIA's data sheet of the board.
    DataSheet,
}

impl Source {
    /// What the source is called, and where it is.
    pub fn name(self) -> &'static str {
        match self {
            Source::LlvmTarget => "LLVM 22, llvm/lib/Target/AMDGPU (AMDGPU.td, Utils/AMDGPUBaseInfo.cpp)",
            Source::LlvmIntrinsics => "LLVM 22, llvm/include/llvm/IR/IntrinsicsAMDGPU.td",
            Source::LlvmSchedule => "LLVM 22, llvm/lib/Target/AMDGPU/SISchedule.td",
            Source::LlvmUsage => "https://llvm.org/docs/AMDGPUUsage.html",
            Source::MlirBuffer => "LLVM 22, mlir/lib/Conversion/AMDGPUToROCDL (makeBufferRsrc)",
            Source::RocmSpecs => "https://rocm.docs.amd.com/en/latest/reference/gpu-specs.html",
            Source::MesaInfo => "Mesa, src/amd/common/ac_gpu_info.c",
            Source::MesaDescriptors => "Mesa, src/amd/common/ac_descriptors.c",
            Source::KernelCaches => "Linux, drivers/gpu/drm/amd/amdkfd/kfd_crat.c",
            Source::MatrixCalculator => "https://github.com/ROCm/amd_matrix_instruction_calculator",
            Source::RocmMatrixBlog => {
                "https://rocm.blogs.amd.com/software-tools-optimization/matrix-cores-cdna/README.html"
            }
            Source::RocmFp8Blog => "ROCm blogs, FP8 GEMM Optimization on AMD CDNA 4 Architecture (March 2026)",
            Source::GpuOpenRdna4 => "https://gpuopen.com/learn/using_matrix_core_amd_rdna4/",
            Source::Origami => "https://github.com/ROCm/rocm-libraries, shared/origami (instruction latencies)",
            Source::ComposableKernel => "ROCm composable_kernel, include/ck_tile/core/config.hpp",
            Source::Cdna2Paper => "AMD CDNA 2 Architecture (white paper), notes MI200-05 and MI200-27",
            Source::Rx6000News => "AMD press release of 28 October 2020, Radeon RX 6000 Series",
            Source::ProductPage => "AMD's product page or data sheet of the board",
            Source::TechPowerUp => "https://www.techpowerup.com/gpu-specs/",
            Source::Measured => "measured by users of the board",
            Source::CudaGuide => "CUDA C++ Programming Guide, Technical Specifications per Compute Capability",
            Source::TuningGuide => "NVIDIA's tuning guide of the architecture",
            Source::PtxIsa => "PTX ISA, Matrix Fragments for mma",
            Source::Whitepaper => "NVIDIA's white paper on the architecture",
            Source::DataSheet => "NVIDIA's data sheet of the board",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A known value and where it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known<T> {
    /// The value.
    pub value: T,
    /// Its source.
    pub source: Source,
}

/// A value, if it is known.
pub type Fact<T> = Option<Known<T>>;

/// A known fact.
pub(crate) const fn known<T: Copy>(value: T, source: Source) -> Fact<T> {
    Some(Known { value, source })
}

/// Why the table doesn't answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FactError {
    /// Nobody has said, or sources disagree.
    #[error("{chip}: {fact} is not known")]
    Unknown {
        /// The chip asked about.
        chip: &'static str,
        /// What was asked.
        fact: String,
    },
    /// The chip has no such thing.
    #[error("{chip} has no {what}")]
    Absent {
        /// The chip asked about.
        chip: &'static str,
        /// What it lacks.
        what: String,
    },
    /// More was asked for than there is.
    #[error("{chip}: {what}: {used} asked for, of {most}")]
    TooMuch {
        /// The chip asked about.
        chip: &'static str,
        /// The resource.
        what: &'static str,
        /// How much was asked for.
        used: u32,
        /// How much there is.
        most: u32,
    },
}

impl From<FactError> for crate::CompileError {
    fn from(e: FactError) -> Self {
        let chip = match &e {
            FactError::Unknown { chip, .. } | FactError::Absent { chip, .. } | FactError::TooMuch { chip, .. } => *chip,
        };
        crate::CompileError::Target { target: chip.into(), reason: e.to_string() }
    }
}
