//! Kernels that ask for more than a chip has are refused in one line that says what.

use hrx_compiler::{Target, compile};
use hrx_ir::tile::{Access, Builder, Elem, Kernel};

fn refusal(kernel: &Kernel, target: &str) -> String {
    let target = Target::from_name(target).expect("a target");
    let e = compile(kernel, &target).expect_err("more than the chip has").to_string();
    assert!(!e.contains('\n'), "one line: {e}");
    e
}

/// A kernel with this much local memory that is all used.
fn local(bytes: u32) -> Kernel {
    let mut b = Builder::new("local");
    let out = b.view_param(Elem::F32, &[64.into()], Access::Out);
    let memory = b.local(Elem::F32, &[bytes / 256, 64]);
    let (zero, last) = (b.index(0), b.index(i64::from(bytes / 256 - 1)));
    let x = b.float(1.0, &[1, 64]);
    b.store(memory, &[last, zero], x, None);
    let y = b.load(memory, &[last, zero], &[1, 64], None);
    let y = b.reshape(y, &[64]);
    b.store(out, &[zero], y, None);
    b.finish()
}

/// A kernel that keeps a tile of so many rows of 64 elements in one wave's registers over a loop.
fn registers(rows: u32) -> Kernel {
    let mut b = Builder::new("registers");
    let x = b.view_param(Elem::F32, &[rows.into(), 64.into()], Access::In);
    let out = b.view_param(Elem::F32, &[rows.into(), 64.into()], Access::Out);
    let zero = b.index(0);
    let tile = b.load(x, &[zero, zero], &[rows, 64], None);
    let bounds = [zero, b.index(100), b.index(1)];
    let sums = b.for_loop(bounds, &[tile], |b, _, sum| {
        let more = b.load(x, &[zero, zero], &[rows, 64], None);
        vec![b.fma(more, tile, sum[0])]
    });
    b.store(out, &[zero, zero], sums[0], None);
    b.finish()
}

#[test]
fn local_memory_is_limited() {
    compile(&local(32 << 10), &Target::from_name("gfx1100").expect("a target")).expect("half of what there is");
    // With room for moving tiles it is more than there is, although the kernel's own would fit.
    let mut b = Builder::new("both");
    let out = b.view_param(Elem::F32, &[64.into()], Access::Out);
    b.waves(2);
    let memory = b.local(Elem::F32, &[256, 64]);
    let zero = b.index(0);
    let x = b.float(1.0, &[1, 64]);
    b.store(memory, &[zero, zero], x, None);
    let y = b.load(memory, &[zero, zero], &[256, 64], None);
    let sum = b.reduce(hrx_ir::tile::ReduceOp::Sum, y, 0);
    let sum = b.reshape(sum, &[64]);
    b.store(out, &[zero], sum, None);
    let e = refusal(&b.finish(), "gfx1100");
    assert!(e.contains("bytes of LDS") && e.contains("gfx1100 has 65536"), "{e}");
}

#[test]
fn registers_are_limited() {
    compile(&registers(32), &Target::from_name("gfx1100").expect("a target")).expect("fits");
    let e = refusal(&registers(256), "gfx1100");
    assert!(e.contains("more registers than a lane of gfx1100 has"), "{e}");
}
