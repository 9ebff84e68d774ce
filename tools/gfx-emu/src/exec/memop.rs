//! What accesses do with bytes: loads, stores and atomics, by the words of their mnemonics.

use super::number::{bf16, half, to_bf16, to_half};
use super::valu_float::{max, min};

/// An atomic operation: old value, data, what to compare with; gives the new value.
pub type AtomicFn = fn(u64, u64, u64) -> u64;

/// What an access does, apart from where.
#[derive(Clone, Copy, Debug)]
pub enum MemOp {
    /// Bytes to registers. Parts of words are extended; into half a register, the other half is kept.
    Load { bytes: u8, signed: bool, half: Option<bool> },
    /// Registers to bytes; of parts of words, from the high half.
    Store { bytes: u8, high: bool },
    /// Reads, changes, writes.
    Atomic { f: AtomicFn, words: u8, compares: bool, returns: bool },
}

impl MemOp {
    /// Bytes at each address.
    pub fn bytes(self) -> u32 {
        match self {
            MemOp::Load { bytes, .. } | MemOp::Store { bytes, .. } => bytes.into(),
            MemOp::Atomic { words, .. } => 4 * u32::from(words),
        }
    }

    /// Registers that one address' data takes.
    pub fn words(self) -> u16 {
        self.bytes().div_ceil(4) as u16
    }
}

/// Words for how much is accessed: bytes and sign.
const SIZES: &[(&str, u8, bool)] = &[
    ("u8", 1, false),
    ("ubyte", 1, false),
    ("b8", 1, false),
    ("byte", 1, false),
    ("i8", 1, true),
    ("sbyte", 1, true),
    ("u16", 2, false),
    ("ushort", 2, false),
    ("b16", 2, false),
    ("short", 2, false),
    ("i16", 2, true),
    ("sshort", 2, true),
    ("b32", 4, false),
    ("dword", 4, false),
    ("b64", 8, false),
    ("dwordx2", 8, false),
    ("b96", 12, false),
    ("dwordx3", 12, false),
    ("b128", 16, false),
    ("dwordx4", 16, false),
];

/// A load by what follows `load_` or `read_` in its mnemonic.
pub fn load(rest: &str) -> Option<MemOp> {
    let (mut size, mut half) = (None, None);
    for word in rest.split('_') {
        match word {
            "d16" => half = half.or(Some(false)),
            "hi" => half = Some(true),
            word => size = Some(SIZES.iter().find(|s| s.0 == word)?),
        }
    }
    let &(_, bytes, signed) = size?;
    Some(MemOp::Load { bytes, signed, half })
}

/// A store by what follows `store_` or `write_`.
pub fn store(rest: &str) -> Option<MemOp> {
    let (mut size, mut high) = (None, false);
    for word in rest.split('_') {
        match word {
            "d16" => {}
            "hi" => high = true,
            word => size = Some(SIZES.iter().find(|s| s.0 == word)?),
        }
    }
    Some(MemOp::Store { bytes: size?.1, high })
}

