//! Models on emulated GPUs, by HIP's functions; and what is said when one of these fails.

use crate::support::{Ran, command, ran, small};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Chips of three generations: WMMA of both kinds, and MFMA on waves of 64 lanes.
const CHIPS: [&str; 3] = ["gfx1100", "gfx1201", "gfx942"];

/// The emulator's library: where cargo puts it as a dependency of these tests, or when it was built itself.
fn library() -> PathBuf {
    let dir = Path::new(env!("CARGO_BIN_EXE_hrx-run")).parent().expect("a folder");
    let built = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).ok();
    let places = [dir.join("deps/libamdhip64.so"), dir.join("libamdhip64.so")];
    places.into_iter().filter(|p| p.is_file()).max_by_key(built).expect("libamdhip64.so was built")
}

fn on(device: &str, args: &[&str], variables: &[(&str, &str)]) -> Ran {
    let context: &[&str] = if args.contains(&"-c") { &[] } else { &["-c", "64"] };
    let always = &["--tokens", "1,10,20,30,40", "--temp", "0", "--ignore-eos", "--device", device];
    let args = [always, context, args].concat();
    ran(prepared(command(&small(), &args)).envs(variables.iter().copied()))
}

/// With the library, and without what the caller's environment says of it.
fn prepared(mut command: Command) -> Command {
    for name in ["HRX_EMU_CHIP", "HRX_EMU_FAIL", "HRX_EMU_SEED", "HRX_EMU_CHECK", "HRX_HIP_GRAPH"] {
        command.env_remove(name);
    }
    command.env("HRX_HIP_LIBRARY", library());
    command
}

#[test]
fn emulated_gpus_give_the_text_of_the_cpu() {
    // What GPUs read by default.
    let cpu = on("cpu", &["-n", "4", "--activations", "f32"], &[]);
    assert!(cpu.code == Some(0) && !cpu.out.is_empty(), "{cpu:?}");
    for chip in CHIPS {
        let gpu = on(&format!("emu:{chip}"), &["-n", "4"], &[]);
        assert_eq!((gpu.code, &gpu.out), (Some(0), &cpu.out), "{chip}: {}", gpu.err);
        assert!(!gpu.err.contains("gfx-emu"), "{chip}: {}", gpu.err);
    }
}

#[test]
fn graphs_and_launches_and_the_order_of_waves_make_no_difference() {
    let runs: [&[(&str, &str)]; 3] =
        [&[("HRX_HIP_GRAPH", "0")], &[("HRX_HIP_GRAPH", "1")], &[("HRX_EMU_SEED", "11"), ("HRX_EMU_THREADS", "1")]];
    let texts = runs.map(|variables| {
        let run = on("emu:gfx1100", &["-n", "4"], variables);
        assert!(run.code == Some(0) && !run.err.contains("warning"), "{variables:?}: {}", run.err);
        run.out
    });
    assert!(texts.iter().all(|t| *t == texts[0]), "{texts:?}");
}

#[test]
fn a_device_says_what_it_is() {
    let run = on("emu:gfx1100", &["-n", "1", "-v"], &[]);
    assert!(run.err.contains("device: emu:gfx1100: emulated gfx1100 (gfx1100), HIP 6.4.0 from "), "{}", run.err);
    assert!(run.err.contains("MiB (copied to the device)"), "{}", run.err);
}

