//! What a launch's arguments become on any device: 64-bit slots, one a parameter, and the grid that follows from them.

use super::{Arg, Buffer, DeviceError, Var};
use hrx_ir::tile::{Extent, GridExpr, Kernel, Param, Value, View};
use std::collections::HashMap;

/// Numbers of a kernel that depend on the scalar arguments of its launch.
pub(super) struct Shape {
    name: String,
    params: Vec<Param>,
    grid: [Size; 3],
    /// The extents and strides of views, and the bytes of a unit, in the order of `params`.
    views: Vec<Option<ViewSize>>,
}

struct ViewSize {
    axes: Vec<[Size; 2]>,
    unit: u64,
}

/// An expression over argument slots.
enum Size {
    Const(u64),
    Slot(usize),
    CeilDiv(Box<Size>, u64),
    Mul(Box<Size>, Box<Size>),
    Add(Box<Size>, Box<Size>),
}

impl Size {
    fn extent(e: &Extent, slot_of: &HashMap<Value, usize>) -> Result<Size, Value> {
        Ok(match e {
            Extent::Const(n) => Size::Const(u64::from(*n)),
            Extent::Param(v) => Size::Slot(*slot_of.get(v).ok_or(*v)?),
        })
    }

    fn grid(e: &GridExpr, slot_of: &HashMap<Value, usize>) -> Result<Size, Value> {
        Ok(match e {
            GridExpr::Extent(e) => Size::extent(e, slot_of)?,
            GridExpr::CeilDiv(a, by) => Size::CeilDiv(Box::new(Size::grid(a, slot_of)?), u64::from((*by).max(1))),
            GridExpr::Mul(a, b) => Size::Mul(Box::new(Size::grid(a, slot_of)?), Box::new(Size::grid(b, slot_of)?)),
            GridExpr::Add(a, b) => Size::Add(Box::new(Size::grid(a, slot_of)?), Box::new(Size::grid(b, slot_of)?)),
        })
    }

    fn eval(&self, slots: &[u64]) -> u64 {
        match self {
            Size::Const(n) => *n,
            // Scalars are i32 in the low half; a negative extent is an empty grid.
            Size::Slot(i) => (slots[*i] as u32 as i32).max(0) as u64,
            Size::CeilDiv(a, by) => a.eval(slots).div_ceil(*by),
            Size::Mul(a, b) => a.eval(slots).saturating_mul(b.eval(slots)),
            Size::Add(a, b) => a.eval(slots).saturating_add(b.eval(slots)),
        }
    }
}

impl Shape {
    /// What a kernel's launches depend on.
    ///
    /// # Errors
    /// If its grid or a view uses something that is no scalar parameter.
    pub(super) fn new(kernel: &Kernel) -> Result<Shape, DeviceError> {
        let refuse = |what: &str, v: Value| DeviceError::Launch {
            kernel: kernel.name.clone(),
            reason: format!("{what} uses {v}, which is no scalar parameter"),
        };
        let scalars = kernel.params.iter().enumerate();
        let slot_of: HashMap<Value, usize> =
            scalars.filter_map(|(i, p)| if let Param::Scalar(v) = p { Some((*v, i)) } else { None }).collect();
        let grid = |e: &GridExpr| Size::grid(e, &slot_of).map_err(|v| refuse("its grid", v));
        let view = |m: View| {
            let data = &kernel.views[m];
            let size = |e: &Extent| Size::extent(e, &slot_of).map_err(|v| refuse("a view", v));
            let axes = data.dims.iter().zip(&data.strides).map(|(d, s)| Ok([size(d)?, size(s)?]));
            let axes = axes.collect::<Result<_, DeviceError>>()?;
            Ok(ViewSize { axes, unit: u64::from(data.content.unit_bytes()) })
        };
        let views = kernel.params.iter().map(|p| match *p {
            Param::View(m) => view(m).map(Some),
            Param::Scalar(_) => Ok(None),
        });
        Ok(Shape {
            name: kernel.name.clone(),
            params: kernel.params.clone(),
            grid: [grid(&kernel.grid[0])?, grid(&kernel.grid[1])?, grid(&kernel.grid[2])?],
            views: views.collect::<Result<_, DeviceError>>()?,
        })
    }

    /// An error about a launch of the kernel.
    pub(super) fn refuse(&self, reason: String) -> DeviceError {
        DeviceError::Launch { kernel: self.name.clone(), reason }
    }
}

