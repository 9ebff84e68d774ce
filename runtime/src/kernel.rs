//! One level below models: a kernel in tile IR, compiled for a device and called on slices.

use crate::device::{Arg, Device, DeviceError, HostSlices, KernelId, Launch};
use crate::error::Error;
use crate::exec::KernelStore;
use hrx_ir::tile::{Access, Content, Elem, Extent, Kernel, Param, Value, ViewData, parse_kernel};
use std::sync::Arc;

/// A kernel that has been compiled and loaded. May be launched from several threads; a CPU device runs one launch at a
/// time, on all of its threads.
///
/// ```
/// use hrx::{CallableKernel, KernelArg, KernelStore, ModelOptions};
/// let text = "
///     kernel @double(v0: i32, m0: in f32[v0, 8], m1: out f32[v0, 8]) grid (v0, 1, 1) ids (v1, v2, v3) {
///       v4: i32 = const 0
///       v5: f32[1, 8] = load m0[v1, v4]
///       v6: f32[1, 8] = add v5, v5
///       store m1[v1, v4], v6
///     }";
/// let store = KernelStore::open(&ModelOptions { cache: hrx::CacheChoice::Disabled, ..ModelOptions::default() })?;
/// let double = CallableKernel::from_text(&store, text)?;
/// let (x, mut y) = ([1.5f32; 16], [0f32; 16]);
/// // SAFETY: a program loads and stores the row of its id, which the grid keeps below v0, and nothing else.
/// unsafe { double.launch([KernelArg::i32(2), KernelArg::read(&x), KernelArg::write(&mut y)])? };
/// assert_eq!(y, [3.0; 16]);
/// # Ok::<(), hrx::Error>(())
/// ```
pub struct CallableKernel {
    device: Arc<dyn Device>,
    id: KernelId,
    kernel: Kernel,
}

impl CallableKernel {
    /// Compiles a kernel for the store's device, or takes it from the store's cache.
    ///
    /// # Errors
    /// If it breaks a rule of tile IR, or can't be compiled or loaded.
    pub fn new(store: &KernelStore, kernel: Kernel) -> Result<CallableKernel, Error> {
        let id = store.load(&kernel)?;
        Ok(CallableKernel { device: Arc::clone(store.device()), id, kernel })
    }

    /// The kernel of a text in tile IR's form.
    ///
    /// # Errors
    /// If the text is not one kernel; else as [`new`](CallableKernel::new).
    pub fn from_text(store: &KernelStore, text: &str) -> Result<CallableKernel, Error> {
        CallableKernel::new(store, parse_kernel(text)?)
    }

