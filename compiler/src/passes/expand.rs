//! Expands reads of quantised blocks into byte operations, by the format's description.
//!
//! After this pass the only block reads left are raw ones.

use hrx_ir::quant::{Bytes, CHUNK, Format, Scales};
use hrx_ir::tile::{
    BinaryOp, Block, BlockPart, CmpOp, Content, Elem, Kernel, Literal, Op, Shape, Type, UnaryOp, Value, View,
    result_type,
};
use std::collections::HashMap;

/// Expands every block read of the kernel but the raw ones.
pub fn expand_blocks(k: &mut Kernel) {
    expand(k, k.body, &mut HashMap::new());
}

fn expand(k: &mut Kernel, block: Block, renamed: &mut HashMap<Value, Value>) {
    for inst in std::mem::take(&mut k.blocks[block].insts) {
        k.insts[inst].op.map_operands(|v| renamed.get(&v).copied().unwrap_or(v));
        match k.insts[inst].op {
            Op::LoadBlock { part: BlockPart::Raw(_), .. } => k.blocks[block].insts.push(inst),
            Op::LoadBlock { view, index, part, ty } => {
                let Content::Quant(format) = k.views[view].content else {
                    unreachable!("the verifier holds block reads to quantised views")
                };
                let mut e = Expander { k, block, view, index, rows: ty.shape.dims()[0], format };
                let v = e.part(part);
                renamed.insert(e.k.insts[inst].results[0], v);
            }
            Op::For { body, .. } => {
                expand(k, body, renamed);
                k.blocks[block].insts.push(inst);
            }
            _ => k.blocks[block].insts.push(inst),
        }
    }
}

/// Appends the expansion of one read to a block.
struct Expander<'k> {
    k: &'k mut Kernel,
    block: Block,
    view: View,
    index: [Value; 2],
    rows: u32,
    format: &'static Format,
}

