//! The tensor list of a file: names, shapes, types and where the data is.

use std::ops::Range;

use super::reader::Reader;
use super::{GgmlType, GgufError, Metadata, Rule};

/// Most dimensions of a tensor (ggml's limit).
const MAX_DIMS: usize = 4;
/// Fewest bytes of a tensor's entry: name length, rank, type, offset.
const LEAST_ENTRY: u64 = 8 + 4 + 4 + 8;
/// `general.alignment` where the file doesn't say.
const DEFAULT_ALIGNMENT: u64 = 32;

/// A tensor of a file: what it is and where its data lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    name: Box<str>,
    rank: u8,
    dims: [u64; MAX_DIMS],
    ggml_type: GgmlType,
    shard: u32,
    /// Where the tensor's entry begins in the shard's file.
    entry_at: usize,
    range: Range<usize>,
}

impl TensorInfo {
    /// The tensor's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dimensions in ggml's order: `dims()[0]` is the row's length, whose elements are adjacent.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..usize::from(self.rank)]
    }

    /// The dimension `axis`, which is 1 for axes that the tensor doesn't have.
    pub fn dim(&self, axis: usize) -> u64 {
        self.dims.get(axis).copied().unwrap_or(1)
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// The type of the elements.
    pub fn ggml_type(&self) -> GgmlType {
        self.ggml_type
    }

    /// Size of the data in bytes.
    pub fn byte_size(&self) -> usize {
        self.range.len()
    }

    /// The shard that holds the data (0 for a file that isn't split).
    pub fn shard(&self) -> usize {
        self.shard as usize
    }

    /// Where the tensor's entry begins, in bytes from the start of the shard's file.
    pub(super) fn entry_at(&self) -> usize {
        self.entry_at
    }

    /// Where the data is, in bytes from the start of the shard's file.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

/// Reads the `count` tensor entries that follow the metadata, and finds their data.
pub(super) fn read(
    reader: &mut Reader<'_>,
    metadata: &Metadata,
    shard: u32,
    count: u64,
    count_offset: usize,
    file_size: usize,
) -> Result<Vec<TensorInfo>, GgufError> {
    reader.check_count(count_offset, count, LEAST_ENTRY, || "number of tensors".into())?;
    let alignment = alignment(reader, metadata)?;
    let mut entries = Vec::new();
    for index in 0..count {
        entries.push(Entry::read(reader, index, alignment)?);
    }
    let end = reader.offset() as u64;
    // Too large to have data: every tensor but an empty one is past the end then.
    let data_start = end.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
    entries.into_iter().map(|entry| entry.locate(reader, shard, data_start, file_size as u64)).collect()
}

fn alignment(reader: &Reader<'_>, metadata: &Metadata) -> Result<u64, GgufError> {
    let key = "general.alignment";
    let Some(alignment) = metadata.u32(key)? else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    if !alignment.is_power_of_two() || alignment < 8 {
        let found = alignment.to_string();
        let offset = metadata.value_offset(key).unwrap_or_default();
        let what = format!("value of key `{key}`");
        return Err(reader.error(offset, Rule::Alignment, what, found, "a power of two, at least 8"));
    }
    Ok(alignment.into())
}

/// A tensor entry whose shape, type and alignment are checked, but not yet its place.
struct Entry<'a> {
    entry_at: usize,
    name: &'a str,
    rank: u8,
    dims: [u64; MAX_DIMS],
    ggml_type: GgmlType,
    byte_size: u64,
    /// Bytes from the start of the data section.
    offset: u64,
    /// Where `offset` is stored.
    offset_at: usize,
}

impl<'a> Entry<'a> {
    fn read(reader: &mut Reader<'a>, index: u64, alignment: u64) -> Result<Entry<'a>, GgufError> {
        let entry_at = reader.offset();
        let name = reader.name(|| format!("name of tensor {index}"))?;
        let of = |field: &str| format!("{field} of tensor `{name}`");

        let at = reader.offset();
        let rank = reader.u32(|| of("number of dimensions"))?;
        if rank as usize > MAX_DIMS {
            let want = format!("at most {MAX_DIMS}");
            return Err(reader.error(at, Rule::Rank, of("number of dimensions"), rank.to_string(), want));
        }
        let mut dims = [1; MAX_DIMS];
        let at = reader.offset();
        for dim in &mut dims[..rank as usize] {
            *dim = reader.u64(|| of("dimensions"))?;
        }
        let shape = || format!("{:?}", &dims[..rank as usize]);

        let type_at = reader.offset();
        let id = reader.u32(|| of("type"))?;
        let ggml_type = GgmlType::from_id(id).ok_or_else(|| {
            let want = format!("one of {} (docs/quants.md describes them)", GgmlType::list());
            reader.error(type_at, Rule::TensorType, of("type"), GgmlType::describe_unknown(id), want)
        })?;
        let block = ggml_type.block_elements();
        if !dims[0].is_multiple_of(block) {
            let want = format!("rows of a multiple of {block} elements, a block of {ggml_type}");
            return Err(reader.error(at, Rule::BlockMultiple, of("dimensions"), shape(), want));
        }
        let byte_size = dims
            .iter()
            .try_fold(1u64, |product, dim| product.checked_mul(*dim))
            .filter(|elements| i64::try_from(*elements).is_ok())
            .and_then(|elements| ggml_type.bytes_for(elements))
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .ok_or_else(|| {
                let want = format!("less than 2^63 elements and bytes of {ggml_type}");
                reader.error(at, Rule::Overflow, of("dimensions"), shape(), want)
            })?;

        let offset_at = reader.offset();
        let offset = reader.u64(|| of("data offset"))?;
        if !offset.is_multiple_of(alignment) {
            let want = format!("a multiple of the alignment, {alignment}");
            return Err(reader.error(offset_at, Rule::Misaligned, of("data offset"), offset.to_string(), want));
        }
        Ok(Entry { entry_at, name, rank: rank as u8, dims, ggml_type, byte_size, offset, offset_at })
    }

    /// Finds the data in a file whose data section begins at `data_start`.
    fn locate(self, reader: &Reader<'_>, shard: u32, data_start: u64, file_size: u64) -> Result<TensorInfo, GgufError> {
        let start = data_start.checked_add(self.offset);
        let end = start.and_then(|start| start.checked_add(self.byte_size));
        let range = match (start, end) {
            (Some(start), Some(end)) if end <= file_size => start as usize..end as usize,
            // An empty tensor needs no data section.
            (Some(_), Some(_)) if self.byte_size == 0 && self.offset == 0 => 0..0,
            _ => {
                let what = format!("data offset of tensor `{}`", self.name);
                let found = format!("{} (from the data section at byte {data_start})", self.offset);
                let want = format!(
                    "its {} bytes of {} {:?} to end within the file's {file_size} bytes",
                    self.byte_size,
                    self.ggml_type,
                    &self.dims[..usize::from(self.rank)]
                );
                return Err(reader.error(self.offset_at, Rule::PastEnd, what, found, want));
            }
        };
        Ok(TensorInfo {
            name: self.name.into(),
            rank: self.rank,
            dims: self.dims,
            ggml_type: self.ggml_type,
            shard,
            entry_at: self.entry_at,
            range,
        })
    }
}
