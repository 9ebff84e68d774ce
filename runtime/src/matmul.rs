//! One level below models: a product with a quantised matrix on the caller's own memory.

use crate::device::{Arg, Buffer, Device, HostSlices, KernelId, Launch};
use crate::error::Error;
use crate::exec::KernelStore;
use crate::kernel::{bytes_of, bytes_of_mut};
use hrx_compiler::Target;
use hrx_ir::quant::CHUNK;
use hrx_templates::{Linear, LinearCut, Output, Request, RowCut, RowOp, Rowwise, Slot, Template, WeightType};
use std::sync::{Arc, Mutex};

/// The most rows of x that are multiplied at once: what bounds the scratch memory.
const MAX_ROWS: usize = 512;

/// Rows for which the kernel for many is cut.
const MANY: u32 = 64;

/// The most rows of a matrix: kernels index with 32 bits, and tiles may reach a little beyond the end.
const MAX_N: u32 = 1 << 30;

/// y = x · Wᵀ for a weight matrix W of `n` rows of `k` elements in one of GGUF's formats, as bytes in the file's layout.
///
/// On the CPU quantised weights are multiplied with x quantised to 8 bits in blocks of 32; f32, f16 and bf16 ones, and on
/// a GPU all, with x as it is. A row of the result depends on nothing but its row of x and W: neither on the rows beside
/// it nor on the number of threads; on a GPU also on whether it is the only row.
///
/// [`run`](QuantMatmul::run) may be called from several threads at the same time; a CPU device takes the calls one after
/// another, each on all of its threads.
///
/// ```
/// use hrx::{KernelStore, ModelOptions, QuantMatmul};
/// let store = KernelStore::open(&ModelOptions { cache: hrx::CacheChoice::Disabled, ..ModelOptions::default() })?;
/// let matmul = QuantMatmul::new(&store, "Q8_0", 2, 32)?;
/// // A block of Q8_0 is a scale in f16 and 32 signed bytes: here 0.5 times (1, 1, 1, …) and 0.5 times (2, 2, 2, …).
/// let block = |code: u8| [vec![0x00, 0x38], vec![code; 32]].concat();
/// let weights = [block(1), block(2)].concat();
/// let x = [1.0; 32];
/// let mut y = [0.0; 2];
/// matmul.run(&weights, &x, &mut y)?;
/// assert!((y[0] - 16.0).abs() < 1e-4 && (y[1] - 32.0).abs() < 1e-4, "{y:?}");
/// # Ok::<(), hrx::Error>(())
/// ```
pub struct QuantMatmul {
    device: Arc<dyn Device>,
    weight: WeightType,
    n: u32,
    k: u32,
    weight_bytes: u64,
    /// Quantises rows of x, where the product wants that.
    quantize: Option<SlottedKernel>,
    /// The product for one row, and for more.
    one: SlottedKernel,
    many: SlottedKernel,
    /// Memory for quantised rows that no call uses at the moment.
    scratch: Mutex<Vec<Scratch>>,
}

/// A loaded kernel with what its arguments are.
struct SlottedKernel {
    id: KernelId,
    slots: Vec<Slot>,
}

/// Room for codes and scales of some rows.
struct Scratch {
    rows: usize,
    codes: Buffer,
    scales: Buffer,
}

impl QuantMatmul {
    /// Compiles the kernels for matrices of a format (GGML's name in either case: `Q4_K`, `f16`) with `n` rows of `k`
    /// elements, or takes them from the store's cache.
    ///
    /// # Errors
    /// If there is no such format, a row is not a whole number of its blocks, or a kernel can't be made.
    pub fn new(store: &KernelStore, format: &str, n: u32, k: u32) -> Result<QuantMatmul, Error> {
        let weight = WeightType::from_name(format).ok_or_else(|| {
            let names = WeightType::names().collect::<Vec<_>>().join(", ");
            Error::Invalid(format!("no weight format {}; there are: {names}", format.escape_debug()))
        })?;
        if !(1..=MAX_N).contains(&n) {
            return Err(Error::Invalid(format!("a matrix of {n} rows; it has 1 to {MAX_N}")));
        }
        let target = store.device().target();
        let shape = crate::exec::target_shape(target);
        // GPUs multiply rows as they are: their matrix units take no codes with scales.
        let input = match target {
            Target::Host(_) => Linear::input(weight),
            Target::Amd(_) | Target::Nvidia(_) => Output::F32,
        };
        let linear = |rows| {
            let cut = LinearCut::choose(&shape, [n, k], weight, rows, 1);
            Request::from(Linear { input, ..Linear::new(n, k, weight, cut) })
        };
        let mut requests = vec![linear(1), linear(MANY)];
        if input == Output::Q8 {
            requests.push(
                Rowwise { k, op: RowOp::Copy, indexed: false, output: Output::Q8, cut: RowCut::choose(&shape, k) }
                    .into(),
            );
        }
        let ids = store.get(&requests)?;
        let kernel = |i: usize| SlottedKernel { id: ids[i], slots: requests[i].slots() };
        let row_bytes = weight.row_bytes(k).unwrap_or_else(|| unreachable!("the template checked for whole blocks"));
        Ok(QuantMatmul {
            device: Arc::clone(store.device()),
            weight,
            n,
            k,
            weight_bytes: u64::from(n) * row_bytes,
            quantize: (requests.len() > 2).then(|| kernel(2)),
            one: kernel(0),
            many: kernel(1),
            scratch: Mutex::default(),
        })
    }

