//! Runs a kernel in lane form: all lanes of a workgroup in step, one operation after another.
//!
//! It knows nothing of tiles and layouts, so that its agreement with the tile interpreter says that layouts, conversions,
//! cross-lane operations and barriers are right. Where two waves touch the same byte of LDS with no barrier between, and
//! one of them writes another value, it is an error, whatever the order that would have come out.

use super::ir::{Address, Bin, Block, Cmp, LaneKernel, Op, Space, Un, Val};
use crate::target::amd::{MatrixOp, MatrixType};
use cranelift_entity::SecondaryMap;
use half::{bf16, f16};
use hrx_ir::tile;
use std::collections::HashMap;

/// Device memory: buffers, and which one each view is.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The buffers.
    pub buffers: Vec<Vec<u8>>,
    /// The number of each view's buffer.
    pub views: HashMap<tile::View, usize>,
    /// Whether buffers are plain memory, as on NVIDIA's GPUs, where what is accessed has to be there: stores beyond a
    /// buffer's end are faults, and so are loads that begin there. Else what is loaded beyond it is zero and what is
    /// stored there is lost, as with the buffer resources of AMD's.
    pub plain: bool,
}

/// The arguments of a launch beside memory.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Bits of each scalar parameter.
    pub scalars: HashMap<tile::Value, u32>,
    /// The program's ids.
    pub program: [u32; 3],
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

fn fault<T>(text: impl Into<String>) -> Result<T, Fault> {
    Err(Fault(text.into()))
}

/// Runs one workgroup.
///
/// # Errors
/// An access that leaves LDS or plain memory, a race in LDS, a shift or division that the lane form does not allow.
pub fn run(k: &LaneKernel, memory: &mut Memory, launch: &Launch) -> Result<(), Fault> {
    let lanes = (k.wave * k.waves) as usize;
    let mut m = Machine {
        k,
        memory,
        launch,
        lanes,
        values: SecondaryMap::new(),
        lds: vec![Byte::default(); k.lds as usize],
        phase: 1,
    };
    m.block(&k.body)
}

/// A byte of LDS with who touched it since which barrier.
#[derive(Clone, Copy, Default)]
struct Byte {
    value: u8,
    initialised: bool,
    written: (u32, u32),
    /// Phase, and the wave that read; more than one wave is `u32::MAX`.
    read: (u32, u32),
}

struct Machine<'a> {
    k: &'a LaneKernel,
    memory: &'a mut Memory,
    launch: &'a Launch,
    lanes: usize,
    values: SecondaryMap<Val, Vec<u32>>,
    lds: Vec<Byte>,
    phase: u32,
}

