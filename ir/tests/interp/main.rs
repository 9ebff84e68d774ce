//! Tests of the tile interpreter and of the quantised formats that it reads.

mod faults;
mod formats;
mod memory;
mod ops;
mod runs;

use hrx_ir::tile::interp::{Arg, Fault, Memory, Options, run};
use hrx_ir::tile::{Access, Builder, Elem, Extent, Value};

/// A kernel of one program being built, with its inputs.
pub struct Case {
    /// Builds the kernel.
    pub b: Builder,
    memory: Memory,
    args: Vec<Arg>,
}

impl Default for Case {
    fn default() -> Case {
        Case { b: Builder::new("case"), memory: Memory::new(), args: Vec::new() }
    }
}

impl Case {
    /// A tile with these elements.
    pub fn input(&mut self, elem: Elem, dims: &[u32], elems: &[f64]) -> Value {
        let extents: Vec<Extent> = dims.iter().map(|&d| d.into()).collect();
        let view = self.b.view_param(elem, &extents, Access::In);
        self.args.push(Arg::buffer(self.memory.add_elems(elem, elems)));
        let zero = self.b.index(0);
        self.b.load(view, &vec![zero; dims.len()], dims, None)
    }

    /// An `i32` tile of rank 1.
    pub fn ints(&mut self, elems: &[i32]) -> Value {
        let elems: Vec<f64> = elems.iter().map(|&n| n.into()).collect();
        self.input(Elem::I32, &[elems.len() as u32], &elems)
    }

    /// An `f32` tile of rank 1.
    pub fn floats(&mut self, elems: &[f64]) -> Value {
        self.input(Elem::F32, &[elems.len() as u32], elems)
    }

    /// Stores a value and runs: the elements stored, a `b1` as 0 or 1.
    pub fn run(mut self, value: Value, options: Options) -> Result<Vec<f64>, Fault> {
        let n = self.b.ty(value).shape.elements() as u32;
        let elem = match self.b.ty(value).elem {
            Elem::B1 => Elem::I32,
            e => e,
        };
        let flat = self.b.reshape(value, &[n]);
        let flat = self.b.convert(flat, elem);
        let view = self.b.view_param(elem, &[n.into()], Access::Out);
        let out = self.memory.add_uninit((n * elem.bytes()) as usize);
        self.args.push(Arg::buffer(out));
        let zero = self.b.index(0);
        self.b.store(view, &[zero], flat, None);
        run(&self.b.finish(), &self.args, &mut self.memory, &options)?;
        Ok(self.memory.elems(out, elem))
    }

    /// As [`Case::run`] with the device's arithmetic and without a fault.
    pub fn exact(self, value: Value) -> Vec<f64> {
        self.run(value, Options::exact()).expect("no fault")
    }

    /// As [`Case::run`] with the oracle's arithmetic and without a fault.
    pub fn oracle(self, value: Value) -> Vec<f64> {
        self.run(value, Options::default()).expect("no fault")
    }
}
