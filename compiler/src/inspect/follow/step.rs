//! What one instruction does to registers.

use super::super::asm::{File, Inst, Op, Operand, Regs, special};
use super::super::class::{Class, class};
use super::entry;
use super::masks::{Active, Mask, Sets};
use super::state::{Scalar, State};
use super::value::{Arithmetic, Lanes, Origin, Sum, Symbols};
use crate::hsaco::Kernel;

/// What is known of all of a kernel while its code is followed.
pub struct Context<'a> {
    /// The kernel.
    pub kernel: &'a Kernel<'a>,
    /// Lanes of a wave.
    pub wave: u32,
    /// Symbols.
    pub symbols: Symbols,
    /// Sets of active lanes.
    pub sets: Sets,
    /// Whether bounds that are not known were taken as not reached.
    pub assumes_full_tiles: bool,
}

/// A result of an operation.
pub enum Write {
    /// Of a vector register.
    Vector(usize, Option<Sum>),
    /// Of a scalar register.
    Scalar(u16, Scalar),
    /// Of the mask of active lanes.
    Active(Mask),
    /// Of all vector registers, nobody knows which.
    AnyVector,
    /// Of all registers, by a function that was called.
    Everything,
}

/// One operation with the state before it.
pub struct Step<'a, 'b> {
    /// The kernel.
    pub context: &'a mut Context<'b>,
    /// The state before.
    pub state: &'a State,
    /// The operation.
    pub op: &'a Op,
    /// Its instruction's index.
    pub at: usize,
    /// Its instruction's next new symbol.
    pub part: u16,
}

impl Context<'_> {
    /// Executes an instruction.
    pub fn execute(&mut self, inst: &Inst, at: usize, state: &mut State) {
        let mut writes = Vec::new();
        let mut part = 0;
        // Operations of a pair read what was there before both.
        for op in &inst.ops {
            let mut step = Step { context: self, state, op, at, part };
            writes.extend(step.writes());
            part = step.part;
        }
        for write in writes {
            self.write(write, at, state);
        }
    }

    fn write(&mut self, write: Write, at: usize, state: &mut State) {
        match write {
            Write::Vector(register, value) => state.set_vector(register, value),
            Write::Scalar(special::NULL, _) => {}
            Write::Scalar(register @ (special::EXEC..=special::SCC), _) => {
                // Half of the mask, or a number.
                if register != special::SCC {
                    let mask = self.sets.unknown();
                    self.write(Write::Active(mask), at, state);
                }
            }
            Write::Scalar(register, value) => {
                if let Some(slot) = state.scalar.get_mut(usize::from(register)) {
                    *slot = value;
                }
            }
            Write::Active(mask) => {
                let active = self.sets.write(at, mask);
                state.set_active(active, &self.sets);
            }
            Write::AnyVector => (0..state.vector.len()).for_each(|r| state.set_vector(r, None)),
            Write::Everything => {
                self.write(Write::AnyVector, at, state);
                for register in (0..special::NULL).chain([special::SCC]) {
                    let value = self.symbols.value(Origin::Inst(at, register), 0, u32::MAX);
                    state.scalar[usize::from(register)] = Scalar::Value(value);
                }
            }
        }
    }
}

/// How many of its operands an operation of vectors writes.
fn results(name: &str) -> usize {
    let pairs =
        ["v_div_scale", "v_mad_u64", "v_mad_i64", "v_mad_co", "v_swap", "v_permlane16_swap", "v_permlane32_swap"];
    if name.contains("_co_")
        || pairs.iter().any(|p| name.starts_with(p))
        || ["v_addc", "v_subb"].iter().any(|p| name.starts_with(p))
    {
        2
    } else {
        1
    }
}

