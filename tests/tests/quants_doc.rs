//! docs/quants.md says of every format what the registry says. `HRX_UPDATE=1` writes it.

use hrx_ir::quant::{Bytes, FORMATS, Format, Number, Scales};
use hrx_tests::golden::repository;
use std::fmt::Write;

const UPDATE: &str = "HRX_UPDATE=1 cargo test -p hrx-tests --test quants_doc";

const HEAD: &str = "# Quantised formats

Written by `tests/tests/quants_doc.rs` from `FORMATS` in `ir/src/quant/table.rs`, which drives everything that reads blocks.

An element is `scale * (code - zero) - min`, all in f32. A group is the consecutive elements that share a scale. `u4` is
an unsigned integer of 4 bits that the group has, `f16` a number of the block; E8M0 and E4M3 are the scale formats of the
OCP Microscaling and 8-bit Floating Point specifications, here halved because the codes are doubled. Codes from a table
are looked up by their bits: of a table of 256 x 8 each of 256 indices gives 8 codes at once.

| format | GGML id | elements | bytes | bits a weight | group | codes | zero | scale | min |
|---|---|---|---|---|---|---|---|---|---|
";

fn number(d: Number) -> &'static str {
    match d {
        Number::F16(_) | Number::Nibbles(_) => "f16",
        Number::F32(_) => "f32",
        Number::E8m0(_) => "E8M0 / 2",
    }
}

/// The largest value that an expression's bits can be.
fn most(by: &Bytes, f: &Format) -> u8 {
    by.eval(&vec![0xFF; f.block_bytes as usize]).into_iter().max().expect("a group")
}

fn scales(s: &Scales, f: &Format) -> String {
    match s {
        Scales::One { d, negate } => format!("{}{}", if *negate { "-" } else { "" }, number(*d)),
        Scales::Scaled { d, signed: true, .. } => format!("{} * i8", number(*d)),
        Scales::Scaled { d, by, times, plus, .. } => {
            let bits = (u32::from(most(by, f)) + 1).ilog2();
            match (*times, *plus) {
                (1.0, 0.0) => format!("{} * u{bits}", number(*d)),
                (1.0, plus) => format!("{} * (u{bits} - {})", number(*d), -plus),
                (_, 1.0) => format!("{} * (2 * u{bits} + 1)", number(*d)),
                (_, plus) => format!("{} * (2 * u{bits} + 1) / {}", number(*d), 1.0 / plus),
            }
        }
        Scales::E4m3 { .. } => "E4M3 / 2".into(),
    }
}

fn codes(e: &Bytes, f: &Format) -> String {
    match e {
        Bytes::Lookup { table, .. } => format!("table {} of {} x {}", table.name, table.entries(), table.width),
        Bytes::Negate(a, _) => format!("{} and signs", codes(a, f)),
        Bytes::Xor(a, _) => format!("{} and a shift", codes(a, f)),
        Bytes::Trit(..) => "digits in base 3".into(),
        _ if f.signed => "i8".into(),
        _ => match f.max_code {
            2 => "0 or 2".into(),
            n => format!("u{}", (n + 1).ilog2()),
        },
    }
}

fn text() -> String {
    let mut out = HEAD.to_owned();
    for f in FORMATS {
        let bits = f64::from(8 * f.block_bytes) / f64::from(f.block);
        let mins = f.mins.map_or("".into(), |m| scales(&m(), f));
        let zero = if f.zero == 0 { String::new() } else { f.zero.to_string() };
        let (codes, scales) = (codes(&(f.codes)(0), f), scales(&(f.scales)(), f));
        // A scale for the whole block is given to groups of a chunk.
        let whole = matches!((f.scales)(), Scales::One { .. }) && f.mins.is_none();
        let group = if whole { f.block } else { f.group };
        let (name, id, block, bytes) = (f.name.to_uppercase(), f.ggml_id, f.block, f.block_bytes);
        writeln!(
            out,
            "| {name} | {id} | {block} | {bytes} | {bits} | {group} | {codes} | {zero} | {scales} | {mins} |"
        )
        .expect("writing to a string");
    }
    out
}

#[test]
fn the_page_is_that_of_the_registry() {
    let (path, want) = (repository().join("docs/quants.md"), text());
    if std::env::var_os("HRX_UPDATE").is_some_and(|v| v == "1") {
        std::fs::write(&path, &want).expect("docs/quants.md");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == want, "docs/quants.md is not what the registry says: {UPDATE}");
}
