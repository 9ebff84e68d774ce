//! Reading matrices from NumPy files, with a reader that is not ours: it also checks what our own
//! tools write.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::golden::GoldenError;

/// A dense matrix of float32 in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    columns: usize,
    values: Vec<f32>,
}

impl Matrix {
    /// A matrix of rows of `columns` values each; `None` if that does not divide the values or is
    /// zero.
    pub fn new(columns: usize, values: Vec<f32>) -> Option<Self> {
        let fits = columns > 0 && values.len().is_multiple_of(columns);
        fits.then_some(Self { columns, values })
    }

    /// Reads a C-ordered, two-dimensional float32 array.
    ///
    /// # Errors
    /// The file cannot be read, or is of another form.
    pub fn read_npy(path: &Path) -> Result<Self, GoldenError> {
        let io = |source| GoldenError::Io {
            path: path.to_owned(),
            source,
        };
        let form = |what: String| GoldenError::Form {
            path: path.to_owned(),
            what,
        };
        let file = npyz::NpyFile::new(BufReader::new(File::open(path).map_err(io)?)).map_err(io)?;
        let &[rows, columns] = file.shape() else {
            return Err(form(format!(
                "two dimensions wanted, shape is {:?}",
                file.shape()
            )));
        };
        if file.order() != npyz::Order::C {
            return Err(form("row-major order wanted".to_owned()));
        }
        let values: Vec<f32> = file.into_vec().map_err(io)?;
        if values.len() as u64 != rows * columns {
            return Err(form(format!(
                "{rows}x{columns} announced, {} values",
                values.len()
            )));
        }
        Self::new(columns as usize, values).ok_or_else(|| form("no columns".to_owned()))
    }

    /// Number of values in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The rows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.columns)
    }

    /// All values, row after row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}
