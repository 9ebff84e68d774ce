//! Where a weight lies in a file: in the tensor of its name, or in one for each expert.
//!
//! Files of before April 2024 (Mixtral) have `blk.N.ffn_gate.0.weight`, `blk.N.ffn_gate.1.weight` and so on where later ones
//! have the stack of them, `blk.N.ffn_gate_exps.weight`; so with `up` and `down`. Those tensors are the stack's parts.

use crate::gguf::{Gguf, TensorInfo};

/// The tensors that a weight lies in.
#[derive(Clone, Debug)]
pub(crate) enum Stored<'a> {
    /// The one of its name.
    Whole(&'a TensorInfo),
    /// Those of the experts, the first one first; at least one.
    Experts(Vec<&'a TensorInfo>),
}

impl<'a> Stored<'a> {
    /// Looks a weight up. None where the file has it in neither form.
    pub(crate) fn find(gguf: &'a Gguf, name: &str) -> Option<Stored<'a>> {
        if let Some(whole) = gguf.tensor(name) {
            return Some(Stored::Whole(whole));
        }
        let stem = name.strip_suffix("_exps.weight")?;
        let experts: Vec<_> = (0..).map_while(|e| gguf.tensor(&format!("{stem}.{e}.weight"))).collect();
        (!experts.is_empty()).then_some(Stored::Experts(experts))
    }

    /// The tensors, in the order of the weight's rows.
    pub(crate) fn parts(&self) -> &[&'a TensorInfo] {
        match self {
            Stored::Whole(whole) => std::slice::from_ref(whole),
            Stored::Experts(experts) => experts,
        }
    }

    /// Bytes of all of them.
    pub(crate) fn byte_size(&self) -> u64 {
        self.parts().iter().map(|part| part.byte_size() as u64).sum()
    }

    /// Elements of all of them.
    pub(crate) fn elements(&self) -> u64 {
        self.parts().iter().map(|part| part.elements()).sum()
    }
}
