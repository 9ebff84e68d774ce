//! Loads, stores, loops, grids and local memory.

use hrx_ir::tile::interp::{Arg, Memory, Options, run};
use hrx_ir::tile::{Access, BinaryOp, Builder, CmpOp, Content, Elem, Extent, GridExpr, ReduceOp, Type};

#[test]
fn a_masked_kernel_covers_a_ragged_matrix() {
    // y[row] = sum of x[row, :] for a run-time number of columns, 4 at a time; 2 rows a program.
    let mut b = Builder::new("row_sums");
    let (rows, cols) = (b.scalar_param(Elem::I32), b.scalar_param(Elem::I32));
    let scale = b.scalar_param(Elem::F32);
    let dims = [Extent::Param(rows), Extent::Param(cols)];
    let strides = [Extent::Param(cols), Extent::Const(1)];
    let x = b.strided_param(Content::Elem(Elem::F16), &dims, &strides, Access::In);
    let y = b.view_param(Elem::F32, &[rows.into(), 1.into()], Access::Out);
    b.grid(1, GridExpr::ceil_div(rows, 2));
    let (pid, two, zero, four) = (b.program_id(1), b.index(2), b.index(0), b.index(4));
    let row = b.mul(pid, two);
    let lanes = b.iota(2);
    let row_ids = b.add(row, lanes);
    let in_rows = b.cmp(CmpOp::Lt, row_ids, rows);
    let in_rows = b.reshape(in_rows, &[2, 1]);
    let init = b.float(0.0, &[2, 1]);
    let sums = b.for_loop([zero, cols, four], &[init], |b, at, carried| {
        let lanes = b.iota(4);
        let col_ids = b.add(at, lanes);
        let in_cols = b.cmp(CmpOp::Lt, col_ids, cols);
        let in_cols = b.reshape(in_cols, &[1, 4]);
        let mask = b.binary(BinaryOp::And, in_rows, in_cols);
        let tile = b.load(x, &[row_ids, at], &[2, 4], Some(mask));
        let tile = b.convert(tile, Elem::F32);
        let sum = b.reduce(ReduceOp::Sum, tile, 1);
        vec![b.add(carried[0], sum)]
    });
    let scaled = b.mul(sums[0], scale);
    b.store(y, &[row, zero], scaled, Some(in_rows));
    let kernel = b.finish();

    let mut memory = Memory::new();
    let elems: Vec<f64> = (0..3 * 6).map(f64::from).collect();
    // The view starts behind two elements that are not its own.
    let x = memory.add_elems(Elem::F16, &[vec![99.0, 99.0], elems].concat());
    let y = memory.add_uninit(3 * 4);
    let args = [Arg::I32(3), Arg::I32(6), Arg::F32(2.0), Arg::Buffer(x, 4), Arg::buffer(y)];
    let report = run(&kernel, &args, &mut memory, &Options::default()).unwrap();
    assert_eq!(memory.elems(y, Elem::F32), [30.0, 102.0, 174.0]);
    assert_eq!(memory.first_unwritten(y), None);
    assert_eq!(report.programs, 2);

    let none = [Arg::I32(0), Arg::I32(6), Arg::F32(2.0), Arg::Buffer(x, 4), Arg::buffer(y)];
    assert_eq!(run(&kernel, &none, &mut memory, &Options::default()).unwrap().programs, 0);
}

#[test]
fn gathers_scatters_and_strides() {
    // Rows 2, 0 of a column-major 3x2 matrix, stored to rows 1, 3 of a padded one.
    let mut b = Builder::new("gather");
    let x = b.strided_param(Content::Elem(Elem::I16), &[3.into(), 2.into()], &[1.into(), 3.into()], Access::In);
    let ids = b.view_param(Elem::I32, &[2.into()], Access::In);
    let y = b.strided_param(Content::Elem(Elem::I16), &[4.into(), 2.into()], &[3.into(), 1.into()], Access::InOut);
    let (zero, one) = (b.index(0), b.index(1));
    let rows = b.load(ids, &[zero], &[2], None);
    let tile = b.load(x, &[rows, zero], &[2, 2], None);
    let lanes = b.iota(2);
    let twice = b.add(lanes, lanes);
    let to = b.add(twice, one);
    b.store(y, &[to, zero], tile, None);
    let kernel = b.finish();

    let mut memory = Memory::new();
    let x = memory.add_elems(Elem::I16, &[1.0, 2.0, 3.0, -1.0, -2.0, -3.0]);
    let ids = memory.add_elems(Elem::I32, &[2.0, 0.0]);
    let y = memory.add(vec![0; 24]);
    run(&kernel, &[Arg::buffer(x), Arg::buffer(ids), Arg::buffer(y)], &mut memory, &Options::default()).unwrap();
    let want = [0.0, 0.0, 0.0, 3.0, -3.0, 0.0, 0.0, 0.0, 0.0, 1.0, -1.0, 0.0];
    assert_eq!(memory.elems(y, Elem::I16), want);
}

