//! How fast a device copies, reads and multiplies when it does nothing else: what speeds are held against.

use crate::stats::median;
use hrx::device::{Arg, Buffer, Launch, Var};
use hrx::exec::KernelStore;
use hrx::ir::tile::{Access, Builder, Elem, Extent, GridExpr, Kernel, ReduceOp, Type};
use hrx::{Error, compiler::Target};
use std::time::{Duration, Instant};

/// Measured limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes a second of a copy on the device, read and written ones counted.
    pub copy: f64,
    /// Bytes a second of a loop that only reads, which is what products with one token do.
    pub read: f64,
    /// Multiplications and additions a second of products whose factors are in registers: on a GPU binary16 with sums of
    /// binary32 on the matrix unit, on the host fused multiply-adds of binary32.
    pub products: f64,
}

/// The largest buffer that is copied.
const LARGEST: u64 = 512 << 20;

/// How often each is measured; the median counts.
const REPETITIONS: usize = 5;

/// How long one measurement takes at the least.
const LONG: Duration = Duration::from_millis(20);

/// Measures.
///
/// # Errors
/// If the device has no memory for it, or fails.
pub fn measure(store: &KernelStore) -> Result<Limits, Error> {
    let (copy, read) = memory(store)?;
    Ok(Limits { copy, read, products: products(store)? })
}

/// The median of the rates at which `run` does `times` times something. Calls it with more and more until it takes long.
fn rate(mut run: impl FnMut(i32) -> Result<(), Error>) -> Result<f64, Error> {
    let mut time = |times: i32| {
        let start = Instant::now();
        run(times)?;
        Ok::<_, Error>(start.elapsed())
    };
    let mut times = 1;
    // The first call may find the device asleep.
    time(times)?;
    while time(times)? < LONG && times < 1 << 24 {
        times *= 2;
    }
    let rates: Result<Vec<f64>, Error> =
        (0..REPETITIONS).map(|_| Ok(f64::from(times) / time(times)?.as_secs_f64().max(1e-9))).collect();
    Ok(median(&rates?).unwrap_or(0.0))
}

/// The rates of a copy and of a loop that reads.
fn memory(store: &KernelStore) -> Result<(f64, f64), Error> {
    let device = &**store.device();
    // Caches must not hold it; an eighth of what is free leaves room for the model.
    let bytes = (device.info().free / 8).min(LARGEST) / READ_BY_PROGRAM * READ_BY_PROGRAM;
    let [from, to] = [device.alloc(bytes, "a copy's source")?, device.alloc(bytes, "a copy's target")?];
    // Memory that was never written may be one page of zeros.
    let page = vec![1u8; 4096.min(bytes as usize)];
    device.write(&from, 0, &page)?;
    let mut filled = page.len() as u64;
    while filled > 0 && filled < bytes {
        let n = filled.min(bytes - filled);
        device.copy(&from.part(0, n), &from.part(filled, n))?;
        filled += n;
    }
    let copies = rate(|times| {
        (0..times).try_for_each(|_| device.copy(&from, &to))?;
        // To read is to wait.
        let mut last = [0];
        Ok(device.read(&to, bytes.saturating_sub(1), &mut last)?)
    })?;
    Ok((copies * 2.0 * bytes as f64, read(store, &from)?))
}

/// Bytes that a program of the loop that reads has.
const READ_BY_PROGRAM: u64 = 128 << 10;

