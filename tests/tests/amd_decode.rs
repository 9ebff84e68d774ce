//! What the inspection of decode's products says: they read weights at the speed of memory, by the model that it prints.

use hrx::exec::model_kernels;
use hrx::models::ModelGraph;
use hrx_compiler::inspect::{Bound, Class, KernelReport, Options, inspect};
use hrx_compiler::target::amd;
use hrx_compiler::{Target, compile_all};
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::Kernel;
use hrx_templates::{Linear, LinearCut, Request, Template, WeightType};
use hrx_tests::golden::{Golden, real_model_path};

/// The products of decode steps of the published models for a chip, with what was found of each.
fn products(chip: &str) -> Vec<(Linear, KernelReport)> {
    let target = Target::Amd(amd::find(chip).expect("a chip"));
    let (mut products, mut kernels): (Vec<Linear>, Vec<Kernel>) = (Vec::new(), Vec::new());
    for model in Golden::compact().published_models().expect("models") {
        let graph = ModelGraph::open(real_model_path(&model.model)).unwrap_or_else(|e| panic!("{e}")).graph;
        for k in model_kernels(&graph, &target).expect("lowered").into_iter().filter(|k| k.decode > 0) {
            // Of a group each product by itself: what follows from one's facts is held to its own kernel.
            let parts = match k.request {
                Request::Group(group) => group.parts().cloned().collect(),
                request => vec![request],
            };
            for part in parts {
                if let Request::Linear(product) = part {
                    kernels.push(product.kernel().unwrap_or_else(|e| panic!("{e}")));
                    products.push(product);
                }
            }
        }
    }
    let compiled = compile_all(&kernels.iter().collect::<Vec<_>>(), &target);
    let reports = compiled.into_iter().map(|c| {
        let object = c.unwrap_or_else(|e| panic!("{e}")).object;
        let found = inspect(&object, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        found.kernels.into_iter().next().expect("a kernel")
    });
    products.into_iter().zip(reports).collect()
}

/// Bytes of a matrix that a workgroup reads by the product's own sizes, where its steps end where rows do.
fn weight_bytes(l: &Linear) -> Option<u32> {
    let (LinearCut::Rows(t), WeightType::Quant(format)) = (l.tiling, l.weight) else { return None };
    let (blocks, chunks) = (l.k / format.block, l.k / CHUNK);
    (chunks.is_multiple_of(t.chunks) && l.n.is_multiple_of(t.rows)).then(|| t.rows * blocks * format.block_bytes)
}

/// What is wrong with a product.
fn faults(product: &Linear, k: &KernelReport) -> Vec<String> {
    let mut faults = Vec::new();
    let loads = || k.reaches.iter().filter(|r| r.class == Class::VmemLoad);
    // Of all that is read the weights are the most by far.
    match loads().max_by_key(|r| r.workgroup.bytes) {
        Some(weights) if weights.used() >= 0.95 => {}
        Some(weights) => faults.push(format!("uses {:.0} % of what it fetches of weights", 100.0 * weights.used())),
        None => faults.push("no addresses are known".into()),
    }
    let expected = weight_bytes(product);
    if expected.is_some_and(|n| !loads().any(|r| r.workgroup.bytes == n)) {
        let found: Vec<u32> = loads().map(|r| r.workgroup.bytes).collect();
        faults.push(format!("a workgroup's rows have {expected:?} bytes, the loads reach {found:?}"));
    }
    let fetched: f64 = loads().map(|r| f64::from(r.workgroup.bytes) / r.used()).sum();
    let used: f64 = loads().map(|r| f64::from(r.workgroup.bytes)).sum();
    if used < 0.95 * fetched {
        faults.push(format!("uses {:.0} % of all that it fetches", 100.0 * used / fetched));
    }
    let conflicts = k.lds.iter().filter(|a| a.cycles > a.best_cycles);
    faults.extend(conflicts.map(|a| format!("LDS at {:#x}: {} cycles, not {}", a.offset, a.cycles, a.best_cycles)));
    match &k.roofline {
        Some(r) if r.bound == Bound::Memory => {}
        Some(r) => faults.push(format!("bound by {:?}: {} and {} cycles", r.bound, r.issue_cycles, r.memory_cycles)),
        None => faults.push("no roofline".into()),
    }
    faults
}

fn reads_at_the_speed_of_memory(chip: &str) {
    let products = products(chip);
    assert!(products.len() >= 10, "{} products", products.len());
    let lines: Vec<String> =
        products.iter().flat_map(|(l, k)| faults(l, k).into_iter().map(|f| format!("{}: {f}", k.name))).collect();
    assert!(products.iter().filter(|(l, _)| weight_bytes(l).is_some()).count() >= 2, "some have whole steps");
    assert!(lines.is_empty(), "{chip}:\n{}", lines.join("\n"));
}

#[test]
fn gfx1100() {
    reads_at_the_speed_of_memory("gfx1100");
}

#[test]
fn gfx1151() {
    reads_at_the_speed_of_memory("gfx1151");
}
