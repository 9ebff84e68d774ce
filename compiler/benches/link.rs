//! How long linking takes: ours, in this process, and that of an `ld.lld` process, files included.
//! `cargo bench -p hrx-compiler --bench link`.

#[path = "../tests/code_object/support.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use std::process::Command;
use std::time::Duration;
use support::{MODULES, object, tool};

const CHIP: &str = "gfx1100";

fn link_time(c: &mut Criterion) {
    let mut group = c.benchmark_group("link");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    for (name, ir, _) in MODULES {
        let object = object(ir, CHIP);
        group.bench_function(name, |b| b.iter(|| hrx_compiler::link(&object, name).map(|h| h.len())));
    }
    group.finish();

    let mut group = c.benchmark_group("ld.lld process");
    group.sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for (name, ir, _) in MODULES {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("in.o"), object(ir, CHIP)).expect("the object");
        let mut lld = Command::new(tool("ld.lld"));
        lld.args(["-shared", "in.o", "-o", "out.hsaco"]).current_dir(folder.path());
        group.bench_function(name, |b| b.iter(|| assert!(lld.status().expect("ld.lld runs").success())));
    }
    group.finish();
}

criterion_group!(benches, link_time);
criterion_main!(benches);
