//! Linear recurrences along the sequence with a matrix for each head, kept between launches: the state space duality of
//! Mamba 2 (Dao & Gu 2024) and the gated delta rule (Yang et al. 2024).

use crate::Template;
use crate::emit::times;
use crate::facts::{TargetShape, TemplateError};
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, BinaryOp, Builder, Elem, GridExpr, Kernel, ReduceOp, UnaryOp, Value, View};

/// Which key head a value head has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyHeads {
    /// Value head h has key head `h / (heads / key_heads)`.
    Blocked,
    /// Value head h has key head `h % key_heads`.
    Cyclic,
}

/// For each token in order, and for each value head with its S `[key_dim, value_dim]`: `S = exp(decay) S`, then
/// `S = S + k uᵀ`, then `y = Sᵀ q`; `u` is v, or with `delta` `beta (v - Sᵀ k)`.
///
/// Slots: NTokens; Queries and Keys `f32 [T, key_heads * key_dim]`; X: the values `f32 [T, heads * value_dim]`; Decay and
/// with `delta` Beta `f32 [T, heads]`; State `f32 [heads * key_dim, value_dim]`; Out `f32 [T, heads * value_dim]`. A program has `columns` columns of a head and walks along the sequence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recurrence {
    /// Value heads.
    pub heads: u32,
    /// Heads of keys and queries: divides `heads`.
    pub key_heads: u32,
    /// Which of them a value head has.
    pub share: KeyHeads,
    /// Elements of a key: 1 to 512.
    pub key_dim: u32,
    /// Elements of a value.
    pub value_dim: u32,
    /// Whether what the state has for a key is taken off the value: the delta rule.
    pub delta: bool,
    /// Columns of a program: divides `value_dim`.
    pub columns: u32,
    /// Waves of a program.
    pub waves: u32,
}

struct Args {
    n_tokens: Value,
    queries: View,
    keys: View,
    values: View,
    decay: View,
    beta: Option<View>,
    state: View,
    out: View,
}

const FAMILY: &str = "recurrence";

impl Recurrence {
    /// Columns and waves of a program on a target, for so many columns of a head.
    pub fn cut(shape: &TargetShape, value_dim: u32) -> [u32; 2] {
        let most = if shape.waves.is_some() { 16 } else { shape.lanes };
        let columns = (1..=most.min(value_dim)).rev().find(|&n| value_dim.is_multiple_of(n)).unwrap_or(1);
        [columns, 1]
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let t = n_tokens.into();
        let (heads, dk, dv) = (self.heads.into(), self.key_dim.into(), self.value_dim.into());
        let keys = [t, self.key_heads.into(), dk];
        let values = [t, heads, dv];
        Args {
            n_tokens,
            queries: i.view(Slot::Queries, Elem::F32, &keys, Access::In),
            keys: i.view(Slot::Keys, Elem::F32, &keys, Access::In),
            values: i.view(Slot::X, Elem::F32, &values, Access::In),
            decay: i.view(Slot::Decay, Elem::F32, &[t, heads], Access::In),
            beta: self.delta.then(|| i.view(Slot::Beta, Elem::F32, &[t, heads], Access::In)),
            state: i.view(Slot::State, Elem::F32, &[heads, dk, dv], Access::InOut),
            out: i.view(Slot::Out, Elem::F32, &values, Access::Out),
        }
    }

    fn check(&self) -> Result<(), TemplateError> {
        let unless = |ok, fact: String, reason| TemplateError::unless(ok, FAMILY, fact, reason);
        let heads = format!("{} heads over {}", self.heads, self.key_heads);
        let shared =
            self.key_heads > 0 && (1..=4096).contains(&self.heads) && self.heads.is_multiple_of(self.key_heads);
        unless(shared, heads, "key heads divide the at most 4096 heads")?;
        unless(
            (1..=512).contains(&self.key_dim),
            format!("key_dim = {}", self.key_dim),
            "a key has 1 to 512 elements",
        )?;
        let whole =
            (1..=64).contains(&self.columns) && self.value_dim > 0 && self.value_dim.is_multiple_of(self.columns);
        unless(whole, format!("{} columns of {}", self.columns, self.value_dim), "1 to 64 that divide a value")?;
        let waves = self.waves.is_power_of_two() && self.waves <= 16;
        unless(waves, format!("{} waves", self.waves), "a program has 1, 2, 4, 8 or 16 waves")
    }
}

impl Template for Recurrence {
    fn name(&self) -> String {
        let kind = if self.delta { "delta" } else { "scan" };
        let share = match self.share {
            KeyHeads::Blocked => "",
            KeyHeads::Cyclic => "c",
        };
        let waves = if self.waves == 1 { String::new() } else { format!("w{}", self.waves) };
        let (heads, keys) = (self.heads, self.key_heads);
        let (dk, dv, columns) = (self.key_dim, self.value_dim, self.columns);
        format!("{FAMILY}_{kind}_h{heads}_k{keys}{share}_d{dk}x{dv}_p{columns}{waves}")
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        self.check()?;
        let (dk, n) = (self.key_dim, self.columns);
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.waves);
        b.grid(0, GridExpr::constant(self.value_dim / n));
        b.grid(1, GridExpr::constant(self.heads));
        let (program, head, zero) = (b.program_id(0), b.program_id(1), b.index(0));
        let col = times(&mut b, program, n);
        let key_head = match self.share {
            _ if self.key_heads == self.heads => head,
            KeyHeads::Blocked => {
                let share = b.index(i64::from(self.heads / self.key_heads));
                b.div(head, share)
            }
            KeyHeads::Cyclic => {
                let keys = b.index(i64::from(self.key_heads));
                b.binary(BinaryOp::Rem, head, keys)
            }
        };
        let state = b.load(a.state, &[head, zero, col], &[1, dk, n], None);
        let state = b.reshape(state, &[dk, n]);
        let one = b.index(1);
        let state = b.for_loop([zero, a.n_tokens, one], &[state], |b, token, state| {
            let column = |b: &mut Builder, view: View| {
                let v = b.load(view, &[token, key_head, zero], &[1, 1, dk], None);
                b.reshape(v, &[dk, 1])
            };
            let (q, k) = (column(b, a.queries), column(b, a.keys));
            let v = b.load(a.values, &[token, head, col], &[1, 1, n], None);
            let v = b.reshape(v, &[1, n]);
            let decay = b.load(a.decay, &[token, head], &[1, 1], None);
            let decay = b.unary(UnaryOp::Exp, decay);
            let state = b.mul(state[0], decay);
            let u = match a.beta {
                Some(beta) => {
                    let beta = b.load(beta, &[token, head], &[1, 1], None);
                    let known = b.mul(state, k);
                    let known = b.reduce(ReduceOp::Sum, known, 0);
                    let new = b.sub(v, known);
                    b.mul(new, beta)
                }
                None => v,
            };
            let state = b.fma(k, u, state);
            let products = b.mul(state, q);
            let y = b.reduce(ReduceOp::Sum, products, 0);
            let y = b.reshape(y, &[1, 1, n]);
            b.store(a.out, &[token, head, col], y, None);
            vec![state]
        });
        let state = b.reshape(state[0], &[1, dk, n]);
        b.store(a.state, &[head, zero, col], state, None);
        Ok(b.finish())
    }
}