/// The arguments of one launch.
pub(super) struct Slots {
    values: Vec<u64>,
    /// Which argument is which variable, times which factor.
    vars: Vec<(usize, Var, u32)>,
    /// Keeps the memory alive that `values` point to.
    _buffers: Vec<Buffer>,
}

impl Slots {
    /// Checks arguments against a kernel's parameters.
    ///
    /// # Errors
    /// If there are too many or too few, or one is of another kind than its parameter.
    pub(super) fn new(shape: &Shape, args: Vec<Arg>) -> Result<Slots, DeviceError> {
        if args.len() != shape.params.len() {
            return Err(shape.refuse(format!("it takes {} arguments, not {}", shape.params.len(), args.len())));
        }
        let (mut values, mut vars, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
        for (i, (arg, param)) in args.into_iter().zip(&shape.params).enumerate() {
            match (arg, param) {
                (Arg::Buffer(b), Param::View(_)) => {
                    values.push(b.address());
                    buffers.push(b);
                }
                (Arg::I32(n), Param::Scalar(_)) => values.push(u64::from(n as u32)),
                (Arg::F32(x), Param::Scalar(_)) => values.push(u64::from(x.to_bits())),
                (Arg::Var(v), Param::Scalar(_)) => {
                    values.push(0);
                    vars.push((i, v, 1));
                }
                (Arg::Times(v, n), Param::Scalar(_)) => {
                    values.push(0);
                    vars.push((i, v, n));
                }
                (arg, param) => {
                    return Err(shape.refuse(format!("argument {i} is {arg:?}, the parameter is {param:?}")));
                }
            }
        }
        Ok(Slots { values, vars, _buffers: buffers })
    }

    /// One value a parameter: addresses, and scalars in the low half.
    pub(super) fn values(&self) -> &[u64] {
        &self.values
    }

    /// Sets the variables; returns the grid, which has at most `i32::MAX` programs.
    ///
    /// # Errors
    /// If a variable is missing, or the grid is larger.
    pub(super) fn set(&mut self, shape: &Shape, vars: &[i32]) -> Result<[u64; 3], DeviceError> {
        for &(slot, Var(i), times) in &self.vars {
            let value = vars.get(i).ok_or_else(|| shape.refuse(format!("the replay sets no variable {i}")))?;
            let product = i32::try_from(times).ok().and_then(|n| value.checked_mul(n));
            let product = product.ok_or_else(|| shape.refuse(format!("{value} rows times {times} are too many")))?;
            self.values[slot] = u64::from(product as u32);
        }
        let grid = [0, 1, 2].map(|axis| shape.grid[axis].eval(&self.values));
        let programs = grid.iter().try_fold(1u64, |n, &g| n.checked_mul(g)).filter(|&n| n <= i32::MAX as u64);
        programs.map(|_| grid).ok_or_else(|| shape.refuse(format!("a grid of {grid:?} programs")))
    }

    /// Refuses views of more than `largest` bytes from their first to behind their last unit, as the scalars have them, and
    /// strides among the scalars that are no multiple of the next axis' constant one: code counts on addresses being
    /// aligned as that says.
    ///
    /// # Errors
    /// The first such view.
    pub(super) fn check_views(&self, shape: &Shape, largest: u64) -> Result<(), DeviceError> {
        for (i, view) in shape.views.iter().enumerate() {
            let Some(view) = view else { continue };
            for pair in view.axes.windows(2) {
                let ([_, outer @ Size::Slot(_)], [_, Size::Const(inner)]) = (&pair[0], &pair[1]) else { continue };
                let outer = outer.eval(&self.values);
                if *inner > 0 && !outer.is_multiple_of(*inner) {
                    let reason = format!("argument {i} is a view with a stride of {outer}, no multiple of {inner}");
                    return Err(shape.refuse(reason));
                }
            }
            let mut last = 0u64;
            for [dim, stride] in &view.axes {
                let way = dim.eval(&self.values).saturating_sub(1).saturating_mul(stride.eval(&self.values));
                last = last.saturating_add(way);
            }
            let bytes = last.saturating_add(1).saturating_mul(view.unit);
            if bytes > largest {
                return Err(
                    shape.refuse(format!("argument {i} is a view of {bytes} bytes; its code reaches {largest}"))
                );
            }
        }
        Ok(())
    }
}
