//! Vector operations, a row each: types of operands and what one lane does.
//!
//! A row's function works on 32 lanes at once, whatever EXEC says, and writes to a place of its own; masks, changes of
//! operands and where results go are the business of whoever calls it.

mod compare;
mod convert;
mod dot;
pub mod float;
mod half;
mod integer;
mod packed;
mod place;
mod special;
mod wide;

pub use place::{InPlaceFn, Places};

use crate::decode::Ty;
use std::collections::HashMap;
use std::sync::LazyLock;

/// One register of 32 lanes.
pub type Lane = [u32; 32];

/// Words of operands that an operation has at most, two a source.
pub const OPERANDS: usize = 6;

/// What an operation knows beside its operands.
#[derive(Clone, Copy, Default, Debug)]
pub struct Env {
    /// A bit of each lane: carry, or choice.
    pub mask: u32,
    /// Whether results are clamped: saturated, of whole numbers.
    pub clamp: bool,
    /// The instruction's bits for negating, of each source, where it uses them as it likes.
    pub signed: [bool; 3],
    /// The first lane.
    pub first: u32,
    /// Whether 8-bit floats are FNUZ.
    pub fnuz: bool,
    /// Whether the mode asks for IEEE's rule of 2008 for signalling NaNs.
    pub ieee: bool,
    /// Whether too large results of few bits saturate.
    pub saturates: bool,
}

/// Sources' registers, two each; results, and a bit for each lane.
pub type ValuFn = unsafe fn(&Env, &[&Lane; OPERANDS], &mut [Lane; 2], &mut u32);

/// A vector operation.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The operation.
    pub f: ValuFn,
    /// The same in place.
    pub in_place: Option<InPlaceFn>,
    /// Its result.
    pub dst: Ty,
    /// Its sources.
    pub src: &'static [Ty],
    /// Whether a mask of lanes is the second result, or the first if the result is one.
    pub mask_out: bool,
    /// Whether a mask of lanes is the last operand.
    pub mask_in: bool,
    /// Whether that is VCC and is not written.
    pub vcc_in: bool,
    /// Whether the destination is the last source too.
    pub accumulates: bool,
    /// Whether subnormals go by the mode.
    pub arithmetic: bool,
    /// Whether gfx9 clears the other half of the result's register.
    pub clears: bool,
}

macro_rules! get {
    (W, $s:ident, $k:expr, $i:ident) => {
        $s[2 * $k][$i]
    };
    (I, $s:ident, $k:expr, $i:ident) => {
        $s[2 * $k][$i] as i32
    };
    (F, $s:ident, $k:expr, $i:ident) => {
        f32::from_bits($s[2 * $k][$i])
    };
    (MX, $s:ident, $k:expr, $i:ident) => {
        f32::from_bits($s[2 * $k][$i])
    };
    (U16, $s:ident, $k:expr, $i:ident) => {
        ($s[2 * $k][$i] & 0xffff)
    };
    (I16, $s:ident, $k:expr, $i:ident) => {
        ($s[2 * $k][$i] as i16)
    };
    (H, $s:ident, $k:expr, $i:ident) => {
        $crate::exec::number::half($s[2 * $k][$i])
    };
    (B, $s:ident, $k:expr, $i:ident) => {
        $crate::exec::number::bf16($s[2 * $k][$i] & 0xffff)
    };
    (P, $s:ident, $k:expr, $i:ident) => {
        $s[2 * $k][$i]
    };
    (PH, $s:ident, $k:expr, $i:ident) => {
        $s[2 * $k][$i]
    };
    (PB, $s:ident, $k:expr, $i:ident) => {
        $s[2 * $k][$i]
    };
    (D, $s:ident, $k:expr, $i:ident) => {
        (u64::from($s[2 * $k][$i]) | u64::from($s[2 * $k + 1][$i]) << 32)
    };
    (Q, $s:ident, $k:expr, $i:ident) => {
        (u64::from($s[2 * $k][$i]) | u64::from($s[2 * $k + 1][$i]) << 32) as i64
    };
    (FD, $s:ident, $k:expr, $i:ident) => {
        f64::from_bits(u64::from($s[2 * $k][$i]) | u64::from($s[2 * $k + 1][$i]) << 32)
    };
    (PW, $s:ident, $k:expr, $i:ident) => {
        [$s[2 * $k][$i], $s[2 * $k + 1][$i]]
    };
    (PF, $s:ident, $k:expr, $i:ident) => {
        [$s[2 * $k][$i], $s[2 * $k + 1][$i]].map(f32::from_bits)
    };
}

