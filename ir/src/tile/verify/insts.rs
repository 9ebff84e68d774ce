//! The rules for instructions: where they stand, what they refer to, their types; loops and yields.
//!
//! A loop's bounds are scalar `i32` and its step is a positive constant. The first parameter of its body is the counter;
//! the others, the initial values, the results and what the body yields agree in number and types.

use super::super::kernel::{Block, Inst, Value, ValueDef, View};
use super::super::op::{Literal, Op};
use super::super::print::Place;
use super::super::types::{Elem, Type};
use super::super::walk::{Step, walk};
use super::{MAX_NESTING, Rule, Verifier, result_type};
use std::collections::HashSet;

impl Verifier<'_> {
    pub(super) fn insts(&mut self) {
        let k = self.k;
        let mut seen = HashSet::new();
        // Values that the open blocks define, and for each open block how many there were before it.
        let (mut defined, mut marks): (Vec<Value>, Vec<usize>) = (Vec::new(), Vec::new());
        self.entities(k.body, Place::Name);
        if !k.blocks[k.body].params.is_empty() {
            self.fail(Rule::Block, Place::Name, None, "the kernel's body has no parameters".into());
        }
        walk(k, |step| match step {
            Step::Inst { inst, block, last, depth } => {
                let place = Place::Inst(inst);
                let repeated = !seen.insert(inst);
                if repeated {
                    let message = "an instruction stands in one place only".into();
                    self.fail(Rule::Block, place, None, message);
                }
                let sound = self.operands(inst);
                self.yields(inst, block, last);
                let Op::For { body, .. } = k.insts[inst].op else {
                    if sound {
                        self.result(inst);
                    }
                    if !repeated {
                        self.results(inst, &mut defined);
                    }
                    return;
                };
                if sound {
                    self.loop_head(inst);
                }
                if depth + 1 > MAX_NESTING {
                    self.fail(Rule::Nesting, place, None, format!("loops nest at most {MAX_NESTING} deep"));
                }
                marks.push(defined.len());
                if k.blocks.is_valid(body) && !repeated {
                    self.entities(body, place);
                    for (n, &v) in k.blocks[body].params.iter().enumerate() {
                        if self.define(v, ValueDef::BlockParam(body, n as u32), place) {
                            defined.push(v);
                        }
                    }
                }
            }
            Step::End { inst, entered, .. } => {
                let mark = marks.pop().unwrap_or(0);
                for v in defined.drain(mark..) {
                    self.visible[v.as_u32() as usize] = false;
                }
                if entered {
                    self.loop_end(inst);
                } else if let Op::For { body, .. } = k.insts[inst].op
                    && k.blocks.is_valid(body)
                {
                    self.fail(Rule::Block, Place::Inst(inst), None, "a block is the body of one loop only".into());
                }
                self.results(inst, &mut defined);
            }
        });
    }

    /// Reports instructions of a block that are outside their arena.
    fn entities(&mut self, block: Block, place: Place) {
        let k = self.k;
        for &inst in &k.blocks[block].insts {
            if !k.insts.is_valid(inst) {
                self.fail(Rule::Entity, place, None, format!("instruction {inst} is outside its arena"));
            }
        }
    }

    /// Checks what an instruction refers to; whether its types can be looked at.
    fn operands(&mut self, inst: Inst) -> bool {
        let (k, place) = (self.k, Place::Inst(inst));
        let op = &k.insts[inst].op;
        let before = self.found.len();
        let (mut used, mut refused) = (Vec::new(), false);
        op.for_each_operand(|v| used.push(v));
        for v in used {
            if !k.values.is_valid(v) {
                self.fail(Rule::Entity, place, Some(v.to_string()), format!("{v} is outside its arena"));
            } else if self.refused.contains(&v) {
                refused = true;
            } else if !self.is_visible(v) {
                self.fail(Rule::Dominance, place, Some(v.to_string()), format!("{v} is not defined at this point"));
            }
        }
        match op {
            Op::Load { view, .. } | Op::Store { view, .. } | Op::LoadBlock { view, .. } | Op::LoadRun { view, .. } => {
                self.used_view(*view, place)
            }
            Op::For { body, .. } if !k.blocks.is_valid(*body) => {
                self.fail(Rule::Entity, place, None, "the loop's body is outside its arena".into());
            }
            Op::Const { value: Literal::Int(n), ty } if !fits(*n, ty.elem) => {
                self.fail(
                    Rule::Literal,
                    place,
                    Some(n.to_string()),
                    format!("{n} is not one of the values of {}", ty.elem),
                );
            }
            _ => {}
        }
        self.found.len() == before && !refused
    }

    fn used_view(&mut self, m: View, place: Place) {
        let k = self.k;
        match k.views.get(m) {
            None => self.fail(Rule::Entity, place, Some(m.to_string()), format!("{m} is outside its arena")),
            Some(d) if d.access != super::super::Access::Local && k.slot_of_view(m).is_none() => {
                self.fail(Rule::View, place, Some(m.to_string()), format!("{m} is neither a parameter nor local"));
            }
            Some(_) => {}
        }
    }

    /// Checks the result type of anything but a loop.
    fn result(&mut self, inst: Inst) {
        let (k, place) = (self.k, Place::Inst(inst));
        let data = &k.insts[inst];
        match (result_type(k, &data.op), data.results.as_slice()) {
            (Err(rule), _) => self.fail(Rule::Type, place, Some(data.op.name().into()), rule),
            (Ok(None), []) => {}
            (Ok(Some(ty)), [v]) => {
                if let Some(d) = k.values.get(*v).filter(|d| d.ty != ty) {
                    let message = format!("{v} is {}, {} makes {ty}", d.ty, data.op.name());
                    self.fail(Rule::Type, place, Some(v.to_string()), message);
                }
            }
            (Ok(ty), results) => {
                let wanted = if ty.is_some() { "one result" } else { "no result" };
                let message = format!("{} has {wanted}, not {}", data.op.name(), results.len());
                self.fail(Rule::Entity, place, None, message);
            }
        }
    }

    /// Makes the results of an instruction visible.
    fn results(&mut self, inst: Inst, defined: &mut Vec<Value>) {
        for (n, &v) in self.k.insts[inst].results.iter().enumerate() {
            if self.define(v, ValueDef::Result(inst, n as u32), Place::Inst(inst)) {
                defined.push(v);
            }
        }
    }

    /// Checks that a yield ends the body of a loop.
    fn yields(&mut self, inst: Inst, block: Block, last: bool) {
        if !matches!(self.k.insts[inst].op, Op::Yield { .. }) {
            return;
        }
        let message = match (block == self.k.body, last) {
            (true, _) => "only a loop yields",
            (false, false) => "nothing follows a yield",
            _ => return,
        };
        self.fail(Rule::Yield, Place::Inst(inst), Some("yield".into()), message.into());
    }

    /// Checks a loop's bounds, counter and carried values.
    fn loop_head(&mut self, inst: Inst) {
        let (k, place) = (self.k, Place::Inst(inst));
        let data = &k.insts[inst];
        let Op::For { bounds, inits, body } = &data.op else { return };
        let mut fail = |v: Value, message: String| self.fail(Rule::Loop, place, Some(v.to_string()), message);
        for &v in bounds {
            if k.ty(v) != Type::index() {
                fail(v, format!("a loop's bounds are i32, {v} is {}", k.ty(v)));
            }
        }
        if k.as_const_int(bounds[2]).is_none_or(|n| n <= 0) {
            fail(bounds[2], format!("a loop's step is a positive constant, {} is not", bounds[2]));
        }
        let Some((&counter, carried)) = k.blocks[*body].params.split_first() else {
            return self.fail(Rule::Loop, place, None, "a loop's body has a counter".into());
        };
        if k.values.get(counter).is_some_and(|d| d.ty != Type::index()) {
            fail(counter, format!("a loop's counter is an i32, {counter} is not"));
        }
        for (list, what) in [(carried, "parameters"), (&data.results, "results")] {
            if list.len() != inits.len() {
                let message =
                    format!("a loop has as many {what} as initial values: {}, not {}", inits.len(), list.len());
                self.fail(Rule::Loop, place, None, message);
                continue;
            }
            for (&v, &init) in list.iter().zip(inits) {
                if let Some(d) = k.values.get(v).filter(|d| d.ty != k.ty(init)) {
                    let message = format!("{v} is {}, its initial value {init} is {}", d.ty, k.ty(init));
                    self.fail(Rule::Loop, place, Some(v.to_string()), message);
                }
            }
        }
    }

    /// Checks what a loop's body yields.
    fn loop_end(&mut self, inst: Inst) {
        let k = self.k;
        let Op::For { inits, body, .. } = &k.insts[inst].op else { return };
        let last = k.blocks[*body].insts.last().filter(|&&i| k.insts.is_valid(i));
        let Some((&last, Op::Yield { args })) = last.map(|i| (i, &k.insts[*i].op)) else {
            let message = "a loop's body ends with a yield".into();
            return self.fail(Rule::Yield, Place::Inst(inst), Some("for".into()), message);
        };
        let place = Place::Inst(last);
        if args.len() != inits.len() {
            let message = format!("the loop carries {} values, not {}", inits.len(), args.len());
            return self.fail(Rule::Yield, place, Some("yield".into()), message);
        }
        for (&v, &init) in args.iter().zip(inits) {
            let types = k.values.get(v).map(|d| d.ty).zip(k.values.get(init).map(|d| d.ty));
            if let Some((got, wanted)) = types.filter(|(a, b)| a != b) {
                let message = format!("the loop carries {wanted} here, {v} is {got}");
                self.fail(Rule::Yield, place, Some(v.to_string()), message);
            }
        }
    }
}

/// Whether an integer is a value of an element type. Floats are left to the rule about the kind of literal.
fn fits(n: i64, elem: Elem) -> bool {
    let bits = 8 * elem.bytes();
    match elem {
        Elem::B1 => (0..=1).contains(&n),
        e if e.is_float() => true,
        e if e.is_signed() => (-1i64 << (bits - 1)..1 << (bits - 1)).contains(&n),
        _ => (0..1 << bits).contains(&n),
    }
}
