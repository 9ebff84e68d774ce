//! Scalar operations: what each does to its operands and to SCC.

mod float;

use std::collections::HashMap;
use std::sync::LazyLock;

/// Operands (results' old value last), the condition bit, the result. Operands of 32 bits are zero-extended.
pub type SaluFn = fn(u64, u64, u64, &mut bool) -> u64;

/// A scalar operation.
#[derive(Clone, Copy, Debug)]
pub struct SRow {
    pub f: SaluFn,
    /// Registers of the result; none if there is only SCC.
    pub dst: u8,
    /// Registers of each source.
    pub src: &'static [u8],
    pub reads_scc: bool,
    pub writes_scc: bool,
    /// Whether the result's old value is the third operand.
    pub reads_dst: bool,
    /// Whether EXEC is written too, and the result is what it was.
    pub saves_exec: bool,
    /// Whether operands are binary32.
    pub float: bool,
}

const fn row(dst: u8, src: &'static [u8], f: SaluFn) -> SRow {
    SRow { f, dst, src, reads_scc: false, writes_scc: false, reads_dst: false, saves_exec: false, float: false }
}

const fn scc(row: SRow) -> SRow {
    SRow { writes_scc: true, ..row }
}

const fn with_scc(row: SRow) -> SRow {
    SRow { reads_scc: true, ..row }
}

const fn with_dst(row: SRow) -> SRow {
    SRow { reads_dst: true, ..row }
}

/// 16 bits of a literal with its sign.
fn short(x: u64) -> i32 {
    i32::from(x as u16 as i16)
}

/// All operations by mnemonic.
pub static TABLE: LazyLock<HashMap<String, SRow>> = LazyLock::new(|| {
    let mut table = HashMap::new();
    let mut add = |name: &str, row: SRow| {
        let before = table.insert(name.to_owned(), row);
        debug_assert!(before.is_none(), "{name} twice");
    };
    moves(&mut add);
    arithmetic(&mut add);
    logic(&mut add);
    bit_counts(&mut add);
    comparisons(&mut add);
    float::rows(&mut add);
    table
});

type Add<'a> = &'a mut dyn FnMut(&str, SRow);

fn moves(add: Add<'_>) {
    add("s_mov_b32", row(1, &[1], |a, _, _, _| a));
    add("s_mov_b64", row(2, &[2], |a, _, _, _| a));
    add("s_movk_i32", row(1, &[1], |a, _, _, _| short(a) as u32 as u64));
    add("s_cmov_b32", with_scc(with_dst(row(1, &[1], |a, _, d, c| if *c { a } else { d }))));
    add("s_cmov_b64", with_scc(with_dst(row(2, &[2], |a, _, d, c| if *c { a } else { d }))));
    add("s_cmovk_i32", with_scc(with_dst(row(1, &[1], |a, _, d, c| if *c { short(a) as u32 as u64 } else { d }))));
    add("s_cselect_b32", with_scc(row(1, &[1, 1], |a, b, _, c| if *c { a } else { b })));
    add("s_cselect_b64", with_scc(row(2, &[2, 2], |a, b, _, c| if *c { a } else { b })));
    add("s_sext_i32_i8", row(1, &[1], |a, _, _, _| a as i8 as u32 as u64));
    add("s_sext_i32_i16", row(1, &[1], |a, _, _, _| a as i16 as u32 as u64));
    add("s_pack_ll_b32_b16", row(1, &[1, 1], |a, b, _, _| a & 0xffff | (b & 0xffff) << 16));
    add("s_pack_lh_b32_b16", row(1, &[1, 1], |a, b, _, _| a & 0xffff | b & 0xffff_0000));
    add("s_pack_hh_b32_b16", row(1, &[1, 1], |a, b, _, _| a >> 16 | b & 0xffff_0000));
    add("s_pack_hl_b32_b16", row(1, &[1, 1], |a, b, _, _| a >> 16 | (b & 0xffff) << 16));
}

