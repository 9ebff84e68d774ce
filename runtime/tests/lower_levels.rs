//! Kernels and quantised products called on the caller's memory: results, and what is refused.

use hrx::device::{Buffer, Cpu, Device, DeviceError, DeviceInfo, KernelId, Launch, Recorded};
use hrx::{CacheChoice, CallableKernel, Error, KernelArg, KernelStore, ModelOptions, QuantMatmul};
use std::sync::Arc;

fn store(threads: usize) -> KernelStore {
    let options = ModelOptions { threads, cache: CacheChoice::Disabled, ..ModelOptions::default() };
    KernelStore::open(&options).expect("a CPU")
}

const SCALE: &str = "
    kernel @scale(v0: i32, v1: f32, m0: in f16[v0, 4] strides [8, 1], m1: inout f32[v0, 4])
        grid (v0, 1, 1) ids (v2, v3, v4) {
      v5: i32 = const 0
      v6: f16[1, 4] = load m0[v2, v5]
      v7: f32[1, 4] = convert v6
      v8: f32[1, 4] = broadcast v1
      v9: f32[1, 4] = mul v7, v8
      v10: f32[1, 4] = load m1[v2, v5]
      v11: f32[1, 4] = add v9, v10
      store m1[v2, v5], v11
    }";

#[test]
fn a_kernel_reads_and_writes_the_callers_slices() {
    let kernel = CallableKernel::from_text(&store(2), SCALE).expect("compiles");
    // Two rows 8 apart: the last one ends at element 12.
    let x: Vec<half::f16> = (0..12).map(|i| half::f16::from_f32(i as f32)).collect();
    let mut y = [100f32; 9];
    let args = [KernelArg::i32(2), KernelArg::f32(0.5), KernelArg::read(&x), KernelArg::write(&mut y)];
    // SAFETY: programs stay in their rows.
    unsafe { kernel.launch(args).expect("runs") };
    assert_eq!(y, [100.0, 100.5, 101.0, 101.5, 104.0, 104.5, 105.0, 105.5, 100.0]);
}

#[test]
fn arguments_that_do_not_fit_are_refused_before_anything_runs() {
    let kernel = CallableKernel::from_text(&store(1), SCALE).expect("compiles");
    let x = [half::f16::ONE; 12];
    let wrong = [0f32; 12];
    let mut y = [7f32; 8];
    let mut refused = |args: &mut dyn FnMut(&mut [f32]) -> Result<(), Error>, reason: &str| {
        let message = args(&mut y).expect_err(reason).to_string();
        assert_eq!(message, format!("kernel scale: {reason}"));
        assert_eq!(y, [7.0; 8], "{reason}");
    };
    let (n, s) = (KernelArg::i32, KernelArg::f32);
    macro_rules! refuse {
        ($reason:literal, |$y:ident| [$($arg:expr),*]) => {
            // SAFETY: programs stay in their rows; if it ran.
            refused(&mut |$y| unsafe { kernel.launch([$($arg),*]) }, $reason)
        };
    }
    refuse!("it takes 4 arguments, not 3", |_y| [n(2), s(1.0), KernelArg::read(&x)]);
    refuse!("argument 2 has 22 bytes, its view takes 24", |y| [
        n(2),
        s(1.0),
        KernelArg::read(&x[1..]),
        KernelArg::write(y)
    ]);
    refuse!("argument 2 has 24 bytes, its view takes 40", |y| [n(3), s(1.0), KernelArg::read(&x), KernelArg::write(y)]);
    refuse!("argument 2: an extent of its view is -1", |y| [n(-1), s(1.0), KernelArg::read(&x), KernelArg::write(y)]);
    refuse!("argument 0 is the f32 2, the parameter the scalar i32", |y| [
        s(2.0),
        s(1.0),
        KernelArg::read(&x),
        KernelArg::write(y)
    ]);
    refuse!("argument 2 is a shared slice of f32, the parameter a view of f16", |y| [
        n(2),
        s(1.0),
        KernelArg::read(&wrong),
        KernelArg::write(y)
    ]);
    refuse!("argument 3 is a shared slice of f32, the parameter an inout view", |_y| [
        n(2),
        s(1.0),
        KernelArg::read(&x),
        KernelArg::read(&wrong)
    ]);
    refuse!("argument 2 is the i32 1, the parameter an in view", |y| [n(2), s(1.0), n(1), KernelArg::write(y)]);
    // Nothing is asked of the slices of an empty launch.
    let none: [half::f16; 0] = [];
    // SAFETY: there are no programs.
    unsafe { kernel.launch([n(0), s(1.0), KernelArg::read(&none), KernelArg::write(&mut [0f32; 0])]).expect("runs") };
}

#[test]
fn texts_that_are_no_kernel_are_refused() {
    let store = store(1);
    let message = |text| CallableKernel::from_text(&store, text).err().expect("refused").to_string();
    assert!(message("kernel @k(v0: i33) {}").starts_with("tile IR: line 1, column 15: expected an element type"));
    let unsound = "kernel @k(m0: in f32[4]) { v0: i32 = const 0 v1: f32[4] = const 1.0 store m0[v0], v1 }";
    assert!(message(unsound).contains("m0"), "{}", message(unsound));
}

/// Weights whose float16 scales are all finite.
fn weights(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|i| ((i * 2_654_435_761) >> 16) as u8 % 60).collect()
}

fn rows(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.61).sin()).collect()
}

