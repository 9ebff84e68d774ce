//! The text form of a graph. [`parse`](super::parse) reads it back.

use super::op::Op;
use super::tensor::{Graph, TensorData, TensorKind};
use std::fmt;

/// An attribute's value.
enum Attr {
    Int(u32),
    Float(f32),
    Word(&'static str),
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attr::Int(n) => write!(f, "{n}"),
            // The shortest form that reads back as the same number.
            Attr::Float(x) => write!(f, "{x:?}"),
            Attr::Word(w) => f.write_str(w),
        }
    }
}

/// What an operation has beside its operands, in the order of the text form.
fn attributes(op: &Op) -> Vec<(&'static str, Attr)> {
    match *op {
        Op::Embed { scale, .. } => vec![("scale", Attr::Float(scale))],
        Op::RmsNorm { eps, .. } => vec![("eps", Attr::Float(eps))],
        Op::Rope { spec, .. } => vec![
            ("head_dim", Attr::Int(spec.head_dim)),
            ("n_rot", Attr::Int(spec.n_rot)),
            ("style", Attr::Word(spec.style.name())),
            ("base", Attr::Float(spec.freq_base)),
            ("scale", Attr::Float(spec.freq_scale)),
        ],
        Op::Attention { n_head, n_kv_head, head_dim, scale, window, softcap, .. } => {
            let mut list = vec![
                ("n_head", Attr::Int(n_head)),
                ("n_kv_head", Attr::Int(n_kv_head)),
                ("head_dim", Attr::Int(head_dim)),
                ("scale", Attr::Float(scale)),
            ];
            list.extend(window.map(|w| ("window", Attr::Int(w))));
            list.extend(softcap.map(|c| ("softcap", Attr::Float(c))));
            list
        }
        Op::Glu { act, .. } => vec![("act", Attr::Word(act.name()))],
        Op::Scale { by, .. } => vec![("by", Attr::Float(by))],
        Op::SoftCap { cap, .. } => vec![("cap", Attr::Float(cap))],
        Op::Linear { .. } | Op::KvStore { .. } | Op::Add { .. } | Op::SelectRows { .. } => vec![],
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands: Vec<String> = self.operands().iter().map(|t| t.to_string()).collect();
        write!(f, "{} {}", self.name(), operands.join(", "))?;
        attributes(self).iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

fn declaration(d: &TensorData, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &d.kind {
        TensorKind::Weight(w) => write!(f, "weight \"{}\" {}", w.name, w.content),
        TensorKind::Input(i) => write!(f, "input {}", i.name()),
        TensorKind::State(c) => {
            write!(f, "kv_cache layer={} n_kv_head={} head_dim={}", c.layer, c.n_kv_head, c.head_dim)
        }
        TensorKind::Activation => f.write_str("undefined"),
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph \"{}\" {{", self.name)?;
        for (t, d) in self.tensors.iter() {
            write!(f, "  {t}: {} = ", d.shape)?;
            match d.producer {
                Some(n) => self.nodes[n].op.fmt(f)?,
                None => declaration(d, f)?,
            }
            writeln!(f)?;
        }
        for o in &self.outputs {
            writeln!(f, "  output \"{}\" {}", o.name, o.tensor)?;
        }
        f.write_str("}\n")
    }
}
