use hrx_compiler::{Emit, LoadedKernel, Target, emit, mlir};
use hrx_ir::tile::parse_kernel;

#[test]
fn smoke() {
    let text = "kernel @k(m0: in f32[4, 8], m1: out f32[4, 1]) {
            v0: i32 = const 0
            v1: f32[4, 8] = load m0[v0, v0]
            v2: f32[4, 1] = reduce_max v1 axis 1
            store m1[v0, v0], v2
        }";
    let k = parse_kernel(text).unwrap();
    let t = Target::host().unwrap();
    println!("{}", String::from_utf8(emit(&k, &t, Emit::Mlir).unwrap()).unwrap());
    println!("{}", String::from_utf8(mlir::emit(&k, &t, Emit::Llvm).unwrap()).unwrap());
    LoadedKernel::load(&mlir::emit(&k, &t, Emit::Obj).unwrap(), "k").unwrap();
}
