//! What changed between two code objects.

use crate::support::ONE;
use crate::{STREAM, built, inspected};
use hrx_compiler::inspect::diff;

#[test]
fn the_same_file_has_not_changed() {
    let one = inspected(&built(STREAM, "gfx1100"));
    let found = diff(&one, &one).expect("comparable");
    assert!(found.kernels.iter().all(|k| k.same_code && k.changes.is_empty()));
    assert_eq!(found.to_string().matches("nothing has changed").count(), 3);
}

#[test]
fn changes_are_listed_where_they_are() {
    let before = inspected(&built(STREAM, "gfx1100"));
    // Twice the iterations, and one more product in each; one kernel is gone.
    let changed = STREAM.replace("icmp eq i32 %next, 64", "icmp eq i32 %next, 128").replace(
        "%more = fadd contract float %p, %sum",
        "%q = fmul contract float %p, %v\n  %more = fadd contract float %q, %sum",
    );
    let gone = changed.find("; Each lane reads").expect("its comment");
    let next = changed.find("; A sum of squares").expect("its comment");
    let after = inspected(&built(&(changed[..gone].to_owned() + &changed[next..]), "gfx1100"));
    let found = diff(&before, &after).expect("comparable");
    assert_eq!((found.only_before.as_slice(), found.only_after.as_slice()), (&["columns".to_string()][..], &[][..]));
    insta::assert_snapshot!("diff", found.to_string());
    let json = serde_json::to_value(&found).expect("JSON");
    let sums = json["kernels"].as_array().expect("kernels").iter().find(|k| k["after"] == "sums").expect("it");
    let changes = sums["changes"].as_array().expect("changes");
    let iterations = changes.iter().find(|c| c["what"] == "iterations").expect("its change");
    assert_eq!((&iterations["before"], &iterations["after"]), (&64.into(), &128.into()));
    assert!(iterations["loop"].is_string());
}

#[test]
fn kernels_of_other_names_are_compared_if_there_is_one_each() {
    let before = inspected(&built(ONE, "gfx1201"));
    let after = inspected(&built(&ONE.replace("@scale", "@scaled"), "gfx1201"));
    let found = diff(&before, &after).expect("comparable");
    assert!(found.only_before.is_empty() && found.only_after.is_empty());
    assert!(found.to_string().starts_with("kernel scaled, before scale\n"), "{found}");
}

#[test]
fn what_can_not_be_compared_is_refused() {
    let other = inspected(&built(STREAM, "gfx1101"));
    let one = inspected(&built(STREAM, "gfx1100"));
    let refused = diff(&one, &other).expect_err("other chips").to_string();
    assert_eq!(refused, "code object: the one is for gfx1100, the other for gfx1101: they can't be compared");
    let renamed = ["scale", "columns", "sums"]
        .iter()
        .fold(STREAM.to_owned(), |ir, n| ir.replace(&format!("@{n}("), &format!("@{n}2(")));
    let refused = diff(&one, &inspected(&built(&renamed, "gfx1100"))).expect_err("other kernels").to_string();
    assert_eq!(refused, "code object: they have no kernel in common: they can't be compared");
}
