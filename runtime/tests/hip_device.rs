//! The HIP device, on the emulator's library: memory, code objects, arguments, launches, graphs, and what it refuses.
//! A process emulates one chip; the emulator of another is a test of its own.

use hrx::device::{Arg, Device, DeviceError, Launch, Var, open_device};
use hrx::exec::Warn;
use hrx::ir::tile::{Kernel, parse_kernel};
use hrx::{CallableKernel, KernelArg, KernelStore, QuantMatmul};
use std::sync::{Arc, Mutex, OnceLock};

/// Adds a scalar to each of `v0` rows of a matrix whose rows lie `v1` elements apart.
const ADD: &str = "
    kernel @add(v0: i32, v1: i32, v2: f32, m0: inout f32[v0, 32] strides [v1, 1]) grid (v0, 1, 1) ids (v3, v4, v5) {
      v6: i32 = const 0
      v7: f32[1, 32] = load m0[v3, v6]
      v8: f32[1, 32] = broadcast v2
      v9: f32[1, 32] = add v7, v8
      store m0[v3, v6], v9
    }";

/// What the devices warned of.
fn warnings() -> &'static Mutex<Vec<String>> {
    static SAID: OnceLock<Mutex<Vec<String>>> = OnceLock::new();
    SAID.get_or_init(Mutex::default)
}

fn warn() -> Warn {
    Arc::new(|text: &str| warnings().lock().expect("not poisoned").push(text.into()))
}

fn device() -> Arc<dyn Device> {
    open_device("emu:gfx1100", 0, &warn()).expect("the emulator")
}

fn store(device: Arc<dyn Device>) -> KernelStore {
    KernelStore::new(device, hrx_cache::Cache::disabled(), warn())
}

fn cpu() -> KernelStore {
    store(open_device("cpu", 1, &warn()).expect("a CPU"))
}

fn add() -> Kernel {
    parse_kernel(ADD).expect("a kernel")
}

#[test]
fn it_says_what_it_is() {
    let info = device().info();
    assert_eq!(info.name, "emu:gfx1100");
    let wanted = "emulated gfx1100 (gfx1100), HIP 6.4.0 from ";
    assert!(info.description.starts_with(wanted) && info.description.ends_with("libamdhip64.so"), "{info:?}");
    assert!(info.free > 0 && info.free <= info.memory, "{info:?}");
    assert_eq!(device().target().name(), "gfx1100");
    assert!(device().copies_data());
}

#[test]
fn memory_is_zeroed_and_keeps_what_is_written() {
    let device = device();
    // Longer than all buffers on the way together.
    let len = (20 << 20) + 12_345u64;
    let buffer = device.alloc(len, "a test").expect("memory");
    let mut read = vec![1; len as usize];
    device.read(&buffer, 0, &mut read).expect("read");
    assert!(read.iter().all(|&b| b == 0));
    let bytes: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
    device.write(&buffer, 0, &bytes).expect("written");
    device.write(&buffer, 7, &[1, 2, 3]).expect("written");
    device.write(&buffer, len, &[]).expect("nothing written");
    device.read(&buffer, 0, &mut read).expect("read");
    assert!(read[..7] == bytes[..7] && read[7..10] == [1, 2, 3] && read[10..] == bytes[10..]);
    let mut part = [0; 5];
    device.read(&buffer.part(4, 20), 1, &mut part).expect("read");
    assert_eq!(part, [bytes[5], bytes[6], 1, 2, 3]);
    assert_eq!(device.alloc(0, "nothing").expect("memory").len(), 0);
}

#[test]
fn kernels_compute_what_the_host_computes() {
    let (emulated, host) = (store(device()), cpu());
    let mut results = [vec![0f32; 5 * 40], vec![0f32; 5 * 40]];
    for (store, y) in [&emulated, &host].into_iter().zip(&mut results) {
        y.iter_mut().enumerate().for_each(|(i, y)| *y = i as f32);
        let kernel = CallableKernel::from_text(store, ADD).expect("compiles");
        let args = [KernelArg::i32(5), KernelArg::i32(40), KernelArg::f32(0.5), KernelArg::write(&mut y[..])];
        // SAFETY: programs stay in their rows.
        unsafe { kernel.launch(args).expect("runs") };
    }
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0][38..42], [38.0, 39.0, 40.5, 41.5]);

    let x: Vec<f32> = (0..3 * 256).map(|i| (i % 17) as f32 / 8.0 - 1.0).collect();
    let mut products = [[0f32; 3 * 40], [0f32; 3 * 40]];
    for (store, y) in [&emulated, &host].into_iter().zip(&mut products) {
        let matmul = QuantMatmul::new(store, "Q8_0", 40, 256).expect("supported");
        // Each block: a scale of 1/2, and bytes.
        let block = |b: usize| [&[0x00, 0x38][..], &std::array::from_fn::<u8, 32, _>(|i| (i * 7 + b) as u8)].concat();
        let weights: Vec<u8> = (0..40 * 8).flat_map(block).collect();
        matmul.run(&weights, &x, y).expect("runs");
    }
    let most = products[1].iter().fold(0f32, |m, y| m.max(y.abs()));
    for (a, b) in products[0].iter().zip(&products[1]) {
        // The host's rows are rounded to 8 bits, the matrix unit's to f16.
        assert!((a - b).abs() <= 1e-2 * most, "{a} {b}");
    }
}

