//! Emits lane operations: one method an operation, with constants folded and lane-only values placed at the entry.

use crate::lanes::ir::{Address, Bin, Block, Cmp, Inst, LaneKernel, Op, Space, Ty, Un, Val};
use crate::lanes::layout::Place;
use crate::target::amd::MatrixOp;
use cranelift_entity::PrimaryMap;
use std::collections::HashMap;

/// The lane kernel being made.
pub(super) struct Emitter {
    types: PrimaryMap<Val, Ty>,
    /// What depends on the lane's and wave's number alone: computed once, before everything else.
    entry: Block,
    /// The blocks being filled, innermost last.
    stack: Vec<Block>,
    constants: HashMap<(u32, Ty), Val>,
    bits: HashMap<Val, u32>,
    /// Values of the entry by what they are.
    known: HashMap<EntryOp, Val>,
    /// Pure operations that were emitted, innermost block last: none is emitted twice where the first one is seen.
    pure: Vec<HashMap<Pure, Val>>,
    /// Words of tables that were read, by table, place and number, likewise.
    tables: Vec<HashMap<Read, Vec<Val>>>,
}

/// A pure operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pure {
    Bin(Bin, Val, Val),
    Un(Un, Val),
    Cmp(Cmp, Val, Val),
    Select(Val, Val, Val),
    Lookup(LookupTable, Val),
}

