//! The CUDA device, on a library that writes down what it is told: the calls, their order and arguments, errors, what is
//! given back at the end. What kernels compute is for a GPU to say.

use hrx::device::cuda::{self, Library};
use hrx::device::{Arg, Buffer, Device, DeviceError, GpuDevice, Launch, Var};
use hrx::exec::Warn;
use hrx::ir::tile::{Kernel, parse_kernel};
use hrx::{CallableKernel, KernelArg, KernelStore};
use hrx_cache::{Cache, CacheOptions};
use std::ffi::{CString, c_char, c_int, c_uint};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Adds a scalar to each of `v0` rows of a matrix whose rows lie `v1` elements apart.
const ADD: &str = "
    kernel @add(v0: i32, v1: i32, v2: f32, m0: inout f32[v0, 32] strides [v1, 1]) grid (v0, 1, 1) ids (v3, v4, v5) {
      v6: i32 = const 0
      v7: f32[1, 32] = load m0[v3, v6]
      v8: f32[1, 32] = broadcast v2
      v9: f32[1, 32] = add v7, v8
      store m0[v3, v6], v9
    }";

fn add() -> Kernel {
    parse_kernel(ADD).expect("a kernel")
}

/// The library, and control of it. It has one state, so tests take turns.
struct Fake {
    library: libloading::Library,
    said: Arc<Mutex<Vec<String>>>,
    _turn: MutexGuard<'static, ()>,
}

/// Where cargo puts it: beside this program.
fn path() -> PathBuf {
    let program = std::env::current_exe().expect("a program");
    let path = program.with_file_name("libfake_cuda.so");
    assert!(path.is_file(), "{} is not there", path.display());
    path
}

impl Fake {
    fn new() -> Fake {
        static TURN: OnceLock<Mutex<()>> = OnceLock::new();
        let turn = TURN.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: the library is this repository's.
        let library = unsafe { libloading::Library::new(path()) }.expect("the library");
        // SAFETY: the type is the function's.
        unsafe { library.get::<extern "C" fn()>(b"fakeCudaReset\0").expect("a function")() };
        Fake { library, said: Arc::default(), _turn: turn }
    }

    fn set(&self, version: i32, devices: i32, [major, minor]: [i32; 2], memory: usize) {
        type Set = extern "C" fn(c_int, c_int, c_int, c_int, usize);
        // SAFETY: the type is the function's.
        let set = unsafe { self.library.get::<Set>(b"fakeCudaSet\0").expect("a function") };
        set(version, devices, major, minor, memory);
    }

    fn fail(&self, call: &str, number: u32, status: i32) {
        type Fail = unsafe extern "C" fn(*const c_char, c_uint, c_int);
        let call = CString::new(call).expect("a name");
        // SAFETY: the type is the function's, the name ends with 0.
        unsafe { self.library.get::<Fail>(b"fakeCudaFail\0").expect("a function")(call.as_ptr(), number, status) };
    }

    /// The calls since the last time; the last line says what is held.
    fn calls(&self) -> Vec<String> {
        type Calls = unsafe extern "C" fn(*mut u8, usize) -> usize;
        let mut text = vec![0u8; 1 << 20];
        // SAFETY: the type is the function's, the room as long as is said.
        let n = unsafe {
            self.library.get::<Calls>(b"fakeCudaCalls\0").expect("a function")(text.as_mut_ptr(), text.len())
        };
        text.truncate(n);
        String::from_utf8(text).expect("text").lines().map(String::from).collect()
    }

    fn warn(&self) -> Warn {
        let said = Arc::clone(&self.said);
        Arc::new(move |text: &str| said.lock().expect("not poisoned").push(text.into()))
    }

    fn open(&self) -> Result<GpuDevice, DeviceError> {
        let library = Library::open_at(&path()).expect("the library");
        let found = cuda::found::found(&library).expect("listed");
        cuda::device(Arc::new(library), &found[0], &self.warn())
    }

    fn device(&self) -> GpuDevice {
        self.open().expect("a device")
    }

    fn error(&self) -> String {
        self.open().err().map(|e| e.to_string()).expect("refused")
    }
}

fn object(kernel: &Kernel, device: &dyn Device) -> Vec<u8> {
    hrx::compiler::compile(kernel, device.target()).expect("compiles").object
}

fn count(calls: &[String], start: &str) -> usize {
    calls.iter().filter(|c| c.starts_with(start)).count()
}

