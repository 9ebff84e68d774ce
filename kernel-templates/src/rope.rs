//! Rotary positions (Su et al. 2021) on the heads of a row, after an optional norm of each head; and the store of keys
//! and values into a KV cache, which is the same walk over heads.

use crate::Template;
use crate::emit::{load_index, plus, scaled, shifted_right, times};
use crate::facts::{Real, TemplateError};
use crate::slot::{Interface, PANEL, Signature, Slot, declare, signature_of, value_block};
use crate::turn::{Rotation, Turning};
use hrx_ir::tile::{Access, BinaryOp, Builder, Elem, GridExpr, Kernel, Value, View};

/// Where the heads go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeOutput {
    /// Rows `f32 [T, heads * head_dim]`.
    F32,
    /// The cache `[heads, NCtx, head_dim]` of `f16`, `bf16` or `f32`, at the position of each token.
    Cache(Elem),
    /// The same in panels, as keys.
    KeyPanels(Elem),
    /// The same in panels, as values.
    ValuePanels(Elem),
}

/// Norm, rotation and scale of the heads of each row.
///
/// Slots: NTokens; for a cache NCtx and HeadStride (in panels PanelStride); X `f32 [T, heads * head_dim]`; with `norm` NormWeight
/// `f32 [head_dim]`; for a rotation Cos and Sin `f32 [T, n_rot / 2]`; for a cache Positions `i32 [T]` (below NCtx), then
/// Cache `[heads, NCtx, head_dim]`, else Out.
///
/// One program a token and `program_heads` heads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rope {
    /// Heads of a row.
    pub heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// The first element of a head that turns.
    pub start: u32,
    /// Elements of a head that turn: even; 0 for no rotation.
    pub n_rot: u32,
    /// Which of them turn together.
    pub rotation: Rotation,
    /// The eps of an RMS norm of each head, if there is one.
    pub norm: Option<Real>,
    /// What the result is multiplied by.
    pub scale: Option<Real>,
    /// Where it goes.
    pub output: RopeOutput,
    /// Heads of a program; one program a token has them all.
    pub program_heads: u32,
}

struct Args {
    n_tokens: Value,
    x: View,
    norm_weight: Option<View>,
    /// Cosines and sines.
    angles: Option<[View; 2]>,
    out: Out,
}

#[derive(Clone, Copy)]
enum Out {
    Rows(View),
    Cache { view: View, elem: Elem, positions: View },
}

const FAMILY: &str = "rope";

impl Rope {
    fn check(&self) -> Result<(), TemplateError> {
        let unless = |ok, fact: String, reason| TemplateError::unless(ok, FAMILY, fact, reason);
        let dims = format!("{} heads of {}", self.heads, self.head_dim);
        unless((1..=1024).contains(&self.head_dim), dims.clone(), "a head is a tile of 1 to 1024 elements")?;
        unless((1..=4096).contains(&self.heads), dims, "a row has 1 to 4096 heads")?;
        let each = self.program_heads > 0 && self.heads.is_multiple_of(self.program_heads);
        unless(each, format!("{} heads of a program", self.program_heads), "they divide the row's")?;
        self.turning().check(FAMILY)?;
        match self.output {
            RopeOutput::Cache(e) | RopeOutput::KeyPanels(e) | RopeOutput::ValuePanels(e) => {
                unless(e.is_float(), format!("a cache of {e}"), "it is not a float")
            }
            RopeOutput::F32 => Ok(()),
        }
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let cache_size = match self.output {
            RopeOutput::Cache(_) => Some([i.index(Slot::NCtx), i.index(Slot::HeadStride)]),
            RopeOutput::KeyPanels(_) | RopeOutput::ValuePanels(_) => {
                Some([i.index(Slot::NCtx), i.index(Slot::PanelStride)])
            }
            RopeOutput::F32 => None,
        };
        let (t, d) = (n_tokens.into(), self.head_dim.into());
        let row = [t, self.heads.into(), d];
        let x = i.view(Slot::X, Elem::F32, &row, Access::In);
        let norm_weight = self.norm.map(|_| i.view(Slot::NormWeight, Elem::F32, &[1.into(), d], Access::In));
        let angles = self.turning().declare(i, t);
        let out = match (self.output, cache_size) {
            (RopeOutput::Cache(elem), Some(size)) => {
                let positions = i.view(Slot::Positions, Elem::I32, &[t], Access::In);
                let view = i.cache(Slot::Cache, elem, [self.heads, self.head_dim, self.head_dim], size, Access::Out);
                Out::Cache { view, elem, positions }
            }
            (RopeOutput::KeyPanels(elem) | RopeOutput::ValuePanels(elem), Some(size)) => {
                let positions = i.view(Slot::Positions, Elem::I32, &[t], Access::In);
                let dims = [self.heads, self.head_dim, self.panel_width()];
                Out::Cache { view: i.panels(Slot::Cache, elem, dims, size, Access::Out), elem, positions }
            }
            _ => Out::Rows(i.view(Slot::Out, Elem::F32, &row, Access::Out)),
        };
        Args { n_tokens, x, norm_weight, angles, out }
    }

