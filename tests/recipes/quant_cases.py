"""Writes ir/tests/data/quant_cases.bin: random blocks of each quantised format with the values that gguf-py gives them.

    pip install gguf==0.19.0
    python3 tests/recipes/quant_cases.py

The file is a sequence of records, little endian: the format's name in 8 bytes padded with zeros, the number of blocks
and of elements as u32, the blocks, the elements as f32. The blocks are random but for their binary16 fields, which are
finite and include zeros, negative and subnormal numbers.
"""

import pathlib
import struct

import numpy as np
from gguf import GGMLQuantizationType, quants
from gguf.constants import GGML_QUANT_SIZES

# Format, blocks, first bytes of its binary16 fields.
FORMATS = [
    ("Q4_0", 8, [0]),
    ("Q4_1", 8, [0, 2]),
    ("Q5_0", 8, [0]),
    ("Q5_1", 8, [0, 2]),
    ("Q8_0", 8, [0]),
    ("Q4_K", 3, [0, 2]),
    ("Q5_K", 3, [0, 2]),
    ("Q6_K", 3, [208]),
]


def main() -> None:
    rng = np.random.default_rng(20240607)
    out = bytearray()
    for name, count, halves in FORMATS:
        kind = GGMLQuantizationType[name]
        block, size = GGML_QUANT_SIZES[kind]
        data = rng.integers(0, 256, (count, size), dtype=np.uint8)
        for at in halves:
            scale = (rng.standard_normal(count) * 10.0 ** rng.integers(-7, 3, count)).astype(np.float16)
            scale[-1] = 0.0 if at == halves[0] else -0.0
            data[:, at : at + 2] = scale[:, None].view(np.uint8)
        values = quants.dequantize(data, kind).astype(np.float32).reshape(-1)
        assert values.size == count * block and np.isfinite(values).all()
        out += name.lower().encode().ljust(8, b"\0") + struct.pack("<II", count, values.size)
        out += data.tobytes() + values.tobytes()
    path = pathlib.Path(__file__).parents[2] / "ir/tests/data/quant_cases.bin"
    path.write_bytes(out)
    print(f"{path}: {len(out)} bytes")


if __name__ == "__main__":
    main()
