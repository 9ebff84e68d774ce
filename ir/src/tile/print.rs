//! The text form of a kernel.
//!
//! ```text
//! kernel @row_sums(v0: i32, m0: in f32[v0, 64], m1: out f32[v0, 1])
//!     grid (ceildiv(v0, 1), 1, 1) ids (v1, v2, v3) {
//!   v4: i32 = const 0
//!   v5: f32[1, 64] = load m0[v1, v4]
//!   v6: f32[1, 1] = reduce_sum v5 axis 1
//!   store m1[v1, v4], v6
//! }
//! ```
//!
//! A kernel of several waves says `waves 4` before its grid. Local views are listed before the instructions, as in
//! `local m2: f32[16, 32] strides [36, 1]`; strides are left out where rows are not padded.
//!
//! The form is canonical: values and views are numbered in order of appearance (parameters in slot order, then program
//! ids, then the body), and what no part of the kernel uses is left out, so that kernels that differ only in the order
//! of their arenas print equally. [`super::parse`] reads it back.

use super::kernel::{Access, Extent, GridExpr, Inst, Kernel, Param, Value, View, ViewData};
use super::op::{BlockPart, Literal, Op};
use super::walk::{Step, walk};
use std::collections::HashMap;
use std::fmt::{self, Write};

/// Header lines longer than this list one parameter a line.
const LINE: usize = 100;

/// The names that values and views have in the text.
pub struct Names {
    values: HashMap<Value, u32>,
    views: HashMap<View, u32>,
    locals: Vec<View>,
}

impl Names {
    /// Numbers what a kernel uses, in order of appearance.
    pub fn new(k: &Kernel) -> Names {
        let mut n = Names { values: HashMap::new(), views: HashMap::new(), locals: Vec::new() };
        for p in &k.params {
            match *p {
                Param::View(m) => n.add_view(m),
                Param::Scalar(v) => n.add_value(v),
            };
        }
        k.program_ids.iter().for_each(|&v| n.add_value(v));
        walk(k, |step| {
            let Step::Inst { inst, .. } = step else { return };
            let data = &k.insts[inst];
            data.results.iter().for_each(|&v| n.add_value(v));
            match &data.op {
                Op::Load { view, .. }
                | Op::Store { view, .. }
                | Op::LoadBlock { view, .. }
                | Op::LoadRun { view, .. }
                    if !n.views.contains_key(view) && k.views.get(*view).is_some_and(|d| d.access == Access::Local) =>
                {
                    n.add_view(*view);
                    n.locals.push(*view);
                }
                Op::For { body, .. } => {
                    if let Some(b) = k.blocks.get(*body) {
                        b.params.iter().for_each(|&v| n.add_value(v));
                    }
                }
                _ => {}
            }
        });
        n
    }

    fn add_value(&mut self, v: Value) {
        let next = self.values.len() as u32;
        self.values.entry(v).or_insert(next);
    }

    fn add_view(&mut self, m: View) {
        let next = self.views.len() as u32;
        self.views.entry(m).or_insert(next);
    }

    /// The number of a value. One that nothing defines (the verifier rejects that) gets a number that no other has.
    fn value(&self, v: Value) -> u64 {
        let stray = || self.values.len() as u64 + u64::from(v.as_u32());
        self.values.get(&v).map_or_else(stray, |&n| u64::from(n))
    }

    fn view(&self, m: View) -> u64 {
        let stray = || self.views.len() as u64 + u64::from(m.as_u32());
        self.views.get(&m).map_or_else(stray, |&n| u64::from(n))
    }

    /// Replaces each arena name of a value or view in a message by its name in the text.
    pub fn translate(&self, message: &str) -> String {
        let mut out = String::with_capacity(message.len());
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut rest = message;
        while !rest.is_empty() {
            let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (token, after) = rest.split_at(if word > 0 { word } else { rest.find(is_word).unwrap_or(rest.len()) });
            let number = |prefix| token.strip_prefix(prefix).and_then(|n: &str| n.parse::<u32>().ok());
            if let Some(n) = number('v') {
                _ = write!(out, "v{}", self.value(Value::from_u32(n)));
            } else if let Some(n) = number('m') {
                _ = write!(out, "m{}", self.view(View::from_u32(n)));
            } else {
                out.push_str(token);
            }
            rest = after;
        }
        out
    }
}

