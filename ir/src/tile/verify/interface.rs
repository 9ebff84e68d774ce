//! The rules for a kernel's name, parameters, grid and views.

use super::super::kernel::{Access, Content, Extent, GridExpr, Param, ValueDef, View};
use super::super::print::Place;
use super::super::types::{Elem, MAX_RANK, Type};
use super::{MAX_LOCAL_BYTES, MAX_NESTING, MAX_WAVES, Rule, Verifier};
use std::collections::HashSet;

impl Verifier<'_> {
    pub(super) fn interface(&mut self) {
        let k = self.k;
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if k.name.is_empty() || !k.name.chars().all(word) {
            let message = "a kernel's name is letters, digits and underscores".into();
            self.fail(Rule::Name, Place::Name, None, message);
        }
        let mut views = HashSet::new();
        for (slot, param) in k.params.iter().enumerate() {
            let place = Place::Param(slot);
            match *param {
                Param::Scalar(v) => {
                    if self.is_visible(v) {
                        self.fail(Rule::Param, place, Some(v.to_string()), format!("{v} has two argument slots"));
                    } else if self.define(v, ValueDef::Param, place)
                        && ![Elem::I32, Elem::F32].map(Type::scalar).contains(&k.ty(v))
                    {
                        let message = format!("a scalar parameter is i32 or f32, not {}", k.ty(v));
                        self.fail(Rule::Param, place, Some(v.to_string()), message);
                    }
                }
                Param::View(m) if !views.insert(m) => {
                    self.fail(Rule::Param, place, Some(m.to_string()), format!("{m} has two argument slots"));
                }
                Param::View(m) => match k.views.get(m) {
                    None => self.fail(Rule::Entity, place, Some(m.to_string()), format!("{m} is outside its arena")),
                    Some(d) if d.access == Access::Local => {
                        let message = format!("{m} is a parameter, so it is in, out or inout");
                        self.fail(Rule::View, place, Some("local".into()), message);
                    }
                    Some(_) => self.view(m, place),
                },
            }
        }
        for (axis, &v) in k.program_ids.iter().enumerate() {
            self.define(v, ValueDef::ProgramId(axis as u8), Place::Grid);
            if k.values.get(v).is_some_and(|d| d.ty != Type::index()) {
                self.fail(Rule::Param, Place::Grid, Some(v.to_string()), "a program id is an i32".into());
            }
        }
        if !(1..=MAX_WAVES).contains(&k.waves) {
            let message = format!("a program has 1 to {MAX_WAVES} waves, not {}", k.waves);
            self.fail(Rule::Grid, Place::Grid, Some(k.waves.to_string()), message);
        }
        k.grid.iter().for_each(|e| self.grid(e, 0));
        for (m, d) in &k.views {
            if d.access == Access::Local && !views.contains(&m) {
                self.view(m, Place::Local(m));
            }
        }
        let constant = k.locals().all(|(_, d)| d.dims.iter().all(|e| matches!(e, Extent::Const(_))));
        let bytes = k.locals().try_fold(0u64, |at, (_, d)| {
            let view = super::super::kernel::local_view_bytes(d)?;
            at.checked_next_multiple_of(64)?.checked_add(view).filter(|&n| n <= MAX_LOCAL_BYTES)
        });
        if constant && bytes.is_none() {
            let message = format!("a program has at most {MAX_LOCAL_BYTES} bytes of local memory");
            self.fail(Rule::Local, Place::Name, None, message);
        }
    }

    fn grid(&mut self, e: &GridExpr, depth: usize) {
        if depth > MAX_NESTING {
            let message = format!("grid expressions nest at most {MAX_NESTING} deep");
            return self.fail(Rule::Nesting, Place::Grid, None, message);
        }
        match e {
            GridExpr::Extent(e) => {
                if let (Extent::Param(v), false) = (e, self.is_extent(e)) {
                    let message = format!("the grid is made of constants and i32 parameters, {v} is neither");
                    self.fail(Rule::Grid, Place::Grid, Some(v.to_string()), message);
                }
            }
            GridExpr::CeilDiv(a, by) => {
                if *by == 0 {
                    self.fail(Rule::Grid, Place::Grid, Some("ceildiv".into()), "division by zero".into());
                }
                self.grid(a, depth + 1);
            }
            GridExpr::Mul(a, b) | GridExpr::Add(a, b) => {
                self.grid(a, depth + 1);
                self.grid(b, depth + 1);
            }
        }
    }

    fn view(&mut self, m: View, place: Place) {
        let d = &self.k.views[m];
        let local = d.access == Access::Local;
        let mut fail = |focus: String, message: String| self.fail(Rule::View, place, Some(focus), message);
        if !(1..=MAX_RANK).contains(&d.dims.len()) {
            fail(m.to_string(), format!("a view has 1 to {MAX_RANK} axes, {m} has {}", d.dims.len()));
        }
        if d.strides.len() != d.dims.len() {
            fail("strides".into(), format!("{m} has {} axes and {} strides", d.dims.len(), d.strides.len()));
        }
        match d.content {
            Content::Elem(Elem::B1) => fail("b1".into(), "a b1 is never in memory".into()),
            Content::Quant(_) if d.access != Access::In => {
                fail(d.access.name().into(), "quantised blocks are only read: the view is `in`".into());
            }
            Content::Quant(_) if d.strides.last().is_some_and(|s| *s != Extent::Const(1)) => {
                fail("strides".into(), "the blocks of a row lie together: the last stride is 1".into());
            }
            _ => {}
        }
        for e in d.dims.iter().chain(&d.strides) {
            match e {
                Extent::Param(v) if local => fail(v.to_string(), "extents of local memory are constant".into()),
                Extent::Const(0) if local => fail(m.to_string(), "extents of local memory are positive".into()),
                _ => {}
            }
        }
        if local && d.strides.last().is_some_and(|s| *s != Extent::Const(1)) {
            fail("strides".into(), "the elements of a row of local memory lie together: the last stride is 1".into());
        }
        for (axis, pair) in d.strides.windows(2).enumerate().filter(|_| local) {
            if let ([Extent::Const(outer), Extent::Const(inner)], Some(Extent::Const(n))) = (pair, d.dims.get(axis + 1))
                && u64::from(*outer) < u64::from(*inner) * u64::from(*n)
            {
                let message =
                    format!("rows of local memory do not overlap: the stride {outer} is below {inner} times {n}");
                fail("strides".into(), message);
            }
        }
        let wrong: Vec<_> = d.dims.iter().chain(&d.strides).filter(|e| !local && !self.is_extent(e)).collect();
        for e in wrong {
            let message = format!("an extent is a constant or an i32 parameter, {e} is neither");
            self.fail(Rule::View, place, Some(e.to_string()), message);
        }
    }
}
