//! The facts of a compute capability as rows of text, for people.

use super::{
    BANKS, Chip, DECLARED_SHARED, LINE, MAX_THREADS, PARTITIONS, REGISTER_GRANULE, REGISTERS, THREAD_REGISTERS, WARP,
};
use crate::target::amd::Row;
use crate::target::fact::Source;
use std::fmt::Display;

/// All facts of a row and its board.
pub fn report(chip: &Chip) -> Vec<Row> {
    let row = |label: &str, value: &dyn Display, source: Source| Row {
        label: label.into(),
        value: value.to_string(),
        source: Some(source.name()),
    };
    let [major, minor] = chip.capability;
    let kib = |bytes: u32| format!("{} KiB", bytes >> 10);
    let mut rows = vec![
        row("generation", &chip.generation, Source::Whitepaper),
        row("compute capability", &format!("{major}.{minor}"), Source::CudaGuide),
        row("wave", &format!("{WARP} lanes"), Source::CudaGuide),
        row("partitions of a multiprocessor", &PARTITIONS.value, PARTITIONS.source),
        row("waves of a multiprocessor", &chip.max_waves.value, chip.max_waves.source),
        row("workgroups of a multiprocessor", &chip.max_workgroups.value, chip.max_workgroups.source),
        row("threads of a workgroup", &MAX_THREADS.value, MAX_THREADS.source),
        row("registers of a multiprocessor", &REGISTERS.value, REGISTERS.source),
        row("registers of a lane", &THREAD_REGISTERS.value, THREAD_REGISTERS.source),
        row("granule of a wave's registers", &REGISTER_GRANULE.value, REGISTER_GRANULE.source),
        row("LDS that code declares", &kib(DECLARED_SHARED.value), DECLARED_SHARED.source),
        row("LDS of a workgroup at most", &kib(chip.most_shared.value), chip.most_shared.source),
        row("LDS of a multiprocessor", &kib(chip.shared.value), chip.shared.source),
        row("LDS banks", &BANKS.value, BANKS.source),
        row("cache line", &format!("{} bytes", LINE.value), LINE.source),
    ];
    if let Some(l2) = chip.l2 {
        rows.push(row("L2", &format!("{} MiB", l2.value >> 10), l2.source));
    }
    rows.push(row("dot product of bytes", &"dp4a", Source::PtxIsa));
    for op in chip.matrix_ops {
        let cycles = op.cycles.map_or(String::new(), |c| format!(", {} cycles", c.value));
        rows.push(row(&format!("{op}"), &format!("two {}{cycles}", op.mnemonic), Source::PtxIsa));
    }
    let board = &chip.board;
    let of = |what: &str| format!("{}: {what}", board.name);
    rows.push(row(&of("multiprocessors"), &board.multiprocessors.value, board.multiprocessors.source));
    rows.push(row(&of("bandwidth"), &format!("{} GB/s", board.bandwidth.value), board.bandwidth.source));
    if let Some(peak) = board.f16_matrix {
        rows.push(row(&of("f16 matrix peak"), &format!("{} TFLOP/s", peak.value), peak.source));
    }
    rows
}
