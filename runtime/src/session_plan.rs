//! What a session will take, before anything of it is made.

use crate::device::Device;
use crate::error::Error;
use crate::exec::Drafts;
use crate::exec::lower::CACHE_ELEM;
use crate::exec::weights::Needed;
use crate::fit::Need;
use crate::model::ModelData;
use crate::session::SessionOptions;
use hrx_ir::graph::{Graph, KvCache, Rows, State};
use hrx_templates::TargetShape;

/// Room in caches is a multiple of this, so that kernels can read whole tiles of positions.
pub(crate) const CTX_ALIGN: u32 = 64;

/// The context of a session whose options don't say.
const DEFAULT_CTX: u32 = 4096;

/// A session's programs and sizes.
pub(crate) struct SessionPlan {
    pub(crate) drafts: Drafts,
    /// The most tokens that a sequence may have.
    pub(crate) n_ctx: u32,
    /// Rows of the caches that a sequence has, so that kernels can read whole tiles.
    pub(crate) room: u32,
    /// What it takes of the device's memory.
    pub(crate) need: Need,
    /// Which weights it reads in which form.
    pub(crate) needed: Needed,
    /// Bytes that packed matrices would take, where there is no room for them.
    pub(crate) unpacked: Option<u64>,
}

impl SessionPlan {
    /// Plans a session on a device that has this much memory free. Where matrices are packed for the device and don't fit,
    /// the plan has them as they are stored, which takes nothing beside the file. Whether it fits else is not asked.
    ///
    /// # Errors
    /// If the options make no sense, or a template refuses the model.
    pub(crate) fn new(
        model: &ModelData,
        device: &dyn Device,
        free: u64,
        options: &SessionOptions,
    ) -> Result<SessionPlan, Error> {
        let shape = crate::exec::target_shape(device.target());
        let plan = SessionPlan::of(model, device, &shape, options)?;
        if !shape.packs || plan.need.total() <= free {
            return Ok(plan);
        }
        let stored = SessionPlan::of(model, device, &shape.without_packing(), options)?;
        let (packed, left) = (plan.need.weights, stored.need.weights);
        Ok(if left < packed { SessionPlan { unpacked: Some(packed - left), ..stored } } else { plan })
    }

    fn of(
        model: &ModelData,
        device: &dyn Device,
        shape: &TargetShape,
        options: &SessionOptions,
    ) -> Result<SessionPlan, Error> {
        let graph = &model.graph;
        let n_train = model.config.n_ctx_train;
        let n_ctx = if options.n_ctx == 0 { n_train.min(DEFAULT_CTX) } else { options.n_ctx };
        let n_seq = options.sequences;
        if n_ctx == 0 || options.n_batch == 0 || n_seq == 0 {
            return Err(Error::Invalid("a context and a batch have at least one token, a session one sequence".into()));
        }
        if n_seq > 1 && graph.is_recurrent() {
            return Err(Error::Invalid(format!(
                "{n_seq} sequences: what this model keeps of a sequence is not kept by position, so a session has one"
            )));
        }
        let room = n_ctx.checked_next_multiple_of(CTX_ALIGN);
        let rows = room.and_then(|n| n.checked_mul(n_seq)).filter(|&n| n <= i32::MAX as u32 / 1024);
        let (Some(room), Some(rows)) = (room, rows) else {
            let of = if n_seq == 1 { String::new() } else { format!("{n_seq} times ") };
            return Err(Error::Invalid(format!("a context of {of}{n_ctx} tokens is beyond what kernels index")));
        };
        let n_batch = options.n_batch.min(n_ctx);
        let drafts = Drafts::new(graph, options.outputs, [n_batch, n_seq], options.activations, shape)?;
        let needed = Needed::of([&drafts.decode, &drafts.batch], shape);
        let need = Need {
            weights: model.weight_bytes(device, &needed)?,
            elements: model.weight_elements(),
            kv: kv_bytes(graph, rows),
            per_token: (kv_bytes(graph, 2 * CTX_ALIGN) - kv_bytes(graph, CTX_ALIGN)) / u64::from(CTX_ALIGN)
                * u64::from(n_seq),
            arena: drafts.decode.arena_bytes().max(drafts.batch.arena_bytes()),
            n_ctx,
        };
        Ok(SessionPlan { drafts, n_ctx, room, need, needed, unpacked: None })
    }
}

/// Bytes of the keys and of the values of a layer.
pub(crate) fn cache_bytes(c: KvCache, room: u32) -> [u64; 2] {
    let of = |dim: u32| u64::from(c.n_kv_head) * u64::from(dim) * u64::from(CACHE_ELEM.bytes()) * u64::from(room);
    [of(c.head_dim), if c.shared { 0 } else { of(c.value_dim) }]
}

/// Bytes of a state that is not kept by position.
pub(crate) fn state_bytes(s: State) -> u64 {
    match s.shape() {
        Some(shape) => match shape.rows {
            Rows::Const(n) => 4 * u64::from(n) * u64::from(shape.cols),
            _ => 0,
        },
        None => 0,
    }
}

/// Bytes of all that outlives a step.
pub(crate) fn kv_bytes(graph: &Graph, room: u32) -> u64 {
    let bytes = |s: State| match s {
        State::Kv(c) => cache_bytes(c, room).iter().sum(),
        other => state_bytes(other),
    };
    graph.states().map(|(_, s)| bytes(s)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CacheChoice, Model, ModelOptions};
    use crate::synthetic::Synthetic;

    #[test]
    fn matrices_that_do_not_fit_packed_are_read_as_they_are_stored() {
        let synthetic: Synthetic = "qwen3-0.6b:q4_k_m".parse().expect("a shape");
        let options = ModelOptions { cache: CacheChoice::Disabled, threads: 1, ..ModelOptions::default() };
        let model = Model::synthetic(&synthetic, &options).expect("a model");
        let device = model.kernels().device();
        let options = SessionOptions { n_ctx: 64, ..SessionOptions::default() };
        let plan = |free| SessionPlan::new(model.data(), &**device, free, &options).expect("a plan");
        let packed = plan(u64::MAX);
        assert_eq!(packed.unpacked, None);
        let exactly = plan(packed.need.total());
        assert_eq!((exactly.unpacked, exactly.need.total()), (None, packed.need.total()));
        let stored = plan(packed.need.total() - 1);
        let saved = packed.need.weights - stored.need.weights;
        assert_eq!(stored.unpacked, Some(saved));
        assert!(saved > 0 && stored.needed.requests(&model.data().graph).is_empty(), "nothing is packed");
    }
}
