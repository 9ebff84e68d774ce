//! The share of LLVM's instructions that the emulator knows, by class: every value of an instruction's high half with
//! random bits after it, and with plain registers, is disassembled, and each mnemonic counts as known if one of its forms is.
//!
//! ```sh
//! cargo run -p gfx-emu --example coverage -- gfx1100 gfx1201 gfx942 [--list]
//! ```

use gfx_emu::survey;
use hrx_compiler::inspect::Class;
use hrx_compiler::target::amd;
use std::collections::BTreeMap;

/// Encodings for each value of the high half: those with random bits, and those of registers with modifiers that change
/// nothing.
const VARIANTS: u32 = 13;
const RANDOM: u32 = 8;
/// High halves that are disassembled at once.
const BATCH: usize = 1024;
/// Bytes of an encoding and what follows it: words that are no operation, so that each starts where it should.
const SLOT: usize = 24;

/// Adds an encoding.
fn encoding(code: &mut Vec<u8>, high: u32, variant: u32, next: &dyn Fn() -> u32) {
    // Fields that a form does not use must be zero.
    let bytes_of = |bits: u32| (0..4).filter(|b| bits >> b & 1 != 0).fold(0, |m, b| m | 0xff << (8 * b));
    let registers = 0x100 | 0x110 << 9 | 0x120 << 18;
    let (low, second) = match variant - variant.min(RANDOM) {
        0 if variant < RANDOM => (next() & 0xffff, next() & bytes_of(next())),
        // Halves as they are: of packed operations, and of those that have no such selectors.
        0 | 1 => (0x4040, registers | 3 << 27),
        2 => (0x0040, registers),
        // Scalars, for what takes no others.
        3 => (0x0040, 4 | 5 << 9 | 6 << 18),
        _ => (0x8040, registers),
    };
    const S_NOP: u32 = 0xbf80_0000;
    for word in [high << 16 | low, second, S_NOP, S_NOP, S_NOP, S_NOP] {
        code.extend(word.to_le_bytes());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let list = arguments.iter().any(|a| a == "--list");
    for name in arguments.iter().filter(|a| !a.starts_with('-')) {
        let chip = amd::find(name).ok_or_else(|| format!("no chip {name}"))?;
        let mut found: BTreeMap<String, (Class, Option<String>)> = BTreeMap::new();
        let state = std::cell::Cell::new(1_u64);
        let next = || {
            state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
            (state.get() >> 33) as u32
        };
        for first in (0..=0xffff_u32).step_by(BATCH) {
            let mut code = Vec::new();
            for high in first..first + BATCH as u32 {
                for variant in 0..VARIANTS {
                    encoding(&mut code, high, variant, &next);
                }
            }
            for one in survey(chip, chip.wave, &code)?.into_iter().filter(|s| s.offset % SLOT == 0) {
                let entry = found.entry(one.name).or_insert((one.class, one.unknown.clone()));
                if one.unknown.is_none() {
                    entry.1 = None;
                }
            }
        }
        let known = found.values().filter(|(_, unknown)| unknown.is_none()).count();
        println!("{name}: {known} of {} mnemonics", found.len());
        for class in Class::ALL {
            let of_class: Vec<_> = found.iter().filter(|(_, (c, _))| *c == class).collect();
            let known = of_class.iter().filter(|(_, (_, unknown))| unknown.is_none()).count();
            if !of_class.is_empty() {
                println!("  {:14} {known:4} of {:4}", class.name(), of_class.len());
            }
            for (mnemonic, (_, unknown)) in of_class.iter().filter(|_| list) {
                if let Some(reason) = unknown {
                    println!("    {mnemonic}: {reason}");
                }
            }
        }
    }
    Ok(())
}
