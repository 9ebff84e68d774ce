//! Wave instructions a second: plain vector code, vector memory, LDS and matrix products.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gfx_emu::{Dispatch, Gpu, Kernel, Options};
use std::time::Duration;

#[path = "../tests/emulator/support.rs"]
#[allow(dead_code)]
mod support;

/// Seconds of CPU time that this process has used, of all threads.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is there to be written.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "no clock of CPU time");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Launches for half a second of CPU time: wave instructions in each second of it. On a machine that does other work too,
/// this says more than how long launches take; two threads on cores of their own do twice as much.
fn per_cpu_second(launch: &mut dyn FnMut() -> u64) -> f64 {
    let (start, mut instructions) = (cpu_seconds(), 0);
    while cpu_seconds() - start < 0.5 {
        instructions += launch();
    }
    instructions as f64 / (cpu_seconds() - start)
}

/// Instructions of a loop's body, and how often it is repeated.
const TURNS: u32 = 2000;

fn kernel(chip: &'static str, body: &str) -> (Gpu, Kernel) {
    let zero: String = (1..100).map(|r| format!("v_mov_b32 v{r}, 0\n")).collect();
    let text = format!(
        "{zero}v_lshlrev_b32 v1, 4, v0\ns_load_b64 s[4:5], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nds_store_b128 v1, v[4:7]\n\
         s_movk_i32 s10, {TURNS}\nloop:\n{body}\ns_sub_i32 s10, s10, 1\ns_cmp_lg_u32 s10, 0\ns_cbranch_scc1 loop\n"
    );
    let options = Options { threads: 2, ..Options::default() };
    let gpu = Gpu::new(support::chip(chip), options).expect("a GPU");
    let shape = support::Shape { lds: 4096, ..support::Shape::of(chip) };
    let module = gpu.load(&support::assemble(shape, &text)).expect("loads");
    let kernel = module.kernel("k").expect("the kernel");
    (gpu, kernel)
}

fn speed(c: &mut Criterion) {
    let bodies = [
        (
            "valu",
            "v_add_f32 v2, v3, v4\nv_fma_f32 v5, v2, v6, v7\nv_mul_f32 v8, v5, v9\nv_add_nc_u32 v10, v11, v12\n\
             v_lshlrev_b32 v13, 3, v10\nv_and_b32 v14, v13, v15\nv_fmac_f32 v16, v17, v18\nv_max_f32 v19, v16, v20\n"
                .repeat(4),
        ),
        (
            "valu with scalars",
            "v_mul_f32 v2, 2.0, v3\nv_fmac_f32 v4, s10, v5\nv_add_nc_u32 v6, s10, v7\nv_and_b32 v8, 0xffff, v9\n"
                .repeat(8),
        ),
        ("dual", "v_dual_fmac_f32 v2, v5, v9 :: v_dual_mul_f32 v3, v6, v10\n".repeat(32)),
        ("dpp", "v_add_f32_dpp v2, v3, v4 row_ror:4 row_mask:0xf bank_mask:0xf bound_ctrl:1\n".repeat(32)),
        ("salu", "s_add_i32 s11, s10, 5\ns_mul_i32 s12, s11, s11\n".repeat(16)),
        ("global load b128", "global_load_b128 v[20:23], v1, s[4:5]\n".repeat(16) + "s_waitcnt vmcnt(0)\n"),
        ("LDS b128", "ds_load_b128 v[20:23], v1\n".repeat(16) + "s_waitcnt lgkmcnt(0)\n"),
        ("wmma", "v_wmma_f32_16x16x16_f16 v[20:27], v[30:37], v[40:47], v[20:27]\n".repeat(16)),
    ];
    let mut group = c.benchmark_group("speed");
    group.sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    for (name, body) in &bodies {
        let (gpu, kernel) = kernel("gfx1100", body);
        let buffer = gpu.alloc(4096).expect("memory");
        gpu.fill(buffer, 4096, &[0]).expect("filled");
        let kernarg: Vec<u8> = buffer.to_le_bytes().into_iter().chain([0; 24]).collect();
        let dispatch = Dispatch { grid: [2, 1, 1], block: [32, 1, 1], dynamic_lds: 0 };
        let run = gpu.launch(&kernel, dispatch, &kernarg).expect("runs");
        assert!(run.reports.is_empty(), "{:#?}", run.reports);
        group.throughput(Throughput::Elements(run.counters.total()));
        let mut launch = || gpu.launch(&kernel, dispatch, &kernarg).expect("runs").counters.total();
        println!("{name}: {:.1} million wave instructions in a CPU second", per_cpu_second(&mut launch) * 1e-6);
        group.bench_function(*name, |b| b.iter(|| gpu.launch(&kernel, dispatch, &kernarg).expect("runs")));
    }
    group.finish();
}

criterion_group!(benches, speed);
criterion_main!(benches);
