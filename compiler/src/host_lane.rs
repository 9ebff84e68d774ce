//! The lane form: a lowered kernel with the registers that each value takes on the host.
//!
//! On the host a lane is a vector element, and layout is fixed: one register value for each combination of a tile's
//! leading indices. So the form is the lowered kernel's text with the registers of what each instruction defines in a
//! comment behind it, as in `v5: f32[4, 8] = load m0[v1, v4]  // 4 x <8 x f32>`. It parses as the lowered kernel.

use hrx_ir::tile::print::annotated;
use hrx_ir::tile::{Kernel, Type};

/// The text of a kernel that went through [`crate::passes::lower_host`], with the registers of each definition.
pub fn print(kernel: &Kernel) -> String {
    annotated(kernel, |inst| {
        let results = &kernel.insts[inst].results;
        let registers: Vec<String> = results.iter().map(|&v| registers(kernel.ty(v))).collect();
        (!registers.is_empty()).then(|| registers.join(", "))
    })
}

/// How many registers hold a tile, and of what: vectors over its last axis, or scalars where that has one element.
fn registers(ty: Type) -> String {
    let count = ty.shape.rows();
    match ty.shape.last() {
        1 => format!("{count} x {}", ty.elem),
        n => format!("{count} x <{n} x {}>", ty.elem),
    }
}

#[cfg(test)]
mod tests {
    use super::print;
    use crate::passes::lower_host;
    use hrx_ir::tile::{Elem, parse_kernel};
    use hrx_templates::{Linear, LinearTiling, Template, WeightType};

    #[test]
    fn registers_follow_the_leading_indices() {
        let text = "kernel @k(m0: in f32[4, 8], m1: out f32[4, 1]) {
            v0: i32 = const 0
            v1: f32[4, 8] = load m0[v0, v0]
            v2: f32[4, 1] = reduce_sum v1 axis 1
            store m1[v0, v0], v2
        }";
        let lane = print(&parse_kernel(text).expect("a kernel"));
        let comments: Vec<&str> = lane.lines().filter_map(|l| l.split_once("  // ")).map(|(_, c)| c).collect();
        assert_eq!(comments, ["1 x i32", "4 x <8 x f32>", "4 x f32"], "{lane}");
    }

    #[test]
    fn a_loop_shows_all_that_it_carries_and_the_text_parses() {
        let q4_k = hrx_ir::quant::Format::from_name("q4_k").expect("a format");
        let tiling = LinearTiling { tokens: 2, rows: 2, program_rows: 32, unroll: 1 };
        for weight in [WeightType::Quant(q4_k), WeightType::Float(Elem::F16)] {
            let lowered = lower_host(Linear::new(64, 512, weight, tiling).kernel().expect("supported"));
            let lane = print(&lowered);
            let carried = lane.lines().filter(|l| l.contains(" carry (")).collect::<Vec<_>>();
            assert!(carried.iter().any(|l| l.contains("{  // ") && l.contains(", ")), "{carried:?}");
            assert_eq!(parse_kernel(&lane).expect("parses").to_string(), lowered.to_string());
        }
    }
}