#[test]
fn hip_finds_what_its_library_has() {
    let run = on("hip", &["-n", "1", "-v"], &[("HRX_EMU_CHIP", "gfx1100")]);
    assert!(run.code == Some(0) && run.err.contains("device: hip:0: emulated gfx1100"), "{}", run.err);
    let run = on("hip:1", &[], &[("HRX_EMU_CHIP", "gfx1100")]);
    let error = run.error();
    assert!(error.contains("hip:1 can't be used: there is no hip:1: hip:0 is emulated gfx1100"), "{error}");
    let run = on("hip", &[], &[]);
    let error = run.error();
    assert!(error.contains("hip can't be used: HIP finds no device ("), "{error}");

    let list = |chip: &str| {
        let mut command = prepared(Command::new(env!("CARGO_BIN_EXE_hrx-run")));
        let output = command.arg("--list-devices").env("HRX_EMU_CHIP", chip).output().expect("runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let text = list("gfx942");
    assert!(text.contains("\nhip:0: emulated gfx942 (gfx942, discrete), PCI ffff:00:00.0, "), "{text}");
    assert!(text.contains("; what --device hip takes\n"), "{text}");
    assert!(list("").contains("finds no device"), "{}", list(""));
}

#[test]
fn a_failing_call_is_one_line_that_names_it() {
    for (fault, words) in [
        ("hipGetDeviceCount:1:100", "HIP finds no device"),
        ("hipGetDeviceCount:1:3", "hipGetDeviceCount failed: hipErrorNotInitialized (3)"),
        ("hipGetDevicePropertiesR0600:1:1", "hipGetDevicePropertiesR0600 failed: hipErrorInvalidValue (1)"),
        ("hipStreamCreateWithFlags:1:2", "emu:gfx1100: hipStreamCreateWithFlags failed: hipErrorOutOfMemory (2)"),
        ("hipModuleLoadData:3:209", "emu:gfx1100: hipModuleLoadData failed: hipErrorNoBinaryForGpu (209)"),
        ("hipModuleGetFunction:1:500", "emu:gfx1100: hipModuleGetFunction failed: hipErrorNotFound (500)"),
        ("hipMalloc:2:2", "emu:gfx1100: no memory for "),
        ("hipMalloc:2:1", "emu:gfx1100: hipMalloc failed: hipErrorInvalidValue (1)"),
        ("hipHostMalloc:1:2", "emu:gfx1100: hipHostMalloc failed: hipErrorOutOfMemory (2)"),
        ("hipMemcpyAsync:4:1", "emu:gfx1100: hipMemcpyAsync failed: hipErrorInvalidValue (1)"),
        ("hipMemsetAsync:1:17", "emu:gfx1100: hipMemsetAsync failed: hipErrorInvalidDevicePointer (17)"),
        ("hipModuleLaunchKernel:9:719", "emu:gfx1100: hipModuleLaunchKernel failed: hipErrorLaunchFailure (719)"),
        ("hipStreamSynchronize:1:700", "emu:gfx1100: hipStreamSynchronize failed: hipErrorIllegalAddress (700)"),
        ("hipGraphLaunch:1:999", "emu:gfx1100: hipGraphLaunch failed: hipErrorUnknown (999)"),
        ("hipMemcpyAsync:1:4711", "emu:gfx1100: hipMemcpyAsync failed: hipErrorUnknown (4711)"),
        ("hipMemGetInfo:1:3", "0 MiB free"),
    ] {
        let run = on("emu:gfx1100", &["-n", "4"], &[("HRX_EMU_FAIL", fault)]);
        let error = run.error();
        assert!(error.contains(words), "{fault}: {error}");
    }
}

#[test]
fn without_graphs_kernels_are_launched_one_by_one() {
    let plain = on("emu:gfx1100", &["-n", "4"], &[]);
    for fault in ["hipStreamBeginCapture:1:900", "hipGraphInstantiateWithFlags:1:801"] {
        let run = on("emu:gfx1100", &["-n", "4"], &[("HRX_EMU_FAIL", fault)]);
        assert_eq!((run.code, &run.out), (Some(0), &plain.out), "{fault}: {}", run.err);
        assert!(
            run.err.contains("warning: kernels are launched one by one, without a graph: "),
            "{fault}: {}",
            run.err
        );
    }
}

#[test]
fn what_does_not_fit_is_said_before_anything_is_allocated() {
    let with = |mib: &str, context: &str| {
        // Any allocation would fail with another error.
        let variables = [("HRX_EMU_FAIL", "hipMalloc:1:999"), ("HRX_EMU_MEMORY", mib)];
        on("emu:gfx1100", &["-c", context], &variables).error().to_owned()
    };
    let error = with("64", "500000");
    assert!(error.contains("weights take 1 MiB, a context of 500000 tokens "), "{error}");
    assert!(error.contains("; emu:gfx1100 has 64 MiB free: a context of ") && error.ends_with(" would fit"), "{error}");
    let error = with("0", "64");
    assert!(error.contains("no context fits beside these weights of "), "{error}");
    assert!(error.ends_with("; --device cpu reads weights where the file is"), "{error}");
}

#[test]
fn memory_that_is_less_than_the_driver_said_is_an_error() {
    // What the model takes fits; what copies go through does not.
    let run = on("emu:gfx1100", &["-n", "1"], &[("HRX_EMU_MEMORY", "16")]);
    let error = run.error();
    assert!(error.contains("emu:gfx1100: hipHostMalloc failed: hipErrorOutOfMemory (2)"), "{error}");
}

/// Each token's products read codes of 8 bits; the prompt's tiles are of f32.
#[test]
fn activations_of_8_bits_are_taken_by_a_gpu_too() {
    let run = on("emu:gfx1100", &["--activations", "q8", "-n", "3"], &[]);
    let said = run.err.clone();
    assert!(!run.text().is_empty(), "{said}");
    assert!(!said.contains("gfx-emu"), "a report of the emulator: {said}");
}

#[test]
fn an_explanation_says_what_a_device_has_no_room_for() {
    let explain = |more: &[&str], memory: &str| {
        let args = [&["--explain", "--device", "emu:gfx1100"], more].concat();
        ran(prepared(command(&small(), &args)).env("HRX_EMU_MEMORY", memory)).text()
    };
    let fits = explain(&["-c", "64"], "64");
    assert!(fits.contains("copied to the device") && fits.contains("  fits: "), "{fits}");
    let text = explain(&["-c", "1000000"], "64");
    assert!(text.contains("does not fit: weights take ") && text.contains(" tokens would fit"), "{text}");
}
