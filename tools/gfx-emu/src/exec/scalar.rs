//! Runs scalar operations.

use crate::decode::{SSrc, Salu, scalar};
use crate::run::{Context, Wave};

/// The value of a scalar source.
#[inline(always)]
pub fn value(w: &Wave, src: SSrc) -> u64 {
    match src {
        SSrc::Reg(first, words) => w.scalar(first, words),
        SSrc::Const(n) => n,
    }
}

/// Reports a source that is still loaded; whether it was never written.
#[inline(always)]
pub fn look(w: &Wave, cx: &mut Context<'_>, src: SSrc) -> bool {
    match src {
        SSrc::Reg(first, words) => {
            cx.waited_scalar(w, first, words.into());
            w.is_unknown_scalar(first, words)
        }
        SSrc::Const(_) => false,
    }
}

/// Reports operands that are still loaded.
#[inline(never)]
fn waits(w: &Wave, cx: &mut Context<'_>, op: &Salu) {
    for src in op.src {
        look(w, cx, src);
    }
    if let Some((first, words)) = op.dst {
        cx.waited_scalar(w, first, words.into());
    }
}

/// Runs a scalar operation.
pub fn run(w: &mut Wave, cx: &mut Context<'_>, op: &Salu) {
    if w.pending.any() && cx.check() {
        waits(w, cx, op);
    }
    let lost = op.reads.iter().zip(&w.unknown_s).fold(0, |lost, (reads, unknown)| lost | reads & unknown);
    let unknown = lost != 0 && cx.check();
    let [a, b, d] = op.src.map(|s| value(w, s));
    let mut scc = w.scc();
    let result = (op.f)(a, b, d, &mut scc);
    for (to, writes) in w.unknown_s.iter_mut().zip(op.writes) {
        *to = *to & !writes | if unknown { writes } else { 0 };
    }
    if op.writes_scc {
        w.set_scc(scc);
    }
    let Some((first, words)) = op.dst else { return };
    if op.saves_exec || first == scalar::EXEC {
        exec(w, cx, op, result, unknown);
        return;
    }
    w.set_scalar(first, words, result);
}

/// Writes EXEC, and what it was to the result's register if the operation saves it.
#[inline(never)]
fn exec(w: &mut Wave, cx: &mut Context<'_>, op: &Salu, result: u64, unknown: bool) {
    if unknown {
        cx.report(crate::Kind::UninitialisedRegister, None, || "it decides which lanes are active".into());
    }
    let Some((first, words)) = op.dst else { return };
    if !op.saves_exec {
        w.set_scalar(first, words, result);
        w.know_scalar(first, words);
        return;
    }
    let before = w.exec();
    w.set_scalar(scalar::EXEC, words, result);
    let wrexec = matches!(op.src[2], SSrc::Const(2));
    w.set_scalar(first, words, if wrexec { result } else { before });
    w.know_scalar(first, words);
}
