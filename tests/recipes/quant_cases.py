"""Writes ir/tests/data/quant_cases.bin: blocks of each quantised format with the values that gguf-py gives them.

    pip install gguf==0.19.0
    python3 tests/recipes/quant_cases.py

The file is a sequence of records, little endian: the format's name in 8 bytes padded with zeros, the number of blocks
and of elements as u32, the blocks, the elements as f32. Blocks are random but for the numbers that scale them, which
include zeros of both signs, negative and subnormal ones. The last two blocks have all bits of their codes and integers
set and none. gguf-py has no Q8_K and no Q1_0; their values are written out here as ggml's reference has them.
"""

import pathlib
import struct

import numpy as np
from gguf import GGMLQuantizationType, quants
from gguf.constants import GGML_QUANT_SIZES

# Format, blocks, and where the numbers lie that scale a whole block: kind and first byte.
FORMATS = [
    ("Q4_0", 8, [("f16", 0)]),
    ("Q4_1", 8, [("f16", 0), ("f16", 2)]),
    ("Q5_0", 8, [("f16", 0)]),
    ("Q5_1", 8, [("f16", 0), ("f16", 2)]),
    ("Q8_0", 8, [("f16", 0)]),
    ("Q2_K", 5, [("f16", 80), ("f16", 82)]),
    ("Q3_K", 5, [("f16", 108)]),
    ("Q4_K", 5, [("f16", 0), ("f16", 2)]),
    ("Q5_K", 5, [("f16", 0), ("f16", 2)]),
    ("Q6_K", 5, [("f16", 208)]),
    ("Q8_K", 5, [("f32", 0)]),
    ("IQ2_XXS", 8, [("f16", 0)]),
    ("IQ2_XS", 8, [("f16", 0)]),
    ("IQ3_XXS", 8, [("f16", 0)]),
    ("IQ1_S", 8, [("f16", 0)]),
    ("IQ4_NL", 8, [("f16", 0)]),
    ("IQ3_S", 8, [("f16", 0)]),
    ("IQ2_S", 8, [("f16", 0)]),
    ("IQ4_XS", 5, [("f16", 0)]),
    ("IQ1_M", 8, [("nibbles", 48)]),
    ("TQ1_0", 5, [("f16", 52)]),
    ("TQ2_0", 5, [("f16", 64)]),
    ("MXFP4", 10, [("e8m0", 0)]),
    ("NVFP4", 68, [("e4m3", 0)]),
    ("Q1_0", 5, [("f16", 0)]),
]


def halves(rng: np.random.Generator, count: int, last: float) -> np.ndarray:
    scale = (rng.standard_normal(count) * 10.0 ** rng.integers(-7, 3, count)).astype(np.float16)
    scale[0] = np.float16(-3e-7)  # subnormal
    scale[1] = last
    return scale


def put(data: np.ndarray, rng: np.random.Generator, kind: str, at: int, first: bool) -> None:
    count = len(data)
    scale = halves(rng, count, 0.0 if first else -0.0)
    if kind == "f16":
        data[:, at : at + 2] = scale[:, None].view(np.uint8)
    elif kind == "f32":
        data[:, at : at + 4] = scale.astype(np.float32)[:, None].view(np.uint8)
    elif kind == "nibbles":
        bits = scale.view(np.uint16)
        for i in range(4):
            high = (bits >> np.uint16(4 * i) & np.uint16(15)) << np.uint16(4)
            data[:, at + 2 * i + 1] = data[:, at + 2 * i + 1] & 15 | high.astype(np.uint8)
    elif kind == "e8m0":
        # Both subnormal results, the smallest normal one, the largest that no code takes out of range.
        data[:, at] = rng.integers(90, 140, count)
        data[:5, at] = [0, 1, 2, 251, 127]
    elif kind == "e4m3":
        # Every byte there is, the sign bit and the byte of no number included.
        data[:64, at : at + 4] = np.arange(256, dtype=np.uint8).reshape(64, 4)


def dequantize(name: str, data: np.ndarray) -> np.ndarray:
    if name == "Q8_K":
        d = data[:, :4].copy().view(np.float32)
        return d * data[:, 4:260].view(np.int8).astype(np.float32)
    if name == "Q1_0":
        d = data[:, :2].copy().view(np.float16).astype(np.float32)
        bits = np.unpackbits(data[:, 2:], axis=-1, bitorder="little").astype(np.float32)
        return d * (2 * bits - 1)
    return quants.dequantize(data, GGMLQuantizationType[name])


def main() -> None:
    rng = np.random.default_rng(20240607)
    out = bytearray()
    for name, count, numbers in FORMATS:
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        data = rng.integers(0, 256, (count, size), dtype=np.uint8)
        data[-2], data[-1] = 255, 0
        for i, (kind, at) in enumerate(numbers):
            put(data, rng, kind, at, i == 0)
        values = dequantize(name, data).astype(np.float32).reshape(-1)
        assert values.size == count * block and np.isfinite(values).all(), name
        out += name.lower().encode().ljust(8, b"\0") + struct.pack("<II", count, values.size)
        out += data.tobytes() + values.tobytes()
    path = pathlib.Path(__file__).parents[2] / "ir/tests/data/quant_cases.bin"
    path.write_bytes(out)
    print(f"{path}: {len(out)} bytes")


if __name__ == "__main__":
    main()
