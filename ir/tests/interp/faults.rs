//! Each fault, with where it says it is.

use crate::Case;
use hrx_ir::tile::interp::{Arg, Fault, FaultKind, Memory, Options, run};
use hrx_ir::tile::{Access, BinaryOp, Builder, Elem, GridExpr, Type};

/// Runs a kernel of `programs` programs over two `f32` buffers of 4 elements, `x` in and `y` inout.
fn copy(programs: u32, options: Options, body: impl FnOnce(&mut Builder, [hrx_ir::tile::View; 2])) -> Fault {
    let mut b = Builder::new("copy");
    let x = b.view_param(Elem::F32, &[4.into()], Access::In);
    let y = b.view_param(Elem::F32, &[4.into()], Access::InOut);
    b.grid(0, GridExpr::constant(programs));
    body(&mut b, [x, y]);
    let mut memory = Memory::new();
    let args = [Arg::buffer(memory.add_elems(Elem::F32, &[1.0; 4])), Arg::buffer(memory.add_uninit(16))];
    run(&b.finish(), &args, &mut memory, &options).expect_err("a fault")
}

#[test]
fn out_of_bounds() {
    for (at, bad) in [(1, 4), (-1, -1), (100, 100)] {
        let fault = copy(1, Options::default(), |b, [x, _]| {
            let at = b.index(at);
            b.load(x, &[at], &[4], None);
        });
        let FaultKind::OutOfBounds { ref index, axis: 0, extent: 4, .. } = fault.kind else { panic!("{fault}") };
        assert_eq!(*index, [bad]);
    }
    let fault = copy(1, Options::default(), |b, [_, y]| {
        let (at, tile) = (b.index(2), b.float(0.0, &[4]));
        b.store(y, &[at], tile, None);
    });
    let text = "kernel copy, program [0, 0, 0], inst2 (store): m1[4] is out of bounds: axis 0 has extent 4";
    assert_eq!(fault.to_string(), text);
}

#[test]
fn outside_the_buffer() {
    let mut b = Builder::new("short");
    let n = b.scalar_param(Elem::I32);
    let x = b.view_param(Elem::F32, &[n.into()], Access::In);
    let zero = b.index(0);
    b.load(x, &[zero], &[4], None);
    let kernel = b.finish();
    let mut memory = Memory::new();
    let x = memory.add(vec![0; 18]);
    let fault = run(&kernel, &[Arg::I32(4), Arg::Buffer(x, 4)], &mut memory, &Options::default()).unwrap_err();
    let FaultKind::OutsideBuffer { ref index, byte: 16, len: 18, .. } = fault.kind else { panic!("{fault}") };
    assert_eq!(*index, [3]);
}

#[test]
fn arguments() {
    let mut b = Builder::new("args");
    let n = b.scalar_param(Elem::I32);
    b.view_param(Elem::F32, &[n.into()], Access::In);
    b.grid(0, n_programs(n));
    let kernel = b.finish();
    let mut memory = Memory::new();
    let x = memory.add(vec![0; 16]);
    let foreign = {
        let mut other = memory.clone();
        other.add(Vec::new())
    };
    for args in [
        vec![Arg::I32(1)],
        vec![Arg::F32(1.0), Arg::buffer(x)],
        vec![Arg::I32(1), Arg::I32(1)],
        vec![Arg::buffer(x), Arg::buffer(x)],
        vec![Arg::I32(1), Arg::Buffer(x, 17)],
        vec![Arg::I32(1), Arg::Buffer(x, 2)],
        vec![Arg::I32(1), Arg::buffer(foreign)],
        vec![Arg::I32(-1), Arg::buffer(x)],
        vec![Arg::I32(i32::MAX), Arg::buffer(x)],
    ] {
        let fault = run(&kernel, &args, &mut memory, &Options::default()).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::Args(_)) && fault.site.is_none(), "{args:?}: {fault}");
    }
    assert!(run(&kernel, &[Arg::I32(4), Arg::buffer(x)], &mut memory, &Options::default()).is_ok());
}

fn n_programs(n: hrx_ir::tile::Value) -> GridExpr {
    let n = || Box::new(GridExpr::Extent(n.into()));
    GridExpr::Mul(n(), n())
}

#[test]
fn uninitialised_memory() {
    let fault = copy(1, Options::default(), |b, [_, y]| {
        let (zero, tile) = (b.index(0), b.float(1.0, &[2]));
        b.store(y, &[zero], tile, None);
        b.load(y, &[zero], &[3], None);
    });
    let FaultKind::Uninitialised { ref index, .. } = fault.kind else { panic!("{fault}") };
    assert_eq!(*index, [2]);

    // What the program before left in local memory is gone.
    let fault = copy(2, Options::default(), |b, [x, _]| {
        let local = b.local(Elem::F32, &[2]);
        let (zero, pid) = (b.index(0), b.program_id(0));
        let tile = b.load(x, &[zero], &[1], None);
        b.store(local, &[pid], tile, None);
        b.load(local, &[zero], &[1], None);
    });
    let site = fault.site.unwrap();
    assert!(matches!(fault.kind, FaultKind::Uninitialised { .. }), "{fault}");
    assert_eq!((site.program, site.op), ([1, 0, 0], "load"));
}