fn arithmetic(add: Add<'_>) {
    add(
        "s_add_u32",
        scc(row(1, &[1, 1], |a, b, _, c| {
            *c = a + b > u64::from(u32::MAX);
            a + b
        })),
    );
    add(
        "s_sub_u32",
        scc(row(1, &[1, 1], |a, b, _, c| {
            *c = b > a;
            a.wrapping_sub(b)
        })),
    );
    add(
        "s_add_i32",
        scc(row(1, &[1, 1], |a, b, _, c| {
            let (sum, over) = (a as i32).overflowing_add(b as i32);
            *c = over;
            sum as u32 as u64
        })),
    );
    add(
        "s_sub_i32",
        scc(row(1, &[1, 1], |a, b, _, c| {
            let (difference, over) = (a as i32).overflowing_sub(b as i32);
            *c = over;
            difference as u32 as u64
        })),
    );
    add(
        "s_addk_i32",
        with_dst(scc(row(1, &[1], |a, _, d, c| {
            let (sum, over) = (d as i32).overflowing_add(short(a));
            *c = over;
            sum as u32 as u64
        }))),
    );
    add("s_mulk_i32", with_dst(row(1, &[1], |a, _, d, _| (d as i32).wrapping_mul(short(a)) as u32 as u64)));
    add(
        "s_addc_u32",
        with_scc(scc(row(1, &[1, 1], |a, b, _, c| {
            let sum = a + b + u64::from(*c);
            *c = sum > u64::from(u32::MAX);
            sum
        }))),
    );
    add(
        "s_subb_u32",
        with_scc(scc(row(1, &[1, 1], |a, b, _, c| {
            let take = b + u64::from(*c);
            *c = take > a;
            a.wrapping_sub(take)
        }))),
    );
    add("s_add_u64", row(2, &[2, 2], |a, b, _, _| a.wrapping_add(b)));
    add("s_add_nc_u64", row(2, &[2, 2], |a, b, _, _| a.wrapping_add(b)));
    add("s_sub_u64", row(2, &[2, 2], |a, b, _, _| a.wrapping_sub(b)));
    add("s_sub_nc_u64", row(2, &[2, 2], |a, b, _, _| a.wrapping_sub(b)));
    add("s_mul_u64", row(2, &[2, 2], |a, b, _, _| a.wrapping_mul(b)));
    add("s_mul_i32", row(1, &[1, 1], |a, b, _, _| (a as u32).wrapping_mul(b as u32) as u64));
    add("s_mul_hi_u32", row(1, &[1, 1], |a, b, _, _| (a * b) >> 32));
    add("s_mul_hi_i32", row(1, &[1, 1], |a, b, _, _| ((a as i32 as i64 * b as i32 as i64) >> 32) as u32 as u64));
    add(
        "s_abs_i32",
        scc(row(1, &[1], |a, _, _, c| {
            let out = (a as i32).wrapping_abs() as u32;
            *c = out != 0;
            out.into()
        })),
    );
    add(
        "s_absdiff_i32",
        scc(row(1, &[1, 1], |a, b, _, c| {
            let out = (a as i32).wrapping_sub(b as i32).wrapping_abs() as u32;
            *c = out != 0;
            out.into()
        })),
    );
    add(
        "s_min_i32",
        scc(row(1, &[1, 1], |a, b, _, c| {
            *c = (a as i32) < b as i32;
            if *c { a } else { b }
        })),
    );
    add(
        "s_max_i32",
        scc(row(1, &[1, 1], |a, b, _, c| {
            *c = (a as i32) >= b as i32;
            if *c { a } else { b }
        })),
    );
    add(
        "s_min_u32",
        scc(row(1, &[1, 1], |a, b, _, c| {
            *c = a < b;
            if *c { a } else { b }
        })),
    );
    add(
        "s_max_u32",
        scc(row(1, &[1, 1], |a, b, _, c| {
            *c = a >= b;
            if *c { a } else { b }
        })),
    );
    macro_rules! shift_add {
        ($($n:literal)*) => {
            $(add(concat!("s_lshl", $n, "_add_u32"), scc(row(1, &[1, 1], |a, b, _, c| {
                let sum = (a << $n) + b;
                *c = sum > u64::from(u32::MAX);
                sum
            })));)*
        };
    }
    shift_add!(1 2 3 4);
}

