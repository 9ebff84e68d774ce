//! In which forms programs read a model's weights, and the kernels that bring them to these.

use super::kernels::KernelStore;
use super::lower::Operand;
use super::program::Draft;
use crate::device::{Arg, Buffer, KernelId, Launch};
use crate::error::Error;
use hrx_ir::graph::{Graph, Rows, Tensor, Weight};
use hrx_ir::quant::Arranged;
use hrx_ir::tile::Content;
use hrx_templates::{Pack, Panels, Request, Slot, TargetShape, Template, WeightType};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Where a model's weights are, by tensor.
#[derive(Clone, Default)]
pub struct Weights {
    /// As they are in the file, or arranged for the device.
    pub stored: HashMap<Tensor, Buffer>,
    /// Packed for the target's vectors.
    pub packed: HashMap<Tensor, Buffer>,
}

/// Which weights programs read in which form.
pub struct Needed {
    stored: HashSet<Tensor>,
    packed: HashSet<Tensor>,
    shape: TargetShape,
}

impl Needed {
    /// What some programs for a target read.
    pub fn of<'a>(drafts: impl IntoIterator<Item = &'a Draft>, shape: &TargetShape) -> Needed {
        let mut needed = Needed { stored: HashSet::new(), packed: HashSet::new(), shape: *shape };
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

    /// Whether a weight is read as it is in the file, or arranged.
    pub fn reads_stored(&self, t: Tensor) -> bool {
        self.stored.contains(&t)
    }

    /// How a weight is arranged in the device's memory, where that is not as it is in the file.
    pub fn arranged(&self, w: &Weight) -> Option<&'static Arranged> {
        match w.content {
            Content::Quant(f) => self.shape.arranged(f),
            Content::Elem(_) => None,
        }
    }

    /// The kernel that packs a weight, where it is read packed.
    pub fn pack(&self, graph: &Graph, t: Tensor) -> Option<Pack> {
        let panels = Panels::of(&self.shape).filter(|_| self.packed.contains(&t))?;
        let weight = match graph.weight(t)?.content {
            Content::Quant(f) => WeightType::Quant(f),
            Content::Elem(e) => WeightType::Float(e),
        };
        let Rows::Const(n) = graph.shape(t).rows else { return None };
        Some(Pack { n, k: graph.cols(t), weight, panels })
    }

    /// The weights that are read packed, with what packs them whole.
    pub(crate) fn packed(&self, graph: &Graph) -> Vec<(Tensor, Pack)> {
        graph.weights().filter_map(|(t, _)| Some((t, self.pack(graph, t)?))).collect()
    }

    /// The kernels that pack weights.
    pub fn requests(&self, graph: &Graph) -> Vec<Request> {
        self.packed(graph).iter().flat_map(|(_, pack)| slices(pack)).map(|s| s.pack.into()).collect()
    }
}

/// Bytes of a stored matrix that are packed at once: what of the file is in memory beside what was made of it.
const SLICE: u64 = 2 << 20;

/// Some rows of a matrix.
struct Slice {
    /// What packs them.
    pack: Pack,
    /// Where they begin in the stored matrix, and in the packed one, in bytes.
    at: [u64; 2],
    /// Bytes of them, stored and packed.
    bytes: [u64; 2],
}

/// A matrix by slices, each of whole panels. All but the last have one kernel.
fn slices(pack: &Pack) -> Vec<Slice> {
    let row = pack.weight.row_bytes(pack.k).unwrap_or_else(|| unreachable!("rows are whole blocks"));
    let most = u32::try_from(SLICE / row.max(1)).unwrap_or(u32::MAX).max(Panels::ROWS) / Panels::ROWS * Panels::ROWS;
    let packed = |n: u32| packed_bytes(&Pack { n, ..pack.clone() });
    (0..pack.n)
        .step_by(most as usize)
        .map(|first| {
            let n = most.min(pack.n - first);
            Slice {
                pack: Pack { n, ..pack.clone() },
                at: [u64::from(first) * row, if first == 0 { 0 } else { packed(first) }],
                bytes: [u64::from(n) * row, packed(n)],
            }
        })
        .collect()
}

