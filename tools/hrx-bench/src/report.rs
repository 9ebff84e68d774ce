//! Records as a table, JSON or CSV, each written as soon as it is there.

use crate::against::Against;
use crate::args::Form;
use crate::profile::Profile;
use crate::record::{Record, commit};
use serde_json::Value;
use std::io::{Result, Write};

/// A report that has been begun.
pub struct Report {
    form: Form,
    records: usize,
    /// Of a table's tests, for behind it.
    profiles: Vec<Profile>,
    against: Vec<String>,
    /// What all tests have in common, as of the last.
    device: String,
}

const HEADER: &str = "\
| model                          |       size |     params | backend    | threads |            test |                  t/s |  \
median | MB/token | GOP/token |   GB/s | of copy | of reading | TOP/s | of products |
| ------------------------------ | ---------: | ---------: | ---------- | ------: | --------------: | -------------------: | \
-------: | -------: | --------: | -----: | ------: | ---------: | ----: | ----------: |
";

/// Begins a report.
///
/// # Errors
/// If it can't be written.
pub fn start(form: Form, out: &mut impl Write) -> Result<Report> {
    match form {
        Form::Json => out.write_all(b"[")?,
        Form::Md => out.write_all(HEADER.as_bytes())?,
        Form::Csv | Form::Jsonl => {}
    }
    out.flush()?;
    Ok(Report { form, records: 0, profiles: Vec::new(), against: Vec::new(), device: String::new() })
}

impl Report {
    /// Adds a record.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn add(&mut self, record: &Record, out: &mut impl Write) -> Result<()> {
        let first = self.records == 0;
        self.profiles.extend(record.profile.clone());
        self.against.extend(record.against.as_ref().map(|against| row_against(record, against)));
        self.device = about(record);
        self.records += 1;
        match self.form {
            Form::Json => {
                let text = serde_json::to_string_pretty(record)?.replace('\n', "\n  ");
                write!(out, "{}\n  {text}", if first { "" } else { "," })?;
            }
            Form::Jsonl => writeln!(out, "{}", serde_json::to_string(record)?)?,
            Form::Csv => csv(record, first, out)?,
            Form::Md => writeln!(
                out,
                "| {:30} | {:>10} | {:>10} | {:10} | {:>7} | {:>15} | {:>20} | {:>8.2} | {:>8.2} | {:>9.3} | {:>6.1} | \
                 {:>7} | {:>10} | {:>5.1} | {:>11} |",
                record.model_type,
                format!("{:.2} MiB", record.model_size as f64 / f64::from(1 << 20)),
                format!("{:.2} M", record.model_n_params as f64 / 1e6),
                record.backends,
                record.n_threads,
                record.test(),
                format!("{:.2} ± {:.2}", record.avg_ts, record.stddev_ts),
                record.median_ts,
                record.bytes_per_token / 1e6,
                record.ops_per_token / 1e9,
                record.bandwidth / 1e9,
                share(record.bandwidth_share),
                share(record.read_share),
                record.rate / 1e12,
                share(record.rate_share),
            )?,
        }
        out.flush()
    }

    /// Ends the report.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn finish(self, out: &mut impl Write) -> Result<()> {
        match self.form {
            Form::Json => out.write_all(b"\n]\n")?,
            Form::Md => {
                if !self.against.is_empty() {
                    write!(out, "\n{AGAINST}{}", self.against.concat())?;
                }
                self.profiles.iter().try_for_each(|profile| profile.write(out))?;
                write!(out, "\n{}build: {}\n", self.device, commit())?;
            }
            Form::Csv | Form::Jsonl => {}
        }
        out.flush()
    }
}

const AGAINST: &str = "\
| model                          | threads |            test | median t/s |   the other | ratio | of neighbours |
| ------------------------------ | ------: | --------------: | ---------: | ----------: | ----: | ------------: |
";

/// A test beside another engine's.
fn row_against(record: &Record, against: &Against) -> String {
    let [least, most] = against.ratios;
    format!(
        "| {:30} | {:>7} | {:>15} | {:>10.2} | {:>11.2} | {:>5.2} | {:>13} |\n",
        record.model_type,
        record.n_threads,
        record.test(),
        record.median_ts,
        against.median_ts,
        against.ratio,
        format!("{least:.2} to {most:.2}"),
    )
}

/// Device, limits and kernels in lines of their own.
fn about(record: &Record) -> String {
    let limits = match (record.copy_bandwidth, record.read_bandwidth, record.product_rate) {
        (Some(copy), Some(read), Some(products)) => {
            let [copy, read, products] = [copy / 1e9, read / 1e9, products / 1e12];
            format!("limits: a copy {copy:.1} GB/s, reading {read:.1} GB/s, products {products:.2} TOP/s\n")
        }
        _ => String::new(),
    };
    format!(
        "device: {}\n{limits}kernels: {}, of which {} were compiled in {:.0} ms and assembled in {:.0} ms; {} launches a token\n",
        record.gpu_info,
        record.kernels,
        record.kernels_compiled,
        record.compile_ms,
        record.assemble_ms,
        record.launches
    )
}

/// A share of a limit, where that was measured.
fn share(of: Option<f64>) -> String {
    of.map_or_else(String::new, |s| format!("{:.1} %", 100.0 * s))
}

/// A line of values, after a line of names if it is the first. Lists have no place in it, as in llama-bench's.
fn csv(record: &Record, first: bool, out: &mut impl Write) -> Result<()> {
    let Value::Object(fields) = serde_json::to_value(record)? else { return Ok(()) };
    let fields: Vec<_> = fields.iter().filter(|(_, value)| !value.is_array() && !value.is_object()).collect();
    if first {
        writeln!(out, "{}", fields.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(","))?;
    }
    let quoted = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("\"{}\"", text.replace('"', "\"\""))
    };
    writeln!(out, "{}", fields.iter().map(|(_, value)| quoted(value)).collect::<Vec<_>>().join(","))
}
