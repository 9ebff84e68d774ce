//! The table against itself: names, generic targets, what is unknown, and how it prints.

use hrx_compiler::target::amd::{
    CHIPS, Chip, Dot4, DotType, FactError, Matrix, MatrixCall, MatrixType, Row, find, report,
};
use hrx_compiler::{CompileError, Target};

const NAMES: [&str; 24] = [
    "gfx906",
    "gfx908",
    "gfx90a",
    "gfx942",
    "gfx950",
    "gfx1030",
    "gfx1031",
    "gfx1032",
    "gfx1100",
    "gfx1101",
    "gfx1102",
    "gfx1103",
    "gfx1150",
    "gfx1151",
    "gfx1152",
    "gfx1153",
    "gfx1200",
    "gfx1201",
    "gfx9-generic",
    "gfx9-4-generic",
    "gfx10-1-generic",
    "gfx10-3-generic",
    "gfx11-generic",
    "gfx12-generic",
];

fn chip(name: &str) -> &'static Chip {
    find(name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn all_chips_are_there_once() {
    assert_eq!(CHIPS.iter().map(|c| c.name).collect::<Vec<_>>(), NAMES);
    for name in NAMES {
        assert_eq!(Target::from_name(name).expect("a target").name(), name);
    }
    assert!(find("gfx1202").is_none() && find("").is_none());
}

#[test]
fn short_answers_agree_with_the_lists() {
    for chip in CHIPS {
        let dot4 = match (chip.dot(DotType::I8), chip.dot(DotType::Iu8)) {
            (_, Ok(_)) => Dot4::Mixed,
            (Ok(_), Err(_)) => Dot4::Same,
            (Err(_), Err(_)) => Dot4::None,
        };
        assert_eq!(chip.dot4, dot4, "{}", chip.name);
        assert_eq!(chip.dot2, chip.dot(DotType::F16).is_ok(), "{}", chip.name);
        assert_eq!(chip.matrix == Matrix::None, chip.matrix_ops.is_empty(), "{}", chip.name);
        let float8 = |t| matches!(t, MatrixType::Fp8 | MatrixType::Bf8);
        let has_float8 = chip.matrix_ops.iter().any(|op| float8(op.a)) || chip.dot(DotType::Fp8).is_ok();
        assert_eq!(chip.fp8.is_some(), has_float8, "{}", chip.name);
        for op in chip.matrix_ops {
            let mfma = matches!(op.call, MatrixCall::Mfma | MatrixCall::MfmaTyped);
            let unit = matches!(chip.matrix, Matrix::MfmaA | Matrix::MfmaB | Matrix::MfmaC);
            assert_eq!(mfma, unit, "{} {op}", chip.name);
        }
    }
}

/// Every matrix unit multiplies f16, bf16 and bytes.
#[test]
fn matrix_units_have_the_common_types() {
    for chip in CHIPS.iter().filter(|c| c.matrix != Matrix::None) {
        let bytes = if chip.wave == 32 { MatrixType::Iu8 } else { MatrixType::I8 };
        for (t, acc) in
            [(MatrixType::F16, MatrixType::F32), (MatrixType::Bf16, MatrixType::F32), (bytes, MatrixType::I32)]
        {
            let ops = chip.matrix_products(t, t, acc).unwrap_or_else(|e| panic!("{e}"));
            assert!(ops.windows(2).all(|w| w[0].flops() >= w[1].flops()), "{}", chip.name);
        }
    }
}

/// What is generated for a generic target runs on each of its members.
#[test]
fn generic_targets_are_what_members_have_in_common() {
    let mut generic = 0;
    for chip in CHIPS {
        for member in chip.members.iter().filter_map(|name| find(name)) {
            generic += 1;
            let pair = format!("{} on {}", chip.name, member.name);
            assert_eq!((chip.wave, chip.block, chip.simds), (member.wave, member.block, member.simds), "{pair}");
            assert_eq!(chip.buffer_word3, member.buffer_word3, "{pair}");
            assert_eq!((chip.accumulators, chip.sgprs), (member.accumulators, member.sgprs), "{pair}");
            assert!(chip.lds <= member.lds && chip.lds_block <= member.lds_block, "{pair}");
            assert!(chip.lds_granule.value >= member.lds_granule.value, "{pair}");
            assert!(chip.dots.iter().all(|op| member.dots.contains(op)), "{pair}: dot products");
            assert!(chip.matrix_ops.iter().all(|op| member.matrix_ops.contains(op)), "{pair}: matrix products");
            for vgprs in chip.vgprs {
                let theirs = member.vgprs_for(vgprs.wave).expect("has such waves");
                assert!(vgprs.total <= theirs.total && vgprs.addressable == theirs.addressable, "{pair}");
            }
            let agrees = |ours: Option<u32>, theirs: Option<u32>| ours.is_none() || ours == theirs;
            let facts = |c: &Chip| {
                [c.vector_cache, c.vector_line, c.l2, c.l2_line, c.lds_banks, c.f32_rate].map(|f| f.map(|k| k.value))
            };
            for (ours, theirs) in facts(chip).into_iter().zip(facts(member)) {
                assert!(agrees(ours, theirs), "{pair}: {ours:?} and {theirs:?}");
            }
            let last_level = |c: &Chip| c.last_level.map(|k| k.value);
            assert!(last_level(chip).is_none() || last_level(chip) == last_level(member), "{pair}");
        }
    }
    assert!(generic > 14, "members are in the table");
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    let text = |r: Result<u32, FactError>| r.expect_err("is not known").to_string();
    assert_eq!(text(chip("gfx1153").l2_kib()), "gfx1153: L2 cache is not known");
    assert_eq!(text(chip("gfx942").vector_line_bytes()), "gfx942: vector cache line is not known");
    assert_eq!(text(chip("gfx9-4-generic").lds_bank_count()), "gfx9-4-generic: number of LDS banks is not known");
    assert_eq!(text(chip("gfx908").l2_line_bytes()), "gfx908: L2 cache line is not known");
    assert_eq!(text(chip("gfx1153").vector_cache_kib()), "gfx1153: vector cache is not known");
    let unknown = chip("gfx11-generic").last_level_mib().expect_err("members differ");
    assert_eq!(unknown.to_string(), "gfx11-generic: last-level cache is not known");
    // That there is none is known.
    assert_eq!(chip("gfx1103").last_level_mib(), Ok(None));
    assert_eq!(chip("gfx1151").last_level_mib(), Ok(Some(32)));
    let f16 = MatrixType::F16;
    let absent = chip("gfx1030").matrix_products(f16, f16, MatrixType::F32).expect_err("no matrix unit");
    assert_eq!(absent.to_string(), "gfx1030 has no matrix product of f16*f16 to f32");
    let absent = chip("gfx10-1-generic").dot(DotType::I8).expect_err("no dot products");
    assert_eq!(absent.to_string(), "gfx10-1-generic has no dot product of i8");
    let as_error = CompileError::from(absent).to_string();
    assert_eq!(as_error, "target gfx10-1-generic: gfx10-1-generic has no dot product of i8");
}

fn table(rows: &[Row]) -> String {
    rows.iter().map(|r| format!("{} | {} | {}\n", r.label, r.value, r.source.unwrap_or("-"))).collect()
}

#[test]
fn reports() {
    for name in ["gfx1151", "gfx942", "gfx9-4-generic"] {
        insta::assert_snapshot!(name, table(&report(chip(name))));
    }
    for chip in CHIPS {
        let rows = report(chip);
        for row in &rows {
            assert_eq!(row.source.is_none(), row.value == "not known", "{}: {row:?}", chip.name);
            assert!(!row.label.is_empty() && !row.value.is_empty(), "{}: {row:?}", chip.name);
        }
        let labels: Vec<_> = rows.iter().map(|r| (&r.label, &r.value)).collect();
        assert!((1..labels.len()).all(|i| !labels[..i].contains(&labels[i])), "{}: a row twice", chip.name);
    }
}