impl Machine<'_> {
    fn get(&self, v: Val) -> Result<&[u32], Fault> {
        match self.values[v].as_slice() {
            [] => fault(format!("{v} is used before it is defined")),
            lanes => Ok(lanes),
        }
    }

    /// A value that all lanes agree on.
    fn uniform(&self, v: Val) -> Result<u32, Fault> {
        let all = self.get(v)?;
        if all.iter().any(|x| *x != all[0]) {
            return fault(format!("{v} is not the same in all lanes"));
        }
        Ok(all[0])
    }

    fn block(&mut self, block: &Block) -> Result<(), Fault> {
        for inst in block {
            if let Op::For { bounds, inits, params, body, yields } = &inst.op {
                let [mut i, upper, step] =
                    [self.uniform(bounds[0])? as i32, self.uniform(bounds[1])? as i32, self.uniform(bounds[2])? as i32];
                let mut carried =
                    inits.iter().map(|&v| Ok(self.get(v)?.to_vec())).collect::<Result<Vec<_>, Fault>>()?;
                while i < upper {
                    self.values[params[0]] = vec![i as u32; self.lanes];
                    for (&p, v) in params[1..].iter().zip(&carried) {
                        self.values[p].clone_from(v);
                    }
                    self.block(body)?;
                    carried = yields.iter().map(|&v| Ok(self.get(v)?.to_vec())).collect::<Result<_, Fault>>()?;
                    i += step;
                }
                for (&r, v) in inst.results.iter().zip(carried) {
                    self.values[r] = v;
                }
                continue;
            }
            for (&r, v) in inst.results.iter().zip(self.op(&inst.op, inst.results.len())?) {
                self.values[r] = v;
            }
        }
        Ok(())
    }

    fn map(&self, args: &[Val], f: impl Fn(&[u32]) -> Result<u32, Fault>) -> Result<Vec<Vec<u32>>, Fault> {
        let columns = args.iter().map(|&a| self.get(a)).collect::<Result<Vec<_>, _>>()?;
        let mut row = vec![0; args.len()];
        let out = (0..self.lanes).map(|lane| {
            row.iter_mut().zip(&columns).for_each(|(r, c)| *r = c[lane]);
            f(&row)
        });
        Ok(vec![out.collect::<Result<_, _>>()?])
    }

    fn op(&mut self, op: &Op, results: usize) -> Result<Vec<Vec<u32>>, Fault> {
        let (wave, lanes) = (self.k.wave, self.lanes as u32);
        match op {
            Op::Const(bits) => Ok(vec![vec![*bits; self.lanes]]),
            Op::Lane => Ok(vec![(0..lanes).map(|i| i % wave).collect()]),
            Op::Wave => Ok(vec![(0..lanes).map(|i| i / wave).collect()]),
            Op::Program(axis) => Ok(vec![vec![self.launch.program[usize::from(*axis)]; self.lanes]]),
            Op::Param(v) => match self.launch.scalars.get(v) {
                Some(&bits) => Ok(vec![vec![bits; self.lanes]]),
                None => fault(format!("scalar parameter {v} has no argument")),
            },
            Op::Un(op, a) => self.map(&[*a], |x| Ok(unary(*op, x[0]))),
            Op::Bin(op, a, b) => self.map(&[*a, *b], |x| binary(*op, x[0], x[1])),
            Op::Cmp(op, a, b) => self.map(&[*a, *b], |x| Ok(u32::from(compare(*op, x[0], x[1])))),
            Op::Select(c, a, b) => self.map(&[*c, *a, *b], |x| Ok(if x[0] != 0 { x[1] } else { x[2] })),
            Op::Fma(a, b, c) => {
                self.map(&[*a, *b, *c], |x| Ok(float(x[0]).mul_add(float(x[1]), float(x[2])).to_bits()))
            }
            Op::Dot4 { signed, args } => self.map(args, |x| Ok(dot4(*signed, x[0], x[1], x[2]))),
            Op::Lookup(table, v) => self.map(&[*v], |x| {
                let entries = x[0].to_le_bytes().map(|i| table.bytes[usize::from(i & 15)]);
                Ok(u32::from_le_bytes(entries))
            }),
            Op::Table(table, v) => {
                let words = (0..results).map(|n| {
                    let word = self.map(&[*v], |x| {
                        let from = 4 * (x[0] as usize + n);
                        match table.bytes.get(from..from + 4) {
                            Some(&[a, b, c, d]) => Ok(u32::from_le_bytes([a, b, c, d])),
                            _ => fault(format!("word {} of table {}", x[0] as usize + n, table.name)),
                        }
                    });
                    word.map(|w| w.concat())
                });
                words.collect()
            }
            Op::Dot2(args) => self.map(args, |x| {
                let half = |w: u32, i: u32| f16::from_bits((w >> (16 * i)) as u16).to_f32();
                let sum = (0..2).fold(float(x[2]), |s, i| half(x[0], i).mul_add(half(x[1], i), s));
                Ok(sum.to_bits())
            }),
            Op::ShuffleXor(v, mask) => {
                let from = self.get(*v)?;
                Ok(vec![(0..lanes).map(|i| from[(i ^ mask) as usize]).collect()])
            }
            Op::Load { at, bytes, mask } => self.load(at, *bytes, *mask),
            Op::LoadMatrices { at, count, transposed } => self.load_matrices(at, *count, *transposed),
            Op::Store { at, bytes, values, mask } => self.store(at, *bytes, values, *mask),
            Op::Barrier => {
                self.phase += 1;
                Ok(vec![])
            }
            Op::Mma { inst, a, b, c } => self.mma(inst, a, b, c),
            Op::For { .. } => fault("a loop as a plain operation"),
        }
    }

    /// The byte address of each lane, none where the predicate is false.
    fn addresses(&self, at: &Address, mask: Option<Val>) -> Result<Vec<Option<u32>>, Fault> {
        let uniform = self.get(at.uniform)?;
        // In LDS the number of the wave may be part of it.
        if at.space != Space::Lds {
            self.uniform(at.uniform)?;
        }
        let lane = self.get(at.lane)?;
        let mask = mask.map(|m| self.get(m)).transpose()?;
        Ok((0..self.lanes)
            .map(|i| {
                let on = mask.is_none_or(|m| m[i] != 0);
                on.then(|| uniform[i].wrapping_add(lane[i]).wrapping_add(at.imm))
            })
            .collect())
    }

    fn load(&mut self, at: &Address, bytes: u32, mask: Option<Val>) -> Result<Vec<Vec<u32>>, Fault> {
        let addresses = self.addresses(at, mask)?;
        let words = bytes.div_ceil(4) as usize;
        let mut out = vec![vec![0u32; self.lanes]; words];
        for (lane, address) in addresses.into_iter().enumerate() {
            let Some(address) = address else { continue };
            if at.space == Space::Lds && !address.is_multiple_of(at.align) {
                return fault(format!("LDS address {address} is not aligned to {}", at.align));
            }
            self.is_there(at.space, address, 1)?;
            for i in 0..bytes {
                let byte = self.read(at.space, address.wrapping_add(i), lane)?;
                out[(i / 4) as usize][lane] |= u32::from(byte) << (8 * (i % 4));
            }
        }
        Ok(out)
    }

    fn load_matrices(&mut self, at: &Address, count: u32, transposed: bool) -> Result<Vec<Vec<u32>>, Fault> {
        let addresses: Vec<u32> = self.addresses(at, None)?.into_iter().flatten().collect();
        let wave = self.k.wave as usize;
        if at.space != Space::Lds || addresses.iter().any(|a| !a.is_multiple_of(16)) {
            return fault("matrices are loaded from LDS, and their rows are aligned to 16 bytes");
        }
        let mut out = vec![vec![0u32; self.lanes]; count as usize];
        for (m, words) in out.iter_mut().enumerate() {
            for (lane, word) in words.iter_mut().enumerate() {
                let of_wave = lane % wave;
                let (high, low) = (of_wave / 4, of_wave % 4);
                for i in 0..4 {
                    let [row, byte] = match transposed {
                        false => [high, 4 * low + i],
                        true => [2 * low + i / 2, 2 * high + i % 2],
                    };
                    let row = addresses[lane - of_wave + 8 * m + row];
                    let byte = self.read(Space::Lds, row.wrapping_add(byte as u32), lane)?;
                    *word |= u32::from(byte) << (8 * i);
                }
            }
        }
        Ok(out)
    }

    /// Holds an access to plain memory to its buffer.
    fn is_there(&self, space: Space, address: u32, bytes: u32) -> Result<(), Fault> {
        let Space::Global(view) = space else { return Ok(()) };
        let buffer = self.memory.views.get(&view).and_then(|&b| self.memory.buffers.get(b));
        let length = buffer.map_or(0, Vec::len) as u64;
        match self.memory.plain && u64::from(address) + u64::from(bytes) > length {
            true => fault(format!("{bytes} bytes at {address} of {view} are beyond its {length} bytes")),
            false => Ok(()),
        }
    }

    fn read(&mut self, space: Space, address: u32, lane: usize) -> Result<u8, Fault> {
        match space {
            // A buffer's accesses beyond its end are zero.
            Space::Global(view) => {
                let bytes = self.memory.views.get(&view).and_then(|&b| self.memory.buffers.get(b));
                Ok(bytes.and_then(|m| m.get(address as usize)).copied().unwrap_or(0))
            }
            Space::Lds => {
                let (wave, phase) = (lane as u32 / self.k.wave, self.phase);
                let Some(b) = self.lds.get_mut(address as usize) else {
                    return fault(format!("LDS byte {address} is beyond its {} bytes", self.k.lds));
                };
                if b.written.0 == phase && b.written.1 != wave {
                    return fault(format!("LDS byte {address}: wave {wave} reads what wave {} writes", b.written.1));
                }
                if !b.initialised {
                    return fault(format!("LDS byte {address} is read before it is written"));
                }
                b.read = if b.read.0 == phase && b.read.1 != wave { (phase, u32::MAX) } else { (phase, wave) };
                Ok(b.value)
            }
        }
    }

    fn store(&mut self, at: &Address, bytes: u32, values: &[Val], mask: Option<Val>) -> Result<Vec<Vec<u32>>, Fault> {
        let addresses = self.addresses(at, mask)?;
        let words = values.iter().map(|&v| Ok(self.get(v)?.to_vec())).collect::<Result<Vec<_>, Fault>>()?;
        for (lane, address) in addresses.into_iter().enumerate() {
            let Some(address) = address else { continue };
            if at.space == Space::Lds && !address.is_multiple_of(at.align) {
                return fault(format!("LDS address {address} is not aligned to {}", at.align));
            }
            self.is_there(at.space, address, bytes)?;
            for i in 0..bytes {
                let byte = (words[(i / 4) as usize][lane] >> (8 * (i % 4))) as u8;
                self.write(at.space, address.wrapping_add(i), lane, byte)?;
            }
        }
        Ok(vec![])
    }

    fn write(&mut self, space: Space, address: u32, lane: usize, value: u8) -> Result<(), Fault> {
        match space {
            Space::Global(view) => {
                let Memory { buffers, views, .. } = &mut *self.memory;
                let bytes = views.get(&view).and_then(|&b| buffers.get_mut(b));
                if let Some(b) = bytes.and_then(|m| m.get_mut(address as usize)) {
                    *b = value;
                }
                Ok(())
            }
            Space::Lds => {
                let (wave, phase) = (lane as u32 / self.k.wave, self.phase);
                let Some(b) = self.lds.get_mut(address as usize) else {
                    return fault(format!("LDS byte {address} is beyond its {} bytes", self.k.lds));
                };
                if b.written.0 == phase && b.written.1 != wave {
                    return fault(format!("LDS byte {address}: waves {wave} and {} both write", b.written.1));
                }
                if b.read.0 == phase && b.read.1 != wave {
                    return fault(format!("LDS byte {address}: wave {wave} writes what another one reads"));
                }
                *b = Byte { value, initialised: true, written: (phase, wave), read: b.read };
                Ok(())
            }
        }
    }

    /// A matrix instruction, element by element from its fragment layouts.
    fn mma(&self, inst: &MatrixOp, a: &[Val], b: &[Val], c: &[Val]) -> Result<Vec<Vec<u32>>, Fault> {
        let columns = |list: &[Val]| list.iter().map(|&v| self.get(v)).collect::<Result<Vec<_>, _>>();
        let (a, b, c) = (columns(a)?, columns(b)?, columns(c)?);
        let elements = inst.factor_elements();
        let bits = inst.a.bits();
        if a.len() as u32 * 32 != elements * bits || c.len() as u32 != inst.result_elements() {
            return fault(format!("{inst}: fragments of {} and {} registers", a.len(), c.len()));
        }
        let element = |columns: &[&[u32]], lane: usize, i: u32| -> f64 {
            let word = columns[(i * bits / 32) as usize][lane] >> (i * bits % 32);
            match inst.a {
                MatrixType::F16 => f16::from_bits(word as u16).to_f64(),
                MatrixType::Bf16 => bf16::from_bits(word as u16).to_f64(),
                _ => f64::from(word as u8 as i8),
            }
        };
        let mut out: Vec<Vec<u32>> = c.iter().map(|r| r.to_vec()).collect();
        for first in (0..self.lanes).step_by(self.k.wave as usize) {
            let mut factors = [vec![vec![0f64; inst.k as usize]; 16], vec![vec![0f64; inst.k as usize]; 16]];
            for lane in 0..self.k.wave {
                for i in 0..elements {
                    let at = first + lane as usize;
                    let ((m, k), (bk, n)) = (inst.a_at(lane, i), inst.b_at(lane, i));
                    factors[0][m as usize][k as usize] = element(&a, at, i);
                    factors[1][n as usize][bk as usize] = element(&b, at, i);
                }
            }
            for lane in 0..self.k.wave {
                for (r, old) in c.iter().enumerate() {
                    let Some((m, n)) = inst.d_at(lane, r as u32) else { continue };
                    let at = first + lane as usize;
                    let products = factors[0][m as usize].iter().zip(&factors[1][n as usize]);
                    out[r][at] = match inst.acc {
                        MatrixType::I32 => {
                            products.fold(old[at] as i32, |s, (x, y)| s.wrapping_add((x * y) as i32)) as u32
                        }
                        _ => products.fold(float(old[at]), |s, (&x, &y)| (x as f32).mul_add(y as f32, s)).to_bits(),
                    };
                }
            }
        }
        Ok(out)
    }
}

fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}

fn unary(op: Un, x: u32) -> u32 {
    match op {
        Un::Sqrt => float(x).sqrt().to_bits(),
        Un::Floor => float(x).floor().to_bits(),
        Un::RoundEven => float(x).round_ties_even().to_bits(),
        Un::SToF => (x as i32 as f32).to_bits(),
        Un::UToF => (x as f32).to_bits(),
        Un::FToS => float(x) as i32 as u32,
        Un::FToU => float(x) as u32,
        Un::ByteToF(n) => f32::from((x >> (8 * n)) as u8).to_bits(),
        Un::HalfToF(n) => f16::from_bits((x >> (16 * n)) as u16).to_f32().to_bits(),
        Un::FToHalf => u32::from(f16::from_f32(float(x)).to_bits()),
        Un::SExt(bits) => ((x << (32 - bits)) as i32 >> (32 - bits)) as u32,
        Un::Bits | Un::Float | Un::BToI => x,
        Un::Not => u32::from(x == 0),
        Un::Ones => x.count_ones(),
    }
}

fn binary(op: Bin, x: u32, y: u32) -> Result<u32, Fault> {
    let (fx, fy) = (float(x), float(y));
    let small = |n: u32| if n < 32 { Ok(n) } else { fault(format!("a shift by {n}")) };
    let divisor = || match y {
        0 => fault("a division by zero"),
        _ => Ok(y),
    };
    Ok(match op {
        Bin::Add => x.wrapping_add(y),
        Bin::Sub => x.wrapping_sub(y),
        Bin::Mul => x.wrapping_mul(y),
        Bin::SDiv => (x as i32).wrapping_div(divisor()? as i32) as u32,
        Bin::UDiv => x / divisor()?,
        Bin::SRem => (x as i32).wrapping_rem(divisor()? as i32) as u32,
        Bin::URem => x % divisor()?,
        Bin::And => x & y,
        Bin::Or => x | y,
        Bin::Xor => x ^ y,
        Bin::Shl => x << small(y)?,
        Bin::LShr => x >> small(y)?,
        Bin::AShr => (x as i32 >> small(y)?) as u32,
        Bin::FAdd => (fx + fy).to_bits(),
        Bin::FSub => (fx - fy).to_bits(),
        Bin::FMul => (fx * fy).to_bits(),
        Bin::FDiv => (fx / fy).to_bits(),
        Bin::FMin => {
            let first = fx < fy || fy.is_nan() || (fx == fy && fx.is_sign_negative());
            if first { x } else { y }
        }
        Bin::FMax => {
            let first = fx > fy || fy.is_nan() || (fx == fy && fx.is_sign_positive());
            if first { x } else { y }
        }
        Bin::Pack => x & 0xFFFF | y << 16,
        Bin::Spread => {
            let bits = x >> small(y)?;
            (0..4).fold(0, |w, i| w | (bits >> i & 1) << (8 * i))
        }
    })
}

fn compare(op: Cmp, x: u32, y: u32) -> bool {
    let (fx, fy) = (float(x), float(y));
    match op {
        Cmp::Eq => x == y,
        Cmp::Ne => x != y,
        Cmp::SLt => (x as i32) < y as i32,
        Cmp::SLe => x as i32 <= y as i32,
        Cmp::ULt => x < y,
        Cmp::ULe => x <= y,
        Cmp::FEq => fx == fy,
        Cmp::FNe => fx != fy,
        Cmp::FLt => fx < fy,
        Cmp::FLe => fx <= fy,
    }
}

fn dot4(signed: bool, a: u32, b: u32, c: u32) -> u32 {
    (0..4).fold(c, |sum, i| {
        let byte = |w: u32| (w >> (8 * i)) as u8;
        let x = if signed { i32::from(byte(a) as i8) } else { i32::from(byte(a)) };
        sum.wrapping_add((x * i32::from(byte(b) as i8)) as u32)
    })
}
