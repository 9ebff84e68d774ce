//! A launch by what each argument slot is given: bytes in, bytes out.

use super::{Arg, BufferId, Fault, Memory, Options, run};
use crate::tile::Kernel;

/// What a kernel is given in one slot.
#[derive(Clone, Debug)]
pub enum Input {
    /// A scalar.
    I32(i32),
    /// A scalar.
    F32(f32),
    /// A buffer with these bytes.
    Bytes(Vec<u8>),
    /// A buffer of so many bytes that must not be read before they are written.
    Room(usize),
    /// The buffer of an earlier slot.
    Same(usize),
}

/// The bytes of each slot's buffer after a run; none for scalars.
pub type Buffers = Vec<Option<Vec<u8>>>;

/// What a run left in memory.
pub struct Interpreted {
    memory: Memory,
    buffers: Vec<Option<BufferId>>,
}

impl Interpreted {
    /// Runs a kernel.
    ///
    /// # Errors
    /// What the kernel does that is not defined.
    ///
    /// # Panics
    /// If an input names a slot behind its own, or a scalar's, as its buffer.
    pub fn run(kernel: &Kernel, inputs: &[Input], options: &Options) -> Result<Interpreted, Fault> {
        let mut memory = Memory::new();
        let mut buffers: Vec<Option<BufferId>> = Vec::new();
        let mut args = Vec::new();
        for input in inputs {
            let id = match input {
                Input::I32(_) | Input::F32(_) => None,
                Input::Bytes(bytes) => Some(memory.add(bytes.clone())),
                Input::Room(n) => Some(memory.add_uninit(*n)),
                Input::Same(slot) => buffers[*slot],
            };
            buffers.push(id);
            args.push(match (input, id) {
                (Input::I32(n), _) => Arg::I32(*n),
                (Input::F32(x), _) => Arg::F32(*x),
                (_, Some(id)) => Arg::buffer(id),
                (_, None) => panic!("{input:?} names a scalar's slot"),
            });
        }
        run(kernel, &args, &mut memory, options)?;
        Ok(Interpreted { memory, buffers })
    }

    /// The bytes of a slot's buffer; none for a scalar.
    pub fn bytes(&self, slot: usize) -> Option<&[u8]> {
        self.buffers[slot].map(|id| self.memory.bytes(id))
    }

    /// Whether a byte of a slot's buffer holds something.
    pub fn is_written(&self, slot: usize, byte: usize) -> bool {
        self.buffers[slot].is_some_and(|id| self.memory.is_written(id, byte))
    }

    /// The bytes of all slots' buffers.
    pub fn buffers(&self) -> Buffers {
        (0..self.buffers.len()).map(|slot| self.bytes(slot).map(<[u8]>::to_vec)).collect()
    }
}
