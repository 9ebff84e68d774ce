//! The text form of a graph. [`parse`](super::parse) reads it back.

use super::op::Op;
use super::tensor::{Graph, State, TensorData, TensorKind};
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
        Op::Normalize { kind, group, eps, .. } => {
            vec![("kind", Attr::Word(kind.name())), ("group", Attr::Int(group)), ("eps", Attr::Float(eps))]
        }
        Op::Embed { scale, .. } => vec![("scale", Attr::Float(scale))],
        Op::RmsNorm { eps, .. } => vec![("eps", Attr::Float(eps))],
        Op::Rope { spec, .. } => {
            let mut list = vec![("head_dim", Attr::Int(spec.head_dim))];
            list.extend((spec.start != 0).then_some(("start", Attr::Int(spec.start))));
            list.extend([
                ("n_rot", Attr::Int(spec.n_rot)),
                ("style", Attr::Word(spec.style.name())),
                ("base", Attr::Float(spec.freq_base)),
                ("scale", Attr::Float(spec.freq_scale)),
            ]);
            list.extend((spec.magnitude != 1.0).then_some(("magnitude", Attr::Float(spec.magnitude))));
            list.extend((spec.original != 0).then_some(("original", Attr::Int(spec.original))));
            list.extend(
                spec.yarn
                    .iter()
                    .flat_map(|y| [("beta_fast", Attr::Float(y.beta_fast)), ("beta_slow", Attr::Float(y.beta_slow))]),
            );
            list
        }
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
        Op::Glu { act, limit, .. } => {
            let mut list = vec![("act", Attr::Word(act.name()))];
            list.extend(limit.bound().map(|x| (limit.key(), Attr::Float(x))));
            list
        }
        Op::Act { act, .. } => vec![("act", Attr::Word(act.name()))],
        Op::PositionScale { by, every, .. } => vec![("by", Attr::Float(by)), ("every", Attr::Int(every))],
        Op::Columns { group, start, len, .. } => {
            vec![("group", Attr::Int(group)), ("start", Attr::Int(start)), ("len", Attr::Int(len))]
        }
        Op::Concat { groups, .. } => vec![("groups", Attr::Int(groups))],
        Op::Route { routing: r, .. } => {
            let mut list = vec![
                ("n_used", Attr::Int(r.n_used)),
                ("scoring", Attr::Word(r.scoring.name())),
                ("normalize", Attr::Int(r.normalize.into())),
                ("scale", Attr::Float(r.scale)),
            ];
            if r.groups != [1, 1] {
                list.extend([("groups", Attr::Int(r.groups[0])), ("groups_used", Attr::Int(r.groups[1]))]);
            }
            list
        }
        Op::ExpertLinear { n_expert, .. } => vec![("n_expert", Attr::Int(n_expert))],
        Op::ShortConv { act, .. } => act.map(|a| ("act", Attr::Word(a.name()))).into_iter().collect(),
        Op::Recurrence { key_heads, .. } => vec![("key_heads", Attr::Word(key_heads.name()))],
        Op::Scale { by, .. } => vec![("by", Attr::Float(by))],
        Op::SoftCap { cap, .. } => vec![("cap", Attr::Float(cap))],
        Op::Linear { .. }
        | Op::KvStore { .. }
        | Op::Add { .. }
        | Op::Mul { .. }
        | Op::ExpertSum { .. }
        | Op::SelectRows { .. } => vec![],
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands: Vec<String> = self.listed().iter().map(|t| t.to_string()).collect();
        write!(f, "{} {}", self.name(), operands.join(", "))?;
        self.named().iter().try_for_each(|(key, t)| write!(f, " {key}={t}"))?;
        attributes(self).iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

fn declaration(d: &TensorData, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &d.kind {
        TensorKind::Weight(w) => write!(f, "weight \"{}\" {}", w.name, w.content),
        TensorKind::Input(i) => write!(f, "input {}", i.name()),
        TensorKind::State(s) => {
            write!(f, "{} layer={}", s.name(), s.layer())?;
            match s {
                State::Kv(c) => {
                    write!(f, " n_kv_head={} head_dim={}", c.n_kv_head, c.head_dim)?;
                    if c.value_dim != c.head_dim || c.shared {
                        write!(f, " value_dim={} shared={}", c.value_dim, u32::from(c.shared))?;
                    }
                    Ok(())
                }
                State::Conv(c) => write!(f, " cols={} taps={}", c.cols, c.taps),
                State::Recurrent(c) => {
                    write!(f, " n_head={} key_dim={} value_dim={}", c.n_head, c.key_dim, c.value_dim)
                }
            }
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