#[test]
fn a_row_of_a_product_depends_on_nothing_but_itself() {
    let (n, k) = (40, 256);
    let expected: Vec<Vec<u32>> = ["Q4_K", "Q5_0", "f16"]
        .iter()
        .map(|format| {
            let one = QuantMatmul::new(&store(1), format, n, k).expect("supported");
            let weights = weights(one.weight_bytes());
            // More rows than one launch takes.
            let x = rows(600 * k as usize);
            let mut single = vec![0f32; 600 * n as usize];
            for (x, y) in x.chunks(k as usize).zip(single.chunks_mut(n as usize)) {
                one.run(&weights, x, y).expect("runs");
            }
            let mut all = vec![0f32; 600 * n as usize];
            let many = QuantMatmul::new(&store(3), format, n, k).expect("supported");
            many.run(&weights, &x, &mut all).expect("runs");
            let bits = |y: &[f32]| y.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&single), bits(&all), "{format}");
            // Any alignment will do.
            let shifted = [&[0u8][..], &weights].concat();
            many.run(&shifted[1..], &x, &mut all).expect("runs");
            assert_eq!(bits(&single), bits(&all), "{format}");
            bits(&single)
        })
        .collect();
    assert!(expected.iter().all(|y| y.iter().any(|&b| b != 0)));
}

#[test]
fn products_run_from_several_threads() {
    let (n, k) = (64, 512);
    let matmul = QuantMatmul::new(&store(2), "Q6_K", n, k).expect("supported");
    let weights = weights(matmul.weight_bytes());
    let x = rows(7 * k as usize);
    let mut expected = vec![0f32; 7 * n as usize];
    matmul.run(&weights, &x, &mut expected).expect("runs");
    std::thread::scope(|s| {
        for thread in 0..4 {
            let (matmul, weights, x, expected) = (&matmul, &weights, &x, &expected);
            s.spawn(move || {
                let count = 1 + thread % 2 * 6;
                for _ in 0..50 {
                    let mut y = vec![0f32; count * n as usize];
                    matmul.run(weights, &x[..count * k as usize], &mut y).expect("runs");
                    assert_eq!(y, expected[..y.len()]);
                }
            });
        }
    });
}

#[test]
fn products_that_do_not_fit_are_refused() {
    let store = store(1);
    let new = |format, n, k| QuantMatmul::new(&store, format, n, k).map(|_| ()).expect_err("refused").to_string();
    let unknown = new("Q3_X", 4, 256);
    assert!(unknown.starts_with("no weight format Q3_X; there are: ") && unknown.contains("q4_k"), "{unknown}");
    assert_eq!(new("Q4_K", 4, 128), "matmul: k = 128 of q4_k is not supported: a row is not a whole number of blocks");
    assert!(new("f16", 0, 128).starts_with("a matrix of 0 rows"));
    assert!(new("f16", 4, 0).contains("rows have elements"));
    let matmul = QuantMatmul::new(&store, "Q8_0", 3, 64).expect("supported");
    let w = vec![0u8; matmul.weight_bytes() as usize];
    let run = |w: &[u8], x: usize, y: usize| matmul.run(w, &vec![0.0; x], &mut vec![0.0; y]).map_err(|e| e.to_string());
    assert_eq!(run(&w, 128, 6), Ok(()));
    assert_eq!(run(&w, 0, 0), Ok(()));
    assert_eq!(run(&w[1..], 128, 6), Err("weights of 203 bytes; [3, 64] of q8_0 has 204".into()));
    assert_eq!(run(&w, 127, 6), Err("x has 127 elements, which is not a whole number of rows of 64".into()));
    assert_eq!(run(&w, 128, 7), Err("y has 7 elements; 2 rows of 3 are due".into()));
}

/// The CPU as a device whose memory is not the host's.
struct Remote(Cpu);

impl Device for Remote {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn target(&self) -> &hrx::compiler::Target {
        self.0.target()
    }

    fn alloc(&self, bytes: u64, what: &str) -> Result<Buffer, DeviceError> {
        self.0.alloc(bytes, what)
    }

    fn place(&self, data: hrx::gguf::TensorData, what: &str) -> Result<Buffer, DeviceError> {
        self.0.place(data, what)
    }

    fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.write(buffer, offset, bytes)
    }

    fn read(&self, buffer: &Buffer, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(buffer, offset, bytes)
    }

    fn load(&self, kernel: &hrx::ir::tile::Kernel, object: &[u8]) -> Result<KernelId, DeviceError> {
        self.0.load(kernel, object)
    }

    unsafe fn record(&self, stages: Vec<Vec<Launch>>) -> Result<Box<dyn Recorded>, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.record(stages) }
    }
}

#[test]
fn a_device_with_memory_of_its_own_gives_the_same_results() {
    let device = Arc::new(Remote(Cpu::new(2).expect("a CPU")));
    let remote = KernelStore::new(device, hrx_cache::Cache::disabled(), Arc::new(|_: &str| ()));
    let kernel = CallableKernel::from_text(&remote, SCALE).expect("compiles");
    let x = [half::f16::ONE; 8];
    let mut y = [100f32; 5];
    let args = [KernelArg::i32(1), KernelArg::f32(0.5), KernelArg::read(&x), KernelArg::write(&mut y)];
    // SAFETY: programs stay in their rows.
    unsafe { kernel.launch(args).expect("runs") };
    assert_eq!(y, [100.5, 100.5, 100.5, 100.5, 100.0], "read, added to, and the rest left alone");

    let [mut here, mut there] = [[0f32; 600 * 8], [0f32; 600 * 8]];
    for (store, y) in [(&store(2), &mut here), (&remote, &mut there)] {
        let matmul = QuantMatmul::new(store, "Q5_K", 8, 256).expect("supported");
        matmul.run(&weights(matmul.weight_bytes()), &rows(600 * 256), y).expect("runs");
    }
    assert!(here == there && here.iter().any(|&v| v != 0.0));
}