fn f(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

fn d(x: u64) -> f64 {
    f64::from_bits(x)
}

fn each_half(a: u64, b: u64, op: impl Fn(u32, u32) -> u32) -> u64 {
    let at = |shift: u32| op((a >> shift) as u32 & 0xffff, (b >> shift) as u32 & 0xffff);
    u64::from(at(0) | at(16) << 16)
}

/// Operations by name and type: `i` and `u` with the width added.
const ATOMICS: &[(&str, AtomicFn)] = &[
    ("add", |o, x, _| o.wrapping_add(x)),
    ("sub", |o, x, _| o.wrapping_sub(x)),
    ("rsub", |o, x, _| x.wrapping_sub(o)),
    ("inc", |o, x, _| if o >= x { 0 } else { o + 1 }),
    ("dec", |o, x, _| if o == 0 || o > x { x } else { o - 1 }),
    ("umin", |o, x, _| o.min(x)),
    ("umax", |o, x, _| o.max(x)),
    ("smin32", |o, x, _| (o as i32).min(x as i32) as u32 as u64),
    ("smax32", |o, x, _| (o as i32).max(x as i32) as u32 as u64),
    ("smin64", |o, x, _| (o as i64).min(x as i64) as u64),
    ("smax64", |o, x, _| (o as i64).max(x as i64) as u64),
    ("and", |o, x, _| o & x),
    ("or", |o, x, _| o | x),
    ("xor", |o, x, _| o ^ x),
    ("swap", |_, x, _| x),
    ("cmpswap", |o, x, c| if o == c { x } else { o }),
    // Two operands: bits to clear and bits to set; where to wrap, and what to add below.
    ("mskor", |o, x, c| o & !x | c),
    ("wrap", |o, x, c| if o >= x { o - x } else { o + c }),
    ("csub", |o, x, _| o.saturating_sub(x)),
    ("cond_sub", |o, x, _| if o >= x { o - x } else { o }),
    ("add_f32", |o, x, _| (f(o) + f(x)).to_bits().into()),
    ("min_f32", |o, x, _| min(false, f(o), f(x)).to_bits().into()),
    ("max_f32", |o, x, _| max(false, f(o), f(x)).to_bits().into()),
    ("add_f64", |o, x, _| (d(o) + d(x)).to_bits()),
    ("min_f64", |o, x, _| d(o).min(d(x)).to_bits()),
    ("max_f64", |o, x, _| d(o).max(d(x)).to_bits()),
    ("pk_add_f16", |o, x, _| each_half(o, x, |a, b| to_half(half(a) + half(b)))),
    ("pk_add_bf16", |o, x, _| each_half(o, x, |a, b| to_bf16(bf16(a) + bf16(b)))),
];

/// An atomic by what follows `atomic_`, or `ds_`, with `rtn` left out.
pub fn atomic(rest: &str, returns: bool) -> Option<MemOp> {
    let rest = rest.replace("_num_", "_");
    let (rest, wide) = match rest.strip_suffix("_x2") {
        Some(rest) => (rest.to_owned(), true),
        None => (rest.clone(), ["_u64", "_i64", "_b64", "_f64"].iter().any(|t| rest.ends_with(t))),
    };
    let (verb, ty) = match rest.rsplit_once('_') {
        Some((verb, ty @ ("u32" | "i32" | "b32" | "u64" | "i64" | "b64" | "f32" | "f64" | "f16" | "bf16"))) => {
            (verb, ty)
        }
        _ => (rest.as_str(), ""),
    };
    let verb = match verb {
        "xchg" | "wrxchg" | "storexchg" => "swap",
        "cmpst" | "cmpstore" => "cmpswap",
        "fadd" => "add",
        "fmin" => "min",
        "fmax" => "max",
        "sub_clamp" => "csub",
        other => other,
    };
    let bits = if wide { 64 } else { 32 };
    let float = match ty {
        "f32" | "f64" => true,
        "" => ["fadd", "fmin", "fmax"].iter().any(|v| rest.starts_with(v)),
        _ => false,
    };
    let name = match (verb, ty) {
        ("pk_add", ty) => format!("pk_add_{ty}"),
        ("add" | "min" | "max", _) if float => format!("{verb}_f{bits}"),
        ("min" | "max", "i32" | "i64") => format!("s{verb}{bits}"),
        ("min" | "max", _) => format!("u{verb}"),
        ("smin" | "smax", _) => format!("{verb}{bits}"),
        (verb, _) => verb.to_owned(),
    };
    let &(found, f) = ATOMICS.iter().find(|(n, _)| *n == name)?;
    Some(MemOp::Atomic {
        f,
        words: if wide { 2 } else { 1 },
        compares: ["cmpswap", "mskor", "wrap"].contains(&found),
        returns,
    })
}