macro_rules! put {
    (W, $o:ident, $i:ident, $x:expr, $m:ident) => {
        $o[0][$i] = $x
    };
    (I, $o:ident, $i:ident, $x:expr, $m:ident) => {
        $o[0][$i] = $x as u32
    };
    (F, $o:ident, $i:ident, $x:expr, $m:ident) => {
        $o[0][$i] = f32::to_bits($x)
    };
    (U16, $o:ident, $i:ident, $x:expr, $m:ident) => {
        $o[0][$i] = $x & 0xffff
    };
    (I16, $o:ident, $i:ident, $x:expr, $m:ident) => {
        $o[0][$i] = $x as u16 as u32
    };
    (H, $o:ident, $i:ident, $x:expr, $m:ident) => {
        $o[0][$i] = $crate::exec::number::to_half($x)
    };
    (B, $o:ident, $i:ident, $x:expr, $m:ident) => {
        $o[0][$i] = $crate::exec::number::to_bf16($x)
    };
    (P, $o:ident, $i:ident, $x:expr, $m:ident) => {
        $o[0][$i] = $x
    };
    (PH, $o:ident, $i:ident, $x:expr, $m:ident) => {
        $o[0][$i] = $x
    };
    (D, $o:ident, $i:ident, $x:expr, $m:ident) => {{
        let x: u64 = $x;
        $o[0][$i] = x as u32;
        $o[1][$i] = (x >> 32) as u32;
    }};
    (Q, $o:ident, $i:ident, $x:expr, $m:ident) => {
        put!(D, $o, $i, $x as u64, $m)
    };
    (FD, $o:ident, $i:ident, $x:expr, $m:ident) => {
        put!(D, $o, $i, f64::to_bits($x), $m)
    };
    (PW, $o:ident, $i:ident, $x:expr, $m:ident) => {{
        let x: [u32; 2] = $x;
        $o[0][$i] = x[0];
        $o[1][$i] = x[1];
    }};
    (PF, $o:ident, $i:ident, $x:expr, $m:ident) => {
        put!(PW, $o, $i, $x.map(f32::to_bits), $m)
    };
    (M, $o:ident, $i:ident, $x:expr, $m:ident) => {
        $m |= u32::from($x) << $i
    };
    // A result and a bit.
    (WM, $o:ident, $i:ident, $x:expr, $m:ident) => {{
        let (x, bit): (u32, bool) = $x;
        $o[0][$i] = x;
        $m |= u32::from(bit) << $i;
    }};
    (FM, $o:ident, $i:ident, $x:expr, $m:ident) => {{
        let (x, bit): (f32, bool) = $x;
        put!(WM, $o, $i, (x.to_bits(), bit), $m)
    }};
    (DM, $o:ident, $i:ident, $x:expr, $m:ident) => {{
        let (x, bit): (u64, bool) = $x;
        put!(D, $o, $i, x, $m);
        $m |= u32::from(bit) << $i;
    }};
    (FDM, $o:ident, $i:ident, $x:expr, $m:ident) => {{
        let (x, bit): (f64, bool) = $x;
        put!(DM, $o, $i, (x.to_bits(), bit), $m)
    }};
}

macro_rules! ty {
    (WM) => {
        $crate::decode::Ty::W
    };
    (FM) => {
        $crate::decode::Ty::F
    };
    (DM) => {
        $crate::decode::Ty::D
    };
    (FDM) => {
        $crate::decode::Ty::FD
    };
    ($t:ident) => {
        $crate::decode::Ty::$t
    };
}