/// Where something of a kernel stands in the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Place {
    /// The kernel's name.
    Name,
    /// A parameter, by slot.
    Param(usize),
    /// The number of waves, the grid and the program ids.
    Grid,
    /// A local view.
    Local(View),
    /// An instruction.
    Inst(Inst),
}

/// A kernel's text and where its parts stand.
pub(super) struct Text {
    pub text: String,
    pub names: Names,
    /// Line of each place, from 0.
    pub lines: HashMap<Place, usize>,
    /// Lines so far.
    count: usize,
}

/// What an annotated print says about an instruction, if anything.
type Note<'a> = &'a dyn Fn(Inst) -> Option<String>;

impl Text {
    pub fn new(k: &Kernel) -> Text {
        Text::with_notes(k, &|_| None)
    }

    /// The text with a comment behind each instruction that `note` has something to say about; of a loop behind its
    /// head.
    fn with_notes(k: &Kernel, note: Note) -> Text {
        let mut t = Text { text: String::new(), names: Names::new(k), lines: HashMap::new(), count: 0 };
        t.header(k);
        for m in t.names.locals.clone() {
            let decl = t.names.view_decl(m, &k.views[m]);
            t.line(Some(Place::Local(m)), 1, &format!("local {decl}"));
        }
        walk(k, |step| match step {
            Step::Inst { inst, depth, .. } => {
                let mut text = t.names.inst(k, inst);
                if let Some(note) = note(inst) {
                    // A comment ends with its line.
                    let note = note.replace(char::is_control, " ");
                    _ = write!(text, "  // {note}");
                }
                t.line(Some(Place::Inst(inst)), depth + 1, &text);
            }
            Step::End { depth, .. } => t.line(None, depth + 1, "}"),
        });
        t.line(None, 0, "}");
        t
    }

    fn line(&mut self, place: Option<Place>, indent: usize, text: &str) {
        if let Some(place) = place {
            self.lines.entry(place).or_insert(self.count);
        }
        self.count += 1;
        // Writing to a string does not fail.
        _ = writeln!(self.text, "{:1$}{text}", "", 2 * indent);
    }

    fn header(&mut self, k: &Kernel) {
        let params: Vec<String> = k.params.iter().map(|p| self.names.param(k, p)).collect();
        let name = k.name.escape_debug();
        let one_line = format!("kernel @{name}({})", params.join(", "));
        if one_line.len() <= LINE {
            self.line(Some(Place::Name), 0, &one_line);
            (0..params.len()).for_each(|n| _ = self.lines.insert(Place::Param(n), 0));
        } else {
            self.line(Some(Place::Name), 0, &format!("kernel @{name}("));
            for (n, p) in params.iter().enumerate() {
                let end = if n + 1 == params.len() { ")" } else { "," };
                self.line(Some(Place::Param(n)), 2, &format!("{p}{end}"));
            }
        }
        let grid = k.grid.each_ref().map(|e| self.names.grid(e)).join(", ");
        let ids = self.names.list(&k.program_ids);
        let waves = if k.waves == 1 { String::new() } else { format!("waves {} ", k.waves) };
        self.line(Some(Place::Grid), 2, &format!("{waves}grid ({grid}) ids ({ids}) {{"));
    }
}