fn logic(add: Add<'_>) {
    /// A row of 32 and of 64 bits, whose condition is that the result is not zero, and its form that saves EXEC.
    macro_rules! logical {
        ($($name:literal: |$a:ident, $b:ident| $e:expr;)*) => {
            $(
                add(concat!("s_", $name, "_b32"), scc(row(1, &[1, 1], |$a, $b, _, c| {
                    let out = $e & u64::from(u32::MAX);
                    *c = out != 0;
                    out
                })));
                add(concat!("s_", $name, "_b64"), scc(row(2, &[2, 2], |$a, $b, _, c| {
                    let out = $e;
                    *c = out != 0;
                    out
                })));
                add(concat!("s_", $name, "_saveexec_b32"), SRow { saves_exec: true, ..scc(row(1, &[1], |$a, $b, _, c| {
                    let out = $e & u64::from(u32::MAX);
                    *c = out != 0;
                    out
                })) });
                add(concat!("s_", $name, "_saveexec_b64"), SRow { saves_exec: true, ..scc(row(2, &[2], |$a, $b, _, c| {
                    let out = $e;
                    *c = out != 0;
                    out
                })) });
            )*
        };
    }
    // Of the forms that save EXEC, the first operand is the instruction's and the second EXEC.
    logical! {
        "and": |a, b| a & b;
        "or": |a, b| a | b;
        "xor": |a, b| a ^ b;
        "andn2": |a, b| a & !b;
        "orn2": |a, b| a | !b;
        "nand": |a, b| !(a & b);
        "nor": |a, b| !(a | b);
        "xnor": |a, b| !(a ^ b);
        "andn1": |a, b| !a & b;
        "orn1": |a, b| !a | b;
    }
    macro_rules! wrexec {
        ($($name:literal, $bits:literal, $words:literal: |$a:ident, $b:ident| $e:expr;)*) => {
            $(add(concat!("s_", $name, "_wrexec_", $bits), SRow { saves_exec: true, ..scc(row($words, &[$words], |$a, $b, _, c| {
                let out = $e;
                *c = out != 0;
                out
            })) });)*
        };
    }
    wrexec! {
        "andn1", "b64", 2: |a, b| !a & b;
        "andn2", "b64", 2: |a, b| a & !b;
        "andn1", "b32", 1: |a, b| !a & b & u64::from(u32::MAX);
        "andn2", "b32", 1: |a, b| a & !b & u64::from(u32::MAX);
    }
    /// A row of 32 bits and one of 64, for a type of each.
    macro_rules! sized {
        ($($name:literal, $narrow:literal, $wide:literal: |$a:ident, $b:ident| $n:expr, $w:expr;)*) => {
            $(
                add(concat!("s_", $name, $narrow), scc(row(1, &[1, 1], |$a, $b, _, c| {
                    let out: u32 = { let ($a, $b) = ($a as u32, $b as u32); $n };
                    *c = out != 0;
                    out.into()
                })));
                add(concat!("s_", $name, $wide), scc(row(2, &[2, 1], |$a, $b, _, c| {
                    let out: u64 = $w;
                    *c = out != 0;
                    out
                })));
            )*
        };
    }
    sized! {
        "lshl", "_b32", "_b64": |a, b| a << (b & 31), a << (b & 63);
        "lshr", "_b32", "_b64": |a, b| a >> (b & 31), a >> (b & 63);
        "ashr", "_i32", "_i64": |a, b| ((a as i32) >> (b & 31)) as u32, ((a as i64) >> (b & 63)) as u64;
        "bfe", "_u32", "_u64": |a, b|
            field(a.into(), b.into(), 32) as u32,
            field(a, b, 64);
        "bfe", "_i32", "_i64": |a, b|
            signed_field(a.into(), b.into(), 32) as u32,
            signed_field(a, b, 64);
    }
    add("s_bfm_b32", row(1, &[1, 1], |a, b, _, _| ((1 << (a & 31)) - 1) << (b & 31)));
    add("s_bfm_b64", row(2, &[1, 1], |a, b, _, _| ((1 << (a & 63)) - 1) << (b & 63)));
    add(
        "s_not_b32",
        scc(row(1, &[1], |a, _, _, c| {
            *c = !a as u32 != 0;
            !a
        })),
    );
    add(
        "s_not_b64",
        scc(row(2, &[2], |a, _, _, c| {
            *c = !a != 0;
            !a
        })),
    );
    add("s_brev_b32", row(1, &[1], |a, _, _, _| (a as u32).reverse_bits().into()));
    add("s_brev_b64", row(2, &[2], |a, _, _, _| a.reverse_bits()));
    add("s_wqm_b32", scc(row(1, &[1], |a, _, _, c| whole_quads(a, c))));
    add("s_wqm_b64", scc(row(2, &[2], |a, _, _, c| whole_quads(a, c))));
    add("s_quadmask_b32", scc(row(1, &[1], |a, _, _, c| quads(a, c))));
    add("s_quadmask_b64", scc(row(2, &[2], |a, _, _, c| quads(a, c))));
    add("s_bitset0_b32", with_dst(row(1, &[1], |a, _, d, _| d & !(1 << (a & 31)))));
    add("s_bitset1_b32", with_dst(row(1, &[1], |a, _, d, _| d | 1 << (a & 31))));
    add("s_bitset0_b64", with_dst(row(2, &[1], |a, _, d, _| d & !(1 << (a & 63)))));
    add("s_bitset1_b64", with_dst(row(2, &[1], |a, _, d, _| d | 1 << (a & 63))));
    add(
        "s_bitreplicate_b64_b32",
        row(2, &[1], |a, _, _, _| (0..32).fold(0, |out, i| out | ((a >> i & 1) * 3) << (2 * i))),
    );
}