/// Bytes of a packed matrix.
pub(crate) fn packed_bytes(pack: &Pack) -> u64 {
    pack.panels.bytes(pack.weight, [pack.n, pack.k]).unwrap_or_else(|| unreachable!("only what can be packed is"))
}

/// Packed matrices begin at multiples of this.
const ALIGN: u64 = 4096;

/// What is to be done for a weight.
struct Job {
    /// Its slices with their kernels.
    slices: Vec<(Slice, KernelId)>,
    /// Where in the memory it goes.
    at: u64,
    /// Bytes of it, packed.
    bytes: u64,
}

/// Packs some weights into one memory.
pub(crate) struct Packing<'a> {
    store: &'a KernelStore,
    jobs: HashMap<Tensor, Job>,
    memory: Option<Buffer>,
}

impl<'a> Packing<'a> {
    /// Takes the memory, and makes the kernels that are not there yet.
    pub(crate) fn new(store: &'a KernelStore, wanted: Vec<(Tensor, Pack)>) -> Result<Packing<'a>, Error> {
        let mut end = 0;
        let mut jobs = HashMap::new();
        for (t, pack) in wanted {
            let slices = slices(&pack);
            let requests: Vec<Request> = slices.iter().map(|s| s.pack.clone().into()).collect();
            let kernels = store.get(&requests)?;
            let bytes = packed_bytes(&pack);
            jobs.insert(t, Job { slices: slices.into_iter().zip(kernels).collect(), at: end, bytes });
            end += bytes.next_multiple_of(ALIGN);
        }
        let memory = (end > 0).then(|| store.device().alloc_weights(end, "packed weights")).transpose()?;
        Ok(Packing { store, jobs, memory })
    }

    /// Whether a weight is to be packed.
    pub(crate) fn wants(&self, t: Tensor) -> bool {
        self.jobs.contains_key(&t)
    }

    /// Packs a weight that is stored there, on all of the device's threads; none if it is not wanted. `done` is told which
    /// bytes of it have been read.
    pub(crate) fn pack(
        &mut self,
        t: Tensor,
        stored: &Buffer,
        done: impl Fn(Range<u64>),
    ) -> Result<Option<Buffer>, Error> {
        let (Some(job), Some(memory)) = (self.jobs.remove(&t), &self.memory) else { return Ok(None) };
        let packed = memory.part(job.at, job.bytes);
        for (slice, kernel) in job.slices {
            let [from, to] = [(stored, 0), (&packed, 1)].map(|(b, i)| b.part(slice.at[i], slice.bytes[i]));
            let arg = |slot: &Slot| match slot {
                Slot::Weight(_) => Arg::Buffer(from.clone()),
                Slot::Out => Arg::Buffer(to.clone()),
                slot => unreachable!("packing has no {slot:?}"),
            };
            let launch = Launch { kernel, args: slice.pack.slots().iter().map(arg).collect() };
            // SAFETY: the stored rows have the shape and type that the kernel was made for, as the graph's builder saw to;
            // the packed ones take as much as the template says, and nobody else has them yet. There is one launch and no
            // variable.
            let mut recorded = unsafe { self.store.device().record(vec![vec![launch]])? };
            recorded.replay(&[])?;
            done(slice.at[0]..slice.at[0] + slice.bytes[0]);
        }
        Ok(Some(packed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_whole_panels_one_behind_another() {
        let weight = WeightType::from_name("q8_0").expect("a format");
        let panels = Panels { unsigned: true };
        for (n, count) in [(1, 1), (33, 1), (262_144, 86), (49_152 + 5, 17)] {
            let pack = Pack { n, k: 640, weight, panels };
            let all = slices(&pack);
            assert_eq!(all.len(), count, "{n} rows");
            let mut at = [0, 0];
            for (i, s) in all.iter().enumerate() {
                assert_eq!(s.at, at);
                at = [at[0] + s.bytes[0], at[1] + s.bytes[1]];
                assert!(i + 1 == count || (s.pack.n % Panels::ROWS == 0 && s.pack.n == all[0].pack.n));
            }
            assert_eq!(at, [u64::from(n) * 640 / 32 * 34, packed_bytes(&pack)]);
        }
    }
}
