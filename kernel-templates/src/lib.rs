//! Parametrised kernels in tile IR.
//!
//! Each family has a struct of *facts*: everything that a kernel is specialised on. Facts name the kernel, list its
//! argument [slots](Slot) in order and make it:
//!
//! ```
//! use hrx_templates::{Output, Real, RmsNorm, RowCut, Slot, Template};
//! let cut = RowCut::VECTORS;
//! let norm = RmsNorm { k: 576, eps: Real(1e-5), residual: false, indexed: false, output: Output::Q8, cut };
//! assert_eq!(norm.name(), "rms_norm_k576_eps1em5_q8");
//! assert_eq!(norm.slots(), [Slot::NTokens, Slot::X, Slot::NormWeight, Slot::OutCodes, Slot::OutScales]);
//! let kernel = norm.kernel().expect("supported facts");
//! assert_eq!(kernel.params.len(), norm.slots().len());
//! ```
//!
//! Nothing that changes from token to token is a fact: the number of tokens, positions and the context length are
//! arguments. Sizes of tiles are facts; they are chosen from a [`TargetShape`], so that no target is named here.
//!
//! Activations are rows of `f32`, or *Q8*: two arrays, codes `i8 [T, K]` and scales `f32 [T, K/32]`. For each 32
//! neighbours the scale is absmax / 127 and a code is round(x * (127 / absmax)), ties to even, 0 where absmax is 0.
//! Or *Q15*, the same with numbers of 15 bits: the scale is absmax / 16256, and a number 128 * high + low, two bytes.
//! A kernel writes its output in the form that the consumer reads ([`Output`]).
//!
//! What a kernel writes is no memory that it also reads, but for a state: lanes of different waves may compute the same
//! element, and one of them may read what another has written.
//!
//! One token's results do not depend on which other tokens share a launch: every tiling adds in the same order.

mod argmax;
mod attention;
mod cost;
mod embed;
mod emit;
mod expert_rows;
mod expert_sum;
mod facts;
mod fixed;
mod group;
mod group_norm;
mod linear;
mod norm;
mod packed;
mod recurrence;
mod regroup;
mod rope;
mod route;
mod row;
mod rowwise;
mod short_conv;
mod slot;
mod spread;
mod turn;

pub use argmax::ArgMax;
pub use attention::{
    Attention, AttentionCut, AttentionJoin, AttentionSizes, AttentionTiling, OwnHeads, TileAttention, WaveAttention,
};
pub use cost::{Candidate, Term};
pub use embed::Embed;
pub use expert_rows::ExpertRows;
pub use expert_sum::ExpertSum;
pub use facts::{Activation, Limit, Output, Real, RowCut, TargetShape, TemplateError, Waves, WeightType};
pub use group::{Group, GroupClass};
pub use group_norm::GroupNorm;
pub use linear::{Experts, Gated, Linear, LinearCut, LinearTiling, MatrixTiling, PanelTiling, RowsTiling};
pub use norm::RmsNorm;
pub use packed::{Pack, Panels};
pub use recurrence::{KeyHeads, Recurrence};
pub use regroup::{Parts, Regroup};
pub use rope::{Rope, RopeOutput};
pub use route::{Route, Routing, Scoring};
pub use rowwise::{RowOp, Rowwise};
pub use short_conv::ShortConv;
pub use slot::{Signature, Slot};
pub use spread::{Combine, Spread};
pub use turn::{Rotation, Turning};

use hrx_ir::tile::Kernel;

/// A family of kernels with its facts.
pub trait Template {
    /// The kernel's name: letters, digits and underscores, the same for the same facts and different for others.
    fn name(&self) -> String;

    /// The kernel's arguments. For supported facts; see [`kernel`](Template::kernel) for what is supported.
    fn signature(&self) -> Signature;

    /// What each argument of the kernel is, in the order of its parameters.
    fn slots(&self) -> Vec<Slot> {
        self.signature().slots
    }

    /// The kernel.
    ///
    /// # Errors
    /// The fact that the family does not support, and why.
    fn kernel(&self) -> Result<Kernel, TemplateError>;
}

macro_rules! requests {
    ($($family:ident: $doc:literal,)*) => {
        /// A kernel of any family: the key under which an executor keeps it.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Request {
            $(#[doc = $doc] $family($family),)*
        }

        impl Template for Request {
            fn name(&self) -> String {
                match self { $(Request::$family(t) => t.name(),)* }
            }
            fn signature(&self) -> Signature {
                match self { $(Request::$family(t) => t.signature(),)* }
            }
            fn kernel(&self) -> Result<Kernel, TemplateError> {
                match self { $(Request::$family(t) => t.kernel(),)* }
            }
        }

        $(impl From<$family> for Request {
            fn from(t: $family) -> Request {
                Request::$family(t)
            }
        })*
    };
}

requests! {
    RmsNorm: "RMS normalisation of rows.",
    Linear: "Product with one or two weight matrices.",
    Pack: "A matrix packed for vectors.",
    Rope: "Rotary positions, and stores into a KV cache.",
    Attention: "Attention over a KV cache.",
    AttentionJoin: "What parts of attention come to.",
    Embed: "Rows of an embedding table.",
    Rowwise: "Elementwise work on rows.",
    Spread: "Rows combined with a number for each group.",
    Regroup: "Parts of rows put together anew.",
    GroupNorm: "Norms of groups of a row.",
    Route: "The router of a mixture of experts.",
    ExpertRows: "For each expert the rows that go to it.",
    ExpertSum: "The weighed sum of experts' results.",
    ShortConv: "A causal convolution along the sequence.",
    Recurrence: "A linear recurrence along the sequence.",
    ArgMax: "Index of the largest element of each row.",
    Group: "Several kernels in one launch.",
}