impl Step<'_, '_> {
    /// The arithmetic of this instruction.
    pub fn arithmetic<T>(&mut self, f: impl FnOnce(&mut Arithmetic<'_>) -> T) -> T {
        let mut arithmetic = Arithmetic { symbols: &mut self.context.symbols, at: self.at, part: self.part };
        let result = f(&mut arithmetic);
        self.part = arithmetic.part;
        result
    }

    /// A value that all lanes share and that is not known.
    pub fn shared(&mut self) -> Sum {
        self.arithmetic(|a| a.shared(0, u32::MAX))
    }

    /// An operand's value, of several registers the first's; none if it is not the same for all lanes nor can be
    /// followed.
    pub fn value(&mut self, operand: &Operand) -> Option<Sum> {
        match operand {
            Operand::Number(n) => Some(Sum::number(*n)),
            Operand::Regs(r) => self.register(r.file, r.first),
            Operand::Changed(r) => {
                let uniform = self.is_uniform(*r);
                uniform.then(|| self.shared())
            }
            Operand::Other(name) => name.starts_with("src_").then(|| self.shared()),
        }
    }

    /// The value of the operand at a place.
    pub fn operand(&mut self, at: usize) -> Option<Sum> {
        let op = self.op;
        self.value(op.operands.get(at)?)
    }

    fn register(&mut self, file: File, register: u16) -> Option<Sum> {
        match file {
            File::V => self.state.vector.get(usize::from(register))?.value.clone(),
            File::A => None,
            File::S if register == special::NULL => Some(Sum::number(0)),
            File::S => match self.state.scalar.get(usize::from(register))? {
                Scalar::Value(v) if !(special::EXEC..=special::SCC).contains(&register) => Some(v.clone()),
                _ => Some(self.shared()),
            },
        }
    }

    /// Whether all registers of an operand hold the same in all lanes.
    fn is_uniform(&self, regs: Regs) -> bool {
        let uniform =
            |r: u16| self.state.vector.get(usize::from(r)).and_then(|v| v.value.as_ref()).is_some_and(Sum::is_uniform);
        match regs.file {
            File::S => true,
            File::A => false,
            File::V => (regs.first..regs.first + regs.count).all(uniform),
        }
    }

    /// Scalar registers as a mask of lanes.
    pub fn mask(&self, operand: &Operand) -> Mask {
        let sets = &self.context.sets;
        match operand {
            Operand::Regs(r) if r.file == File::S && r.first == special::EXEC => sets.mask(self.state.active),
            Operand::Regs(r) if r.file == File::S => {
                let slot = |at: u16| self.state.scalar.get(usize::from(at));
                let high = self.context.wave == 32 || matches!(slot(r.first + 1), Some(Scalar::High));
                match slot(r.first) {
                    Some(Scalar::Mask(mask)) if high => *mask,
                    _ => sets.unknown(),
                }
            }
            Operand::Number(u32::MAX) => sets.mask(Active::ALL),
            Operand::Number(n) => sets.part(Some(u64::from(*n)), Active::ALL),
            _ => sets.unknown(),
        }
    }

    /// Whether an operand is, or may be, a mask of lanes.
    pub fn is_mask(&self, operand: &Operand) -> bool {
        let Some(Regs { file: File::S, first, .. }) = operand.regs() else { return false };
        first == special::EXEC || matches!(self.state.scalar.get(usize::from(first)), Some(Scalar::Mask(_)))
    }

    /// Writes a mask to the registers of an operand.
    pub fn write_mask(&self, to: &Operand, mask: Mask) -> Vec<Write> {
        match to.regs() {
            Some(Regs { file: File::S, first: special::EXEC, .. }) => vec![Write::Active(mask)],
            Some(Regs { file: File::S, first, count }) => {
                let mut writes = vec![Write::Scalar(first, Scalar::Mask(mask))];
                if count > 1 {
                    writes.push(Write::Scalar(first + 1, Scalar::High));
                }
                writes
            }
            _ => Vec::new(),
        }
    }

    /// Writes to all registers of an operand what can't be followed.
    pub fn clobber(&mut self, operand: &Operand) -> Vec<Write> {
        let Some(regs) = operand.regs() else { return Vec::new() };
        self.results(regs, None)
    }

    /// Writes a value to the first register of an operand, and what can't be followed to the others. Without a value,
    /// scalar registers hold what all lanes share.
    pub fn results(&mut self, regs: Regs, first: Option<Sum>) -> Vec<Write> {
        let mut first = first;
        (regs.first..regs.first + regs.count)
            .filter_map(|r| match regs.file {
                File::V => Some(Write::Vector(usize::from(r), first.take())),
                File::A => None,
                File::S => {
                    let value = first.take().filter(Sum::is_uniform).unwrap_or_else(|| self.shared());
                    Some(Write::Scalar(r, Scalar::Value(value)))
                }
            })
            .collect()
    }

    /// What the operation writes.
    fn writes(&mut self) -> Vec<Write> {
        let op = self.op;
        let first = op.operands.first();
        let kind = class(&op.name);
        match kind {
            _ if kind.is_valu() || kind == Class::Matrix => self.vector(),
            Class::Salu => self.scalar(),
            Class::Smem => self.scalar_load(),
            Class::Branch if op.name.starts_with("s_swap") || op.name.starts_with("s_call") => vec![Write::Everything],
            Class::VmemLoad | Class::ScratchLoad if op.name.contains("_lds_") || op.has("lds") => Vec::new(),
            Class::VmemLoad | Class::ScratchLoad | Class::Image | Class::LdsRead | Class::LdsLanes | Class::Other => {
                first.map_or(Vec::new(), |to| self.clobber(to))
            }
            // Some return what was there, to one operand or two; the others have an address or data there.
            Class::VmemAtomic if op.modifiers.iter().any(|m| m == "glc" || m == "sc0" || m.contains("RETURN")) => {
                first.map_or(Vec::new(), |to| self.clobber(to))
            }
            Class::LdsAtomic => op.operands.iter().take(2).flat_map(|to| self.clobber(to)).collect(),
            _ => Vec::new(),
        }
    }

    fn vector(&mut self) -> Vec<Write> {
        let op = self.op;
        let name = op.name.as_str();
        if name.starts_with("v_movreld") || name.starts_with("v_movrelsd") || name.starts_with("v_swaprel") {
            return vec![Write::AnyVector];
        }
        if let Some(rest) = name.strip_prefix("v_cmpx_") {
            return self.compare(rest, true);
        }
        if let Some(rest) = name.strip_prefix("v_cmp_") {
            return self.compare(rest, false);
        }
        let count = results(name);
        let Some(to) = op.operands.first() else { return Vec::new() };
        let plain = !op.rearranged && op.modifiers.is_empty();
        let followed = if plain { self.followed_vector(name, count) } else { None };
        let value = match followed {
            Some(value) => value,
            None => self.lanewise(count),
        };
        let mut writes = match to.regs() {
            // Half a register keeps the other half.
            Some(regs) if matches!(to, Operand::Regs(_)) => self.results(regs, value),
            Some(_) => self.clobber(to),
            None => Vec::new(),
        };
        if let Some(carry) = op.operands.get(1).filter(|_| count == 2) {
            writes.extend(match carry.regs() {
                Some(Regs { file: File::S, .. }) => {
                    self.write_mask(carry, self.context.sets.part(None, self.state.active))
                }
                _ => self.clobber(carry),
            });
        }
        writes
    }

    /// The result of any operation that works on each lane alone: shared, if all it reads is.
    fn lanewise(&mut self, results: usize) -> Option<Sum> {
        let op = self.op;
        let alone = class(&op.name) != Class::ValuLanes && class(&op.name) != Class::Matrix && !op.rearranged;
        // Counts of lanes, and masks of lanes as operands.
        let by_lane = op.name.starts_with("v_mbcnt") || op.name.starts_with("v_cndmask") || op.name.contains("_co_ci_");
        let by_lane =
            by_lane || op.name.starts_with("v_addc") || op.name.starts_with("v_subb") || op.name == "v_div_fmas_f32";
        let sources = op.operands.iter().skip(results);
        let uniform = sources.clone().all(|o| match o {
            Operand::Number(_) => true,
            Operand::Other(name) => name.starts_with("src_"),
            Operand::Regs(r) | Operand::Changed(r) => self.is_uniform(*r) && !self.is_mask(o),
        });
        let to_lanes = op.operands.first().and_then(Operand::regs).is_some_and(|r| r.file == File::V);
        if op.name.starts_with("v_readfirstlane") || op.name.starts_with("v_readlane") || !to_lanes {
            return None;
        }
        (alone && !by_lane && uniform).then(|| self.shared())
    }

    /// A comparison of lanes, without the start of its name.
    fn compare(&mut self, name: &str, activates: bool) -> Vec<Write> {
        let op = self.op;
        // Forms without a result write the mask of active lanes alone.
        let sources = op.operands.len().saturating_sub(2);
        let plain = !op.rearranged && op.modifiers.is_empty();
        let (a, b) = (self.operand(sources), self.operand(sources + 1));
        let lanes = a.zip(b).filter(|_| plain).and_then(|(a, b)| compared(name, &a, &b, self.context.wave));
        let mask = self.context.sets.part(lanes, self.state.active);
        let mut writes = Vec::new();
        if sources > 0 {
            writes.extend(self.write_mask(&op.operands[0], mask));
        }
        if activates {
            writes.push(Write::Active(mask));
        }
        writes
    }

    fn scalar_load(&mut self) -> Vec<Write> {
        let op = self.op;
        let Some(Operand::Regs(to)) = op.operands.first() else { return Vec::new() };
        let base = self.operand(1);
        let offset = self.operand(2).unwrap_or_else(|| Sum::number(0));
        let offset = offset.add(&Sum::number(op.modifier("offset").unwrap_or(0)));
        let arguments = self.context.symbols.value(Origin::Arguments, entry::POINTER_ZEROS, u32::MAX);
        // Others load parts of words.
        let words_only = !["_u8", "_i8", "_u16", "_i16"].iter().any(|part| op.name.ends_with(part));
        let of_arguments = op.name.starts_with("s_load") && words_only;
        let from = base.map(|b| b.add(&offset).sub(&arguments)).and_then(|d| d.as_number());
        let from = from.filter(|n| of_arguments && *n < 1 << 16);
        let words = to.first..to.first + to.count;
        words
            .zip(0_u32..)
            .map(|(register, i)| {
                let value = match from {
                    Some(from) => entry::argument(self.context.kernel, from + 4 * i, &mut self.context.symbols),
                    None => self.shared(),
                };
                Write::Scalar(register, Scalar::Value(value))
            })
            .collect()
    }
}

/// The lanes for which a comparison holds, if both sides are known, or for equality their difference is.
fn compared(name: &str, a: &Sum, b: &Sum, wave: u32) -> Option<u64> {
    let (test, kind) = name.split_once('_')?;
    let signed = match kind {
        "i32" => true,
        "u32" => false,
        _ => return None,
    };
    let equality = matches!(test, "eq" | "ne" | "lg");
    let difference = a.sub(b);
    let sides = match (a.as_known(), b.as_known(), difference.as_known()) {
        (Some(a), Some(b), _) => (a.clone(), b.clone()),
        (_, _, Some(d)) if equality => (d.clone(), Lanes::All(0)),
        _ => return None,
    };
    let holds = |lane: usize| {
        let (x, y) = (sides.0.at(lane), sides.1.at(lane));
        // Signed order is that of numbers with the sign turned over.
        let (x, y) = if signed { (x ^ 1 << 31, y ^ 1 << 31) } else { (x, y) };
        match test {
            "eq" => Some(x == y),
            "ne" | "lg" => Some(x != y),
            "lt" => Some(x < y),
            "le" => Some(x <= y),
            "gt" => Some(x > y),
            "ge" => Some(x >= y),
            _ => None,
        }
    };
    (0..wave as usize).try_fold(0_u64, |all, lane| Some(all | u64::from(holds(lane)?) << lane))
}
