//! In which forms programs read a model's weights, and the kernels that bring them to these.

use super::kernels::KernelStore;
use super::lower::Operand;
use super::program::Draft;
use crate::device::{Arg, Buffer, KernelId, Launch};
use crate::error::Error;
use hrx_ir::graph::{Graph, Rows, Tensor};
use hrx_ir::tile::Content;
use hrx_templates::{Pack, Panels, Request, Slot, TargetShape, Template, WeightType};
use std::collections::{HashMap, HashSet};

/// Where a model's weights are, by tensor.
#[derive(Clone, Default)]
pub struct Weights {
    /// As they are in the file.
    pub stored: HashMap<Tensor, Buffer>,
    /// Packed for the target's vectors.
    pub packed: HashMap<Tensor, Buffer>,
}

/// Which weights programs read in which form.
pub struct Needed {
    stored: HashSet<Tensor>,
    packed: HashSet<Tensor>,
    panels: Option<Panels>,
}

impl Needed {
    /// What some programs for a target read.
    pub fn of<'a>(drafts: impl IntoIterator<Item = &'a Draft>, shape: &TargetShape) -> Needed {
        let mut needed = Needed { stored: HashSet::new(), packed: HashSet::new(), panels: Panels::of(shape) };
        for step in drafts.into_iter().flat_map(|d| &d.lowered().steps) {
            for operand in &step.operands {
                match *operand {
                    Operand::Weight(t) => needed.stored.insert(t),
                    Operand::Packed(t) => needed.packed.insert(t),
                    _ => false,
                };
            }
        }
        needed
    }

    /// Whether a weight is read as it is in the file.
    pub fn reads_stored(&self, t: Tensor) -> bool {
        self.stored.contains(&t)
    }

    /// The kernel that packs a weight, where it is read packed.
    pub fn pack(&self, graph: &Graph, t: Tensor) -> Option<Pack> {
        let panels = self.panels.filter(|_| self.packed.contains(&t))?;
        let weight = match graph.weight(t)?.content {
            Content::Quant(f) => WeightType::Quant(f),
            Content::Elem(e) => WeightType::Float(e),
        };
        let Rows::Const(n) = graph.shape(t).rows else { return None };
        Some(Pack { n, k: graph.cols(t), weight, panels })
    }

    /// The kernels that pack weights, with the weights.
    pub fn requests(&self, graph: &Graph) -> Vec<(Tensor, Pack)> {
        graph.weights().filter_map(|(t, _)| Some((t, self.pack(graph, t)?))).collect()
    }
}

/// Bytes of a packed matrix.
pub(crate) fn packed_bytes(pack: &Pack) -> u64 {
    pack.panels.bytes(pack.weight, [pack.n, pack.k]).unwrap_or_else(|| unreachable!("only what can be packed is"))
}

/// Packed matrices begin at multiples of this.
const ALIGN: u64 = 4096;

/// Packs some weights into one memory.
pub(crate) struct Packing<'a> {
    store: &'a KernelStore,
    /// The kernel for each, and its place.
    jobs: HashMap<Tensor, (Pack, KernelId, u64)>,
    memory: Option<Buffer>,
}

impl<'a> Packing<'a> {
    /// Takes the memory, and makes the kernels that are not there yet.
    pub(crate) fn new(store: &'a KernelStore, wanted: Vec<(Tensor, Pack)>) -> Result<Packing<'a>, Error> {
        let requests: Vec<Request> = wanted.iter().map(|(_, pack)| pack.clone().into()).collect();
        let kernels = store.get(&requests)?;
        let mut end = 0;
        let mut jobs = HashMap::new();
        for ((t, pack), kernel) in wanted.into_iter().zip(kernels) {
            let bytes = packed_bytes(&pack).next_multiple_of(ALIGN);
            jobs.insert(t, (pack, kernel, end));
            end += bytes;
        }
        let memory = (end > 0).then(|| store.device().alloc_weights(end, "packed weights")).transpose()?;
        Ok(Packing { store, jobs, memory })
    }

    /// Whether a weight is to be packed.
    pub(crate) fn wants(&self, t: Tensor) -> bool {
        self.jobs.contains_key(&t)
    }

    /// Packs a weight that is stored there, on all of the device's threads; none if it is not wanted.
    pub(crate) fn pack(&mut self, t: Tensor, stored: &Buffer) -> Result<Option<Buffer>, Error> {
        let (Some((pack, kernel, at)), Some(memory)) = (self.jobs.remove(&t), &self.memory) else { return Ok(None) };
        let packed = memory.part(at, packed_bytes(&pack));
        let arg = |slot: &Slot| match slot {
            Slot::Weight(_) => Arg::Buffer(stored.clone()),
            Slot::Out => Arg::Buffer(packed.clone()),
            slot => unreachable!("packing has no {slot:?}"),
        };
        let launch = Launch { kernel, args: pack.slots().iter().map(arg).collect() };
        // SAFETY: the stored matrix has the shape and type that the kernel was made for, as the graph's builder saw to; the
        // packed one is as large as the template says, and nobody else has it yet. There is one launch and no variable.
        let mut recorded = unsafe { self.store.device().record(vec![vec![launch]])? };
        recorded.replay(&[])?;
        Ok(Some(packed))
    }
}