/// Sums numbers of memory: as many chains of vectors as it takes to wait for memory alone.
fn read_loop(target: &Target) -> Kernel {
    let mut b = Builder::new("read_limit");
    let (n, waves) = match target {
        Target::Host(_) => (CHAINS.next_power_of_two() * target.vector_lanes(), 1),
        // Four loads of 16 bytes for each lane.
        _ => (16 * WAVES * target.vector_lanes(), WAVES),
    };
    let steps = READ_BY_PROGRAM as u32 / (4 * n);
    let programs = b.scalar_param(Elem::I32);
    let x = b.view_param(Elem::I32, &[Extent::Param(programs), steps.into(), n.into()], Access::In);
    let out = b.view_param(Elem::I32, &[Extent::Param(programs), 1.into()], Access::Out);
    b.waves(waves);
    b.grid(0, GridExpr::Extent(Extent::Param(programs)));
    let program = b.program_id(0);
    let [zero, one, end] = [0, 1, steps].map(|n| b.index(n.into()));
    let none = b.int(0, Type::new(Elem::I32, &[1, n]));
    let sums = b.for_loop([zero, end, one], &[none], |b, step, carried| {
        let v = b.load(x, &[program, step, zero], &[1, 1, n], None);
        let v = b.reshape(v, &[1, n]);
        vec![b.add(carried[0], v)]
    });
    let sum = b.reduce(ReduceOp::Sum, sums[0], 1);
    b.store(out, &[program, zero], sum, None);
    b.finish()
}

fn read(store: &KernelStore, from: &Buffer) -> Result<f64, Error> {
    let device = store.device();
    let kernel = store.load(&read_loop(device.target()))?;
    let programs = from.len() / READ_BY_PROGRAM;
    let out = device.alloc(4 * programs.max(1), "sums")?;
    let args = vec![Arg::I32(programs as i32), Arg::Buffer(from.clone()), Arg::Buffer(out)];
    // SAFETY: the buffers are as long as the views, and a program stores its own sum alone.
    let mut recorded = unsafe { device.record(vec![vec![Launch { kernel, args }]])? };
    let reads = rate(|times| (0..times).try_for_each(|_| Ok(recorded.replay(&[])?)))?;
    Ok(reads * from.len() as f64)
}

/// A kernel whose programs multiply factors that stay in registers, again and again.
struct Loop {
    kernel: Kernel,
    /// Rows and columns of a program's output.
    output: [u32; 2],
    /// Operations of a program's turn.
    operations: f64,
}

/// Sums of the matrix unit: rows, columns and the factors' length.
const TILE: [u32; 3] = [64, 64, 32];

/// Waves of a program on the matrix unit.
const WAVES: u32 = 4;

fn matrix_loop() -> Loop {
    let [m, n, k] = TILE;
    let mut b = Builder::new("product_limit");
    let (turns, programs) = (b.scalar_param(Elem::I32), b.scalar_param(Elem::I32));
    let x = b.view_param(Elem::F16, &[m.into(), k.into()], Access::In);
    let w = b.view_param(Elem::F16, &[n.into(), k.into()], Access::In);
    let out = b.view_param(Elem::F32, &[Extent::Param(programs), m.into(), n.into()], Access::Out);
    b.waves(WAVES);
    b.grid(0, GridExpr::Extent(Extent::Param(programs)));
    let (zero, one) = (b.index(0), b.index(1));
    let (x, w) = (b.load(x, &[zero, zero], &[m, k], None), b.load(w, &[zero, zero], &[n, k], None));
    let sums = b.float(0.0, &[m, n]);
    let sums = b.for_loop([zero, turns, one], &[sums], |b, _, carried| vec![b.mma(x, w, carried[0])]);
    let sums = b.reshape(sums[0], &[1, m, n]);
    let program = b.program_id(0);
    b.store(out, &[program, zero, zero], sums, None);
    Loop { kernel: b.finish(), output: [m, n], operations: 2.0 * f64::from(m * n * k) }
}

/// Rows of sums on the host: enough that no multiply-add waits for the one before.
const CHAINS: u32 = 12;

