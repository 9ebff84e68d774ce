//! x86-64 processors.

use crate::CompileError;

/// The host's vector extensions that code generation chooses by, in LLVM's spelling. The order is that of the printed
/// target name; the first [`BASE`] are required.
const FEATURES: &[&str] =
    &["avx2", "fma", "f16c", "bmi", "bmi2", "avxvnni", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni"];

/// How many of [`FEATURES`] a host must have: those that every x86-64-v3 processor has.
const BASE: usize = 5;

/// An x86-64 processor, by its vector extensions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HostTarget {
    features: Vec<&'static str>,
}

impl HostTarget {
    /// This machine's processor, by CPUID.
    ///
    /// # Errors
    /// If the processor lacks what the code generator needs (AVX2, FMA, F16C, BMI).
    pub(super) fn detect() -> Result<HostTarget, CompileError> {
        #[cfg(target_arch = "x86_64")]
        {
            let has = |name: &str| match name {
                "avx2" => is_x86_feature_detected!("avx2"),
                "fma" => is_x86_feature_detected!("fma"),
                "f16c" => is_x86_feature_detected!("f16c"),
                "bmi" => is_x86_feature_detected!("bmi1"),
                "bmi2" => is_x86_feature_detected!("bmi2"),
                "avxvnni" => is_x86_feature_detected!("avxvnni"),
                "avx512f" => is_x86_feature_detected!("avx512f"),
                "avx512bw" => is_x86_feature_detected!("avx512bw"),
                "avx512dq" => is_x86_feature_detected!("avx512dq"),
                "avx512vl" => is_x86_feature_detected!("avx512vl"),
                "avx512vnni" => is_x86_feature_detected!("avx512vnni"),
                _ => false,
            };
            HostTarget::with_features(FEATURES.iter().copied().filter(|f| has(f)).collect())
        }
        #[cfg(not(target_arch = "x86_64"))]
        Err(CompileError::Target {
            target: std::env::consts::ARCH.into(),
            reason: "host code is generated for x86-64 only".into(),
        })
    }

    /// The least x86-64 that host code is generated for: AVX2 without AVX-512 or VNNI.
    pub(super) fn x86_64_v3() -> HostTarget {
        HostTarget { features: FEATURES[..BASE].to_vec() }
    }

    fn with_features(features: Vec<&'static str>) -> Result<HostTarget, CompileError> {
        if let Some(missing) = FEATURES[..BASE].iter().find(|f| !features.contains(f)) {
            return Err(CompileError::Target {
                target: "host".into(),
                reason: format!("this processor has no {missing}; host code needs {}", FEATURES[..BASE].join(", ")),
            });
        }
        Ok(HostTarget { features })
    }

    /// A name that says all that code generation depends on: equal names, equal code.
    pub fn name(&self) -> String {
        format!("x86-64+{}", self.features.join("+"))
    }

    /// Whether the target has an extension, by LLVM's name for it.
    pub fn has(&self, feature: &str) -> bool {
        self.features.contains(&feature)
    }

    /// Whether dot products of any unsigned with signed bytes are one instruction at the full width of vectors.
    pub fn has_byte_dot(&self) -> bool {
        self.has("avx512vnni") || (self.has("avxvnni") && self.vector_lanes() == 8)
    }

    /// LLVM's triple.
    pub(crate) fn triple(&self) -> &'static str {
        "x86_64-unknown-linux-gnu"
    }

    /// LLVM's processor, whose scheduling model and base features are used.
    pub(crate) fn llvm_cpu(&self) -> &'static str {
        if self.has("avx512vl") { "x86-64-v4" } else { "x86-64-v3" }
    }

    /// LLVM's feature string.
    pub(crate) fn llvm_features(&self) -> String {
        self.features.iter().map(|f| format!("+{f}")).collect::<Vec<_>>().join(",")
    }

    /// 32-bit lanes of a vector register.
    pub fn vector_lanes(&self) -> u32 {
        if self.has("avx512vl") { 16 } else { 8 }
    }

    /// Vector registers.
    pub fn vector_registers(&self) -> u32 {
        if self.has("avx512vl") { 32 } else { 16 }
    }
}
