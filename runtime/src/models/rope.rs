//! The metadata of rotary position embeddings and of how they are scaled for long contexts.

use super::Problem;
use super::keys::Keys;
use hrx_ir::graph::{RopeSpec, RopeStyle, Yarn};

/// The metadata of the rotary position embedding.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RopeConfig {
    /// Elements of a head that are rotated.
    pub n_rot: u32,
    /// Base of the frequencies; 10000 where the file doesn't say.
    pub freq_base: f32,
    /// 1 / factor of scaling, else 1.
    pub freq_scale: f32,
    /// What rotated elements are multiplied by.
    pub magnitude: f32,
    /// The context that the model was trained for before it was extended.
    pub original: u32,
    /// Scaling by frequency.
    pub yarn: Option<Yarn>,
    /// `rope.scaling.yarn_log_multiplier`, as it is in the file; else 0.
    pub yarn_log_multiplier: f32,
}

impl RopeConfig {
    /// `head_dim` is 0 where the model has no attention.
    pub(super) fn read(keys: &Keys<'_>, head_dim: u32, n_ctx_train: u32) -> Result<RopeConfig, Problem> {
        let n_rot = rotated(keys, "rope.dimension_count", head_dim)?.unwrap_or(head_dim);
        // Older files have one key for linear scaling.
        let factor = match keys.positive_or_none("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => keys.positive_or_none("rope.scale_linear")?,
        };
        let kind = keys.str("rope.scaling.type")?.unwrap_or("linear");
        let factor = match kind {
            "none" => 1.0,
            "linear" | "yarn" | "longrope" => factor.unwrap_or(1.0),
            other => {
                return Err(keys.wrong("rope.scaling.type", format!("`{other}`"), "none, linear, yarn or longrope"));
            }
        };
        let yarn = (kind == "yarn").then_some(Yarn {
            beta_fast: keys.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
            beta_slow: keys.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
        });
        let mut rope = RopeConfig {
            n_rot,
            freq_base: keys.positive("rope.freq_base")?.unwrap_or(10000.0),
            freq_scale: 1.0 / factor,
            magnitude: keys.positive_or_none("rope.scaling.attn_factor")?.unwrap_or(1.0),
            original: keys.size("rope.scaling.original_context_length")?.unwrap_or(n_ctx_train),
            yarn,
            yarn_log_multiplier: keys.positive_or_none("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0),
        };
        // With the multiplier, published models have the same growth in queries' scale as in the rotation's magnitude,
        // and the two cancel here.
        if rope.yarn.is_some() && rope.yarn_log_multiplier == 0.0 {
            rope.magnitude *= rope.growth(1.0);
        }
        Ok(rope)
    }

    /// How much larger attention's scores get by extending the context: `1 + by / 10 * ln(factor)` (Peng et al. 2023).
    pub(crate) fn growth(&self, by: f32) -> f32 {
        if self.yarn.is_some() && self.freq_scale < 1.0 { 1.0 - 0.1 * by * self.freq_scale.ln() } else { 1.0 }
    }

    /// The rotation of heads of `head_dim` elements.
    pub(crate) fn spec(&self, head_dim: u32, style: RopeStyle) -> RopeSpec {
        RopeSpec {
            n_rot: self.n_rot,
            freq_scale: self.freq_scale,
            magnitude: self.magnitude,
            original: if self.yarn.is_some() { self.original } else { 0 },
            yarn: self.yarn,
            ..RopeSpec::new(head_dim, style, self.freq_base)
        }
    }
}

/// The elements of a head that a key says are rotated.
pub(crate) fn rotated(keys: &Keys<'_>, key: &str, head_dim: u32) -> Result<Option<u32>, Problem> {
    match keys.size(key)? {
        Some(n) if head_dim > 0 && (!n.is_multiple_of(2) || n > head_dim) => {
            Err(keys.wrong(key, n, format!("an even number of at most {head_dim}, a head's elements")))
        }
        n => Ok(n),
    }
}