fn vector_loop(lanes: u32) -> Loop {
    let mut b = Builder::new("product_limit");
    let (turns, programs) = (b.scalar_param(Elem::I32), b.scalar_param(Elem::I32));
    let x = b.view_param(Elem::F32, &[1.into(), lanes.into()], Access::In);
    let w = b.view_param(Elem::F32, &[1.into(), lanes.into()], Access::In);
    let out = b.view_param(Elem::F32, &[Extent::Param(programs), CHAINS.into(), lanes.into()], Access::Out);
    b.grid(0, GridExpr::Extent(Extent::Param(programs)));
    let (zero, one) = (b.index(0), b.index(1));
    let factors = [x, w].map(|v| {
        let row = b.load(v, &[zero, zero], &[1, lanes], None);
        b.broadcast(row, hrx::ir::tile::Shape::new(&[CHAINS, lanes]))
    });
    let sums = b.float(0.0, &[CHAINS, lanes]);
    let sums = b.for_loop([zero, turns, one], &[sums], |b, _, carried| vec![b.fma(factors[0], factors[1], carried[0])]);
    let sums = b.reshape(sums[0], &[1, CHAINS, lanes]);
    let program = b.program_id(0);
    b.store(out, &[program, zero, zero], sums, None);
    Loop { kernel: b.finish(), output: [CHAINS, lanes], operations: 2.0 * f64::from(CHAINS * lanes) }
}

/// Programs that are run: many for each processor of any device.
const PROGRAMS: i32 = 2112;

fn products(store: &KernelStore) -> Result<f64, Error> {
    let device = store.device();
    let target = device.target();
    let product = match target {
        Target::Host(_) => vector_loop(target.vector_lanes()),
        _ => matrix_loop(),
    };
    let kernel = store.load(&product.kernel)?;
    // Factors of zero would be multiplied as fast, but take less power.
    let factors = |elements: u32, bytes: &[u8]| {
        let all = bytes.repeat(elements as usize);
        let buffer = device.alloc(all.len() as u64, "factors")?;
        device.write(&buffer, 0, &all)?;
        Ok::<_, Error>(Arg::Buffer(buffer))
    };
    let [m, n, k] = TILE;
    let (x, w) = match target {
        Target::Host(_) => {
            let row = |x: f32| factors(target.vector_lanes(), &x.to_le_bytes());
            (row(0.3)?, row(-0.7)?)
        }
        // 0.3 and -0.7 as binary16.
        _ => (factors(m * k, &[0xCD, 0x34])?, factors(n * k, &[0x9A, 0xB9])?),
    };
    let [rows, cols] = product.output;
    let out = device.alloc(4 * PROGRAMS as u64 * u64::from(rows) * u64::from(cols), "sums")?;
    let args = vec![Arg::Var(Var(0)), Arg::I32(PROGRAMS), x, w, Arg::Buffer(out)];
    // SAFETY: the buffers are as long as the views; a program stores its own sums alone, whatever the turns.
    let mut recorded = unsafe { device.record(vec![vec![Launch { kernel, args }]])? };
    let turns = rate(|times| Ok(recorded.replay(&[times])?))?;
    Ok(turns * f64::from(PROGRAMS) * product.operations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hrx::compiler::{Emit, compile, emit};

    #[test]
    fn loops_compile_and_stay_in_registers() {
        for name in ["sm_80", "sm_90", "gfx1100", "gfx942"] {
            let target = Target::from_name(name).expect("a target");
            // What needs scratch memory is refused.
            for kernel in [matrix_loop().kernel, read_loop(&target)] {
                compile(&kernel, &target).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
        let target = Target::from_name("sm_90").expect("a target");
        let text = emit(&matrix_loop().kernel, &target, Emit::Asm).expect("compiles");
        let text = String::from_utf8(text).expect("text");
        // Between the loop's label and its branch there are products and hardly anything else.
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let is_mma = |l: &&&str| l.starts_with("mma.sync");
        let [m, n, k] = TILE;
        assert_eq!(lines.iter().filter(is_mma).count() as u32, m / 16 * (n / 8) * (k / 16) / WAVES);
        let first = lines.iter().position(|l| l.starts_with("mma.sync")).expect("products");
        let last = lines.iter().rposition(|l| l.starts_with("mma.sync")).expect("products");
        let memory = ["ld.", "st.", "ldmatrix", "bar."];
        let other = lines[first..last].iter().find(|l| memory.iter().any(|m| l.starts_with(m)));
        assert_eq!(other, None, "memory in the loop");
        let host = Target::host().expect("a host");
        for kernel in [vector_loop(host.vector_lanes()).kernel, read_loop(&host)] {
            compile(&kernel, &host).expect("compiles");
        }
    }
}