macro_rules! has_mask {
    (WM) => {
        true
    };
    (FM) => {
        true
    };
    (DM) => {
        true
    };
    (FDM) => {
        true
    };
    (M) => {
        true
    };
    ($t:ident) => {
        false
    };
}

/// A row: the type of the result, types and names of sources, and the result of a lane. `env` and `lane` may be named
/// before the sources.
macro_rules! row {
    ([$env:ident, $i:ident] $d:ident ($($t:ident $a:ident),*) $e:expr) => {{
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        #[allow(unused_assignments, unused_mut, unused_variables)]
        fn f(
            $env: &$crate::exec::valu::Env,
            s: &[&$crate::exec::valu::Lane; $crate::exec::valu::OPERANDS],
            o: &mut [$crate::exec::valu::Lane; 2],
            m: &mut u32,
        ) {
            let mut mask = 0_u32;
            for $i in 0..32 {
                let mut k = 0;
                $(let $a = get!($t, s, k, $i); k += 1;)*
                put!($d, o, $i, $e, mask);
            }
            *m = mask;
        }
        $crate::exec::valu::Row {
            f,
            in_place: None,
            dst: ty!($d),
            src: &[$(ty!($t)),*],
            mask_out: has_mask!($d),
            mask_in: false,
            vcc_in: false,
            accumulates: false,
            arithmetic: false,
            clears: false,
        }
    }};
    ([$env:ident] $d:ident ($($t:ident $a:ident),*) $e:expr) => { row!([$env, i] $d ($($t $a),*) $e) };
    ($d:ident ($($t:ident $a:ident),*) $e:expr) => { row!([env, i] $d ($($t $a),*) $e) };
}

/// As `row`, for operations of few steps without decisions, of which the compiler makes vector code part by part: they
/// are done in place as well.
macro_rules! plain {
    ([$env:ident] $d:ident ($($t:ident $a:ident),*) $e:expr) => {{
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        #[allow(unused_assignments, unused_mut, unused_variables)]
        fn in_place($env: &$crate::exec::valu::Env, file: &mut [$crate::exec::valu::Lane], places: &$crate::exec::valu::Places) {
            const PART: usize = 8;
            for part in 0..32 / PART {
                let s = places.take::<PART>(file, &[$(ty!($t)),*], part);
                let mut out = [[0; PART]; 2];
                for i in 0..PART {
                    let mut k = 0;
                    $(let $a = get!($t, s, k, i); k += 1;)*
                    put!($d, out, i, $e, mask);
                }
                places.give(file, ty!($d).words(), part, &out);
            }
        }
        $crate::exec::valu::Row { in_place: Some(in_place), ..row!([$env] $d ($($t $a),*) $e) }
    }};
    ($d:ident ($($t:ident $a:ident),*) $e:expr) => { plain!([env] $d ($($t $a),*) $e) };
}

use {get, has_mask, plain, put, row, ty};

impl Row {
    const fn arithmetic(self) -> Row {
        Row { arithmetic: true, ..self }
    }

    const fn accumulates(self) -> Row {
        Row { accumulates: true, ..self }
    }

    const fn mask_in(self) -> Row {
        Row { mask_in: true, ..self }
    }

    const fn vcc_in(self) -> Row {
        Row { vcc_in: true, ..self }
    }

    const fn clears(self) -> Row {
        Row { clears: true, ..self }
    }
}

/// All rows by mnemonic.
pub static TABLE: LazyLock<HashMap<String, Row>> = LazyLock::new(|| {
    let mut table = HashMap::new();
    for rows in [
        float::rows,
        special::rows,
        integer::rows,
        half::rows,
        wide::rows,
        convert::rows,
        packed::rows,
        dot::rows,
        compare::rows,
    ] {
        rows(&mut |name: &str, row: Row| {
            let before = table.insert(name.to_owned(), row);
            debug_assert!(before.is_none(), "{name} twice");
        });
    }
    table
});

/// Takes a row by its mnemonic.
type Add<'a> = &'a mut dyn FnMut(&str, Row);