/// A read of a table: its name, the first word, how many.
type Read = (&'static str, Val, u32);

/// A table as a key.
type LookupTable = &'static hrx_ir::quant::Table;

/// What an entry value is, to make each once.
#[derive(Clone, PartialEq, Eq, Hash)]
enum EntryOp {
    Lane,
    Wave,
    Bin(BinKey, Val, Val),
    Bit(Place),
    NotBit(Place),
}

type BinKey = std::mem::Discriminant<Bin>;

impl Emitter {
    pub fn new() -> Emitter {
        Emitter {
            types: PrimaryMap::new(),
            entry: Vec::new(),
            stack: vec![Vec::new()],
            constants: HashMap::new(),
            bits: HashMap::new(),
            known: HashMap::new(),
            pure: vec![HashMap::new()],
            tables: vec![HashMap::new()],
        }
    }

    /// The finished kernel.
    pub fn finish(mut self, name: &str, wave: u32, waves: u32, lds: u32) -> LaneKernel {
        let mut body = std::mem::take(&mut self.entry);
        body.extend(self.stack.pop().unwrap_or_default());
        LaneKernel { name: name.into(), wave, waves, lds, types: self.types, body }
    }

    pub fn ty(&self, v: Val) -> Ty {
        self.types[v]
    }

    fn push(&mut self, op: Op, tys: &[Ty]) -> Vec<Val> {
        let results: Vec<Val> = tys.iter().map(|&t| self.types.push(t)).collect();
        let block = self.stack.last_mut().expect("the body is open");
        block.push(Inst { op, results: results.clone() });
        results
    }

    fn one(&mut self, op: Op, ty: Ty) -> Val {
        self.push(op, &[ty])[0]
    }

    fn pure(&mut self, key: Pure, ty: Ty) -> Val {
        if let Some(&v) = self.pure.iter().rev().find_map(|m| m.get(&key)) {
            return v;
        }
        let op = match key {
            Pure::Bin(op, a, b) => Op::Bin(op, a, b),
            Pure::Un(op, a) => Op::Un(op, a),
            Pure::Cmp(op, a, b) => Op::Cmp(op, a, b),
            Pure::Select(c, a, b) => Op::Select(c, a, b),
            Pure::Lookup(table, a) => Op::Lookup(table, a),
        };
        let v = self.one(op, ty);
        if let Some(scope) = self.pure.last_mut() {
            scope.insert(key, v);
        }
        v
    }

    fn at_entry(&mut self, key: EntryOp, op: Op, ty: Ty) -> Val {
        if let Some(&v) = self.known.get(&key) {
            return v;
        }
        let v = self.types.push(ty);
        self.entry.push(Inst { op, results: vec![v] });
        self.known.insert(key, v);
        v
    }

    /// A constant.
    pub fn constant(&mut self, bits: u32, ty: Ty) -> Val {
        if let Some(&v) = self.constants.get(&(bits, ty)) {
            return v;
        }
        let v = self.types.push(ty);
        self.entry.push(Inst { op: Op::Const(bits), results: vec![v] });
        self.constants.insert((bits, ty), v);
        self.bits.insert(v, bits);
        v
    }

    pub fn int(&mut self, n: i64) -> Val {
        self.constant(n as u32, Ty::I32)
    }

    pub fn float(&mut self, x: f32) -> Val {
        self.constant(x.to_bits(), Ty::F32)
    }

    pub fn predicate(&mut self, b: bool) -> Val {
        self.constant(u32::from(b), Ty::B1)
    }

    /// The bits of a constant.
    pub fn known(&self, v: Val) -> Option<u32> {
        self.bits.get(&v).copied()
    }

    pub fn lane(&mut self) -> Val {
        self.at_entry(EntryOp::Lane, Op::Lane, Ty::I32)
    }

    pub fn wave(&mut self) -> Val {
        self.at_entry(EntryOp::Wave, Op::Wave, Ty::I32)
    }

    pub fn program(&mut self, axis: u8) -> Val {
        self.one(Op::Program(axis), Ty::I32)
    }

    pub fn param(&mut self, v: hrx_ir::tile::Value, ty: Ty) -> Val {
        self.one(Op::Param(v), ty)
    }

    /// An operation of entry values, at the entry.
    fn entry_bin(&mut self, op: Bin, a: Val, b: Val) -> Val {
        if let Some(v) = self.fold(op, a, b) {
            return v;
        }
        self.at_entry(EntryOp::Bin(std::mem::discriminant(&op), a, b), Op::Bin(op, a, b), Ty::I32)
    }

    /// The number of a place: of the lane or of the wave.
    fn place_number(&mut self, place: Place) -> Option<(Val, u8)> {
        match place {
            Place::Reg => None,
            Place::Lane(k) => Some((self.lane(), k)),
            Place::Wave(k) => Some((self.wave(), k)),
        }
    }

    /// Whether the bit of a place is set in this lane.
    pub fn bit(&mut self, place: Place) -> Val {
        let Some((number, k)) = self.place_number(place) else { return self.predicate(false) };
        let mask = self.int(1 << k);
        let masked = self.entry_bin(Bin::And, number, mask);
        let zero = self.int(0);
        self.at_entry(EntryOp::Bit(place), Op::Cmp(Cmp::Ne, masked, zero), Ty::B1)
    }

    /// Whether all of these bits of lane and wave are clear; none where there are no bits.
    pub fn all_clear(&mut self, lanes: u32, waves: u32) -> Option<Val> {
        let mut out: Option<Val> = None;
        for (number, mask) in [(Place::Lane(0), lanes), (Place::Wave(0), waves)] {
            if mask == 0 {
                continue;
            }
            let (number, _) = self.place_number(number)?;
            let m = self.int(i64::from(mask));
            let masked = self.entry_bin(Bin::And, number, m);
            let zero = self.int(0);
            let key =
                EntryOp::NotBit(if number == self.lane() { Place::Lane(mask as u8) } else { Place::Wave(mask as u8) });
            let clear = self.at_entry(key, Op::Cmp(Cmp::Eq, masked, zero), Ty::B1);
            out = Some(match out {
                Some(before) => self.bin(Bin::And, before, clear),
                None => clear,
            });
        }
        out
    }

    /// The sum over lane and wave bits of a step for each: what a lane adds to an index or address.
    pub fn lane_sum(&mut self, steps: &[(Place, u32)]) -> Val {
        let mut sum = self.int(0);
        // Runs of bits whose steps double go together: ((number >> k) & mask) * step.
        let mut rest: Vec<(Place, u32)> = steps.iter().copied().filter(|&(p, s)| p != Place::Reg && s != 0).collect();
        rest.sort_by_key(|&(p, _)| p);
        let mut at = 0;
        while at < rest.len() {
            let (first, step) = rest[at];
            let mut n = 1;
            let follows = |n: usize| {
                let next = match first {
                    Place::Lane(k) => Place::Lane(k + n as u8),
                    Place::Wave(k) => Place::Wave(k + n as u8),
                    Place::Reg => Place::Reg,
                };
                rest.get(at + n).is_some_and(|&(p, s)| p == next && u64::from(s) == u64::from(step) << n)
            };
            while follows(n) {
                n += 1;
            }
            at += n;
            let Some((number, k)) = self.place_number(first) else { continue };
            let shift = self.int(i64::from(k));
            let moved = self.entry_bin(Bin::LShr, number, shift);
            let mask = self.int((1 << n) - 1);
            let part = self.entry_bin(Bin::And, moved, mask);
            let part = if step.is_power_of_two() {
                let by = self.int(i64::from(step.trailing_zeros()));
                self.entry_bin(Bin::Shl, part, by)
            } else {
                let by = self.int(i64::from(step));
                self.entry_bin(Bin::Mul, part, by)
            };
            sum = self.entry_bin(Bin::Add, sum, part);
        }
        sum
    }

    fn fold(&mut self, op: Bin, a: Val, b: Val) -> Option<Val> {
        let (ka, kb) = (self.known(a), self.known(b));
        if let (Some(x), Some(y)) = (ka, kb) {
            let n = match op {
                Bin::Add => x.wrapping_add(y),
                Bin::Sub => x.wrapping_sub(y),
                Bin::Mul => x.wrapping_mul(y),
                Bin::And => x & y,
                Bin::Or => x | y,
                Bin::Xor => x ^ y,
                Bin::Shl if y < 32 => x << y,
                Bin::LShr if y < 32 => x >> y,
                _ => return None,
            };
            let ty = self.ty(a);
            return Some(self.constant(n, ty));
        }
        match (op, ka, kb) {
            (Bin::Add | Bin::Or | Bin::Xor, Some(0), _) => Some(b),
            (Bin::Add | Bin::Sub | Bin::Or | Bin::Xor | Bin::Shl | Bin::LShr | Bin::AShr, _, Some(0)) => Some(a),
            (Bin::Mul, Some(1), _) => Some(b),
            (Bin::Mul | Bin::SDiv | Bin::UDiv, _, Some(1)) => Some(a),
            (Bin::Mul | Bin::And, Some(0), _) => Some(a),
            (Bin::Mul | Bin::And, _, Some(0)) => Some(b),
            (Bin::And, Some(u32::MAX), _) => Some(b),
            (Bin::And, _, Some(u32::MAX)) => Some(a),
            _ => None,
        }
    }

    pub fn bin(&mut self, op: Bin, a: Val, b: Val) -> Val {
        if let Some(v) = self.fold(op, a, b) {
            return v;
        }
        let ty = match op {
            Bin::FAdd | Bin::FSub | Bin::FMul | Bin::FDiv | Bin::FMin | Bin::FMax => Ty::F32,
            Bin::And | Bin::Or | Bin::Xor => self.ty(a),
            _ => Ty::I32,
        };
        self.pure(Pure::Bin(op, a, b), ty)
    }

    pub fn add(&mut self, a: Val, b: Val) -> Val {
        self.bin(Bin::Add, a, b)
    }

    /// a times a constant.
    pub fn times(&mut self, a: Val, n: u32) -> Val {
        if n.is_power_of_two() {
            let by = self.int(i64::from(n.trailing_zeros()));
            return self.bin(Bin::Shl, a, by);
        }
        let n = self.int(i64::from(n));
        self.bin(Bin::Mul, a, n)
    }

    pub fn shr(&mut self, a: Val, n: u32) -> Val {
        let n = self.int(i64::from(n));
        self.bin(Bin::LShr, a, n)
    }

    pub fn and(&mut self, a: Val, mask: u32) -> Val {
        let m = self.constant(mask, Ty::I32);
        self.bin(Bin::And, a, m)
    }

    pub fn un(&mut self, op: Un, a: Val) -> Val {
        if let (Some(bits), Un::Bits | Un::Float) = (self.known(a), op) {
            let ty = if op == Un::Bits { Ty::I32 } else { Ty::F32 };
            return self.constant(bits, ty);
        }
        let ty = match op {
            Un::Sqrt
            | Un::Floor
            | Un::RoundEven
            | Un::SToF
            | Un::UToF
            | Un::ByteToF(_)
            | Un::HalfToF(_)
            | Un::Float => Ty::F32,
            Un::FToS | Un::FToU | Un::FToHalf | Un::SExt(_) | Un::Bits | Un::BToI | Un::Ones => Ty::I32,
            Un::Not => Ty::B1,
        };
        self.pure(Pure::Un(op, a), ty)
    }

    pub fn cmp(&mut self, op: Cmp, a: Val, b: Val) -> Val {
        if let (Some(x), Some(y)) = (self.known(a), self.known(b)) {
            let known = match op {
                Cmp::Eq => Some(x == y),
                Cmp::Ne => Some(x != y),
                Cmp::SLt => Some((x as i32) < y as i32),
                Cmp::SLe => Some(x as i32 <= y as i32),
                Cmp::ULt => Some(x < y),
                Cmp::ULe => Some(x <= y),
                _ => None,
            };
            if let Some(b) = known {
                return self.predicate(b);
            }
        }
        self.pure(Pure::Cmp(op, a, b), Ty::B1)
    }

    pub fn select(&mut self, c: Val, a: Val, b: Val) -> Val {
        if a == b {
            return a;
        }
        match self.known(c) {
            Some(0) => b,
            Some(_) => a,
            None => {
                let ty = self.ty(a);
                self.pure(Pure::Select(c, a, b), ty)
            }
        }
    }

    /// Entries of a table of 16 bytes, four a word.
    pub fn lookup(&mut self, table: LookupTable, index: Val) -> Val {
        self.pure(Pure::Lookup(table, index), Ty::I32)
    }

    /// Words of a table.
    pub fn table(&mut self, table: LookupTable, at: Val, words: u32) -> Vec<Val> {
        let key = (table.name, at, words);
        if let Some(found) = self.tables.iter().rev().find_map(|t| t.get(&key)) {
            return found.clone();
        }
        let made = self.push(Op::Table(table, at), &vec![Ty::I32; words as usize]);
        if let Some(scope) = self.tables.last_mut() {
            scope.insert(key, made.clone());
        }
        made
    }

    pub fn fma(&mut self, a: Val, b: Val, c: Val) -> Val {
        self.one(Op::Fma(a, b, c), Ty::F32)
    }

    pub fn dot4(&mut self, signed: bool, args: [Val; 3]) -> Val {
        self.one(Op::Dot4 { signed, args }, Ty::I32)
    }

    pub fn dot2(&mut self, args: [Val; 3]) -> Val {
        self.one(Op::Dot2(args), Ty::F32)
    }

    pub fn shuffle_xor(&mut self, v: Val, mask: u32) -> Val {
        let ty = self.ty(v);
        self.one(Op::ShuffleXor(v, mask), ty)
    }

    /// Registers that bytes of memory fill.
    pub fn load(&mut self, at: Address, bytes: u32, mask: Option<Val>) -> Vec<Val> {
        let words = bytes.div_ceil(4) as usize;
        self.push(Op::Load { at, bytes, mask }, &vec![Ty::I32; words])
    }

    /// Registers that matrices of LDS fill.
    pub fn load_matrices(&mut self, at: Address, count: u32, transposed: bool) -> Vec<Val> {
        self.push(Op::LoadMatrices { at, count, transposed }, &vec![Ty::I32; count as usize])
    }

    pub fn store(&mut self, at: Address, bytes: u32, values: Vec<Val>, mask: Option<Val>) {
        self.push(Op::Store { at, bytes, values, mask }, &[]);
    }

    /// A place in LDS.
    pub fn lds(&mut self, lane: Val, imm: u32, align: u32) -> Address {
        Address { space: Space::Lds, uniform: self.int(0), lane, imm, align }
    }

    pub fn barrier(&mut self) {
        self.push(Op::Barrier, &[]);
    }

    pub fn mma(&mut self, inst: &'static MatrixOp, a: Vec<Val>, b: Vec<Val>, c: Vec<Val>) -> Vec<Val> {
        let ty = c.first().map_or(Ty::F32, |&v| self.ty(v));
        let n = c.len();
        self.push(Op::Mma { inst, a, b, c }, &vec![ty; n])
    }

    /// Opens a loop's body; returns its counter and the registers that it carries.
    pub fn open_loop(&mut self, inits: &[Val]) -> (Val, Vec<Val>) {
        self.stack.push(Vec::new());
        self.pure.push(HashMap::new());
        self.tables.push(HashMap::new());
        let counter = self.types.push(Ty::I32);
        let params = inits.iter().map(|&v| self.types.push(self.types[v])).collect();
        (counter, params)
    }

    /// Closes the innermost loop; returns the last values of what it carries.
    pub fn close_loop(&mut self, bounds: [Val; 3], inits: Vec<Val>, params: Vec<Val>, yields: Vec<Val>) -> Vec<Val> {
        let body = self.stack.pop().expect("a loop is open");
        self.pure.pop();
        self.tables.pop();
        let tys: Vec<Ty> = inits.iter().map(|&v| self.types[v]).collect();
        self.push(Op::For { bounds, inits, params, body, yields }, &tys)
    }
}