/// A bit for each quad of which any lane is set.
fn quads(a: u64, c: &mut bool) -> u64 {
    let out = (0..16).fold(0, |out, q| out | u64::from(a >> (4 * q) & 15 != 0) << q);
    *c = out != 0;
    out
}

/// A lane of a quad is set if any of the quad is.
fn whole_quads(a: u64, c: &mut bool) -> u64 {
    let out = (0..16).filter(|q| a >> (4 * q) & 15 != 0).fold(0, |out, q| out | 15 << (4 * q));
    *c = out != 0;
    out
}

/// Bits of a value: where they start in the low bits of `which`, and how many there are in its bits from 16 up.
fn field(a: u64, which: u64, size: u32) -> u64 {
    let (at, bits) = (which & u64::from(size - 1), which >> 16 & 0x7f);
    let part = a >> at;
    if bits >= 64 { part } else { part & ((1 << bits) - 1) }
}

fn signed_field(a: u64, which: u64, size: u32) -> u64 {
    let bits = (which >> 16 & 0x7f).min(u64::from(size) - (which & u64::from(size - 1)));
    let part = field(a, which, size);
    if bits == 0 || bits >= 64 { part } else { ((part << (64 - bits)) as i64 >> (64 - bits)) as u64 }
}

fn bit_counts(add: Add<'_>) {
    const NONE: u64 = u32::MAX as u64;
    let first = |n: u64, of: u32| if n < u64::from(of) { n } else { NONE };
    debug_assert_eq!(first(32, 32), NONE);
    add("s_bcnt0_i32_b32", scc(row(1, &[1], |a, _, _, c| counted((a as u32).count_zeros(), c))));
    add("s_bcnt0_i32_b64", scc(row(1, &[2], |a, _, _, c| counted(a.count_zeros(), c))));
    add("s_bcnt1_i32_b32", scc(row(1, &[1], |a, _, _, c| counted((a as u32).count_ones(), c))));
    add("s_bcnt1_i32_b64", scc(row(1, &[2], |a, _, _, c| counted(a.count_ones(), c))));
    add("s_ff0_i32_b32", row(1, &[1], |a, _, _, _| found(a as u32 == u32::MAX, (a as u32).trailing_ones())));
    add("s_ff0_i32_b64", row(1, &[2], |a, _, _, _| found(a == u64::MAX, a.trailing_ones())));
    add("s_ff1_i32_b32", row(1, &[1], |a, _, _, _| found(a as u32 == 0, (a as u32).trailing_zeros())));
    add("s_ff1_i32_b64", row(1, &[2], |a, _, _, _| found(a == 0, a.trailing_zeros())));
    add("s_flbit_i32_b32", row(1, &[1], |a, _, _, _| found(a as u32 == 0, (a as u32).leading_zeros())));
    add("s_flbit_i32_b64", row(1, &[2], |a, _, _, _| found(a == 0, a.leading_zeros())));
    add(
        "s_flbit_i32",
        row(1, &[1], |a, _, _, _| {
            let same = (a as u32 ^ (a as i32 >> 31) as u32).leading_zeros();
            found(same == 32, same)
        }),
    );
    add(
        "s_flbit_i32_i64",
        row(1, &[2], |a, _, _, _| {
            let same = (a ^ (a as i64 >> 63) as u64).leading_zeros();
            found(same == 64, same)
        }),
    );
}