    /// The kernel in tile IR.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Runs the kernel's whole grid and returns when it has ended. Arguments are in the order of the kernel's
    /// parameters. On a device with memory of its own slices are copied there and back.
    ///
    /// # Errors
    /// If there are too many or too few arguments, if one is of another kind than its parameter, if a slice is shorter
    /// than its view's extents and strides make it (those that are parameters taken from the scalar arguments), or if the
    /// device fails. Nothing has run then, except where the device failed.
    ///
    /// # Safety
    /// The kernel, with these scalars, loads and stores inside its views, and no two programs of its grid touch the same
    /// element if one of them stores it. Compiled code does not check that; the tile interpreter
    /// ([`hrx_ir::tile::interp`]) does, for given arguments.
    pub unsafe fn launch<'a>(&self, args: impl IntoIterator<Item = KernelArg<'a>>) -> Result<(), Error> {
        let args: Vec<KernelArg> = args.into_iter().collect();
        self.check(&args).map_err(|reason| DeviceError::Launch { kernel: self.kernel.name.clone(), reason })?;
        let mut slices = HostSlices::new(&*self.device);
        let mut list = Vec::with_capacity(args.len());
        for (i, arg) in args.into_iter().enumerate() {
            let what = || format!("argument {i} of kernel {}", self.kernel.name);
            list.push(match arg.0 {
                Kind::I32(n) => Arg::I32(n),
                Kind::F32(x) => Arg::F32(x),
                Kind::Read(bytes, _) => {
                    // SAFETY: the buffers live in `list` and in the recording, both dropped at the end of this call, while
                    // the slices are still borrowed. `check` gives slices that are only read to `in` views, to which no
                    // kernel stores: the verifier has seen to that.
                    Arg::Buffer(unsafe { slices.read(bytes, &what())? })
                }
                // SAFETY: as above; these are borrowed exclusively.
                Kind::Write(bytes, _) => Arg::Buffer(unsafe { slices.write(bytes, &what())? }),
            });
        }
        // SAFETY: the buffers are as long as the views; that the kernel stays inside them is the caller's promise. There
        // is one launch and no variable.
        let mut recorded = unsafe { self.device.record(vec![vec![Launch { kernel: self.id, args: list }]])? };
        recorded.replay(&[])?;
        drop(recorded);
        slices.finish()?;
        Ok(())
    }

    fn check(&self, args: &[KernelArg]) -> Result<(), String> {
        let params = &self.kernel.params;
        if args.len() != params.len() {
            return Err(format!("it takes {} arguments, not {}", params.len(), args.len()));
        }
        let scalar = |v: Value| {
            let at = params.iter().position(|p| *p == Param::Scalar(v))?;
            if let Kind::I32(n) = args[at].0 { Some(n) } else { None }
        };
        for (i, (param, arg)) in params.iter().zip(args).enumerate() {
            let refuse = |wanted: String| Err(format!("argument {i} is {}, the parameter {wanted}", arg.describe()));
            match *param {
                Param::Scalar(v) => match (self.kernel.ty(v).elem, &arg.0) {
                    (Elem::I32, Kind::I32(_)) | (Elem::F32, Kind::F32(_)) => {}
                    (elem, _) => return refuse(format!("the scalar {elem}")),
                },
                Param::View(m) => {
                    let view = &self.kernel.views[m];
                    let (bytes, elem) = match (&arg.0, view.access) {
                        (Kind::Read(bytes, elem), Access::In) => (bytes.len(), *elem),
                        (Kind::Write(bytes, elem), Access::Out | Access::InOut) => (bytes.len(), *elem),
                        _ => return refuse(format!("an {} view", view.access.name())),
                    };
                    // Bytes go for anything.
                    if elem != Elem::U8 && view.content != Content::Elem(elem) {
                        return refuse(format!("a view of {}", view.content));
                    }
                    let wanted = view_bytes(view, &scalar).map_err(|e| format!("argument {i}: {e}"))?;
                    if (bytes as u64) < wanted {
                        return Err(format!("argument {i} has {bytes} bytes, its view takes {wanted}"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Bytes from the first to behind the last unit of a view.
fn view_bytes(view: &ViewData, scalar: &dyn Fn(Value) -> Option<i32>) -> Result<u64, String> {
    let extent = |e: &Extent| match e {
        Extent::Const(n) => Ok(u64::from(*n)),
        Extent::Param(v) => {
            let n = scalar(*v).ok_or_else(|| format!("an extent of its view is {v}, which is no scalar argument"))?;
            u64::try_from(n).map_err(|_| format!("an extent of its view is {n}"))
        }
    };
    let mut last = Some(0u64);
    let mut empty = false;
    for (dim, stride) in view.dims.iter().zip(&view.strides) {
        let (dim, stride) = (extent(dim)?, extent(stride)?);
        empty |= dim == 0;
        last = last.and_then(|n| n.checked_add(dim.saturating_sub(1).checked_mul(stride)?));
    }
    if empty {
        return Ok(0);
    }
    let bytes = last.and_then(|n| n.checked_add(1)?.checked_mul(u64::from(view.content.unit_bytes())));
    bytes.ok_or_else(|| "its view is larger than the address space".into())
}

/// An argument of a [launch](CallableKernel::launch).
#[derive(Debug)]
pub struct KernelArg<'a>(Kind<'a>);

#[derive(Debug)]
enum Kind<'a> {
    I32(i32),
    F32(f32),
    Read(&'a [u8], Elem),
    Write(&'a mut [u8], Elem),
}

impl<'a> KernelArg<'a> {
    /// A scalar.
    pub fn i32(n: i32) -> KernelArg<'a> {
        KernelArg(Kind::I32(n))
    }

    /// A scalar.
    pub fn f32(x: f32) -> KernelArg<'a> {
        KernelArg(Kind::F32(x))
    }

    /// The memory of an `in` view: elements of its type, or bytes of any type or quantised format.
    pub fn read<T: Plain>(slice: &'a [T]) -> KernelArg<'a> {
        KernelArg(Kind::Read(bytes_of(slice), T::ELEM))
    }

    /// The memory of an `out` or `inout` view: elements of its type, or bytes of any type. What the kernel does not store
    /// keeps its value.
    pub fn write<T: Plain>(slice: &'a mut [T]) -> KernelArg<'a> {
        KernelArg(Kind::Write(bytes_of_mut(slice), T::ELEM))
    }

    fn describe(&self) -> String {
        match &self.0 {
            Kind::I32(n) => format!("the i32 {n}"),
            Kind::F32(x) => format!("the f32 {x}"),
            Kind::Read(_, e) => format!("a shared slice of {e}"),
            Kind::Write(_, e) => format!("a mutable slice of {e}"),
        }
    }
}

/// Types of elements that slices can have: any bits are a value, and there is no padding.
///
/// # Safety
/// Both of these hold for the type, and it has the size of `ELEM`.
pub unsafe trait Plain: Copy + sealed::Sealed {
    /// The element type in tile IR.
    const ELEM: Elem;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! plain {
    ($($t:ty = $elem:ident),*) => {$(
        impl sealed::Sealed for $t {}
        // SAFETY: a number without padding, all of whose bit patterns are values.
        unsafe impl Plain for $t {
            const ELEM: Elem = Elem::$elem;
        }
    )*};
}

plain!(i8 = I8, u8 = U8, i16 = I16, u16 = U16, i32 = I32, u32 = U32, half::f16 = F16, half::bf16 = BF16, f32 = F32);

pub(crate) fn bytes_of<T: Plain>(slice: &[T]) -> &[u8] {
    // SAFETY: the same memory, without padding, for as long.
    unsafe { std::slice::from_raw_parts(slice.as_ptr().cast(), size_of_val(slice)) }
}

pub(crate) fn bytes_of_mut<T: Plain>(slice: &mut [T]) -> &mut [u8] {
    // SAFETY: the same memory, borrowed exclusively for as long; whatever bytes are written are values of T.
    unsafe { std::slice::from_raw_parts_mut(slice.as_mut_ptr().cast(), size_of_val(slice)) }
}