impl Expander<'_> {
    fn push(&mut self, op: Op) -> Value {
        let ty = result_type(self.k, &op).expect("expansions are well typed").expect("and have a result");
        let inst = self.k.append(self.block, op, &[ty]);
        self.k.insts[inst].results[0]
    }

    fn elem(&self, v: Value) -> Elem {
        self.k.ty(v).elem
    }

    fn int(&mut self, n: i64, like: Value) -> Value {
        let ty = self.k.ty(like);
        self.push(Op::Const { value: Literal::Int(n), ty })
    }

    fn float(&mut self, x: f64, like: Value) -> Value {
        let ty = self.k.ty(like);
        self.push(Op::Const { value: Literal::Float(x), ty })
    }

    fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        self.push(Op::Binary { op, args: [a, b] })
    }

    fn convert(&mut self, arg: Value, to: Elem) -> Value {
        if self.elem(arg) == to { arg } else { self.push(Op::Convert { arg, to }) }
    }

    /// `n` fields of a type from byte `at` of each row's block.
    fn raw(&mut self, at: u32, elem: Elem, n: u32) -> Value {
        let ty = Type::new(elem, &[self.rows, n]);
        self.push(Op::LoadBlock { view: self.view, index: self.index, part: BlockPart::Raw(at), ty })
    }

    fn part(&mut self, part: BlockPart) -> Value {
        match part {
            BlockPart::Codes(chunk) => self.codes(chunk),
            BlockPart::Scales => self.scales(&(self.format.scales)()),
            BlockPart::Offsets => self.offsets(),
            BlockPart::Values(chunk) => self.values(chunk),
            BlockPart::Raw(_) => unreachable!("raw reads stay"),
        }
    }

    fn codes(&mut self, chunk: u32) -> Value {
        let v = self.bytes(&(self.format.codes)(chunk));
        if self.format.signed { self.push(Op::Bitcast { arg: v, to: Elem::I8 }) } else { v }
    }

    /// A byte expression as operations on `u8 [rows, n]`.
    fn bytes(&mut self, e: &Bytes) -> Value {
        match e {
            Bytes::Raw { at, len } => self.raw(*at, Elem::U8, *len),
            Bytes::Bits { at, len } => self.bits(*at, *len, 0),
            Bytes::Shl(inner, n) => {
                if let Bytes::Bits { at, len } = **inner {
                    return self.bits(at, len, *n);
                }
                self.with_constant(BinaryOp::Shl, inner, i64::from(*n))
            }
            Bytes::Shr(inner, n) => self.with_constant(BinaryOp::Shr, inner, i64::from(*n)),
            Bytes::And(inner, m) => self.with_constant(BinaryOp::And, inner, i64::from(*m)),
            Bytes::Or(a, b) => {
                let (a, b) = (self.bytes(a), self.bytes(b));
                self.binary(BinaryOp::Or, a, b)
            }
            Bytes::Concat(a, b) => {
                let args = [self.bytes(a), self.bytes(b)];
                self.push(Op::Concat { args, axis: 1 })
            }
        }
    }

    fn with_constant(&mut self, op: BinaryOp, inner: &Bytes, n: i64) -> Value {
        let v = self.bytes(inner);
        let n = self.int(n, v);
        self.binary(op, v, n)
    }

    /// Bits spread to bytes of 0 or `1 << shift`: each byte eight times, each copy masked with its own bit.
    fn bits(&mut self, at: u32, len: u32, shift: u8) -> Value {
        let n = 8 * len;
        let raw = self.raw(at, Elem::U8, len);
        let copies = self.push(Op::Repeat { arg: raw, times: 8 });
        let place = self.push(Op::Iota { ty: Type::new(Elem::U8, &[n]) });
        let seven = self.int(7, place);
        let bit = self.binary(BinaryOp::And, place, seven);
        let one = self.int(1, bit);
        let mask = self.binary(BinaryOp::Shl, one, bit);
        let mask = self.push(Op::Reshape { arg: mask, shape: Shape::new(&[1, n]) });
        let mask = self.push(Op::Broadcast { arg: mask, shape: Shape::new(&[self.rows, n]) });
        let masked = self.binary(BinaryOp::And, copies, mask);
        let zero = self.int(0, masked);
        let set = self.push(Op::Cmp { op: CmpOp::Ne, args: [masked, zero] });
        let bit = self.int(1 << shift, masked);
        self.push(Op::Select { args: [set, bit, zero] })
    }

    fn scales(&mut self, s: &Scales) -> Value {
        let shape = Shape::new(&[self.rows, self.format.groups()]);
        match s {
            Scales::One { at, negate } => {
                let half = self.raw(*at, Elem::F16, 1);
                let mut d = self.convert(half, Elem::F32);
                if *negate {
                    d = self.push(Op::Unary { op: UnaryOp::Neg, arg: d });
                }
                self.broadcast(d, shape)
            }
            Scales::Scaled { at, by, signed } => {
                let half = self.raw(*at, Elem::F16, 1);
                let d = self.convert(half, Elem::F32);
                let d = self.broadcast(d, shape);
                let mut by = self.bytes(by);
                if *signed {
                    by = self.push(Op::Bitcast { arg: by, to: Elem::I8 });
                }
                let by = self.convert(by, Elem::F32);
                self.binary(BinaryOp::Mul, d, by)
            }
        }
    }

    fn broadcast(&mut self, arg: Value, shape: Shape) -> Value {
        if self.k.ty(arg).shape == shape { arg } else { self.push(Op::Broadcast { arg, shape }) }
    }

    fn offsets(&mut self) -> Value {
        let f = self.format;
        let zero_part = (f.zero != 0).then(|| {
            let scale = self.scales(&(f.scales)());
            let zero = self.float(f64::from(f.zero), scale);
            self.binary(BinaryOp::Mul, scale, zero)
        });
        let min = f.mins.map(|mins| self.scales(&mins()));
        match (zero_part, min) {
            (Some(z), Some(m)) => self.binary(BinaryOp::Add, z, m),
            (Some(v), None) | (None, Some(v)) => v,
            (None, None) => {
                let ty = Type::new(Elem::F32, &[self.rows, f.groups()]);
                self.push(Op::Const { value: Literal::Float(0.0), ty })
            }
        }
    }

    /// The part of a per-group value that belongs to a chunk, spread over its elements.
    fn spread(&mut self, groups: Value, chunk: u32) -> Value {
        let n = CHUNK / self.format.group;
        let part = if self.format.groups() == n {
            groups
        } else {
            self.push(Op::Slice { arg: groups, axis: 1, start: chunk * n, len: n })
        };
        self.push(Op::Repeat { arg: part, times: self.format.group })
    }

    fn values(&mut self, chunk: u32) -> Value {
        let f = self.format;
        let codes = self.codes(chunk);
        let mut x = self.convert(codes, Elem::F32);
        if f.zero != 0 {
            let zero = self.float(f64::from(f.zero), x);
            x = self.binary(BinaryOp::Sub, x, zero);
        }
        let scales = self.scales(&(f.scales)());
        let scales = self.spread(scales, chunk);
        x = self.binary(BinaryOp::Mul, scales, x);
        if let Some(mins) = f.mins {
            let mins = self.scales(&mins());
            let mins = self.spread(mins, chunk);
            x = self.binary(BinaryOp::Sub, x, mins);
        }
        x
    }
}
