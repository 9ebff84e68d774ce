//! Kernels of another compiler, from OpenCL C: right results and no reports, and reports of racy versions.

use super::support::{Bench, opencl};
use gfx_emu::Kind;

const CHIPS: [&str; 4] = ["gfx1100", "gfx1201", "gfx942", "gfx1030"];

const REDUCTION: &str = "
kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void k(global const int *in, global int *out, int n) {
    local int part[128];
    int l = get_local_id(0);
    int sum = 0;
    for (int i = get_group_id(0) * 128 + l; i < n; i += get_num_groups(0) * 128) sum += in[i];
    part[l] = sum;
    BARRIER
    for (int step = 64; step > 0; step /= 2) {
        if (l < step) part[l] += part[l + step];
        BARRIER
    }
    if (l == 0) out[get_group_id(0)] = part[0];
}";

fn words(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 12).collect()
}

/// Runs `k(in, out, n)`.
fn run(chip: &str, source: &str, input: &[u32], out: usize, grid: u32, block: u32) -> (Vec<u32>, Vec<gfx_emu::Report>) {
    let hsaco = opencl(chip, source);
    let mut bench = Bench::new(chip);
    bench.words(input);
    let result = bench.room(4 * out as u64);
    bench.buffers.push(input.len() as u64);
    let run = bench.launch(&hsaco, grid, block).unwrap_or_else(|e| panic!("{chip}: {e}"));
    (bench.read(result, out), run.reports)
}

#[test]
fn a_reduction() {
    let input = words(1000);
    let right = REDUCTION.replace("BARRIER", "barrier(CLK_LOCAL_MEM_FENCE);");
    for chip in CHIPS {
        let (got, reports) = run(chip, &right, &input, 3, 3, 128);
        assert!(reports.is_empty(), "{chip}: {reports:#?}");
        let want: Vec<u32> = (0..3)
            .map(|g| input.iter().enumerate().filter(|(i, _)| i / 128 % 3 == g).fold(0, |s, (_, &x)| s + x))
            .collect();
        assert_eq!(got, want, "{chip}");
        let (_, reports) = run(chip, &REDUCTION.replace("BARRIER", ""), &input, 3, 3, 128);
        assert!(reports.iter().any(|r| r.kind == Kind::LdsRace), "{chip}: {reports:#?}");
    }
}

const SCAN: &str = "
kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void k(global const int *in, global int *out, int n) {
    local int a[2][256];
    int l = get_local_id(0), at = 0;
    a[0][l] = l < n ? in[l] : 0;
    for (int step = 1; step < 256; step *= 2) {
        BARRIER
        a[1 - at][l] = a[at][l] + (l >= step ? a[at][l - step] : 0);
        at = 1 - at;
    }
    if (l < n) out[l] = a[at][l];
}";

#[test]
fn a_prefix_sum() {
    let input = words(200);
    for chip in CHIPS {
        let (got, reports) = run(chip, &SCAN.replace("BARRIER", "barrier(CLK_LOCAL_MEM_FENCE);"), &input, 200, 1, 256);
        assert!(reports.is_empty(), "{chip}: {reports:#?}");
        let want: Vec<u32> = input
            .iter()
            .scan(0, |s, x| {
                *s += x;
                Some(*s)
            })
            .collect();
        assert_eq!(got, want, "{chip}");
        let (_, reports) = run(chip, &SCAN.replace("BARRIER", ""), &input, 200, 1, 256);
        assert!(reports.iter().any(|r| r.kind == Kind::LdsRace), "{chip}: {reports:#?}");
    }
}

const MATMUL: &str = "
kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void k(global const float *ab, global float *c, int all) {
    local float x[16][17], y[16][17];
    int n = 40;
    int col = get_local_id(0), row = get_local_id(1);
    int i = get_group_id(1) * 16 + row, j = get_group_id(0) * 16 + col;
    float sum = 0;
    for (int t = 0; t < n; t += 16) {
        x[row][col] = i < n && t + col < n ? ab[i * n + t + col] : 0;
        y[row][col] = j < n && t + row < n ? ab[n * n + (t + row) * n + j] : 0;
        BARRIER
        for (int k = 0; k < 16; k++) sum += x[row][k] * y[k][col];
        BARRIER
    }
    if (i < n && j < n) c[i * n + j] = sum;
}";

