//! Detection on the trees of several machines.

use super::*;
use proptest::prelude::*;
use tempfile::TempDir;

/// Lays a machine's tree out: files follow `== PATH`.
fn machine(text: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for file in text.split("== ").skip(1) {
        let (path, content) = file.split_once('\n').expect("a path and a content");
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }
    dir
}

fn topology(text: &str) -> Topology {
    Topology::read(machine(text).path()).expect("a topology")
}

/// Processor, chip, kind and MiB of each GPU, and which is preferred.
type Shown = (Vec<(&'static str, Option<&'static str>, Kind, u64)>, Option<usize>);

fn check(text: &str, (gpus, preferred): Shown) {
    let found = topology(text);
    let shown: Vec<_> =
        found.gpus.iter().map(|g| (g.processor.as_str(), g.chip.map(|c| c.name), g.kind, g.memory >> 20)).collect();
    assert_eq!(shown, gpus);
    assert_eq!(found.preferred().map(|g| g.index), preferred);
    assert!(found.gpus.iter().enumerate().all(|(i, g)| g.index == i));
}

#[test]
fn machines_have_the_gpus_they_have() {
    use Kind::{Discrete, Integrated};
    check(include_str!("machines/apu.txt"), (vec![("gfx1151", Some("gfx1151"), Integrated, 65536)], Some(0)));
    check(
        include_str!("machines/apu_one_node.txt"),
        (vec![("gfx90c", Some("gfx9-generic"), Integrated, 512)], Some(0)),
    );
    let both =
        vec![("gfx1036", Some("gfx10-3-generic"), Integrated, 512), ("gfx1100", Some("gfx1100"), Discrete, 24560)];
    check(include_str!("machines/card_and_apu.txt"), (both, Some(1)));
    let cards = vec![("gfx1030", Some("gfx1030"), Discrete, 16368), ("gfx1201", Some("gfx1201"), Discrete, 16304)];
    check(include_str!("machines/two_cards.txt"), (cards, Some(0)));
    check(include_str!("machines/none.txt"), (vec![], None));
    check(include_str!("machines/unknown.txt"), (vec![("gfx1321", None, Discrete, 32768)], None));
    let old = vec![("gfx803", None, Discrete, 8192), ("gfx1103", Some("gfx1103"), Integrated, 4096)];
    check(include_str!("machines/old_card_and_apu.txt"), (old, Some(1)));
}

#[test]
fn gpus_are_where_the_driver_says() {
    let found = topology(include_str!("machines/card_and_apu.txt"));
    let shown: Vec<_> = found.gpus.iter().map(|g| (g.node, g.pci.to_string(), g.render_minor)).collect();
    assert_eq!(shown, [(1, "0000:18:00.0".into(), Some(128)), (2, "0000:03:00.0".into(), Some(129))]);
    assert_eq!(
        found.summary(),
        "GPU 0: gfx1036, integrated, PCI 0000:18:00.0, 512 MiB; GPU 1: gfx1100, discrete, PCI 0000:03:00.0, 24560 MiB"
    );
    assert_eq!(topology(include_str!("machines/none.txt")).summary(), "no AMD GPU");
}

#[test]
fn processors_are_named_as_llvm_does() {
    for (version, name) in [
        (90_010, "gfx90a"),
        (90_012, "gfx90c"),
        (90_402, "gfx942"),
        (90_500, "gfx950"),
        (100_304, "gfx1034"),
        (110_000, "gfx1100"),
        (110_501, "gfx1151"),
        (120_001, "gfx1201"),
    ] {
        assert_eq!(processor(version), name);
    }
}

#[test]
fn nodes_come_in_the_order_of_their_numbers() {
    let mut text = String::new();
    for node in [10, 9, 2] {
        text += &format!("== {node}/properties\nsimd_count 4\ngfx_target_version 110000\nlocation_id {node}\n");
    }
    let found = topology(&text);
    assert_eq!(found.gpus.iter().map(|g| (g.index, g.node)).collect::<Vec<_>>(), [(0, 2), (1, 9), (2, 10)]);
}

#[test]
fn what_is_wrong_is_said_with_its_file() {
    let none = tempfile::tempdir().expect("a directory");
    let e = Topology::read(&none.path().join("nodes")).expect_err("no driver").to_string();
    assert!(e.contains("nodes can't be read") && e.contains("is not loaded"), "{e}");
    let bad = machine("== 0/properties\nsimd_count many\ngfx_target_version 110000\n");
    let e = Topology::read(bad.path()).expect_err("no number").to_string();
    assert!(e.ends_with("0/properties: simd_count is many, not a number"), "{e}");
    let large = machine("== 0/properties\nsimd_count 4\ngfx_target_version 4294967296\n");
    let e = Topology::read(large.path()).expect_err("too large").to_string();
    assert!(e.ends_with("gfx_target_version is 4294967296, more than 32 bits"), "{e}");
    let empty = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(empty.path().join("0")).expect("a node");
    let e = Topology::read(empty.path()).expect_err("no file").to_string();
    assert!(e.contains("0/properties: "), "{e}");
}

fn overridden(node: u32, set: &[(&str, &str)]) -> Result<Option<Override>, OverrideError> {
    Override::of_node(node, |name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).into()))
}

#[test]
fn an_override_is_said_with_what_the_hardware_is() {
    let found = topology(include_str!("machines/old_card_and_apu.txt"));
    let gpu = &found.gpus[1];
    let over = overridden(gpu.node, &[("HSA_OVERRIDE_GFX_VERSION", "11.0.0")]).expect("valid").expect("in force");
    assert_eq!(over.processor, "gfx1100");
    let said = over.warning(gpu);
    assert!(
        said.starts_with(
            "HSA_OVERRIDE_GFX_VERSION=11.0.0 is in force: AMD's runtime takes the gfx1103 at PCI 0000:65:00.0 for a gfx1100;"
        ),
        "{said}"
    );
    let same = overridden(gpu.node, &[("HSA_OVERRIDE_GFX_VERSION", "11.0.3")]).expect("valid").expect("in force");
    assert!(same.warning(gpu).contains("it changes nothing"));
}

#[test]
fn an_override_of_one_node_goes_first() {
    let set = [("HSA_OVERRIDE_GFX_VERSION", "10.3.0"), ("HSA_OVERRIDE_GFX_VERSION_2", "9.0.10")];
    let of = |node| overridden(node, &set).expect("valid").map(|o| (o.variable, o.processor));
    assert_eq!(of(2), Some(("HSA_OVERRIDE_GFX_VERSION_2".into(), "gfx90a".into())));
    assert_eq!(of(1), Some(("HSA_OVERRIDE_GFX_VERSION".into(), "gfx1030".into())));
    assert_eq!(overridden(1, &[]), Ok(None));
    for bad in ["gfx1100", "11.0", "11.0.0.0", "64.0.0", "11.256.0", "-1.0.0", ""] {
        let e = overridden(1, &[("HSA_OVERRIDE_GFX_VERSION", bad)]).expect_err(bad).to_string();
        assert!(e.contains("not three numbers"), "{e}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "([a-z_]{1,8}|simd_count|gfx_target_version|domain) ?[0-9a-f-]{0,24}(\n|)") {
        let dir = machine(&format!("== 0/properties\n{}", text.repeat(3)));
        if let Ok(found) = Topology::read(dir.path()) {
            prop_assert!(found.gpus.len() <= 1);
        }
    }
}
