//! NumPy's `.npy` files of float32 matrices: logits, row by row.
//!
//! A file is the magic `\x93NUMPY`, a version (1.0 is written, 1.0 to 3.0 read), the header's length, the header (a
//! Python dictionary as text, padded so that the data begins at a multiple of 64 bytes), and the elements, row-major.
//! Source: NumPy's documentation of `numpy.lib.format`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Bytes of magic, version, length and header together as written.
const HEADER_BYTES: usize = 128;

/// Why an `.npy` file can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// The operating system refused.
    #[error("{}: can't {action}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The file isn't a float32 matrix in `.npy` form, or a row of another width was added.
    #[error("{}: {problem}", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// What was found and what was wanted.
        problem: String,
    },
}

/// Writes a float32 matrix row by row. The file appears under its name when [`finish`](NpyWriter::finish) has written
/// everything; until then, and after an error, there is nothing there (or what was there before).
#[derive(Debug)]
pub struct NpyWriter {
    target: PathBuf,
    part: PathBuf,
    /// `None` once finished.
    file: Option<BufWriter<File>>,
    rows: usize,
    cols: usize,
}

impl NpyWriter {
    /// Begins a file of `cols` columns at `path`.
    pub fn create(path: &Path, cols: usize) -> Result<NpyWriter, NpyError> {
        // Replace what a link points to rather than the link.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if target.exists() && !target.is_file() {
            let problem = "this is not a regular file, and only such a file can be written".into();
            return Err(NpyError::Format { file: target, problem });
        }
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let part = target.with_file_name(name);
        let file =
            File::create(&part).map_err(|source| NpyError::Io { file: target.clone(), action: "create", source })?;
        let mut writer = NpyWriter { target, part, file: Some(BufWriter::new(file)), rows: 0, cols };
        writer.write("write", |file| file.write_all(&header(0, cols)))?;
        Ok(writer)
    }

    /// Adds a row of as many values as there are columns.
    pub fn row(&mut self, values: &[f32]) -> Result<(), NpyError> {
        if values.len() != self.cols {
            let problem = format!("row {} has {} values, want {}", self.rows, values.len(), self.cols);
            return Err(NpyError::Format { file: self.target.clone(), problem });
        }
        self.write("write", |file| values.iter().try_for_each(|value| file.write_all(&value.to_le_bytes())))?;
        self.rows += 1;
        Ok(())
    }

    /// Completes the header and puts the file in its place. Gives the number of rows.
    pub fn finish(mut self) -> Result<usize, NpyError> {
        let header = header(self.rows, self.cols);
        self.write("write", |file| {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header)?;
            file.flush()
        })?;
        let (part, target) = (self.part.clone(), self.target.clone());
        self.write("put in place", |_| fs::rename(part, target))?;
        self.file = None;
        Ok(self.rows)
    }

    fn write(
        &mut self,
        action: &'static str,
        step: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), NpyError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        step(file).map_err(|source| NpyError::Io { file: self.target.clone(), action, source })
    }
}

impl Drop for NpyWriter {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // Not finished: drop what is buffered, and remove the file. Nothing can be done where that fails.
            drop(file.into_parts());
            let _ = fs::remove_file(&self.part);
        }
    }
}

fn header(rows: usize, cols: usize) -> Vec<u8> {
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    let length = HEADER_BYTES - MAGIC.len() - 4;
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    header.extend((length as u16).to_le_bytes());
    // Two numbers of 20 digits fit, so the header never changes its size.
    header.extend(format!("{text:<width$}\n", width = length - 1).as_bytes());
    header
}

/// A float32 matrix, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// `rows * cols` values.
    pub data: Vec<f32>,
}

impl Matrix {
    /// The row `index`, counted from 0.
    ///
    /// # Panics
    /// Where `index` isn't below `rows`.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.data[index * self.cols..][..self.cols]
    }
}

/// Reads a file of a little-endian float32 matrix in C order.
pub fn read(path: &Path) -> Result<Matrix, NpyError> {
    let bytes = fs::read(path).map_err(|source| NpyError::Io { file: path.into(), action: "read", source })?;
    parse(&bytes).map_err(|problem| NpyError::Format { file: path.into(), problem })
}