fn counted(n: u32, c: &mut bool) -> u64 {
    *c = n != 0;
    n.into()
}

fn found(none: bool, at: u32) -> u64 {
    if none { u32::MAX.into() } else { at.into() }
}

fn comparisons(add: Add<'_>) {
    macro_rules! compared {
        ($($name:literal: |$a:ident, $b:ident| $e:expr;)*) => {
            $(
                add(concat!("s_cmp_", $name, "_i32"), scc(row(0, &[1, 1], |a, b, _, c| {
                    let ($a, $b) = (a as i32, b as i32);
                    *c = $e;
                    0
                })));
                add(concat!("s_cmp_", $name, "_u32"), scc(row(0, &[1, 1], |$a, $b, _, c| {
                    *c = $e;
                    0
                })));
                add(concat!("s_cmpk_", $name, "_i32"), scc(row(0, &[1, 1], |a, b, _, c| {
                    let ($a, $b) = (a as i32, short(b));
                    *c = $e;
                    0
                })));
                add(concat!("s_cmpk_", $name, "_u32"), scc(row(0, &[1, 1], |a, b, _, c| {
                    let ($a, $b) = (a, b & 0xffff);
                    *c = $e;
                    0
                })));
            )*
        };
    }
    compared! {
        "eq": |a, b| a == b;
        "lg": |a, b| a != b;
        "gt": |a, b| a > b;
        "ge": |a, b| a >= b;
        "lt": |a, b| a < b;
        "le": |a, b| a <= b;
    }
    let set = |row| scc(row);
    add(
        "s_cmp_eq_u64",
        set(row(0, &[2, 2], |a, b, _, c| {
            *c = a == b;
            0
        })),
    );
    for name in ["s_cmp_lg_u64", "s_cmp_ne_u64"] {
        add(
            name,
            set(row(0, &[2, 2], |a, b, _, c| {
                *c = a != b;
                0
            })),
        );
    }
    add(
        "s_bitcmp0_b32",
        set(row(0, &[1, 1], |a, b, _, c| {
            *c = a >> (b & 31) & 1 == 0;
            0
        })),
    );
    add(
        "s_bitcmp1_b32",
        set(row(0, &[1, 1], |a, b, _, c| {
            *c = a >> (b & 31) & 1 == 1;
            0
        })),
    );
    add(
        "s_bitcmp0_b64",
        set(row(0, &[2, 1], |a, b, _, c| {
            *c = a >> (b & 63) & 1 == 0;
            0
        })),
    );
    add(
        "s_bitcmp1_b64",
        set(row(0, &[2, 1], |a, b, _, c| {
            *c = a >> (b & 63) & 1 == 1;
            0
        })),
    );
}
