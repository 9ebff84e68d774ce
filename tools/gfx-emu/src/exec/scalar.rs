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

/// Runs a scalar operation.
pub fn run(w: &mut Wave, cx: &mut Context<'_>, op: &Salu) {
    let mut unknown = false;
    if cx.check() {
        for src in op.src {
            unknown |= look(w, cx, src);
        }
        unknown |= op.reads_scc && w.is_unknown_scalar(scalar::SCC, 1);
        if let Some((first, words)) = op.dst {
            cx.waited_scalar(w, first, words.into());
        }
    }
    let [a, b, d] = op.src.map(|s| value(w, s));
    let mut scc = w.scc();
    let result = (op.f)(a, b, d, &mut scc);
    if op.writes_scc {
        w.set_scc(scc);
        w.set_unknown_scalar(scalar::SCC, 1, unknown);
    }
    let Some((first, words)) = op.dst else { return };
    if op.saves_exec {
        if unknown {
            cx.report(crate::Kind::UninitialisedRegister, None, || "it decides which lanes are active".into());
        }
        let before = w.exec();
        w.set_scalar(scalar::EXEC, words, result);
        w.set_scalar(first, words, if d == 2 { result } else { before });
        w.know_scalar(first, words);
        return;
    }
    w.set_scalar(first, words, result);
    if first == scalar::EXEC && unknown {
        cx.report(crate::Kind::UninitialisedRegister, None, || "it decides which lanes are active".into());
        unknown = false;
    }
    w.set_unknown_scalar(first, words, unknown);
}
