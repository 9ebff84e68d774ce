//! Runs matrix products on a wave's registers.

use super::{Acc, Product, multiply};
use crate::report::Kind;
use crate::run::{Context, Wave};

/// Runs a product. All lanes take part, whatever EXEC says.
#[inline(never)]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, p: &Product) {
    let [a, b, result] = p.form.registers;
    let mut sources = vec![(p.a, a), (p.b, b)];
    sources.extend(p.index.map(|register| (register, 1)));
    if let Acc::V(c) = p.c {
        sources.push((c, result));
    }
    let mut lost = false;
    let all = if w.halves == 1 { u64::from(u32::MAX) } else { u64::MAX };
    if cx.check() {
        for &(first, count) in &sources {
            cx.waited(w, first, count);
            lost |= (first..first + count).any(|r| w.unknown_v[r as usize] & all != 0);
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
    for r in p.dst..p.dst + result {
        w.unknown_v[r as usize] = if lost { u64::MAX } else { 0 };
    }
}
