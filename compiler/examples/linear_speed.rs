//! Compile time and speed of one linear kernel on one thread: `linear_speed FORMAT N K TOKENS ROWS UNROLL [T]`.
use hrx_compiler::{LoadedKernel, Target, compile};
use hrx_ir::quant::Format;
use hrx_ir::tile::Elem;
use hrx_templates::{Linear, LinearTiling, Slot, Template, WeightType};
use std::time::Instant;

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let num = |i: usize, d: u32| a.get(i).map_or(d, |s| s.parse().expect("a number"));
    let name = a.get(1).map_or("q4_1", |s| s.as_str());
    let weight = match Elem::from_name(name) {
        Some(e) => WeightType::Float(e),
        None => WeightType::Quant(Format::from_name(name).expect("a format")),
    };
    let (n, k) = (num(2, 1536), num(3, 576));
    let tiling = LinearTiling { tokens: num(4, 1), rows: num(5, 4), program_rows: 32, unroll: num(6, 2) };
    let t = num(7, tiling.tokens);
    let lin = Linear::new(n, k, weight, tiling);
    let kernel = lin.kernel().expect("supported");
    let target = Target::host().expect("host");
    compile(&kernel, &target).expect("compiles");
    let s = Instant::now();
    let obj = compile(&kernel, &target).expect("compiles");
    let ms = s.elapsed().as_secs_f64() * 1e3;
    let code = LoadedKernel::load(&obj, &kernel.name).expect("loads");
    let row_bytes = match weight {
        WeightType::Quant(f) => k / f.block * f.block_bytes,
        WeightType::Float(e) => k * e.bytes(),
    } as usize;
    let mut w = vec![0u8; row_bytes * n as usize];
    w.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 7 % 60) as u8);
    let codes = vec![3i8; (t * k) as usize];
    let scales = vec![0.01f32; (t * k / 32) as usize];
    let x = vec![0.5f32; (t * k) as usize];
    let mut out = vec![0f32; (t * n) as usize];
    let slots: Vec<u64> = lin
        .slots()
        .iter()
        .map(|s| match s {
            Slot::NTokens => u64::from(t),
            Slot::X => x.as_ptr() as u64,
            Slot::XCodes => codes.as_ptr() as u64,
            Slot::XScales => scales.as_ptr() as u64,
            Slot::Weight(_) => w.as_ptr() as u64,
            Slot::Out => out.as_mut_ptr() as u64,
            s => panic!("{s:?}"),
        })
        .collect();
    let mut local = vec![0u8; 1 << 20];
    let mut best = f64::MAX;
    for _ in 0..30 {
        let s = Instant::now();
        for p1 in 0..t.div_ceil(tiling.tokens) {
            for p0 in 0..n.div_ceil(32) {
                // SAFETY: the buffers are as large as the kernel's views say.
                unsafe { code.call(slots.as_ptr(), [p0 as i32, p1 as i32, 0], local.as_mut_ptr()) };
            }
        }
        best = best.min(s.elapsed().as_secs_f64());
    }
    let macs = f64::from(n) * f64::from(k) * f64::from(t);
    println!(
        "{name} t{} r{} u{}: compile {ms:.1} ms, {} bytes; {:.2} GMAC/s, {:.2} GB/s",
        tiling.tokens,
        tiling.rows,
        tiling.unroll,
        obj.len(),
        macs / best / 1e9,
        w.len() as f64 / best / 1e9
    );
}