    /// Bytes of the weight matrix.
    pub fn weight_bytes(&self) -> u64 {
        self.weight_bytes
    }

    /// Multiplies. `weights` is the whole matrix, row after row, at any alignment; `x` some rows of `k` elements; `y` gets
    /// as many rows of `n`. On a device with memory of its own all three are copied there, `y` back.
    ///
    /// # Errors
    /// If a length does not fit, or the device fails or has no memory.
    pub fn run(&self, weights: &[u8], x: &[f32], y: &mut [f32]) -> Result<(), Error> {
        let (n, k) = (self.n as usize, self.k as usize);
        let name = self.weight.name();
        let wanted = self.weight_bytes;
        if weights.len() as u64 != wanted {
            let len = weights.len();
            return Err(Error::Invalid(format!("weights of {len} bytes; [{n}, {k}] of {name} has {wanted}")));
        }
        if !x.len().is_multiple_of(k) {
            return Err(Error::Invalid(format!(
                "x has {} elements, which is not a whole number of rows of {k}",
                x.len()
            )));
        }
        let rows = x.len() / k;
        if rows.checked_mul(n) != Some(y.len()) {
            return Err(Error::Invalid(format!("y has {} elements; {rows} rows of {n} are due", y.len())));
        }
        if rows == 0 {
            return Ok(());
        }
        let slices = HostSlices::new(&*self.device);
        // SAFETY: the buffer is dropped at the end of this call; weights are `in` views.
        let weights = unsafe { slices.read(weights, "weights")? };
        let scratch = self.quantize.as_ref().map(|_| self.scratch(rows.min(MAX_ROWS))).transpose()?;
        for (x, y) in x.chunks(MAX_ROWS * k).zip(y.chunks_mut(MAX_ROWS * n)) {
            self.rows(&weights, x, y, scratch.as_ref())?;
        }
        if let Some(scratch) = scratch {
            self.scratch.lock().unwrap_or_else(|e| e.into_inner()).push(scratch);
        }
        Ok(())
    }

    /// Multiplies at most [`MAX_ROWS`] rows.
    fn rows(&self, weights: &Buffer, x: &[f32], y: &mut [f32], scratch: Option<&Scratch>) -> Result<(), Error> {
        let rows = x.len() / self.k as usize;
        let mut slices = HostSlices::new(&*self.device);
        // SAFETY: the buffers are dropped at the end of this call; X is an `in` view.
        let (x, y) = unsafe { (slices.read(bytes_of(x), "x")?, slices.write(bytes_of_mut(y), "y")?) };
        let launch = |kernel: &SlottedKernel| {
            let arg = |slot: &Slot| match (slot, scratch) {
                (Slot::NTokens, _) => Arg::I32(rows as i32),
                (Slot::X, _) => Arg::Buffer(x.clone()),
                (Slot::Weight(0), _) => Arg::Buffer(weights.clone()),
                (Slot::Out, _) => Arg::Buffer(y.clone()),
                (Slot::XCodes | Slot::OutCodes, Some(s)) => Arg::Buffer(s.codes.clone()),
                (Slot::XScales | Slot::OutScales, Some(s)) => Arg::Buffer(s.scales.clone()),
                (slot, _) => unreachable!("a plain product has no {slot:?}"),
            };
            vec![Launch { kernel: kernel.id, args: kernel.slots.iter().map(arg).collect() }]
        };
        let product = if rows == 1 { &self.one } else { &self.many };
        let stages = self.quantize.iter().chain([product]).map(launch).collect();
        // SAFETY: `run` and `scratch` made every buffer as large as the templates' slots say for this number of rows, and
        // the templates stay inside those; a stage has one launch; there are no variables.
        let mut recorded = unsafe { self.device.record(stages)? };
        recorded.replay(&[])?;
        drop(recorded);
        slices.finish()?;
        Ok(())
    }

    /// Memory for at least this many quantised rows, for one call.
    fn scratch(&self, rows: usize) -> Result<Scratch, Error> {
        let free = |s: &mut Vec<Scratch>| s.iter().position(|s| s.rows >= rows).map(|at| s.swap_remove(at));
        if let Some(found) = free(&mut self.scratch.lock().unwrap_or_else(|e| e.into_inner())) {
            return Ok(found);
        }
        // One row, or all that a launch takes: two sizes, so that what is kept is of use.
        let rows = if rows == 1 { 1 } else { MAX_ROWS };
        let (k, n) = (u64::from(self.k), rows as u64);
        let codes = self.device.alloc(n * k, "quantised rows")?;
        let scales = self.device.alloc(4 * n * (k / u64::from(CHUNK)), "scales of quantised rows")?;
        Ok(Scratch { rows, codes, scales })
    }
}
