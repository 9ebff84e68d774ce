//! The share of LLVM's instructions that the emulator knows, by class: every value of an instruction's high half with
//! random bits after it is disassembled, and each mnemonic counts as known if one of its forms is.
//!
//! ```sh
//! cargo run -p gfx-emu --example coverage -- gfx1100 gfx1201 gfx942 [--list]
//! ```

use gfx_emu::survey;
use hrx_compiler::inspect::Class;
use hrx_compiler::target::amd;
use std::collections::BTreeMap;

/// Random bits for each value of the high half.
const VARIANTS: u32 = 8;

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
        for high in 0..=0xffff_u32 {
            for _ in 0..VARIANTS {
                // Fields that a form does not use must be zero.
                let bytes_of = |bits: u32| (0..4).filter(|b| bits >> b & 1 != 0).fold(0, |m, b| m | 0xff << (8 * b));
                let sparse = next() & bytes_of(next());
                let words = [high << 16 | next() & 0xffff, sparse];
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                let Some(first) = survey(chip, chip.wave, &bytes)?.into_iter().next() else { continue };
                let entry = found.entry(first.name).or_insert((first.class, first.unknown.clone()));
                if first.unknown.is_none() {
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
