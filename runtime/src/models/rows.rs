//! The weights of a file for the interpreter, and which types of weights there are.

use super::Stored;
use crate::gguf::{GgmlType, Gguf};
use half::{bf16, f16};
use hrx_ir::graph::WeightSource;
use hrx_ir::quant::Format;
use hrx_ir::tile::{Content, Elem};

/// What a weight of this type is to a graph; none where it can't be used.
pub fn weight_content(t: GgmlType) -> Option<Content> {
    match t {
        GgmlType::F32 => Some(Content::Elem(Elem::F32)),
        GgmlType::F16 => Some(Content::Elem(Elem::F16)),
        GgmlType::BF16 => Some(Content::Elem(Elem::BF16)),
        other => Format::from_ggml_id(other.id()).map(Content::Quant),
    }
}

/// The names of the types that weights may have.
pub(super) fn supported_types() -> Vec<&'static str> {
    GgmlType::ALL.iter().filter(|t| weight_content(**t).is_some()).map(|t| t.name()).collect()
}

/// A file's tensors as rows of f32, dequantised as the formats' references do.
pub struct GgufRows<'a>(pub &'a Gguf);

impl WeightSource for GgufRows<'_> {
    fn row(&self, name: &str, row: u32, out: &mut [f32]) -> Result<(), String> {
        let stored = Stored::find(self.0, name).ok_or("the file has no such tensor")?;
        let info = stored.parts()[0];
        let ty = info.ggml_type();
        let content = weight_content(ty).ok_or_else(|| format!("type {ty} can't be read"))?;
        // Rows are neighbours in the file, so that a tensor can be read with longer or shorter ones.
        let (own, n) = (info.dim(0), out.len() as u64);
        if n == 0 || !(n.is_multiple_of(own) || own.is_multiple_of(n)) {
            return Err(format!("rows have {own} elements, {n} are wanted"));
        }
        let bytes = ty.bytes_for(n).ok_or("a row is no whole number of blocks")? as usize;
        // Every part has as many rows as the first.
        let (mut at, mut part) = (bytes * row as usize, 0);
        if let Stored::Experts(_) = stored {
            part = at / info.byte_size().max(1);
            at %= info.byte_size().max(1);
        }
        let part = stored.parts().get(part).ok_or("the tensor has no such row")?;
        let data = self.0.data(part).get(at..at + bytes).ok_or("the tensor has no such row")?;
        match content {
            Content::Quant(format) => format.dequantize_row(data, out),
            Content::Elem(Elem::F16) => decode(data, out, |b| f16::from_le_bytes(b).to_f32()),
            Content::Elem(Elem::BF16) => decode(data, out, |b| bf16::from_le_bytes(b).to_f32()),
            Content::Elem(_) => decode(data, out, f32::from_le_bytes),
        }
        Ok(())
    }
}

/// Decodes elements of `N` bytes.
fn decode<const N: usize>(data: &[u8], out: &mut [f32], element: impl Fn([u8; N]) -> f32) {
    let (chunks, _) = data.as_chunks::<N>();
    out.iter_mut().zip(chunks).for_each(|(x, &b)| *x = element(b));
}
