//! Runs matrix products on a wave's registers.

use super::{Acc, Product, multiply};
use crate::report::Kind;
use crate::run::{Context, Wave};

/// Runs a product. All lanes take part, whatever EXEC says.
#[inline(never)]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, p: &Product) {
    let [a, b, result] = p.form.registers;
    let c = if let Acc::V(c) = p.c { (c, result) } else { (p.a, 0) };
    let index = p.index.map_or((p.a, 0), |register| (register, 1));
    let mut lost = false;
    let all = if w.halves == 1 { u64::from(u32::MAX) } else { u64::MAX };
    if cx.check() {
        for (first, count) in [(p.a, a), (p.b, b), index, c] {
            cx.waited(w, first, count);
            let unknown = w.unknown_v[first as usize..][..count as usize].iter().fold(0, |lost, u| lost | u);
            lost |= unknown & all != 0;
        }
        cx.waited(w, p.dst, result);
        if w.exec() != all {
            cx.report(Kind::UninitialisedRegister, None, || "a matrix product with lanes that are not active".into());
        }
    }
    match p.form.cycles {
        Some(cycles) => cx.counters.matrix_cycles += u64::from(cycles),
        None => cx.counters.matrix_unknown += 1,
    }
    let file = w.v.as_flattened_mut();
    // SAFETY: whoever makes a `Gpu` has looked that the CPU has the features that it is compiled for.
    unsafe { multiply(p, file, &mut cx.tiles) };
    w.unknown_v[p.dst as usize..][..result as usize].fill(if lost { u64::MAX } else { 0 });
}