#[test]
fn a_tiled_matrix_product() {
    use gfx_emu::Dispatch;
    let n = 40;
    let numbers: Vec<f32> = (0..2 * n * n).map(|i| ((i * 7 % 13) as f32) - 6.0).collect();
    let input: Vec<u32> = numbers.iter().map(|x| x.to_bits()).collect();
    let product =
        |row: usize, col: usize| (0..n).map(|k| numbers[row * n + k] * numbers[n * n + k * n + col]).sum::<f32>();
    for chip in CHIPS {
        for barrier in ["barrier(CLK_LOCAL_MEM_FENCE);", ""] {
            let hsaco = opencl(chip, &MATMUL.replace("BARRIER", barrier));
            let mut bench = Bench::new(chip);
            let from = bench.words(&input);
            let to = bench.room(4 * (n * n) as u64);
            let module = bench.gpu.load(&hsaco).expect("loads");
            let kernel = module.kernel("k").expect("the kernel");
            let mut kernarg = vec![0; kernel.kernarg_size()];
            kernarg[..8].copy_from_slice(&from.to_le_bytes());
            kernarg[8..16].copy_from_slice(&to.to_le_bytes());
            let dispatch = Dispatch { grid: [3, 3, 1], block: [16, 16, 1], dynamic_lds: 0 };
            bench.gpu.fill_hidden_args(&kernel, &dispatch, &mut kernarg);
            let run = bench.gpu.launch(&kernel, dispatch, &kernarg).unwrap_or_else(|e| panic!("{chip}: {e}"));
            if barrier.is_empty() {
                assert!(run.reports.iter().any(|r| r.kind == Kind::LdsRace), "{chip}: {:#?}", run.reports);
                continue;
            }
            assert!(run.reports.is_empty(), "{chip}: {:#?}", run.reports);
            let got = bench.read(to, n * n);
            for (at, bits) in got.into_iter().enumerate() {
                assert_eq!(f32::from_bits(bits), product(at / n, at % n), "{chip}: {at}");
            }
        }
    }
}

const MIXED: &str = "
float helper(float x, int n) __attribute__((noinline));
float helper(float x, int n) { for (int i = 0; i < n; i++) x = x * 0.5f + 1.0f; return x; }
kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void k(global const int *in, global int *out, int n) {
    int l = get_global_id(0);
    int v = in[l];
    int scratch[24];
    for (int i = 0; i < 24; i++) scratch[i] = v * i;
    long wide = (long)v * 123456789L;
    ulong shifted = ((ulong)wide >> (v & 31)) + (ulong)scratch[v & 15];
    double d = (double)v / 7.0;
    ushort2 pair = __builtin_astype(v, ushort2);
    char4 bytes = __builtin_astype(v ^ 0x5a5a5a5a, char4);
    out[4 * l] = (int)(shifted ^ (shifted >> 32));
    out[4 * l + 1] = (int)d + (v % 37) + (v / 11);
    out[4 * l + 2] = pair.x * 3 + pair.y / 5 + bytes.x * bytes.y - bytes.z;
    out[4 * l + 3] = (int)(helper((float)(v & 1023), v & 3) * 16.0f);
    __atomic_fetch_add(&out[4 * 64 * (int)get_num_groups(0)], v & 255, __ATOMIC_RELAXED);
}";

#[test]
fn division_scratch_calls_and_atomics() {
    let input = words(128);
    for chip in CHIPS {
        let hsaco = opencl(chip, MIXED);
        let mut bench = Bench::new(chip);
        bench.words(&input);
        let out = bench.words(&vec![0; 4 * 128 + 1]);
        bench.buffers.push(128);
        let run = bench.launch(&hsaco, 2, 64).unwrap_or_else(|e| panic!("{chip}: {e}"));
        assert!(run.reports.is_empty(), "{chip}: {:#?}", run.reports);
        let got = bench.read(out, 4 * 128 + 1);
        for (l, &bits) in input.iter().enumerate() {
            let v = bits as i32;
            let wide = i64::from(v).wrapping_mul(123_456_789);
            let shifted = ((wide as u64) >> (v & 31)).wrapping_add((v.wrapping_mul(v & 15)) as i64 as u64);
            let bytes = (v ^ 0x5a5a_5a5a).to_le_bytes().map(|b| i32::from(b as i8));
            let (x, y) = (v & 0xffff, (v as u32 >> 16) as i32);
            let mut h = (v & 1023) as f32;
            for _ in 0..v & 3 {
                h = h * 0.5 + 1.0;
            }
            let want = [
                (shifted ^ shifted >> 32) as i32,
                (f64::from(v) / 7.0) as i32 + v % 37 + v / 11,
                x * 3 + y / 5 + bytes[0] * bytes[1] - bytes[2],
                (h * 16.0) as i32,
            ];
            assert_eq!([0, 1, 2, 3].map(|i| got[4 * l + i] as i32), want, "{chip}: {l}: {v:#x}");
        }
        assert_eq!(got[4 * 128], input.iter().map(|v| v & 255).sum::<u32>(), "{chip}");
    }
}
