//! Scalar loads.

use super::access::{checked, read};
use super::buffer::Resource;
use super::scalar::{look, value};
use crate::decode::{Counter, Smem};
use crate::report::Kind;
use crate::run::{Context, Wave};

/// Runs a load.
#[inline(never)]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, m: &Smem) {
    let words: u16 = m.words.into();
    let base_words = if m.buffer { 4 } else { 2 };
    if cx.check() {
        cx.waited_scalar(w, m.base, base_words);
        cx.known_scalar(w, m.base, base_words as u8, "an address");
        if look(w, cx, m.offset) {
            cx.report(Kind::UninitialisedRegister, None, || "the offset decides an address".into());
        }
        cx.waited_scalar(w, m.dst, words);
    }
    let offset = (value(w, m.offset) as i64).wrapping_add(m.imm) as u64;
    let bytes = m.narrow.map_or(4, |(bytes, _)| u32::from(bytes));
    let resource = m.buffer.then(|| Resource::read(w, m.base, cx.launch.generation));
    let base = resource.map_or_else(|| w.scalar(m.base, 2), |r| r.base);
    let exact = base.wrapping_add(offset);
    let address = if bytes == 4 { exact & !3 } else { exact };
    if address != exact {
        cx.report(Kind::Misaligned, None, || format!("a scalar load at {exact:#x}"));
    }
    let limit = resource.map(|r| u64::from(r.records) * u64::from(r.stride.max(1)));
    for i in 0..words {
        let at = offset + 4 * u64::from(i);
        let outside = limit.is_some_and(|limit| at + u64::from(bytes) > limit);
        let (word, unknown) = if outside { (0, false) } else { load(w, cx, address + 4 * u64::from(i), bytes) };
        let word = match m.narrow {
            Some((1, true)) => word as u8 as i8 as u32,
            Some((2, true)) => word as u16 as i16 as u32,
            _ => word,
        };
        w.set_scalar(m.dst + i, 1, word.into());
        w.set_unknown_scalar(m.dst + i, 1, unknown);
    }
    let operation = w.pending.issue(Counter::Scalar);
    w.pending.load_scalar(m.dst, words, operation);
}

/// A word, and whether nobody wrote it: loads may be wider than what is used of them.
fn load(w: &Wave, cx: &mut Context<'_>, address: u64, bytes: u32) -> (u32, bool) {
    let Some((found, at)) = cx.find(address, bytes, None) else { return (0, false) };
    let word = read(found, at, bytes)[0];
    if !cx.check() {
        return (word, false);
    }
    let written = found.written.is(at as usize, bytes as usize);
    if written {
        checked(w, cx, None, found, at, bytes, [true, false]);
    }
    (word, !written)
}