#[test]
fn it_says_what_it_is() {
    let fake = Fake::new();
    let device = fake.device();
    let info = device.info();
    assert_eq!(info.name, "cuda:0");
    assert!(info.description.starts_with("Fake GPU 0 (compute capability 9.0), CUDA 12.8 from "), "{info:?}");
    assert_eq!((info.memory, info.free), (1 << 30, 1 << 30));
    assert_eq!(device.target().name(), "sm_90");
    assert!(device.copies_data());
}

#[test]
fn devices_that_cannot_be_used_say_why() {
    let fake = Fake::new();
    fake.set(11_040, 1, [8, 0], 1 << 30);
    assert_eq!(
        fake.error(),
        "cuda:0 can't be used: the driver is for CUDA 11.4, which is too old: 12.0 or later is wanted"
    );
    fake.set(12_040, 1, [7, 5], 1 << 30);
    assert_eq!(fake.error(), "cuda:0 can't be used: no code is generated for compute capability 7.5");
    fake.set(12_040, 0, [7, 5], 1 << 30);
    let library = Library::open_at(&path()).expect("the library");
    assert_eq!(cuda::found::found(&library), Ok(Vec::new()));
    // A GPU that is newer than any that is known runs the code of the newest known.
    fake.set(13_010, 2, [99, 0], 1 << 30);
    let found = cuda::found::found(&library).expect("listed");
    assert_eq!((found.len(), found[1].name.as_str(), found[1].pci.as_str()), (2, "Fake GPU 1", "0000:01:00.0"));
    assert!(found[0].chip.is_some());
    for (call, status, words) in [
        ("cuDevicePrimaryCtxRetain", 2, "cuDevicePrimaryCtxRetain failed: CUDA_ERROR_OUT_OF_MEMORY (2): in words"),
        ("cuStreamCreate", 4711, "cuStreamCreate failed: unknown (4711): unknown"),
    ] {
        fake.fail(call, 1, status);
        let error = fake.error();
        assert_eq!(error, format!("cuda:0: {words}"));
    }
}

/// Names are looked up with the library of the environment, which is a process' own: this test is run in one.
#[test]
#[ignore = "run by the next, with the variable"]
fn auto_in_the_environment() {
    let fake = Fake::new();
    let name = || hrx::device::open_device("auto", 1, &fake.warn()).expect("a device").info().name;
    assert_eq!(name(), "cuda:0");
    assert!(fake.said.lock().expect("not poisoned").is_empty());
    fake.set(11_040, 1, [9, 0], 1 << 30);
    assert_eq!(name(), "cpu");
    let said = std::mem::take(&mut *fake.said.lock().expect("not poisoned"));
    assert!(said.len() == 1 && said[0].ends_with("or later is wanted; the CPU is used instead"), "{said:?}");
    for devices in [0, 1] {
        fake.set(12_080, devices, [7, 0], 1 << 30);
        assert_eq!(name(), "cpu");
    }
    assert!(fake.said.lock().expect("not poisoned").is_empty());
    let listed = hrx::device::devices(1);
    let old = "Fake GPU 0 (compute capability 7.0, 132 multiprocessors), PCI 0000:00:00.0, 1024 MiB of memory; \
               no code is generated for this processor";
    assert!(listed.iter().any(|d| d.name.is_none() && d.description == old), "{listed:?}");
    let open =
        |name: &str| hrx::device::open_device(name, 1, &fake.warn()).err().map(|e| e.to_string()).expect("refused");
    let e = open("cuda:3");
    assert!(e.starts_with("cuda:3 can't be used: there is no cuda:3: cuda:0 is Fake GPU 0"), "{e}");
    assert!(open("cuda:x").starts_with("no device cuda:x; there are: auto; cpu; "));
}