#[test]
fn one_buffer_in_two_slots_and_local_memory() {
    // Each program of 4 adds 1 to its element in place, through local memory of a narrower type.
    let mut b = Builder::new("in_place");
    let x = b.view_param(Elem::F32, &[4.into()], Access::In);
    let y = b.view_param(Elem::F32, &[4.into()], Access::Out);
    let local = b.local(Elem::F16, &[1]);
    b.grid(0, GridExpr::constant(4));
    let (pid, zero) = (b.program_id(0), b.index(0));
    let tile = b.load(x, &[pid], &[1], None);
    let half = b.convert(tile, Elem::F16);
    b.store(local, &[zero], half, None);
    let back = b.load(local, &[zero], &[1], None);
    let back = b.convert(back, Elem::F32);
    let one = b.float(1.0, &[1]);
    let sum = b.add(back, one);
    b.store(y, &[pid], sum, None);
    let kernel = b.finish();
    let mut memory = Memory::new();
    let x = memory.add_elems(Elem::F32, &[1.0, 2.0, 2049.0, -1.0]);
    run(&kernel, &[Arg::buffer(x), Arg::buffer(x)], &mut memory, &Options::default()).unwrap();
    assert_eq!(memory.elems(x, Elem::F32), [2.0, 3.0, 2049.0, 0.0]);
    let y = memory.add_uninit(16);
    run(&kernel, &[Arg::buffer(x), Arg::buffer(y)], &mut memory, &Options::default()).unwrap();
    assert_eq!(memory.elems(y, Elem::F32), [3.0, 4.0, 2049.0, 1.0]);
}

#[test]
fn nested_loops_and_three_axes() {
    // out[x, y, z] = x + 10 y + 100 z + sum of i * j over 0 <= j < i < 4 (11).
    let mut b = Builder::new("nested");
    let out = b.view_param(Elem::I32, &[2.into(), 3.into(), 2.into()], Access::Out);
    b.grid(0, GridExpr::constant(2));
    b.grid(1, GridExpr::constant(3));
    b.grid(2, GridExpr::constant(2));
    let (zero, one, four) = (b.index(0), b.index(1), b.index(4));
    let outer = b.for_loop([zero, four, one], &[zero], |b, i, sum| {
        b.for_loop([zero, i, one], sum, |b, j, sum| {
            let ij = b.mul(i, j);
            vec![b.add(sum[0], ij)]
        })
    });
    let ids = [b.program_id(0), b.program_id(1), b.program_id(2)];
    let (ten, hundred) = (b.index(10), b.index(100));
    let y = b.mul(ids[1], ten);
    let z = b.mul(ids[2], hundred);
    let sum = b.add(outer[0], ids[0]);
    let sum = b.add(sum, y);
    let sum = b.add(sum, z);
    let tile = b.broadcast(sum, Type::new(Elem::I32, &[1, 1, 1]).shape);
    b.store(out, &ids, tile, None);
    let kernel = b.finish();
    let mut memory = Memory::new();
    let out = memory.add_uninit(48);
    run(&kernel, &[Arg::buffer(out)], &mut memory, &Options::exact()).unwrap();
    let got = memory.elems(out, Elem::I32);
    let want = |i: usize| (i / 6) as f64 + 10.0 * (i / 2 % 3) as f64 + 100.0 * (i % 2) as f64 + 11.0;
    assert_eq!(got, (0..12).map(want).collect::<Vec<_>>());
}

#[test]
fn padded_rows_of_local_memory_lie_apart() {
    let mut b = Builder::new("padded");
    let x = b.view_param(Elem::F32, &[2.into(), 3.into(), 4.into()], Access::In);
    let y = b.view_param(Elem::F32, &[2.into(), 3.into(), 4.into()], Access::Out);
    let local = b.local_padded(Elem::F32, &[2, 3, 4], 1);
    let at = [b.index(0); 3];
    let tile = b.load(x, &at, &[2, 3, 4], None);
    b.store(local, &at, tile, None);
    let back = b.load(local, &at, &[2, 3, 4], None);
    b.store(y, &at, back, None);
    let kernel = b.finish();
    assert_eq!(kernel.views[local].strides, [15.into(), 5.into(), 1.into()]);
    assert_eq!(kernel.local_bytes(), Some(4 * 30));
    hrx_ir::tile::verify(&kernel).unwrap();
    let numbers: Vec<f64> = (0..24).map(f64::from).collect();
    let mut memory = Memory::new();
    let args = [memory.add_elems(Elem::F32, &numbers), memory.add_uninit(96)];
    run(&kernel, &args.map(Arg::buffer), &mut memory, &Options::default()).unwrap();
    assert_eq!(memory.elems(args[1], Elem::F32), numbers);
}