#[test]
fn replays_take_new_variables_and_graphs_the_same() {
    let device = device();
    let kernel = add();
    let object = hrx::compiler::compile(&kernel, device.target()).expect("compiles").object;
    let id = device.load(&kernel, &object).expect("loads");
    let buffer = device.alloc(4 * 32 * 4, "a matrix").expect("memory");
    let launch = |x: f32| Launch {
        kernel: id,
        args: vec![Arg::Var(Var(0)), Arg::I32(32), Arg::F32(x), Arg::Buffer(buffer.clone())],
    };
    let stages = vec![vec![launch(1.0)], vec![launch(0.25)]];
    // SAFETY: there are four rows, and no replay is of more.
    let mut recorded = unsafe { device.record(stages).expect("recorded") };
    let mut wanted = [0f32; 4];
    // The second of three equal ones captures a graph, which the third replays.
    for rows in [1, 3, 3, 3, 3, 2, 0, 0, 4, 4] {
        recorded.replay(&[rows]).expect("replayed");
        wanted[..rows as usize].iter_mut().for_each(|x| *x += 1.25);
        let mut bytes = [0; 4 * 32 * 4];
        device.read(&buffer, 0, &mut bytes).expect("read");
        let (words, _) = bytes.as_chunks::<4>();
        let got: Vec<f32> = words.iter().map(|w| f32::from_le_bytes(*w)).collect();
        for (row, x) in got.chunks(32).zip(wanted) {
            assert!(row.iter().all(|&y| y == x), "{rows}: {row:?} {x}");
        }
    }
    assert!(warnings().lock().expect("not poisoned").is_empty(), "graphs are there");
    let e = recorded.replay(&[]).expect_err("no variable").to_string();
    assert_eq!(e, "kernel add: the replay sets no variable 0");
    recorded.replay(&[1]).expect("goes on");
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = device();
    let kernel = add();
    let object = hrx::compiler::compile(&kernel, device.target()).expect("compiles").object;
    let id = device.load(&kernel, &object).expect("loads");
    let buffer = device.alloc(4 * 32, "a row").expect("memory");
    let record = |args: Vec<Arg>| {
        // SAFETY: nothing of it runs but what is refused.
        unsafe { device.record(vec![vec![Launch { kernel: id, args }]]) }
    };
    let good = |stride: i32| vec![Arg::Var(Var(0)), Arg::I32(stride), Arg::F32(1.0), Arg::Buffer(buffer.clone())];
    let refused = |done: Result<_, DeviceError>| done.err().map(|e| e.to_string()).expect("refused");
    let e = refused(record(good(32)[..3].to_vec()).map(drop));
    assert_eq!(e, "kernel add: it takes 4 arguments, not 3");
    let e = refused(record(vec![Arg::Buffer(buffer.clone()); 4]).map(drop));
    assert!(e.starts_with("kernel add: argument 0 is Buffer(Buffer(128 bytes))"), "{e}");
    let mut far = record(good(i32::MAX)).expect("recorded");
    let e = refused(far.replay(&[2]));
    assert!(e.starts_with("kernel add: argument 3 is a view of 8589934716 bytes; its code reaches "), "{e}");
    let mut near = record(good(0)).expect("recorded");
    let e = refused(near.replay(&[i32::MAX]));
    assert_eq!(e, "kernel add: a grid of [2147483647, 1, 1] workgroups of 32 lanes");
    let unknown = Launch { kernel: hrx::device::KernelId(99), args: Vec::new() };
    // SAFETY: it is refused.
    let e = refused(unsafe { device.record(vec![vec![unknown]]) }.map(drop));
    assert_eq!(e, "kernel #99: it was not loaded on this device");
}

#[test]
fn objects_of_other_kernels_and_chips_are_refused() {
    let device = device();
    let compile = |text: &str, target: &str| {
        let target = hrx::compiler::Target::from_name(target).expect("a target");
        hrx::compiler::compile(&parse_kernel(text).expect("a kernel"), &target).expect("compiles").object
    };
    let load = |text: &str, object: &[u8]| {
        let kernel = parse_kernel(text).expect("a kernel");
        device.load(&kernel, object).err().map(|e| e.to_string()).expect("refused")
    };
    let object = compile(ADD, "gfx1100");
    assert_eq!(load(&ADD.replace("@add", "@sub"), &object), "kernel sub: its code object does not have it");
    let other = ADD
        .replace("v2: f32, ", "")
        .replace("broadcast v2", "broadcast v6")
        .replace("f32[1, 32] = broadcast", "i32[1, 32] = broadcast");
    let one = other.replace("add v7, v8", "add v7, v7");
    assert_eq!(load(&one, &object), "kernel add: its code takes 4 arguments, not 3");
    let wave64 = compile(ADD, "gfx942");
    assert_eq!(load(ADD, &wave64), "kernel add: its code is for waves of 64 lanes, the chip's are of 32");
    let other_chip = compile(ADD, "gfx1201");
    let e = load(ADD, &other_chip);
    assert!(e.starts_with("emu:gfx1100: hipModuleLoadData failed: hipErrorInvalidImage (200): "), "{e}");
    let e = load(ADD, &object[..object.len() / 2]);
    assert!(e.starts_with("kernel add: "), "{e}");
}

#[test]
fn a_process_emulates_one_chip() {
    let _first = device();
    let e = open_device("emu:gfx942", 0, &warn()).err().map(|e| e.to_string());
    let e = e.expect("refused");
    assert!(e.starts_with("emu:gfx942 can't be used: ") && e.contains("gfxEmuSetChip failed"), "{e}");
}
