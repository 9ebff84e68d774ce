"""Writes ir/src/quant/tables/iq*.rs: the grids that codes of the IQ formats are read from, as gguf-py has them.

    pip install gguf==0.19.0
    python3 tests/recipes/quant_tables.py

A grid entry is 4 or 8 codes of few possible values. The files hold the numbers of those values, lowest element in the
lowest bits, one u16 an entry; tables/mod.rs expands them at compile time.
"""

import pathlib
import subprocess

import numpy as np
from gguf import quants

# File, what it holds, and (name, class, bits of a code's number) for each grid.
FILES = [
    ("iq1", "IQ1_S and IQ1_M", [("IQ1S", quants.IQ1_S, 2)]),
    ("iq2", "IQ2_XXS, IQ2_XS and IQ2_S", [("IQ2XXS", quants.IQ2_XXS, 2), ("IQ2XS", quants.IQ2_XS, 2), ("IQ2S", quants.IQ2_S, 2)]),
    ("iq3", "IQ3_XXS and IQ3_S", [("IQ3XXS", quants.IQ3_XXS, 3), ("IQ3S", quants.IQ3_S, 3)]),
]


def main() -> None:
    root = pathlib.Path(__file__).parents[2] / "ir/src/quant/tables"
    for file, of, grids in FILES:
        out = f"//! The grid{'s' if len(grids) > 1 else ''} of {of}, packed: see `tests/recipes/quant_tables.py`, which wrote this.\n"
        for name, kind, bits in grids:
            kind.init_grid()
            grid = kind.grid.reshape(kind.grid_shape).astype(np.int64)
            number = np.zeros_like(grid)
            for i, value in enumerate(kind.grid_map):
                number[grid == value] = i
            packed = (number << (bits * np.arange(grid.shape[1]))).sum(axis=1)
            assert (packed < 1 << 16).all()
            out += f"\npub(super) const {name}: [u16; {len(packed)}] = [{', '.join(f'0x{n:04x}' for n in packed)}];\n"
        path = root / f"{file}.rs"
        path.write_text(out)
        subprocess.run(["rustfmt", "--edition", "2024", "--config-path", str(root.parents[3] / "rustfmt.toml"), str(path)], check=True)


if __name__ == "__main__":
    main()