#[test]
fn races() {
    let race = |fault: Fault, other: [u32; 3]| {
        let FaultKind::Race { other: o, .. } = fault.kind else { panic!("{fault}") };
        assert_eq!(o, other);
    };
    // Two writers of one byte.
    let write = |b: &mut Builder, [_, y]: [hrx_ir::tile::View; 2]| {
        let (pid, tile) = (b.program_id(0), b.float(1.0, &[2]));
        b.store(y, &[pid], tile, None);
    };
    race(copy(2, Options::default(), write), [0, 0, 0]);
    // A write of what another one reads: program 1 reads what 0 wrote.
    race(
        copy(2, Options::default(), |b, [_, y]| {
            let (pid, zero, tile) = (b.program_id(0), b.index(0), b.float(1.0, &[1]));
            b.store(y, &[pid], tile, None);
            b.load(y, &[zero], &[1], None);
        }),
        [0, 0, 0],
    );
    // Programs 0 and 1 have read what 1 then writes, through another view of the buffer.
    let mut b = Builder::new("late");
    let x = b.view_param(Elem::F32, &[2.into()], Access::In);
    let y = b.view_param(Elem::F32, &[2.into()], Access::Out);
    b.grid(0, GridExpr::constant(2));
    let (pid, zero) = (b.program_id(0), b.index(0));
    let tile = b.load(x, &[zero], &[2], None);
    let first = b.slice(tile, 0, 0, 1);
    let one = b.index(1);
    let to = b.sub(one, pid);
    b.store(y, &[to], first, None);
    let kernel = b.finish();
    let mut memory = Memory::new();
    let x = memory.add_elems(Elem::F32, &[1.0, 2.0]);
    let args = [Arg::buffer(x), Arg::buffer(x)];
    race(run(&kernel, &args, &mut memory, &Options::default()).unwrap_err(), [0, 0, 0]);
    let y = memory.add_uninit(8);
    run(&kernel, &[Arg::buffer(x), Arg::buffer(y)], &mut memory, &Options::default()).unwrap();
    let unchecked = Options { check_races: false, ..Options::default() };
    run(&kernel, &args, &mut memory, &unchecked).unwrap();
}

#[test]
fn integer_arithmetic() {
    let fault = |op, b: &[i32]| {
        let mut c = Case::default();
        let (x, y) = (c.ints(&vec![1; b.len()]), c.ints(b));
        let v = c.b.binary(op, x, y);
        c.run(v, Options::default()).unwrap_err().kind
    };
    assert_eq!(fault(BinaryOp::Div, &[1, 0]), FaultKind::DivisionByZero { element: 1 });
    assert_eq!(fault(BinaryOp::Rem, &[0]), FaultKind::DivisionByZero { element: 0 });
    assert_eq!(fault(BinaryOp::Shl, &[31, 32]), FaultKind::ShiftAmount { element: 1, amount: 32, width: 32 });
    assert_eq!(fault(BinaryOp::Shr, &[-1]), FaultKind::ShiftAmount { element: 0, amount: -1, width: 32 });
}

#[test]
fn dot4_ranges() {
    let dot4 = |a_elem, a: f64, b: f64| {
        let mut c = Case::default();
        let x = c.input(a_elem, &[4], &[0.0, 0.0, a, 0.0]);
        let y = c.input(Elem::I8, &[4], &[0.0, b, 0.0, 0.0]);
        let zero = c.b.int(0, Type::new(Elem::I32, &[1]));
        let v = c.b.dot4(x, y, zero);
        c.run(v, Options::default()).map_err(|f| f.kind)
    };
    assert_eq!(dot4(Elem::I8, 1.0, -128.0), Err(FaultKind::Dot4Range { element: 1 }));
    assert_eq!(dot4(Elem::I8, -128.0, 1.0), Ok(vec![0.0]));
    assert_eq!(dot4(Elem::U8, 255.0, -127.0), Ok(vec![0.0]));
}

#[test]
fn loops_and_fuel() {
    for step in [0, -1] {
        let fault = copy(1, Options::default(), |b, _| {
            let (zero, step) = (b.index(0), b.index(step));
            b.for_loop([zero, zero, step], &[], |_, _, _| Vec::new());
        });
        assert_eq!(fault.kind, FaultKind::LoopStep(step));
    }
    let options = Options { fuel: 1000, ..Options::default() };
    let endless = |b: &mut Builder, _: [hrx_ir::tile::View; 2]| {
        let (zero, one, many) = (b.index(0), b.index(1), b.index(i64::from(i32::MAX)));
        b.for_loop([zero, many, one], &[], |_, _, _| Vec::new());
    };
    assert_eq!(copy(1, options, endless).kind, FaultKind::Fuel(1000));
    assert_eq!(copy(2000, options, |_, _| ()).kind, FaultKind::Fuel(1000), "empty programs cost too");
}