#[test]
fn auto_takes_what_can_be_used() {
    let test = std::env::current_exe().expect("a path");
    let mut command = std::process::Command::new(test);
    command.args(["--exact", "auto_in_the_environment", "--ignored", "--nocapture"]).env("HRX_CUDA_LIBRARY", path());
    let output = command.output().expect("runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
}

#[test]
fn everything_is_given_back() {
    let fake = Fake::new();
    {
        let device = fake.device();
        let kernel = add();
        let id = device.load(&kernel, &object(&kernel, &device)).expect("loads");
        let buffer = device.alloc(4 * 32 * 4, "a matrix").expect("memory");
        let args = vec![Arg::Var(Var(0)), Arg::I32(32), Arg::F32(1.0), Arg::Buffer(buffer.clone())];
        // SAFETY: there are four rows, and no replay is of more.
        let mut recorded = unsafe { device.record(vec![vec![Launch { kernel: id, args }]]).expect("recorded") };
        recorded.replay(&[4]).expect("replayed");
        recorded.replay(&[4]).expect("captured");
        device.write(&buffer, 0, &[1; 512]).expect("written");
        assert!(fake.calls().last().is_some_and(|held| held.starts_with("held: 1 ")));
        drop((device, buffer));
        // What has been recorded holds what it uses.
        recorded.replay(&[4]).expect("replayed");
        assert!(fake.calls().last().is_some_and(|held| held.starts_with("held: 1 ")));
    }
    assert_eq!(fake.calls().last().map(String::as_str), Some("held: 0 [0, 0, 0, 0, 0, 0]"));
}

#[test]
fn memory_is_zeroed_copied_and_checked() {
    let fake = Fake::new();
    let device = fake.device();
    let len = (20 << 20) + 12_345u64;
    let buffer = device.alloc(len, "a test").expect("memory");
    let mut read = vec![1; len as usize];
    device.read(&buffer, 0, &mut read).expect("read");
    assert!(read.iter().all(|&b| b == 0));
    let bytes: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
    device.write(&buffer, 0, &bytes).expect("written");
    let copy = device.alloc(100, "a copy").expect("memory");
    device.copy(&buffer.part(12_345_678, 100), &copy).expect("copied");
    let mut part = [0; 100];
    device.read(&copy, 0, &mut part).expect("read");
    assert_eq!(part, bytes[12_345_678..][..100]);
    // Code may read a little behind a view: allocations have room for that.
    fake.calls();
    for (bytes, room) in [(0, 256), (1, 256), (240, 256), (241, 512)] {
        device.alloc(bytes, "a test").expect("memory");
        assert!(fake.calls().contains(&format!("cuMemAlloc {room}")));
    }
    let error = device.alloc(2 << 30, "too much").err().map(|e| e.to_string()).expect("refused");
    assert!(error.starts_with("cuda:0: no memory for 2147483648 bytes (too much): cuMemAlloc failed: "), "{error}");
    assert!(error.ends_with(" bytes are free"), "{error}");
}

#[test]
fn arguments_grids_and_graphs() {
    let fake = Fake::new();
    let device = fake.device();
    let kernel = add();
    let id = device.load(&kernel, &object(&kernel, &device)).expect("loads");
    let buffer = device.alloc(4 * 32 * 4, "a matrix").expect("memory");
    let args = |x: f32| vec![Arg::Var(Var(0)), Arg::I32(32), Arg::F32(x), Arg::Buffer(buffer.clone())];
    let launch = |x| Launch { kernel: id, args: args(x) };
    // SAFETY: there are four rows, and no replay is of more.
    let mut recorded = unsafe { device.record(vec![vec![launch(1.0)], vec![launch(0.25)]]).expect("recorded") };
    let address = buffer.address().to_le_bytes().map(|b| format!("{b:02x}")).concat();
    let line = |rows: u32, x: &str| {
        format!("add grid {rows},1,1 block 32,1,1 shared 0 args {rows:02x}00000020000000{x}00000000{address}")
    };
    let (one, quarter) = ("0000803f", "0000803e");
    let launched = |rows| [one, quarter].map(|x| format!("cuLaunchKernel {}", line(rows, x)));
    let mut replay = |rows: i32| {
        fake.calls();
        recorded.replay(&[rows]).expect("replayed");
        fake.calls()
    };
    assert_eq!(replay(1)[..2], launched(1));
    assert_eq!(replay(3)[..2], launched(3));
    // The second with the same variables captures.
    let calls = replay(3);
    let begin = calls.iter().position(|c| c == "cuStreamBeginCapture").expect("captured");
    let calls = &calls[begin..];
    assert_eq!(calls[1..3], launched(3));
    let graph = [one, quarter].map(|x| format!("  graph: {}", line(3, x)));
    let rest = ["cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphDestroy", "cuGraphLaunch"];
    assert_eq!(calls[3..7], rest);
    assert_eq!(calls[7..9], graph);
    assert_eq!(replay(3)[..3], [vec!["cuGraphLaunch".to_owned()], graph.to_vec()].concat());
    let ended = ["cuStreamSynchronize", "cuGraphExecDestroy"].map(String::from);
    assert_eq!(replay(2)[..4], [ended, launched(2)].concat());
    // Nothing to do is nothing launched.
    assert_eq!(count(&replay(0), "cuLaunchKernel"), 0);
    assert!(fake.said.lock().expect("not poisoned").is_empty());
    let e = recorded.replay(&[i32::MAX]).expect_err("refused").to_string();
    assert!(e.starts_with("kernel add: argument 3 is a view of "), "{e}");
}

#[test]
fn launches_of_one_stage_are_branches_of_a_graph() {
    let fake = Fake::new();
    let device = fake.device();
    let kernel = add();
    let id = device.load(&kernel, &object(&kernel, &device)).expect("loads");
    let buffers: Vec<Buffer> = (0..6).map(|_| device.alloc(512, "a matrix").expect("memory")).collect();
    let launch = |i: usize| Launch {
        kernel: id,
        args: vec![Arg::Var(Var(0)), Arg::I32(32), Arg::F32(1.0), Arg::Buffer(buffers[i].clone())],
    };
    let stages = vec![vec![launch(0)], (1..6).map(launch).collect(), vec![launch(0)]];
    // SAFETY: there are four rows, and no replay is of more; launches have buffers of their own.
    let mut recorded = unsafe { device.record(stages).expect("recorded") };
    recorded.replay(&[4]).expect("replayed");
    fake.calls();
    recorded.replay(&[4]).expect("captured");
    let calls = fake.calls();
    let from = calls.iter().position(|c| c == "cuStreamBeginCapture").expect("captured");
    let to = calls.iter().position(|c| c == "cuStreamEndCapture").expect("captured");
    let short: Vec<&str> = calls[from + 1..to]
        .iter()
        .map(|c| match c.split_once(" in stream ") {
            Some((_, number)) => number,
            None if c.starts_with("cuLaunchKernel") => "0",
            None => c.trim_start_matches("cu"),
        })
        .collect();
    let fork = ["EventRecord", "StreamWaitEvent", "StreamWaitEvent", "StreamWaitEvent"];
    let join = ["EventRecord", "StreamWaitEvent"].repeat(3);
    let wanted = [&["0"][..], &fork, &["0", "1", "2", "3", "0"], &join, &["0"]].concat();
    assert_eq!(short, wanted);
    drop((recorded, buffers, device));
    assert_eq!(fake.calls().last().map(String::as_str), Some("held: 0 [0, 0, 0, 0, 0, 0]"));
}

#[test]
fn profiles_have_events_around_each_launch() {
    let fake = Fake::new();
    let device = fake.device();
    let kernel = add();
    let id = device.load(&kernel, &object(&kernel, &device)).expect("loads");
    let buffer = device.alloc(512, "a matrix").expect("memory");
    let launch = || Launch {
        kernel: id,
        args: vec![Arg::Var(Var(0)), Arg::I32(32), Arg::F32(1.0), Arg::Buffer(buffer.clone())],
    };
    // SAFETY: there are four rows, and no replay is of more.
    let mut recorded = unsafe { device.record(vec![vec![launch()], vec![launch(), launch()]]).expect("recorded") };
    // A graph that there is stays.
    recorded.replay(&[4]).expect("replayed");
    recorded.replay(&[4]).expect("captured");
    fake.calls();
    let times = recorded.profile(&[4]).expect("profiled");
    // The library's time is one microsecond a call: a launch lies between two events, so it takes two, less the one that two
    // events take with nothing between.
    let micros = |d: std::time::Duration| (d.as_secs_f64() * 1e6).round() as u64;
    let seen: Vec<_> =
        times.iter().map(|t| (t.kernel.as_str(), t.stage, t.programs, micros(t.start), micros(t.end))).collect();
    assert_eq!(seen, [("add", 0, 4, 0, 1), ("add", 1, 4, 3, 4), ("add", 1, 4, 6, 7)]);
    let calls = fake.calls();
    assert_eq!((count(&calls, "cuLaunchKernel"), count(&calls, "cuGraphLaunch")), (3, 0));
    // Events are given back, but for those of copies.
    assert_eq!(count(&calls, "cuEventCreate"), count(&calls, "cuEventDestroy"));
    recorded.start(&[4]).expect("started");
    let calls = fake.calls();
    assert_eq!((count(&calls, "cuGraphLaunch"), count(&calls, "cuStreamSynchronize")), (1, 0));
}

#[test]
fn a_driver_that_cannot_capture_gets_launches() {
    let fake = Fake::new();
    let device = fake.device();
    let kernel = add();
    let id = device.load(&kernel, &object(&kernel, &device)).expect("loads");
    let buffer = device.alloc(512, "a matrix").expect("memory");
    let args = vec![Arg::Var(Var(0)), Arg::I32(32), Arg::F32(1.0), Arg::Buffer(buffer)];
    // SAFETY: there are four rows, and no replay is of more.
    let mut recorded = unsafe { device.record(vec![vec![Launch { kernel: id, args }]]).expect("recorded") };
    fake.fail("cuGraphInstantiateWithFlags", 1, 1);
    for _ in 0..4 {
        fake.calls();
        recorded.replay(&[4]).expect("replayed");
        assert!(count(&fake.calls(), "cuLaunchKernel") >= 1);
    }
    let said = fake.said.lock().expect("not poisoned").clone();
    let wanted = "kernels are launched one by one, without a graph: cuda:0: cuGraphInstantiateWithFlags failed: ";
    assert!(said.len() == 1 && said[0].starts_with(wanted), "{said:?}");
    fake.fail("cuLaunchKernel", 1, 700);
    let e = recorded.replay(&[4]).expect_err("failed").to_string();
    assert_eq!(e, "cuda:0: cuLaunchKernel failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): in words");
}

#[test]
fn code_that_the_driver_refuses_is_said_with_its_log() {
    let fake = Fake::new();
    let device = fake.device();
    let kernel = add();
    let object = object(&kernel, &device);
    let other = parse_kernel(&ADD.replace("@add", "@sub")).expect("a kernel");
    let e = |done: Result<_, DeviceError>| done.err().map(|e| e.to_string()).expect("refused");
    assert_eq!(e(device.load(&other, &object)), "kernel sub: its PTX does not have it");
    fake.fail("cuLinkAddData", 1, 222);
    let error = e(device.load(&kernel, &object));
    let wanted = "kernel add: the driver does not assemble its code: cuLinkAddData failed: \
                  CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222): in words (the driver is for CUDA 12.8, and the code for a later one)";
    assert_eq!(error, wanted);
    fake.fail("cuLinkComplete", 1, 1);
    let error = e(device.load(&kernel, &object));
    assert!(error.starts_with("kernel add: the driver does not assemble its code: cuLinkComplete failed: "), "{error}");
    // Whatever fails, the link is ended.
    assert!(fake.calls().last().is_some_and(|held| held.ends_with(", 0]")));
    device.load(&kernel, &object).expect("loads");
}

#[test]
fn machine_code_is_kept_and_not_assembled_twice() {
    let fake = Fake::new();
    let dir = tempfile::tempdir().expect("a folder");
    let run = || {
        fake.calls();
        let cache = Cache::open(CacheOptions::at(dir.path())).expect("a cache");
        let store = KernelStore::new(Arc::new(fake.device()), cache, fake.warn());
        let kernel = CallableKernel::from_text(&store, ADD).expect("loads");
        let mut rows = [0f32; 64];
        let args = [KernelArg::i32(2), KernelArg::i32(32), KernelArg::f32(1.0), KernelArg::write(&mut rows[..])];
        // SAFETY: programs stay in their rows.
        unsafe { kernel.launch(args).expect("runs") };
        let (report, stats) = (store.reports().remove(0), store.stats());
        (count(&fake.calls(), "cuLinkComplete"), report.compile.is_some(), report.assemble.is_some(), stats.hits)
    };
    assert_eq!(run(), (1, true, true, 0));
    assert_eq!(run(), (0, false, false, 1));
    // Another driver's machine code is not taken.
    fake.set(12_090, 1, [9, 0], 1 << 30);
    assert_eq!(run(), (1, false, true, 1));
    assert_eq!(run(), (0, false, false, 1));
    // What the device refuses is assembled again, and said.
    fake.fail("cuModuleLoadData", 1, 209);
    assert_eq!(run().0, 1);
    let said = fake.said.lock().expect("not poisoned").clone();
    assert!(
        said.len() == 1 && said[0].contains("machine code of add from the cache: cuda:0: cuModuleLoadData"),
        "{said:?}"
    );
}

#[test]
fn buffers_outlive_their_device() {
    let fake = Fake::new();
    let buffer: Buffer = fake.device().alloc(10, "a test").expect("memory");
    assert!(fake.calls().last().is_some_and(|held| held.starts_with("held: 1 [1, 1,")));
    drop(buffer);
    assert_eq!(fake.calls().last().map(String::as_str), Some("held: 0 [0, 0, 0, 0, 0, 0]"));
}
