//! Kernels of models for NVIDIA GPUs: each compiles to PTX, and what a launch has to know of it can be read and is what
//! the kernel says. With `HRX_PTXAS` (see `hrx_tests::ptxas`) NVIDIA's assembler takes all of it, and spills no more than a
//! few words.
//!
//! Goldens take turns as in `amd_targets`; `HRX_ALL=1` does all for every target.

use hrx_compiler::ptx::{Ptx, PtxParam};
use hrx_compiler::target::nvidia::{self, CHIPS};
use hrx_compiler::{Target, compile_all};
use hrx_ir::tile::{Kernel, Param};
use hrx_tests::needed::{graphs, kernels};
use hrx_tests::ptxas::{self, Assembled};
use hrx_tests::turns::all;

/// The parts that goldens take turns in.
const TURNS: u64 = 6;

/// Bytes of a lane that the assembler may store: it gives up a register or two to have one more wave beside the others.
const FEW: u32 = 32;

/// What is wrong with a kernel's PTX.
fn faults(kernel: &Kernel, chip: &nvidia::Chip, object: &[u8]) -> Vec<String> {
    let ptx = match Ptx::read(object) {
        Ok(ptx) => ptx,
        Err(e) => return vec![e.to_string()],
    };
    let mut faults = Vec::new();
    if object.iter().filter(|&&b| b == 0).count() != 1 || object.last() != Some(&0) {
        faults.push("it is not text that ends in 0".into());
    }
    if ptx.target != chip.name {
        faults.push(format!("it is for {}", ptx.target));
    }
    let [k] = &ptx.kernels[..] else { return vec![format!("{} kernels", ptx.kernels.len())] };
    let param = |p: &Param| match p {
        Param::View(_) => PtxParam { bytes: 8, address: true },
        Param::Scalar(_) => PtxParam { bytes: 4, address: false },
    };
    let params: Vec<PtxParam> = kernel.params.iter().map(param).collect();
    if (k.name.as_str(), &k.params) != (kernel.name.as_str(), &params) {
        faults.push(format!("it is {} with parameters {:?}", k.name, k.params));
    }
    if k.threads != kernel.waves * nvidia::WARP {
        faults.push(format!("{} threads for {} waves", k.threads, kernel.waves));
    }
    if k.static_shared > nvidia::DECLARED_SHARED.value || k.dynamic_shared > chip.most_shared.value {
        faults.push(format!("{} + {} bytes of LDS", k.static_shared, k.dynamic_shared));
    }
    if k.static_shared > 0 && k.dynamic_shared > 0 {
        faults.push("LDS both declared and added".into());
    }
    // Contracted or approximate arithmetic gives other bits than other targets'.
    for inst in &k.instructions {
        let name = inst.name();
        let inexact = name.ends_with(".f32") && ["add.f32", "mul.f32", "sub.f32", "div.full.f32"].contains(&name);
        if inexact || name.contains("approx") || name.contains(".ftz") {
            faults.push(format!("{name} is not exact"));
        }
    }
    faults
}

/// Compiles what the goldens need on a target and looks at it; what the assembler says of each kernel, with its name.
fn check(name: &str) -> Vec<(String, Assembled)> {
    let chip = nvidia::find(name).expect("a target");
    let target = Target::Nvidia(chip);
    let kernels: Vec<Kernel> =
        kernels(&graphs(TURNS), std::slice::from_ref(&target)).into_iter().map(|(k, _)| k).collect();
    assert!(!kernels.is_empty(), "no kernels");
    let (mut wrong, mut taken) = (Vec::new(), Vec::new());
    let ptxas = ptxas::path();
    for (kernel, compiled) in kernels.iter().zip(compile_all(&kernels.iter().collect::<Vec<_>>(), &target)) {
        let object = match compiled {
            Ok(compiled) => compiled.object,
            Err(e) => {
                wrong.push(e.to_string());
                continue;
            }
        };
        wrong.extend(faults(kernel, chip, &object).into_iter().map(|f| format!("{}: {f}", kernel.name)));
        let Some(ptxas) = &ptxas else { continue };
        match ptxas::assemble(ptxas, name, &object) {
            Err(e) => wrong.push(format!("{}: {e}", kernel.name)),
            Ok(found) => {
                if found.spilled > FEW {
                    wrong.push(format!("{}: {found:?}", kernel.name));
                }
                taken.push((kernel.name.clone(), found));
            }
        }
    }
    println!("{name}: {} kernels, {} assembled, {} faults", kernels.len(), taken.len(), wrong.len());
    assert!(wrong.is_empty(), "{} faults\n{}", wrong.len(), wrong.join("\n"));
    taken
}

fn print(mut taken: Vec<(String, Assembled)>) {
    taken.sort_by_key(|(_, a)| std::cmp::Reverse((a.registers, a.stack)));
    taken.iter().for_each(|(name, a)| println!("{:>4} registers {:>6} bytes of stack  {name}", a.registers, a.stack));
}

#[test]
fn sm_80() {
    print(check("sm_80"));
}

#[test]
fn sm_90() {
    print(check("sm_90"));
}

/// The others differ in numbers alone, so without `HRX_ALL` they have a turn each.
#[test]
fn the_other_targets() {
    let others: Vec<&str> = CHIPS.iter().map(|c| c.name).filter(|n| !["sm_80", "sm_90"].contains(n)).collect();
    let turn = hrx_tests::turns::now() as usize % others.len();
    for (at, name) in others.iter().enumerate() {
        if all() || at == turn {
            print(check(name));
        }
    }
}

#[test]
fn what_the_assembler_refuses_is_a_fault() {
    let Some(ptxas) = ptxas::path() else { return };
    let error = ptxas::assemble(&ptxas, "sm_90", b".version 8.0\n.target sm_90\nnothing").expect_err("refused");
    assert!(error.contains("yntax error"), "{error}");
}