impl Names {
    fn list<'a>(&self, values: impl IntoIterator<Item = &'a Value>) -> String {
        let names: Vec<String> = values.into_iter().map(|&v| format!("v{}", self.value(v))).collect();
        names.join(", ")
    }

    fn extent(&self, e: &Extent) -> String {
        match e {
            Extent::Const(n) => n.to_string(),
            Extent::Param(v) => format!("v{}", self.value(*v)),
        }
    }

    fn extents(&self, list: &[Extent]) -> String {
        let list: Vec<String> = list.iter().map(|e| self.extent(e)).collect();
        format!("[{}]", list.join(", "))
    }

    fn grid(&self, e: &GridExpr) -> String {
        match e {
            GridExpr::Extent(e) => self.extent(e),
            GridExpr::CeilDiv(a, by) => format!("ceildiv({}, {by})", self.grid(a)),
            GridExpr::Mul(a, b) => format!("mul({}, {})", self.grid(a), self.grid(b)),
            GridExpr::Add(a, b) => format!("add({}, {})", self.grid(a), self.grid(b)),
        }
    }

    fn param(&self, k: &Kernel, p: &Param) -> String {
        match *p {
            Param::Scalar(v) => self.definition(k, v),
            Param::View(m) => match k.views.get(m) {
                Some(d) => {
                    let decl = self.view_decl(m, d);
                    decl.replacen(": ", &format!(": {} ", d.access.name()), 1)
                }
                None => format!("m{}", self.view(m)),
            },
        }
    }

    fn view_decl(&self, m: View, d: &ViewData) -> String {
        let mut s = format!("m{}: {}{}", self.view(m), d.content, self.extents(&d.dims));
        if implied_strides(&d.dims).as_ref() != Some(&d.strides) {
            _ = write!(s, " strides {}", self.extents(&d.strides));
        }
        s
    }

    fn definition(&self, k: &Kernel, v: Value) -> String {
        let name = self.value(v);
        match k.values.get(v) {
            Some(d) => format!("v{name}: {}", d.ty),
            None => format!("v{name}"),
        }
    }

    /// An instruction as one line; of a loop its head.
    pub fn inst(&self, k: &Kernel, inst: Inst) -> String {
        let Some(data) = k.insts.get(inst) else { return inst.to_string() };
        let mut s = String::new();
        for (n, &v) in data.results.iter().enumerate() {
            s.push_str(if n > 0 { ", " } else { "" });
            s.push_str(&self.definition(k, v));
        }
        if !data.results.is_empty() {
            s.push_str(" = ");
        }
        // Writing to a string does not fail.
        _ = self.op(&mut s, k, &data.op);
        s
    }

    fn op(&self, s: &mut String, k: &Kernel, op: &Op) -> fmt::Result {
        s.push_str(op.name());
        let place = |view: &View, index: &[Value]| format!("m{}[{}]", self.view(*view), self.list(index));
        match op {
            Op::Const { value, .. } => write!(s, " {}", LiteralText(*value)),
            Op::Iota { .. } => Ok(()),
            Op::Unary { arg, .. }
            | Op::Convert { arg, .. }
            | Op::Bitcast { arg, .. }
            | Op::Broadcast { arg, .. }
            | Op::Reshape { arg, .. }
            | Op::Transpose { arg } => write!(s, " {}", self.list([arg])),
            Op::Binary { args, .. } | Op::Cmp { args, .. } => write!(s, " {}", self.list(args)),
            Op::Select { args } | Op::Fma { args } | Op::Dot { args } | Op::Dot4 { args } | Op::Mma { args } => {
                write!(s, " {}", self.list(args))
            }
            Op::Concat { args, axis } => write!(s, " {} axis {axis}", self.list(args)),
            Op::Slice { arg, axis, start, len } => {
                write!(s, " {} axis {axis} from {start} len {len}", self.list([arg]))
            }
            Op::Lookup { table, arg } => write!(s, " {} in {}", self.list([arg]), table.name),
            Op::Repeat { arg, times } => write!(s, " {} times {times}", self.list([arg])),
            Op::Reduce { arg, axis, .. } => write!(s, " {} axis {axis}", self.list([arg])),
            Op::Load { view, index, mask, .. } => {
                write!(s, " {}", place(view, index))?;
                self.mask(s, mask)
            }
            Op::Store { view, index, value, mask } => {
                write!(s, " {}, {}", place(view, index), self.list([value]))?;
                self.mask(s, mask)
            }
            Op::LoadBlock { view, index, part, .. } => {
                write!(s, " {}", place(view, index))?;
                match part {
                    BlockPart::Codes(c) | BlockPart::Values(c) | BlockPart::Indices(c) => write!(s, " chunk {c}"),
                    BlockPart::Raw(at) => write!(s, " byte {at}"),
                    BlockPart::Scales | BlockPart::Offsets | BlockPart::Factors | BlockPart::MinFactors => Ok(()),
                }
            }
            Op::LoadRun { view, index, .. } => write!(s, " {}", place(view, index)),
            Op::For { bounds, inits, body } => {
                let params = k.blocks.get(*body).map_or(&[][..], |b| &b.params);
                let [lower, upper, step] = bounds.map(|v| self.list([&v]));
                let counter = self.list(params.first());
                write!(s, " {counter} in {lower}..{upper} step {step}")?;
                let carried = params.get(1..).unwrap_or(&[]);
                if carried.len().max(inits.len()) > 0 {
                    let pair = |n| {
                        let param = carried.get(n).map_or("?".into(), |&v| self.definition(k, v));
                        format!("{param} = {}", inits.get(n).map_or("?".into(), |v| self.list([v])))
                    };
                    let pairs: Vec<String> = (0..carried.len().max(inits.len())).map(pair).collect();
                    write!(s, " carry ({})", pairs.join(", "))?;
                }
                s.write_str(" {")
            }
            Op::Yield { args } if args.is_empty() => Ok(()),
            Op::Yield { args } => write!(s, " {}", self.list(args)),
        }
    }

    fn mask(&self, s: &mut String, mask: &Option<Value>) -> fmt::Result {
        mask.iter().try_for_each(|m| write!(s, " mask {}", self.list([m])))
    }
}