fn parse(bytes: &[u8]) -> Result<Matrix, String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("this is not an .npy file: the magic is missing")?;
    let (version, rest) = rest.split_at_checked(2).ok_or("the file ends in the version")?;
    let (length, rest) = match version[0] {
        1 => rest.split_first_chunk::<2>().map(|(n, rest)| (usize::from(u16::from_le_bytes(*n)), rest)),
        2 | 3 => rest.split_first_chunk::<4>().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest)),
        other => return Err(format!("the version is {other}, want 1 to 3")),
    }
    .ok_or("the file ends in the header's length")?;
    let (header, data) = rest.split_at_checked(length).ok_or("the file ends in the header")?;
    let header = std::str::from_utf8(header).map_err(|_| "the header is not text")?;
    let field = |key: &str| {
        let start = header.find(&format!("'{key}':"))? + key.len() + 3;
        Some(header[start..].trim_start())
    };
    if !field("descr").is_some_and(|value| value.starts_with("'<f4'")) {
        return Err(format!("the header is {}, want 'descr': '<f4'", header.trim_end()));
    }
    if !field("fortran_order").is_some_and(|value| value.starts_with("False")) {
        return Err(format!("the header is {}, want 'fortran_order': False", header.trim_end()));
    }
    let shape = field("shape")
        .and_then(|value| value.strip_prefix('(')?.split_once(')'))
        .and_then(|(dims, _)| dims.split(',').map(|dim| dim.trim().parse().ok()).collect::<Option<Vec<usize>>>())
        .and_then(|dims| <[usize; 2]>::try_from(dims).ok());
    let Some([rows, cols]) = shape else {
        return Err(format!("the header is {}, want a shape of two dimensions", header.trim_end()));
    };
    let want = rows.checked_mul(cols).and_then(|elements| elements.checked_mul(4));
    if want != Some(data.len()) {
        return Err(format!("there are {} bytes of data for a float32 matrix of {rows} x {cols}", data.len()));
    }
    let data = data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    Ok(Matrix { rows, cols, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.npy");
        let mut writer = NpyWriter::create(&path, 3).unwrap();
        assert!(!path.exists(), "the file appears only when it is complete");
        writer.row(&[1.0, -2.5, f32::INFINITY]).unwrap();
        writer.row(&[0.0, 1e-40, 7.0]).unwrap();
        let wrong = writer.row(&[1.0]).unwrap_err().to_string();
        assert!(wrong.ends_with("row 2 has 1 values, want 3"), "{wrong}");
        assert_eq!(writer.finish().unwrap(), 2);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 128 + 24);
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\0\x76\0");
        let matrix = read(&path).unwrap();
        assert_eq!((matrix.rows, matrix.cols), (2, 3));
        assert_eq!(matrix.data, [1.0, -2.5, f32::INFINITY, 0.0, 1e-40, 7.0]);
        assert_eq!(matrix.row(1), [0.0, 1e-40, 7.0]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no part file is left");
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.npy");
        fs::write(&path, "before").unwrap();
        let mut writer = NpyWriter::create(&path, 1).unwrap();
        writer.row(&[1.0]).unwrap();
        drop(writer);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let folder = NpyWriter::create(dir.path(), 1).unwrap_err().to_string();
        assert!(folder.contains("not a regular file"), "{folder}");
        let nowhere = NpyWriter::create(&dir.path().join("no/m.npy"), 1).unwrap_err().to_string();
        assert!(nowhere.contains("can't create"), "{nowhere}");
    }

    #[test]
    fn faults_are_named() {
        let good = [header(1, 2), vec![0; 8]].concat();
        assert!(parse(&good).is_ok());
        for length in 0..good.len() {
            assert!(parse(&good[..length]).is_err(), "{length}");
        }
        let with = |from: &str, to: &str| {
            let text = String::from_utf8(good[10..128].to_vec()).unwrap().replace(from, to);
            parse(&[&good[..10], text.as_bytes(), &good[128..]].concat()).unwrap_err()
        };
        assert!(with("<f4", "<f8").contains("want 'descr': '<f4'"));
        assert!(with("False", "True ").contains("want 'fortran_order': False"));
        assert!(with("(1, 2)", "(2,)  ").contains("two dimensions"));
        assert!(with("(1, 2)", "(1, 3)").contains("8 bytes of data for a float32 matrix of 1 x 3"));
        let huge = parse(&header(usize::MAX, usize::MAX)).unwrap_err();
        assert!(huge.contains("0 bytes of data"), "{huge}");
    }

    #[test]
    fn numpy_files_are_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/models/llama-Q8_0.npy");
        let matrix = read(&path).unwrap();
        assert_eq!((matrix.rows, matrix.cols), (64, 320));
        assert!(matrix.data.iter().all(|v| v.is_finite()));
    }
}
