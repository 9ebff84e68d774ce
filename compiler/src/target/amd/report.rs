//! The facts of a chip as rows of text, for people.

use super::{Accumulators, BOARDS, Board, Chip, Dot4, Fp8, Matrix};
use crate::target::fact::{Fact, Source};
use std::fmt::Display;

/// One fact as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// What it is of.
    pub label: String,
    /// Its value with its unit, or `not known`.
    pub value: String,
    /// Where it was read; none if it is not known.
    pub source: Option<&'static str>,
}

/// All facts of a chip and its boards.
pub fn report(chip: &Chip) -> Vec<Row> {
    let mut rows = Rows(Vec::new());
    rows.llvm("generation", chip.generation);
    if !chip.members.is_empty() {
        rows.sourced("runs on", chip.members.join(", "), Source::LlvmUsage);
        rows.sourced("code object version", "6", Source::LlvmUsage);
    }
    waves(chip, &mut rows);
    memory(chip, &mut rows);
    instructions(chip, &mut rows);
    for board in BOARDS.iter().filter(|b| b.chip == chip.name) {
        rows.board(board);
    }
    rows.0
}

fn waves(chip: &Chip, rows: &mut Rows) {
    rows.llvm("wave of generated code", format!("{} lanes", chip.wave));
    rows.llvm("workgroup shares", format!("one {} of {} SIMDs", chip.block.name(), chip.simds));
    rows.llvm("waves of a SIMD", chip.max_waves);
    rows.llvm(&format!("workgroups of several waves of a {}", chip.block.name()), chip.max_workgroups);
    rows.llvm("work items of a workgroup", chip.max_work_items);
    for v in chip.vgprs {
        let value = format!("{} a SIMD, granule {}, {} addressable", v.total, v.granule, v.addressable);
        rows.llvm(&format!("VGPRs, waves of {}", v.wave), value);
    }
    let accumulators = match chip.accumulators {
        Accumulators::None => "none",
        Accumulators::Separate => "as many as VGPRs, apart from them",
        Accumulators::Unified => "256 addressable, of the same file as VGPRs",
    };
    rows.llvm("accumulators", accumulators);
    let sgprs = match chip.sgprs.pool {
        Some((total, granule)) => format!("{total} a SIMD, granule {granule}, {} addressable", chip.sgprs.addressable),
        None => format!("{} addressable, for every wave", chip.sgprs.addressable),
    };
    rows.llvm("SGPRs", sgprs);
}

fn memory(chip: &Chip, rows: &mut Rows) {
    rows.llvm("LDS of a workgroup", format!("{} KiB", chip.lds >> 10));
    rows.llvm(&format!("LDS of a {}", chip.block.name()), format!("{} KiB", chip.lds_block >> 10));
    rows.sourced("LDS granule", format!("{} bytes", chip.lds_granule.value), chip.lds_granule.source);
    rows.fact("LDS banks of a CU", chip.lds_banks, "");
    rows.fact("vector cache of a CU", chip.vector_cache, " KiB");
    rows.fact("vector cache line", chip.vector_line, " bytes");
    rows.fact("L2 cache of a die", chip.l2, " KiB");
    rows.fact("L2 cache line", chip.l2_line, " bytes");
    match chip.last_level {
        Some(k) => {
            let value = k.value.map_or("none".to_string(), |mib| format!("{mib} MiB"));
            rows.sourced("last-level cache", value, k.source);
        }
        None => rows.fact::<u32>("last-level cache", None, ""),
    }
    rows.sourced("buffer resource, word 3", format!("{:#010x}", chip.buffer_word3), Source::MlirBuffer);
}

fn instructions(chip: &Chip, rows: &mut Rows) {
    rows.fact("f32 operations of a CU and clock", chip.f32_rate, "");
    let dot4 = match chip.dot4 {
        Dot4::None => "none",
        Dot4::Same => "of one signedness",
        Dot4::Mixed => "of any signedness",
    };
    rows.sourced("dot products of bytes", dot4, Source::LlvmIntrinsics);
    let dots = chip.dots.iter().map(|d| d.factors.to_string()).collect::<Vec<_>>().join(", ");
    rows.sourced("dot products", if dots.is_empty() { "none".into() } else { dots }, Source::LlvmIntrinsics);
    let unit = match chip.matrix {
        Matrix::None => "none",
        Matrix::Wmma11 => "WMMA of gfx11",
        Matrix::Wmma12 => "WMMA of gfx12",
        Matrix::MfmaA => "MFMA of gfx908",
        Matrix::MfmaB => "MFMA of gfx942",
        Matrix::MfmaC => "MFMA of gfx950",
    };
    rows.sourced("matrix unit", unit, Source::LlvmIntrinsics);
    match chip.fp8.map(|k| (k.value, k.source)) {
        Some((Fp8::Fnuz, source)) => rows.sourced("8-bit floats", "FNUZ", source),
        Some((Fp8::Ocp, source)) => rows.sourced("8-bit floats", "OCP", source),
        None => rows.sourced("8-bit floats", "none", Source::LlvmIntrinsics),
    }
    for op in chip.matrix_ops {
        let rate = match chip.matrix_rate(op) {
            Ok(rate) => format!("{rate} operations a CU and clock"),
            Err(_) => "throughput not known".into(),
        };
        let source = op.cycles.map_or(Source::LlvmIntrinsics, |c| c.source);
        rows.sourced(&op.to_string(), format!("{}, {rate}", op.mnemonic), source);
    }
}

struct Rows(Vec<Row>);

impl Rows {
    fn sourced(&mut self, label: &str, value: impl Display, source: Source) {
        self.0.push(Row { label: label.into(), value: value.to_string(), source: Some(source.name()) });
    }

    fn llvm(&mut self, label: &str, value: impl Display) {
        self.sourced(label, value, Source::LlvmTarget);
    }

    fn fact<T: Display>(&mut self, label: &str, fact: Fact<T>, unit: &str) {
        match fact {
            Some(k) => self.sourced(label, format!("{}{unit}", k.value), k.source),
            None => self.0.push(Row { label: label.into(), value: "not known".into(), source: None }),
        }
    }

    fn board(&mut self, board: &Board) {
        let clock = board.game_mhz.map_or(String::new(), |mhz| format!(" (typically {mhz})"));
        let value = format!("{} CUs at {} MHz{clock}", board.cus, board.boost_mhz);
        self.sourced(board.name, value, board.source);
        let facts = [
            ("bandwidth", board.bandwidth, " GB/s"),
            ("bandwidth measured", board.measured, " GB/s"),
            ("f32 peak", board.f32_peak, " TFLOP/s"),
            ("f16 matrix peak", board.f16_matrix, " TFLOP/s"),
            ("i8 matrix peak", board.i8_matrix, " TOP/s"),
            ("fp8 matrix peak", board.fp8_matrix, " TFLOP/s"),
        ];
        // What a board's page leaves out is left out here.
        for (label, fact, unit) in facts.into_iter().filter(|(_, fact, _)| fact.is_some()) {
            self.fact(&format!("{}, {label}", board.name), fact, unit);
        }
        if board.last_level.is_some() {
            self.fact(&format!("{}, last-level cache", board.name), board.last_level, " MiB");
        }
    }
}
