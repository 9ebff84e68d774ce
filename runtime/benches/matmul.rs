//! How fast the linear kernels of each weight format are, on one thread, in multiplications and additions a second:
//! criterion's "elements" are those pairs, so Gelem/s are GMAC/s. `t1` is the kernel for one row, `t4` the one for many
//! (cut into 4 rows where the target has registers for it), both with the quantisation of the rows where the kernel wants
//! that. `cargo bench -p hrx -- q4_k` for one format.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hrx::templates::WeightType;
use hrx::{CacheChoice, KernelStore, ModelOptions, QuantMatmul};
use std::time::Duration;

/// Outputs and inputs: a matrix that stays in the second-level cache in most formats.
const N: u32 = 512;
const K: u32 = 768;

/// Rows of a launch for many.
const MANY: usize = 64;

fn matmul(c: &mut Criterion) {
    let options = ModelOptions { threads: 1, cache: CacheChoice::Disabled, ..ModelOptions::default() };
    let store = KernelStore::open(&options).expect("a CPU that code is generated for");
    let mut group = c.benchmark_group("matmul");
    group.sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600));
    for format in WeightType::names() {
        let matmul = QuantMatmul::new(&store, format, N, K).unwrap_or_else(|e| panic!("{format}: {e}"));
        // Bytes of which no two make an infinite float16.
        let weights: Vec<u8> = (0..matmul.weight_bytes()).map(|i| (i * 7 % 60) as u8).collect();
        for (name, rows) in [("t1", 1), ("t4", MANY)] {
            let x = vec![0.5f32; rows * K as usize];
            let mut y = vec![0f32; rows * N as usize];
            group.throughput(Throughput::Elements(u64::from(N) * u64::from(K) * rows as u64));
            group.bench_function(format!("{format}/{name}"), |b| b.iter(|| matmul.run(&weights, &x, &mut y)));
        }
    }
    group.finish();
}

criterion_group!(benches, matmul);
criterion_main!(benches);