    fn turning(&self) -> Turning {
        let &Rope { head_dim, start, n_rot, rotation, norm, .. } = self;
        Turning { head_dim, start, n_rot, rotation, norm }
    }
}

impl Rope {
    /// Elements of a row of a panel.
    fn panel_width(&self) -> u32 {
        if let RopeOutput::ValuePanels(_) = self.output { value_block(self.head_dim) } else { PANEL }
    }

    /// Stores a head `[1, head_dim]` at a position of a cache.
    fn store(&self, b: &mut Builder, view: View, [head, position]: [Value; 2], x: Value) {
        let (d, zero) = (self.head_dim, b.index(0));
        let panel = |b: &mut Builder| {
            let last = b.index(i64::from(PANEL) - 1);
            let place = b.binary(BinaryOp::And, position, last);
            [shifted_right(b, position, PANEL.trailing_zeros()), place]
        };
        match self.output {
            RopeOutput::KeyPanels(_) => {
                let [panel, place] = panel(b);
                let x = b.reshape(x, &[1, 1, d, 1]);
                b.store(view, &[head, panel, zero, place], x, None);
            }
            RopeOutput::ValuePanels(_) => {
                let ([panel, place], width) = (panel(b), self.panel_width());
                for block in 0..d / width {
                    let part = b.slice(x, 1, block * width, width);
                    let part = b.reshape(part, &[1, 1, 1, width]);
                    let row = plus(b, place, block * PANEL);
                    b.store(view, &[head, panel, row, zero], part, None);
                }
            }
            RopeOutput::Cache(_) | RopeOutput::F32 => {
                let x = b.reshape(x, &[1, 1, d]);
                b.store(view, &[head, position, zero], x, None);
            }
        }
    }
}

impl Template for Rope {
    fn name(&self) -> String {
        let kind = match self.rotation {
            Rotation::None => "none".into(),
            Rotation::Normal => format!("normal{}", self.n_rot),
            Rotation::Neox => format!("neox{}", self.n_rot),
        };
        let start = if self.start == 0 { String::new() } else { format!("_from{}", self.start) };
        let norm = self.norm.map_or(String::new(), |eps| format!("_norm{}", eps.tag()));
        let scale = self.scale.map_or(String::new(), |s| format!("_scale{}", s.tag()));
        let to = match self.output {
            RopeOutput::F32 => String::new(),
            RopeOutput::Cache(e) => format!("_to_{e}"),
            RopeOutput::KeyPanels(e) => format!("_to_key_panels_{e}"),
            RopeOutput::ValuePanels(e) => format!("_to_value_panels_{e}"),
        };
        let part = if self.program_heads == self.heads { String::new() } else { format!("_g{}", self.program_heads) };
        format!("{FAMILY}_{kind}{start}_h{}_d{}{norm}{scale}{to}{part}", self.heads, self.head_dim)
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        self.check()?;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        let (token, d) = (b.program_id(0), self.head_dim);
        let (zero, one, heads) = (b.index(0), b.index(1), b.index(i64::from(self.program_heads)));
        let first = if self.program_heads == self.heads {
            zero
        } else {
            b.grid(1, GridExpr::constant(self.heads / self.program_heads));
            let group = b.program_id(1);
            times(&mut b, group, self.program_heads)
        };
        let turning = self.turning();
        let factors = a.angles.map(|angles| turning.factors(&mut b, angles, token));
        let position = match a.out {
            Out::Cache { positions, .. } => load_index(&mut b, positions, token),
            Out::Rows(_) => zero,
        };
        let one_head = |b: &mut Builder, head: Value| {
            let x = b.load(a.x, &[token, head, zero], &[1, 1, d], None);
            let x = b.reshape(x, &[1, d]);
            let mut x = turning.heads(b, x, a.norm_weight, factors);
            if let Some(s) = self.scale {
                x = scaled(b, s.f64(), x);
            }
            match a.out {
                Out::Rows(out) => {
                    let x = b.reshape(x, &[1, 1, d]);
                    b.store(out, &[token, head, zero], x, None);
                }
                Out::Cache { view, elem, .. } => {
                    let x = b.convert(x, elem);
                    self.store(b, view, [head, position], x);
                }
            }
        };
        if self.program_heads == 1 {
            one_head(&mut b, first);
        } else {
            b.for_loop([zero, heads, one], &[], |b, at, _| {
                let head = if self.program_heads == self.heads { at } else { b.add(first, at) };
                one_head(b, head);
                vec![]
            });
        }
        Ok(b.finish())
    }
}
