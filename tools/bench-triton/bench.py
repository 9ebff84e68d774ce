"""Compile time of tiled f16 matrix products for an AMD GPU: Triton's and hrx's, in turn, in one run.

No GPU is needed, nor PyTorch. Every compilation is cold: Triton gets an empty cache directory and is told to compile
in any case, hrx-bench keeps nothing. Times are processor milliseconds of the compilation itself, threads and child
processes included. The start is not counted on either side (Python and its imports, the process and LLVM's
initialisation), and each side compiles something before. Tiles have as many waves here as there.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile

# The default of this version, said so that it is not warned of.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def product(a, b, c, rows, columns, inner, a_row, b_row, c_row, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """C = A B of f16 matrices, summed in f32: a program for each tile of C, with masks at the edges."""
    row = tl.program_id(1) * M + tl.arange(0, M)
    column = tl.program_id(0) * N + tl.arange(0, N)
    step = tl.arange(0, K)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for first in range(0, inner, K):
        k = first + step
        x = tl.load(a + row[:, None] * a_row + k[None, :], mask=(row[:, None] < rows) & (k[None, :] < inner), other=0.0)
        y = tl.load(
            b + k[:, None] * b_row + column[None, :], mask=(k[:, None] < inner) & (column[None, :] < columns), other=0.0
        )
        sums = tl.dot(x, y, sums)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    tl.store(c + row[:, None] * c_row + column[None, :], sums.to(tl.float16), mask=inside)


POINTERS = ["a", "b", "c"]
NUMBERS = ["rows", "columns", "inner", "a_row", "b_row", "c_row"]


class Tile:
    """M by N outputs, steps of K, and waves: 64x64x32w4."""

    def __init__(self, text):
        found = re.fullmatch(r"(\d+)x(\d+)x(\d+)w(\d+)", text)
        if not found:
            raise argparse.ArgumentTypeError(f"a tile is MxNxKwWAVES, as 64x64x32w4, not {text!r}")
        self.text = text
        self.m, self.n, self.k, self.waves = map(int, found.groups())


def processor_seconds():
    """Of this process, its threads, and its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def with_triton(tile, target, stages):
    """Milliseconds that Triton takes. Arguments are known to be multiples of 16, as its launcher finds them to be."""
    signature = {name: "*fp16" for name in POINTERS} | {name: "i32" for name in NUMBERS}
    aligned = {(at,): [["tt.divisibility", 16]] for at in range(len(signature))}
    constants = {"M": tile.m, "N": tile.n, "K": tile.k}
    signature |= {name: "constexpr" for name in constants}
    options = {"num_warps": tile.waves, "num_stages": stages}
    lanes = 64 if target.startswith("gfx9") else 32
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        os.environ["TRITON_ALWAYS_COMPILE"] = "1"
        source = ASTSource(product, signature, constants, aligned)
        start = processor_seconds()
        compiled = triton.compile(source, GPUTarget("hip", target, lanes), options=options)
        time = 1e3 * (processor_seconds() - start)
    if not compiled.asm["hsaco"].startswith(b"\x7fELF"):
        sys.exit("error: Triton made no code object")
    return time


def with_hrx(program, tile, target):
    """Milliseconds that hrx takes."""
    command = [program, "compile", "--tile", tile.text, "--target", target, "--repetitions", "1", "--json"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"error: {program}: {error.strerror}")
    if ran.returncode != 0:
        sys.exit(f"error: {' '.join(command)}: {ran.stderr or ran.stdout}")
    (row,) = json.loads(ran.stdout)["rows"]
    (kernel,) = row["kernels"]
    return kernel["cpu_ms"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program hrx-bench")
    parser.add_argument("--target", default="gfx1100", help="the GPU, as LLVM calls it (%(default)s)")
    parser.add_argument("--tiles", default="64x64x32w4,128x128x32w8", help="MxNxKwWAVES,... (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=9, help="of each tile (%(default)s)")
    parser.add_argument("--stages", type=int, default=2, help="of Triton's pipeline (%(default)s, as Triton has it)")
    parser.add_argument("--bar", type=float, default=8.0, help="how much faster hrx is to be (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON, with every time")
    found = parser.parse_args()
    try:
        found.tiles = [Tile(text) for text in found.tiles.split(",")]
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    if found.repetitions < 1:
        parser.error("one repetition is the least")
    return found


def table(report):
    """Prints Markdown."""

    def cell(times):
        return f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})"

    print(
        f"{report['target']}, Triton {report['triton']} with {report['stages']} stages, load average "
        f"{report['load_average']:.1f}: processor ms, median (least to most) of {report['repetitions']}. "
        f"Triton's first compilation, {report['triton_first_ms']:.0f} ms, is not counted.\n"
    )
    print("| tile            |                 Triton |                    hrx | ratio |")
    print("| --------------- | ---------------------: | ---------------------: | ----: |")
    for row in report["rows"]:
        print(f"| {row['tile']:15} | {cell(row['triton_ms']):>22} | {cell(row['hrx_ms']):>22} | {row['ratio']:5.1f} |")


def main():
    args = arguments()
    first = with_triton(args.tiles[0], args.target, args.stages)
    rows = []
    for tile in args.tiles:
        rows.append({"tile": tile.text, "triton_ms": [], "hrx_ms": []})
    for _ in range(args.repetitions):
        for tile, row in zip(args.tiles, rows):
            row["triton_ms"].append(with_triton(tile, args.target, args.stages))
            row["hrx_ms"].append(with_hrx(args.program, tile, args.target))
    for row in rows:
        row["ratio"] = statistics.median(row["triton_ms"]) / statistics.median(row["hrx_ms"])
    report = {
        "target": args.target,
        "triton": triton.__version__,
        "stages": args.stages,
        "repetitions": args.repetitions,
        "load_average": os.getloadavg()[0],
        "triton_first_ms": first,
        "rows": rows,
    }
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        table(report)
    missed = [row["tile"] for row in rows if row["ratio"] < args.bar]
    if missed:
        sys.exit(f"missed: hrx is not {args.bar:g} times as fast at {', '.join(missed)}")


if __name__ == "__main__":
    main()
