"""Makes the golden models of this project's own (tests/golden/README.md): random weights, logits by llama.cpp.

    python tests/recipes/own_goldens DRIVER [--check] [NAME...]

DRIVER is logits.cpp of this folder, over llama.cpp's library. To build them, in llama.cpp's source with the two lines
`#define GGML_GELU_FP16` and `#define GGML_GELU_QUICK_FP16` taken out of ggml/src/ggml-cpu/vec.h (with them GELU is rounded
through a table of float16, which is no reference):

    cmake -B build -DCMAKE_BUILD_TYPE=Release -DGGML_OPENMP=OFF -DLLAMA_BUILD_COMMON=OFF && make -C build llama
    c++ -std=c++17 -O2 -I include -I ggml/include RECIPES/own_goldens/logits.cpp -o logits \\
        -L build/bin -lllama -lggml -lggml-base -Wl,-rpath,$PWD/build/bin

Needs gguf-py (MIT) and numpy. Small tensors are F32; the reference runs a copy of the file in which all are. The vocabulary
is that of tests/golden/models/llama-Q4_1.gguf. NAMES are variants, all where there are none; the models are in the other
files of this folder, `model.py` has what they are made with. With --check nothing is written: it says whether the files are
the kept ones and how far the logits are from the kept ones.
"""

import json
import os
import subprocess
import sys
import tempfile
import zlib

import gguf
import numpy as np

import deepseek, dense, experts, gemma, qwen, states  # noqa: E401,F401 each adds its models to CASES
from model import CASES, VOCAB

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "golden", "models")
N_CTX = 256
N_PROMPT, N_DECODE = 40, 8


def vocabulary():
    fields = gguf.GGUFReader(os.path.join(GOLDEN, "llama-Q4_1.gguf")).fields
    return {key: field for key, field in fields.items() if key.startswith("tokenizer.")}


def write(m, path, wide):
    w = gguf.GGUFWriter(path, m.arch)
    # Of a model with that in its name llama.cpp wants the vocabulary to have its tokens.
    w.add_name(m.variant.replace("phi3", "phi"))
    w.add_vocab_size(VOCAB)
    for key, value in m.keys.items():
        key = f"{m.arch}.{key}"
        add = {int: w.add_uint32, float: w.add_float32, str: w.add_string, bool: w.add_bool, list: w.add_array}
        add[type(value)](key, value)
    for key, field in vocabulary().items():
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        w.add_key_value(key, field.contents(), kind, sub_type=sub)
    for name, values in m.tensors.items():
        if wide or name not in m.data:
            w.add_tensor(name, values)
        else:
            w.add_tensor(name, m.data[name], raw_dtype=m.kinds[name])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def run(driver, path, kv, prompt, forced=()):
    """The logits, and the ids fed one at a time."""
    with tempfile.NamedTemporaryFile() as out:
        ids = [str(i) for i in prompt] + (["/", *map(str, forced)] if forced else [])
        done = subprocess.run(
            [driver, path, str(N_CTX), kv, out.name, str(N_DECODE), *ids], check=True, capture_output=True, text=True
        )
        logits = np.fromfile(out.name, np.float32).reshape(N_PROMPT + N_DECODE, VOCAB)
    return logits, [int(i) for i in done.stdout.split()]


def short(x):
    return float(f"{x:.4g}")


def distance(found, want, margins):
    found, want = found.astype(np.float64), want.astype(np.float64)
    rows = ((found - want) ** 2).mean(1) / (want**2).mean(1)
    differ = found.argmax(1) != want.argmax(1)
    return {
        "nmse": short(((found - want) ** 2).mean() / (want**2).mean()),
        "nmse_pos_median": short(np.median(rows)),
        "nmse_pos_max": short(rows.max()),
        "top1_disagree": int(differ.sum()),
        "top1_disagree_max_margin": short(max(margins[differ], default=0.0)),
    }


def make(driver, m, folder):
    """Writes the model, its logits and its description."""
    name = f"{m.variant}-{m.kind}"
    path = os.path.join(folder, name + ".gguf")
    write(m, path, wide=False)
    prompt = [int(i) for i in np.random.default_rng(zlib.crc32(name.encode())).integers(0, 316, N_PROMPT)]
    with tempfile.TemporaryDirectory() as other:
        wide = os.path.join(other, "wide.gguf")
        write(m, wide, wide=True)
        want, greedy = run(driver, wide, "f32", prompt)
    best = np.sort(want, 1)
    margins = best[:, -1] - best[:, -2]
    kinds = [m.kinds[name].name if name in m.kinds else "F32" for name in m.tensors]
    types = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    np.save(os.path.join(folder, name + ".npy"), want)
    description = {
        "file": name + ".gguf",
        "logits": name + ".npy",
        "arch": m.arch,
        "variant": m.variant,
        "quant": m.kind,
        "recipe": "tests/recipes/own_goldens",
        "tensor_types": types,
        "n_ctx": N_CTX,
        "n_prompt": N_PROMPT,
        "n_decode": N_DECODE,
        "tokens": prompt,
        "greedy": greedy,
        "top2_margin": [short(x) for x in margins],
        "size": os.path.getsize(path),
        "anchor": {
            "default": distance(run(driver, path, "f16", prompt, greedy)[0], want, margins),
            "f32kv": distance(run(driver, path, "f32", prompt, greedy)[0], want, margins),
        },
    }
    with open(os.path.join(folder, name + ".json"), "w") as f:
        json.dump(description, f, separators=(",", ":"))
        f.write("\n")
    print(f"{name}: {description['size']} bytes, logits' deviation {want.std():.2f}, anchor {description['anchor']}")
    return name, margins


def check(driver, m):
    with tempfile.TemporaryDirectory() as folder:
        name, margins = make(driver, m, folder)
        kept, made = (open(os.path.join(f, name + ".gguf"), "rb").read() for f in (GOLDEN, folder))
        want, found = (np.load(os.path.join(f, name + ".npy")) for f in (GOLDEN, folder))
    print(f"{name}: {'the same' if kept == made else 'another'} file, logits {distance(found, want, margins)}")


def enter(m, name):
    """Adds the model to the index."""
    index = os.path.join(GOLDEN, "index.json")
    with open(index) as f:
        rows = json.load(f)
    if not any(row["json"] == name + ".json" for row in rows):
        rows.append({"json": name + ".json", "arch": m.arch, "variant": m.variant})
        with open(index, "w") as f:
            json.dump(rows, f, indent=1)
            f.write("\n")


def main(driver, *names):
    checks = "--check" in names
    for variant in [name for name in names if name != "--check"] or CASES:
        m = CASES[variant]()
        if checks:
            check(driver, m)
        else:
            enter(m, make(driver, m, GOLDEN)[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
