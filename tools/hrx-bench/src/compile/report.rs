//! What was measured, for people and for programs.

use super::measure::{Group, Row};
use crate::record::commit;
use std::io::{Result, Write};

const COLUMNS: usize = 12;

const HEADER: [&str; COLUMNS] =
    ["target", "model", "kernels", "decode", "median", "worst", "tile", "median", "worst", "sum", "cold", "warm"];

/// Writes a Markdown table with a line for each model and target, and what is wrong after it.
///
/// # Errors
/// If it can't be written.
pub fn table(rows: &[Row], out: &mut impl Write) -> Result<()> {
    let width = |of: fn(&Row) -> &str| rows.iter().map(|r| of(r).len()).max().unwrap_or(0);
    let (t, m) = (width(|r| &r.target).max(15), width(|r| &r.model).max(HEADER[1].len()));
    let line = |cells: [&str; COLUMNS]| {
        let [target, model, numbers @ ..] = cells;
        let numbers: String = numbers.iter().map(|n| format!(" {n:>7} |")).collect();
        format!("| {target:t$} | {model:m$} |{numbers}\n")
    };
    let mut text = line(HEADER);
    text += &format!("| {:-<t$} | {:-<m$} |{}\n", "", "", " ------: |".repeat(COLUMNS - 2));
    for r in rows {
        let count = |n: usize| n.to_string();
        let time = |t: Option<f64>| t.map_or("-".into(), |t| format!("{t:.1}"));
        let group = |g: &Group| [count(g.kernels), time(g.median_ms), time(g.worst_ms)];
        let all = [time(Some(r.cpu_ms)), time(r.cold_wall_ms), time(r.warm_wall_ms)];
        let numbers = [&[count(r.kernels.len())], &group(&r.decode)[..], &group(&r.tile), &all].concat();
        let mut cells = [""; COLUMNS];
        (cells[0], cells[1]) = (&r.target, &r.model);
        cells[2..].iter_mut().zip(&numbers).for_each(|(cell, number)| *cell = number);
        text += &line(cells);
    }
    text += "\nProcessor milliseconds of kernels that decode steps launch, of matrix tiles, and of all; wall-clock \
             milliseconds of all on all cores (cold) and from the cache (warm).\n";
    text += &format!("build: {}\n", commit());
    for (row, fault) in rows.iter().flat_map(|r| r.faults.iter().map(move |f| (r, f))) {
        text += &format!("FAULT {}, {}: {fault}\n", row.model, row.target);
    }
    let kernels: usize = rows.iter().map(|r| r.kernels.len()).sum();
    let faults: usize = rows.iter().map(|r| r.faults.len()).sum();
    text += &format!("{kernels} kernels compiled, {faults} faults\n");
    out.write_all(text.as_bytes())
}

/// Writes JSON.
///
/// # Errors
/// If it can't be written.
pub fn json(rows: &[Row], out: &mut impl Write) -> Result<()> {
    let report = serde_json::json!({ "build_commit": commit(), "rows": rows });
    writeln!(out, "{}", serde_json::to_string_pretty(&report)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_listed_by_name_below_the_table() {
        let group = || Group { kernels: 1, median_ms: Some(12.34), worst_ms: Some(12.34) };
        let row = Row {
            model: "a.gguf".into(),
            target: "gfx1100".into(),
            decode: group(),
            tile: Group::default(),
            cpu_ms: 12.34,
            cold_wall_ms: None,
            warm_wall_ms: Some(0.5),
            kernels: Vec::new(),
            faults: vec!["rope: 16 bytes of scratch memory a lane".into()],
        };
        let mut bytes = Vec::new();
        table(&[row], &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let columns = |line: &str| line.matches('|').count();
        assert!(lines[..3].iter().all(|l| columns(l) == 13 && l.len() == lines[0].len()), "{text}");
        let cells: Vec<&str> = lines[2].split('|').map(str::trim).collect();
        let numbers = ["0", "1", "12.3", "12.3", "0", "-", "-", "12.3", "-", "0.5"];
        assert_eq!(cells, [&["", "gfx1100", "a.gguf"], &numbers[..], &[""]].concat());
        assert!(text.contains("\nFAULT a.gguf, gfx1100: rope: 16 bytes of scratch memory a lane\n"), "{text}");
        assert!(text.ends_with("0 kernels compiled, 1 faults\n"), "{text}");
    }
}
