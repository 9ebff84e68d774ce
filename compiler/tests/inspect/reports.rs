//! Reports as text, and as fields.

use crate::support::{self, lld, object, stripped};
use crate::{STREAM, built, inspected, kernel};
use hrx_compiler::inspect::{Options, inspect};
use hrx_compiler::link;
use hrx_compiler::target::amd::BOARDS;

#[test]
fn texts() {
    for chip in ["gfx906", "gfx942", "gfx1100", "gfx1201"] {
        insta::assert_snapshot!(format!("stream_{chip}"), inspected(&built(STREAM, chip)).to_string());
    }
}

#[test]
fn every_module_for_every_chip_is_inspected() {
    support::each(|what, kernels, object| {
        for file in [link(object, what).expect("linked"), lld(object, &[]), stripped(&lld(object, &[]))] {
            let found = inspected(&file);
            let names: Vec<&str> = found.kernels.iter().map(|k| k.name.as_str()).collect();
            let mut wanted = kernels.to_vec();
            wanted.sort_unstable();
            assert_eq!(names, wanted, "{what}");
            for k in &found.kernels {
                assert!(k.regions[0].instructions > 0 && k.occupancy.is_some(), "{what}: {k}");
                let counted: u32 = k.regions.iter().map(|r| r.instructions).sum();
                assert_eq!(counted as usize, k.listing.len(), "{what}: {}", k.name);
                for region in &k.regions {
                    assert_eq!(region.mix.values().sum::<u32>(), region.instructions, "{what}: {}", k.name);
                }
            }
        }
    });
}

#[test]
fn what_is_not_known_is_left_out() {
    // A processor without a row in the table of chips.
    let file = link(&object(support::ONE, "gfx902"), "gfx902").expect("linked");
    let found = inspected(&file);
    let json = serde_json::to_value(&found).expect("JSON");
    // Those of the generic target are known, but no board.
    assert_eq!(json["generation"], "GCN 5");
    assert!(json["kernels"][0].get("roofline").is_none());
    let file = link(&object(support::ONE, "gfx803"), "gfx803").expect("linked");
    let json = serde_json::to_value(inspected(&file)).expect("JSON");
    assert!(json.get("generation").is_none());
    let kernel = &json["kernels"][0];
    for missing in ["occupancy", "roofline", "global", "groups", "lds"] {
        assert!(kernel.get(missing).is_none(), "{missing}: {kernel:#}");
    }
    assert!(kernel["resources"].get("vgprs_allocated").is_none());
    assert!(kernel["resources"]["vgprs"].is_u64() && kernel["regions"][0]["mix"].is_object());
    let text = inspected(&file).to_string();
    assert!(text.contains("note: gfx803 is not in the table of chips"), "{text}");
    assert!(!text.contains("occupancy  ") && !text.contains("not known:"), "{text}");
}

#[test]
fn members_of_a_generic_target_have_its_facts() {
    let file = link(&object(STREAM, "gfx1034"), "gfx1034").expect("linked");
    let report = kernel(&file, "scale");
    assert!(
        report.notes.iter().any(|n| n == "facts are those of gfx10-3-generic, of which gfx1034 is one"),
        "{report}"
    );
    assert!(report.occupancy.is_some() && !report.global.is_empty());
}

#[test]
fn a_board_must_have_the_chip() {
    let board = |name: &str| BOARDS.iter().find(|b| b.name == name);
    let with = |chip: &str, name| {
        let options = Options { kernel: Some("scale"), board: board(name), ..Options::default() };
        inspect(&built(STREAM, chip), &options)
    };
    let found = with("gfx1100", "Radeon RX 7900 XT").expect("inspected");
    let roofline = found.kernels[0].roofline.as_ref().expect("a roofline");
    assert_eq!((roofline.board.as_str(), roofline.bandwidth), ("Radeon RX 7900 XT", 800.0));
    let wrong = with("gfx1201", "Radeon RX 7900 XT").expect_err("another chip").to_string();
    assert_eq!(wrong, "code object: for gfx1201, but Radeon RX 7900 XT has gfx1100");
    // A board of a member runs code for the generic target.
    assert!(with("gfx11-generic", "Radeon RX 7900 XT").is_ok());
    // A processor's graphics have the computer's memory, whose bandwidth the table has not got.
    let none = with("gfx1103", "Radeon 780M").expect("inspected").kernels.remove(0);
    assert!(none.roofline.is_none());
    assert!(none.notes.iter().any(|n| n == "no roofline: the bandwidth of Radeon 780M is not known"), "{none}");
}

#[test]
fn a_roofline_is_its_arithmetic() {
    let report = kernel(&built(STREAM, "gfx1100"), "sums");
    let r = report.roofline.as_ref().expect("a roofline");
    // 64 times a product and a sum of each of 32 lanes, and 64 words and one of each.
    assert_eq!((r.region, r.ops, r.bytes, r.bytes_distinct), (0, 64 * 64, 65 * 128, true));
    // 96 CUs of two SIMDs.
    let per_cycle = r.bandwidth * 1e9 / (192.0 * f64::from(r.clock_mhz) * 1e6);
    assert!((r.memory_cycles - 65.0 * 128.0 / per_cycle).abs() < 1e-6);
    let intensity = r.intensity.expect("operations and bytes");
    assert!((r.attainable.expect("known") - intensity * r.bandwidth).abs() < 1e-6, "it is bound by memory");
}

#[test]
fn workgroups_can_be_asked_about() {
    let asked = |name, workgroup| {
        let options = Options { kernel: Some(name), workgroup: Some(workgroup), ..Options::default() };
        inspect(&built(STREAM, "gfx1100"), &options).map(|mut i| i.kernels.remove(0))
    };
    let report = asked("columns", [32, 1, 1]).expect("inspected");
    assert_eq!(report.workgroup.as_ref().map(|w| (w.work_items, w.waves, w.at_most)), Some((32, 1, false)));
    let refused = asked("columns", [65, 1, 1]).expect_err("too many").to_string();
    assert_eq!(refused, "kernel columns: its workgroups are of at most 64 work items, not 65");
    let refused = asked("columns", [u32::MAX, 2, 1]).expect_err("too many").to_string();
    assert!(refused.ends_with("workgroups of 4294967295 x 2 x 1 work items are impossible"), "{refused}");
}

#[test]
fn names_of_kernels_must_be_there() {
    let file = built(STREAM, "gfx1100");
    let options = Options { kernel: Some("scales"), ..Options::default() };
    let error = inspect(&file, &options).expect_err("no such kernel").to_string();
    assert_eq!(error, "code object: no kernel \"scales\" in it");
}
