//! Replacing instructions by sequences of simpler ones.

use hrx_ir::tile::{BinaryOp, Block, CmpOp, Elem, Inst, Kernel, Literal, Op, Shape, Type, UnaryOp, Value, result_type};
use std::collections::HashMap;

/// Goes through the kernel in order. For each instruction but loops `replace` may append others at the cursor and return
/// the value that stands for its result from then on; else the instruction stays.
pub(super) fn rewrite(k: &mut Kernel, mut replace: impl FnMut(&mut Cursor, Inst) -> Option<Value>) {
    let body = k.body;
    visit(k, body, &mut HashMap::new(), &mut replace);
}

fn visit(
    k: &mut Kernel,
    block: Block,
    renamed: &mut HashMap<Value, Value>,
    replace: &mut impl FnMut(&mut Cursor, Inst) -> Option<Value>,
) {
    for inst in std::mem::take(&mut k.blocks[block].insts) {
        k.insts[inst].op.map_operands(|v| renamed.get(&v).copied().unwrap_or(v));
        if let Op::For { body, .. } = k.insts[inst].op {
            visit(k, body, renamed, replace);
        } else if let Some(v) = replace(&mut Cursor { k, block }, inst) {
            renamed.insert(k.insts[inst].results[0], v);
            continue;
        }
        k.blocks[block].insts.push(inst);
    }
}

/// The end of a block that is being filled.
pub(super) struct Cursor<'k> {
    pub(super) k: &'k mut Kernel,
    block: Block,
}

impl Cursor<'_> {
    pub(super) fn push(&mut self, op: Op) -> Value {
        let ty = result_type(self.k, &op).expect("expansions are well typed").expect("and have a result");
        let inst = self.k.append(self.block, op, &[ty]);
        self.k.insts[inst].results[0]
    }

    pub(super) fn elem(&self, v: Value) -> Elem {
        self.k.ty(v).elem
    }

    /// A constant of the type of `like`.
    pub(super) fn int(&mut self, n: i64, like: Value) -> Value {
        let ty = self.k.ty(like);
        self.push(Op::Const { value: Literal::Int(n), ty })
    }

    /// A constant of the type of `like`.
    pub(super) fn float(&mut self, x: f64, like: Value) -> Value {
        let ty = self.k.ty(like);
        self.push(Op::Const { value: Literal::Float(x), ty })
    }

    /// A tile of zeros.
    pub(super) fn zeros(&mut self, ty: Type) -> Value {
        let value = if ty.elem.is_float() { Literal::Float(0.0) } else { Literal::Int(0) };
        self.push(Op::Const { value, ty })
    }

    pub(super) fn unary(&mut self, op: UnaryOp, arg: Value) -> Value {
        self.push(Op::Unary { op, arg })
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        self.push(Op::Binary { op, args: [a, b] })
    }

    /// An operation on integers with a constant.
    pub(super) fn binary_int(&mut self, op: BinaryOp, a: Value, n: i64) -> Value {
        let n = self.int(n, a);
        self.binary(op, a, n)
    }

    pub(super) fn cmp(&mut self, op: CmpOp, a: Value, b: Value) -> Value {
        self.push(Op::Cmp { op, args: [a, b] })
    }

    /// `c ? a : b`, the condition broadcast.
    pub(super) fn select(&mut self, c: Value, a: Value, b: Value) -> Value {
        let shape = self.k.ty(a).shape;
        let c = self.broadcast(c, shape);
        self.push(Op::Select { args: [c, a, b] })
    }

    pub(super) fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.push(Op::Fma { args: [a, b, c] })
    }

    pub(super) fn convert(&mut self, arg: Value, to: Elem) -> Value {
        if self.elem(arg) == to { arg } else { self.push(Op::Convert { arg, to }) }
    }

    pub(super) fn bitcast(&mut self, arg: Value, to: Elem) -> Value {
        if self.elem(arg) == to { arg } else { self.push(Op::Bitcast { arg, to }) }
    }

    pub(super) fn broadcast(&mut self, arg: Value, shape: Shape) -> Value {
        if self.k.ty(arg).shape == shape { arg } else { self.push(Op::Broadcast { arg, shape }) }
    }

    /// Part of the last axis of a tile of rank 2; the tile itself where it is all of it.
    pub(super) fn columns(&mut self, arg: Value, start: u32, len: u32) -> Value {
        if self.k.ty(arg).shape.last() == len { arg } else { self.push(Op::Slice { arg, axis: 1, start, len }) }
    }

    /// Tiles of rank 2 beside one another.
    pub(super) fn beside(&mut self, parts: Vec<Value>) -> Value {
        // In pairs, so that equal ones meet equal ones: a vector is joined of halves at a time.
        let mut parts = parts;
        while parts.len() > 1 {
            let pairs = parts.chunks(2).map(|pair| match *pair {
                [a, b] => self.push(Op::Concat { args: [a, b], axis: 1 }),
                _ => pair[0],
            });
            parts = pairs.collect();
        }
        parts[0]
    }
}
