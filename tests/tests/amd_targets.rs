//! Kernels of models for every AMD GPU: each is compiled and linked, LLVM's reader of objects takes it without a
//! warning, and the audit finds nothing: no unknown instruction, no scratch memory, nothing spilled.
//!
//! The kernels are those of the compact goldens, each once for each instruction set: the chips of one set take turns, so
//! that every chip gets its share and every kernel every set. Most goldens take turns too, day by day
//! (`hrx_tests::turns`). With `HRX_ALL=1` they are
//! those of all goldens that are there and of the two real models, and each is compiled for each chip:
//!
//! ```sh
//! HRX_ALL=1 cargo test -p hrx-tests --test amd_targets -- --nocapture
//! ```

use hrx_compiler::target::amd::{self, CHIPS, Chip};
use hrx_compiler::{Target, audit, compile_all};
use hrx_ir::tile::Kernel;
use hrx_tests::llvm;
use hrx_tests::needed::{graphs, kernels};
use hrx_tests::turns::all;

/// Chips by what their instructions are: compiled code is the same within a row, but for numbers of registers.
const SETS: [(&str, &[&str]); 10] = [
    ("gfx906", &["gfx906"]),
    ("gfx908", &["gfx908"]),
    ("gfx90a", &["gfx90a"]),
    ("gfx942", &["gfx942"]),
    ("gfx950", &["gfx950"]),
    ("gfx10.3", &["gfx1030", "gfx1031", "gfx1032", "gfx10-3-generic"]),
    ("gfx11", &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx11-generic"]),
    ("gfx11.5", &["gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx12", &["gfx1200", "gfx1201", "gfx12-generic"]),
    ("other generic", &["gfx9-generic", "gfx9-4-generic", "gfx10-1-generic"]),
];

/// The parts that goldens take turns in.
const TURNS: u64 = 6;

/// What came of a set.
struct Checked {
    /// Kernels compiled for each chip.
    counts: Vec<(&'static str, usize)>,
    /// What is wrong, a line each.
    faults: Vec<String>,
}

/// Compiles the kernels of some chips, which take turns, and looks at what came out.
fn check(chips: &[&'static Chip]) -> Checked {
    let mut of_chip: Vec<Vec<Kernel>> = vec![Vec::new(); chips.len()];
    let targets: Vec<Target> = chips.iter().map(|c| Target::Amd(c)).collect();
    for (turn, (kernel, needed_by)) in kernels(&graphs(TURNS), &targets).into_iter().enumerate() {
        let chosen = if all() { &needed_by[..] } else { &needed_by[turn % needed_by.len()..][..1] };
        for at in chosen {
            of_chip[*at].push(kernel.clone());
        }
    }
    let mut checked = Checked { counts: Vec::new(), faults: Vec::new() };
    for (&chip, kernels) in chips.iter().zip(&of_chip) {
        checked.counts.push((chip.name, kernels.len()));
        checked.faults.extend(faults(chip, kernels).into_iter().map(|f| format!("{}: {f}", chip.name)));
    }
    checked
}

/// What is wrong with the code of kernels for a chip.
fn faults(chip: &'static Chip, kernels: &[Kernel]) -> Vec<String> {
    let (mut faults, mut files) = (Vec::new(), Vec::new());
    let compiled = compile_all(&kernels.iter().collect::<Vec<_>>(), &Target::Amd(chip));
    for (kernel, compiled) in kernels.iter().zip(compiled) {
        match compiled {
            Ok(compiled) => {
                let found = audit(&compiled.object, &kernel.name, chip);
                faults.extend(found.iter().map(|f| format!("{}: {f}", kernel.name)));
                files.push((kernel.name.clone(), compiled.object));
            }
            Err(e) => faults.push(e.to_string()),
        }
    }
    faults.extend(llvm::complaints("llvm-readobj", &["--all"], &files));
    faults
}

fn set(name: &str) {
    let (_, chips) = SETS.iter().find(|(n, _)| *n == name).expect("a set");
    let chips: Vec<&'static Chip> = chips.iter().map(|c| amd::find(c).expect("a chip")).collect();
    let Checked { counts, faults } = check(&chips);
    let list: Vec<String> = counts.iter().map(|(chip, n)| format!("{n} for {chip}")).collect();
    println!("{name}: {}; {} faults", list.join(", "), faults.len());
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(counts.iter().all(|(_, n)| *n > 0), "every chip has its share: {counts:?}");
}

#[test]
fn every_chip_is_in_one_set() {
    let mut of_sets: Vec<&str> = SETS.iter().flat_map(|(_, chips)| *chips).copied().collect();
    let mut chips: Vec<&str> = CHIPS.iter().map(|c| c.name).collect();
    of_sets.sort_unstable();
    chips.sort_unstable();
    assert_eq!(of_sets, chips);
}

macro_rules! sets {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            set($name);
        })*

        #[test]
        fn every_set_is_tested() {
            assert_eq!(SETS.map(|(name, _)| name), [$($name),*]);
        }
    };
}

sets! {
    gfx906: "gfx906",
    gfx908: "gfx908",
    gfx90a: "gfx90a",
    gfx942: "gfx942",
    gfx950: "gfx950",
    gfx10_3: "gfx10.3",
    gfx11: "gfx11",
    gfx11_5: "gfx11.5",
    gfx12: "gfx12",
    other_generic: "other generic",
}

#[test]
fn what_is_wrong_is_found() {
    let chip = amd::find("gfx1100").expect("a chip");
    let kernel = kernels(&graphs(TURNS), &[Target::Amd(chip)]).swap_remove(0).0;
    let good = hrx_compiler::compile(&kernel, &Target::Amd(chip)).expect("compiled").object;
    let name = |name: &str, bytes: &[u8]| (name.to_string(), bytes.to_vec());
    let complaints = |files: &[(String, Vec<u8>)]| llvm::complaints("llvm-readobj", &["--all"], files);
    assert_eq!(complaints(&[name("good", &good), name("again", &good)]), Vec::<String>::new());
    // The sections' table lies outside of the file.
    let mut broken = good.clone();
    broken[0x28..0x30].copy_from_slice(&u64::MAX.to_le_bytes());
    let found = complaints(&[name("good", &good), name("broken", &broken)]);
    assert!(!found.is_empty() && found.iter().all(|c| c.contains("broken")), "{found:?}");
}