/// A literal as it is written: floats as the shortest decimal that reads back as the same bits, other NaNs than the
/// default one with their bits.
struct LiteralText(Literal);

impl fmt::Display for LiteralText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Literal::Int(n) => write!(f, "{n}"),
            Literal::Float(x) if x.to_bits() == f64::NAN.to_bits() => f.write_str("nan"),
            Literal::Float(x) if x.is_nan() => write!(f, "nan({:#x})", x.to_bits()),
            Literal::Float(x) => write!(f, "{x:?}"),
        }
    }
}

/// The strides of a view that is written without: row-major. None where an inner extent is a parameter or a row is
/// longer than 32 bits can say.
pub(super) fn implied_strides(dims: &[Extent]) -> Option<Vec<Extent>> {
    let mut strides = vec![Extent::Const(1); dims.len()];
    let mut stride = 1u32;
    for axis in (1..dims.len()).rev() {
        let Extent::Const(n) = dims[axis] else { return None };
        stride = stride.checked_mul(n)?;
        strides[axis - 1] = Extent::Const(stride);
    }
    Some(strides)
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Text::new(self).text)
    }
}

/// The text of a kernel with a comment behind each instruction that `note` has something to say about (of a loop behind
/// its head). It reads back as the same kernel: the parser skips comments.
///
/// ```
/// use hrx_ir::tile::{Elem, parse_kernel, print::annotated};
/// let text = "kernel @k(m0: out f32[1]) { v0: i32 = const 0 v1: f32[1] = const 7.0 store m0[v0], v1 }";
/// let kernel = parse_kernel(text).expect("parses");
/// let text = annotated(&kernel, |inst| {
///     let results = &kernel.insts[inst].results;
///     results.first().map(|&v| format!("{} bytes", kernel.ty(v).elem.bytes()))
/// });
/// assert!(text.contains("= const 7.0  // 4 bytes\n"), "{text}");
/// assert_eq!(parse_kernel(&text).expect("parses").to_string(), kernel.to_string());
/// ```
pub fn annotated(k: &Kernel, note: impl Fn(Inst) -> Option<String>) -> String {
    Text::with_notes(k, &note).text
}

/// The line of text of an instruction, named as in the text of the whole kernel.
pub fn inst_text(k: &Kernel, inst: Inst) -> String {
    Names::new(k).inst(k, inst)
}
