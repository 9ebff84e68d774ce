//! Random weights on a device. A few MiB of blocks of each type are made on the host once and copied over, again and again,
//! on the device: there is never a whole model on the host, and making one takes as long as writing the memory.

use super::{Content, content};
use crate::device::{Buffer, Device};
use crate::error::Error;
use crate::gguf::{GgmlType, TensorInfo};
use half::{bf16, f16};
use hrx_ir::quant::{Arranged, Format};
use std::collections::HashMap;

/// About how many bytes are made of each kind.
const PATTERN: u64 = 2 << 20;

/// What a pattern depends on: the type, the length of rows and the content.
type Kind = (GgmlType, u64, Content);

/// Makes weights.
#[derive(Default)]
pub(crate) struct Filler {
    patterns: HashMap<Kind, Buffer>,
}

impl Filler {
    /// A tensor's weights in memory of the device's.
    pub(crate) fn place(
        &mut self,
        device: &dyn Device,
        tensor: &TensorInfo,
        arranged: Option<&Arranged>,
    ) -> Result<Buffer, Error> {
        let bytes = tensor.byte_size() as u64;
        let bytes = arranged.map_or(bytes, |a| a.bytes(bytes));
        let buffer = device.alloc(bytes, tensor.name())?;
        let content = content(tensor.name(), tensor.dims().len());
        if content == Content::Zeros {
            return Ok(buffer);
        }
        let pattern = self.pattern(device, tensor, content, arranged)?;
        let mut at = 0;
        while at < bytes {
            let n = pattern.len().min(bytes - at);
            device.copy(&pattern.part(0, n), &buffer.part(at, n))?;
            at += n;
        }
        Ok(buffer)
    }

    /// The blocks that are repeated, on the device.
    fn pattern(
        &mut self,
        device: &dyn Device,
        tensor: &TensorInfo,
        content: Content,
        arranged: Option<&Arranged>,
    ) -> Result<Buffer, Error> {
        let (kind, row) = (tensor.ggml_type(), tensor.dim(0));
        if let Some(pattern) = self.patterns.get(&(kind, row, content)) {
            return Ok(pattern.clone());
        }
        let bytes = match content {
            Content::Random => random(kind, row)
                .ok_or_else(|| Error::Invalid(format!("{}: no random blocks of {kind}", tensor.name())))?,
            Content::Ones => 1f32.to_le_bytes().repeat(PATTERN as usize / 4 / 16),
            Content::Zeros => Vec::new(),
        };
        let bytes = arranged.map_or_else(|| bytes.clone(), |a| a.blocks(&bytes));
        let pattern = device.alloc(bytes.len() as u64, "random blocks")?;
        device.write(&pattern, 0, &bytes)?;
        self.patterns.insert((kind, row, content), pattern.clone());
        Ok(pattern)
    }
}

/// Random blocks of a type, for rows of a length; none if it has no blocks that are known here. Their variance is that of
/// weights which keep activations about as large as they are.
fn random(kind: GgmlType, row: u64) -> Option<Vec<u8>> {
    // Uniform numbers have a third of the square of their bound as variance.
    let bound = (3.0 / row as f32).sqrt();
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ row);
    let mut out = Vec::with_capacity(PATTERN as usize);
    while (out.len() as u64) < PATTERN {
        match kind {
            GgmlType::F32 => out.extend((bound * random.signed()).to_le_bytes()),
            GgmlType::F16 => out.extend(f16::from_f32(bound * random.signed()).to_le_bytes()),
            GgmlType::BF16 => out.extend(bf16::from_f32(bound * random.signed()).to_le_bytes()),
            _ => out.extend(Format::from_ggml_id(kind.id())?.random_block(bound, || random.bits())),
        }
    }
    Some(out)
}

/// Marsaglia's xorshift with a multiplication (Vigna, 2016): enough for weights.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }

    /// Between -1 and 1.
    fn signed(&mut self) -> f32 {
        (self.bits() >> 32 & 0xFF_FFFF) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Cpu;
    use crate::synthetic::Synthetic;

    #[test]
    fn patterns_are_whole_blocks_of_about_the_size_that_is_wanted() {
        for kind in [GgmlType::Q4_K, GgmlType::Q6_K, GgmlType::Q8_0, GgmlType::Q4_0, GgmlType::MXFP4] {
            let blocks = random(kind, 4096).expect("blocks");
            let format = Format::from_ggml_id(kind.id()).expect("a format");
            assert_eq!(blocks.len() % format.block_bytes as usize, 0);
            let mut values = vec![0.0; 1 << 16];
            format.dequantize_row(
                &blocks[..(1 << 16) / format.block as usize * format.block_bytes as usize],
                &mut values,
            );
            assert!(values.iter().all(|v| v.is_finite()));
            let variance = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / values.len() as f64 * 4096.0;
            assert!((0.1..4.0).contains(&variance), "{kind}: {variance}");
        }
        assert!(random(GgmlType::I32, 4096).is_none());
    }

    #[test]
    fn tensors_are_filled_to_their_end() {
        let model: Synthetic = "qwen3-0.6b:q8_0".parse().expect("a model");
        let (gguf, device, mut filler) =
            (model.gguf().expect("a file"), Cpu::new(1).expect("a CPU"), Filler::default());
        let mut last = |name: &str| {
            let tensor = gguf.require_tensor(name).expect("a tensor");
            let buffer = filler.place(&device, tensor, None).expect("placed");
            let mut bytes = [0; 34 * 4];
            device.read(&buffer, buffer.len() - bytes.len() as u64, &mut bytes).expect("read");
            bytes
        };
        assert_ne!(last("blk.0.ffn_up.weight"), [0; 136]);
        assert_eq!(last("blk.0.attn_norm.weight")[132..], 1f32.to_le_bytes());
    }
}
