"""Makes the golden models of this project's own (tests/golden/README.md): random weights, logits by llama.cpp.

    python tests/recipes/own_goldens.py DRIVER [NAME...]

DRIVER is a program over libllama, called as `DRIVER MODEL N_CTX KV OUT N_DECODE ID... [/ ID...]`: it feeds the ids in
one batch, then N_DECODE ids one at a time (those behind the slash, else the best ones), writes all logits to OUT as
float32 and prints the ids fed one at a time. KV is f32 (KV cache of float32, no flash attention) or f16 (llama.cpp's
defaults).

Needs gguf-py (MIT) and numpy. Matrices are F16, BF16 or NVFP4, small tensors F32; the reference runs a copy of the
file in which all are float32. The vocabulary is that of tests/golden/models/llama-F16.gguf.
"""

import json
import os
import subprocess
import sys
import tempfile
import zlib

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden", "models")
VOCAB = 320
N_CTX = 256
N_PROMPT, N_DECODE = 40, 8


class Model:
    """A model's metadata and tensors, with the names that converters use."""

    def __init__(self, variant, arch, layers=2, embd=32, heads=4, kv=2, dim=8, ff=48, eps="rms_", kind="F16"):
        self.variant, self.arch, self.layers, self.embd, self.ff = variant, arch, layers, embd, ff
        self.heads, self.kv, self.dim, self.kind = heads, kv, dim, kind
        self.random = np.random.default_rng(zlib.crc32(variant.encode()))
        # Values as float32; of matrices also their data and types.
        self.keys, self.tensors, self.data, self.kinds = {}, {}, {}, {}
        self.set("block_count", layers)
        self.set("context_length", 8192)
        self.set("embedding_length", embd)
        self.set("feed_forward_length", ff)
        self.set("attention.head_count", heads)
        self.set("attention.head_count_kv", kv)
        self.set("attention.key_length", dim)
        self.set("attention.value_length", dim)
        self.set("rope.dimension_count", dim)
        self.set("rope.freq_base", 10000.0)
        self.set(f"attention.layer_norm_{eps}epsilon", 1e-5)
        self.matrix("token_embd.weight", VOCAB, embd, gain=embd**0.5, kind=self.plain())

    def set(self, key, value):
        self.keys[key] = value

    def vector(self, name, *shape, middle=1.0, spread=0.2):
        values = middle + spread * self.random.standard_normal(shape)
        self.tensors[name] = values.astype(np.float32)

    def plain(self):
        """The type of embeddings and head."""
        return "F16" if self.kind == "NVFP4" else self.kind

    def matrix(self, name, *shape, gain=1.0, small=False, kind=None):
        *_, n_in = shape
        kind = "F32" if small else kind or self.kind
        size = gain / n_in**0.5
        if kind == "NVFP4":
            # Any bytes are values of about 3; a factor for the tensor, or for each expert, makes them as large as wanted.
            blocks = self.random.integers(0, 256, (*shape[:-1], n_in // 64, 36), np.uint8)
            blocks[..., :4] = self.random.integers(0x30, 0x40, blocks[..., :4].shape, np.uint8)
            self.data[name] = blocks.reshape(*shape[:-1], -1)
            experts = shape[0] if len(shape) == 3 else 1
            self.vector(name.replace(".weight", ".scale"), experts, middle=size / 3, spread=size / 10)
        else:
            values = (size * self.random.standard_normal(shape)).astype(np.float32)
            self.data[name] = values if small else quantize(values, gguf.GGMLQuantizationType[kind])
        kind = gguf.GGMLQuantizationType[kind]
        self.kinds[name] = kind
        self.tensors[name] = self.data[name] if small else dequantize(self.data[name], kind)

    def linear(self, name, n_out, n_in, gain=1.0, bias=False, small=False):
        self.matrix(f"{name}.weight", n_out, n_in, gain=gain, small=small)
        if bias:
            self.vector(f"{name}.bias", n_out, middle=0.0)

    def norm(self, name, n=None, bias=False, middle=1.0):
        self.vector(f"{name}.weight", n or self.embd, middle=middle, spread=0.2 * middle)
        if bias:
            self.vector(f"{name}.bias", n or self.embd, middle=0.0)

    def head(self, norm="output_norm", bias=False, tied=False):
        self.norm(norm, bias=bias)
        if not tied:
            self.matrix("output.weight", VOCAB, self.embd, gain=3.0, kind=self.plain())

    def attention(self, n, norm="attn_norm", bias=False, norm_bias=False, qk=None, gated=False, out_bias=False):
        """qk: lengths of the norms of queries and keys; a pair of shapes for norms of each head."""
        b, d = f"blk.{n}.", self.dim
        if norm:
            self.norm(b + norm, bias=norm_bias)
        self.linear(b + "attn_q", (2 if gated else 1) * self.heads * d, self.embd, 1.5, bias)
        self.linear(b + "attn_k", self.kv * d, self.embd, 1.5, bias)
        self.linear(b + "attn_v", self.kv * d, self.embd, 1.0, bias)
        self.linear(b + "attn_output", self.embd, self.heads * d, bias=out_bias)
        if qk:
            for part, shape in zip("qk", qk):
                shape = shape if isinstance(shape, tuple) else (shape,)
                self.vector(f"{b}attn_{part}_norm.weight", *shape, middle=1.5)

    def mlp(self, n, norm="ffn_norm", norm_bias=False, fused=False, ff=None, suffix=""):
        b, ff = f"blk.{n}.", ff or self.ff
        if norm:
            self.norm(b + norm, bias=norm_bias)
        if not fused:
            self.linear(f"{b}ffn_gate{suffix}", ff, self.embd)
        self.linear(f"{b}ffn_up{suffix}", (2 if fused else 1) * ff, self.embd)
        self.linear(f"{b}ffn_down{suffix}", self.embd, ff)

    def experts(self, n, norm="ffn_norm", count=8, used=3, ff=16, choice_bias=False, own_ff=True):
        b = f"blk.{n}."
        self.set("expert_count", count)
        self.set("expert_used_count", used)
        if own_ff:
            self.set("expert_feed_forward_length", ff)
        if norm:
            self.norm(b + norm)
        self.linear(b + "ffn_gate_inp", count, self.embd, 2.0, small=True)
        for part in ("gate", "up"):
            self.matrix(f"{b}ffn_{part}_exps.weight", count, ff, self.embd)
        self.matrix(f"{b}ffn_down_exps.weight", count, self.embd, ff)
        if choice_bias:
            self.vector(b + "exp_probs_b.bias", count, middle=0.0)

    def shared(self, n, ff, gated=False):
        self.mlp(n, norm=None, ff=ff, suffix="_shexp")
        if gated:
            self.vector(f"blk.{n}.ffn_gate_inp_shexp.weight", self.embd, middle=0.0)


CASES = {}


def case(name):
    def add(build):
        CASES[name] = lambda: build(name)
        return build

    return add


def delta_net(m, n, old):
    """A gated delta net: 2 key heads of 32, 4 value heads of 32."""
    b, keys, values = f"blk.{n}.", 2, 4
    n_key, n_inner = keys * 32, values * 32
    m.norm(b + "attn_norm")
    if old:
        m.linear(b + "ssm_in", 2 * n_key + 2 * n_inner, m.embd)
    else:
        m.linear(b + "attn_qkv", 2 * n_key + n_inner, m.embd)
        m.linear(b + "attn_gate", n_inner, m.embd)
    m.linear(b + "ssm_ba", 2 * values, m.embd)
    m.matrix(b + "ssm_conv1d.weight", 2 * n_key + n_inner, 4, small=True)
    m.vector(b + "ssm_dt.bias", values, middle=0.0)
    m.vector(b + "ssm_a", values, middle=-0.5)
    m.vector(b + "ssm_norm.weight", 32)
    m.linear(b + "ssm_out", m.embd, n_inner)


def qwen3next(name, old):
    m = Model(name, "qwen3next", dim=16)
    for key, value in [("conv_kernel", 4), ("state_size", 32), ("group_count", 2), ("time_step_rank", 4)]:
        m.set("ssm." + key, value)
    m.set("ssm.inner_size", 128)
    m.set("full_attention_interval", 2)
    m.set("rope.dimension_count", 8)
    m.set("expert_shared_feed_forward_length", 16)
    delta_net(m, 0, old)
    m.attention(1, qk=(16, 16), gated=True)
    for n in range(2):
        m.experts(n, norm="post_attention_norm")
        m.shared(n, 16, gated=True)
    m.head()
    return m


@case("qwen3next")
def _(name):
    return qwen3next(name, old=False)


@case("qwen3next-ssm_in")
def _(name):
    return qwen3next(name, old=True)


@case("glm4")
def _(name):
    m = Model(name, "glm4")
    m.set("rope.dimension_count", 4)
    for n in range(2):
        m.attention(n, bias=True)
        m.norm(f"blk.{n}.post_attention_norm")
        m.mlp(n, fused=True)
        m.norm(f"blk.{n}.post_ffw_norm")
    m.head()
    return m


@case("granitemoe")
def _(name):
    m = Model(name, "granitemoe", ff=16)
    m.set("attention.scale", 0.2)
    m.set("embedding_scale", 3.0)
    m.set("residual_scale", 0.5)
    m.set("logit_scale", 3.0)
    m.set("expert_shared_feed_forward_length", 24)
    for n in range(2):
        m.attention(n)
        m.experts(n, own_ff=False)
        m.shared(n, 24)
    m.head(tied=True)
    return m


@case("olmoe")
def _(name):
    m = Model(name, "olmoe", ff=16, kv=4)
    for n in range(2):
        m.attention(n, qk=(32, 32))
        m.experts(n, own_ff=False)
    m.head()
    return m


@case("seed_oss")
def _(name):
    m = Model(name, "seed_oss", dim=16)
    for n in range(2):
        m.attention(n, bias=True)
        m.mlp(n, norm="post_attention_norm")
    m.head()
    return m


def exaone4(name, layers, part, **sizes):
    """`part`: how much a block adds; many layers with much of it would blow rounding errors up."""
    m = Model(name, "exaone4", layers, **sizes)
    for n in range(layers):
        m.attention(n, norm=None, qk=(m.dim, m.dim))
        m.norm(f"blk.{n}.post_attention_norm", middle=part)
        m.mlp(n, norm=None)
        m.norm(f"blk.{n}.post_ffw_norm", middle=part)
    m.head()
    return m


@case("exaone4")
def _(name):
    return exaone4(name, 2, 1.0)


@case("exaone4-32B")
def _(name):
    # llama.cpp takes models of 64 layers to have windows.
    m = exaone4(name, 64, 0.15, embd=16, heads=2, kv=1, dim=8, ff=24)
    m.set("attention.sliding_window", 16)
    return m


@case("cohere2")
def _(name):
    m = Model(name, "cohere2", 4, eps="")
    m.set("attention.sliding_window", 16)
    m.set("logit_scale", 0.25)
    for n in range(4):
        m.attention(n)
        m.mlp(n, norm=None)
    m.head(tied=True)
    return m


@case("minimax-m2")
def _(name):
    m = Model(name, "minimax-m2", ff=16)
    m.set("rope.dimension_count", 4)
    m.set("expert_gating_func", 2)
    for n in range(2):
        m.attention(n, qk=(32, 16))
        m.experts(n, choice_bias=True)
    m.head()
    return m


@case("stablelm")
def _(name):
    m = Model(name, "stablelm", eps="")
    m.set("rope.dimension_count", 4)
    for n in range(2):
        m.attention(n, bias=True, norm_bias=True)
        m.mlp(n, norm_bias=True)
    m.head(bias=True)
    return m


@case("stablelm-parallel")
def _(name):
    m = Model(name, "stablelm", eps="")
    m.set("rope.dimension_count", 4)
    for n in range(2):
        m.attention(n, norm_bias=True, qk=((4, 8), (2, 8)))
        m.mlp(n, norm=None)
    m.head(bias=True)
    return m


@case("orion")
def _(name):
    m = Model(name, "orion", eps="")
    for n in range(2):
        m.attention(n, norm_bias=True)
        m.mlp(n, norm_bias=True)
    m.head(bias=True)
    return m


@case("deepseek2-lite")
def _(name):
    # Queries without a short row, keys and values of each head: V2-Lite in files before the absorbed form.
    m = Model(name, "deepseek2", 27, embd=16, heads=2, kv=2, dim=16, ff=16)
    for key, value in [("leading_dense_block_count", 26), ("attention.kv_lora_rank", 8), ("expert_shared_count", 2)]:
        m.set(key, value)
    m.set("attention.value_length", 8)
    m.set("rope.dimension_count", 8)
    m.set("rope.scaling.type", "yarn")
    m.set("rope.scaling.factor", 4.0)
    m.set("rope.scaling.original_context_length", 32)
    m.set("rope.scaling.yarn_log_multiplier", 0.0707)
    m.set("expert_weights_scale", 1.0)
    for n in range(27):
        b = f"blk.{n}."
        m.norm(b + "attn_norm")
        m.linear(b + "attn_q", 2 * 16, 16, 1.5)
        m.linear(b + "attn_kv_a_mqa", 8 + 8, 16, 1.5)
        m.norm(b + "attn_kv_a_norm", 8)
        m.linear(b + "attn_kv_b", 2 * (8 + 8), 8)
        m.linear(b + "attn_output", 16, 2 * 8, 0.5)
        if n < 26:
            m.mlp(n)
        else:
            m.experts(n, ff=16)
            m.shared(n, 32)
    m.head()
    return m


@case("deepseek2-temperature")
def _(name):
    # The absorbed form without a short row of queries, which grow with their position.
    m = Model(name, "deepseek2", 26, embd=16, heads=2, kv=1, dim=16, ff=16)
    for key, value in [("leading_dense_block_count", 26), ("attention.kv_lora_rank", 8), ("expert_shared_count", 0)]:
        m.set(key, value)
    m.set("attention.value_length", 8)
    m.set("attention.key_length_mla", 16)
    m.set("attention.value_length_mla", 8)
    m.set("attention.temperature_scale", 0.3)
    m.set("attention.temperature_length", 16)
    m.set("rope.dimension_count", 8)
    m.set("expert_feed_forward_length", 16)
    for n in range(26):
        b = f"blk.{n}."
        m.norm(b + "attn_norm")
        m.linear(b + "attn_q", 2 * 16, 16, 1.5)
        m.linear(b + "attn_kv_a_mqa", 8 + 8, 16, 1.5)
        m.norm(b + "attn_kv_a_norm", 8)
        m.matrix(b + "attn_k_b.weight", 2, 8, 8)
        m.matrix(b + "attn_v_b.weight", 2, 8, 8)
        m.linear(b + "attn_output", 16, 2 * 8, 0.3)
        m.mlp(n)
    m.head()
    return m


@case("phi3-long")
def _(name):
    m = Model(name, "phi3")
    m.set("rope.scaling.original_context_length", 64)
    m.set("rope.scaling.attn_factor", 1.19)
    m.vector("rope_factors_short.weight", 4)
    m.vector("rope_factors_long.weight", 4, middle=4.0)
    for n in range(2):
        b = f"blk.{n}."
        m.norm(b + "attn_norm")
        m.linear(b + "attn_qkv", 32 + 2 * 16, 32, 1.5)
        m.linear(b + "attn_output", 32, 32)
        m.mlp(n, fused=True)
    m.head()
    return m


@case("olmo2-windows")
def _(name):
    m = Model(name, "olmo2", 4)
    m.set("attention.sliding_window", 16)
    # Only layers that see everything are scaled.
    m.set("rope.scaling.type", "yarn")
    m.set("rope.scaling.factor", 8.0)
    m.set("rope.scaling.original_context_length", 32)
    for n in range(4):
        m.attention(n, norm=None, qk=(32, 16))
        m.norm(f"blk.{n}.post_attention_norm")
        m.mlp(n, norm=None)
        m.norm(f"blk.{n}.post_ffw_norm")
    m.head()
    return m


@case("granite-nope")
def _(name):
    m = llama(name, "granite")
    m.set("logit_scale", 2.0)
    m.set("rope.scaling.finetuned", False)
    return m


@case("internlm2")
def _(name):
    return llama(name, "internlm2")


def llama(name, arch="llama", kind="F16"):
    m = Model(name, arch, kind=kind)
    for n in range(2):
        m.attention(n)
        m.mlp(n)
    m.head()
    return m


@case("llama-yarn")
def _(name):
    m = llama(name, kind="BF16")
    m.set("rope.scaling.type", "yarn")
    m.set("rope.scaling.factor", 8.0)
    m.set("rope.scaling.original_context_length", 32)
    return m


@case("llama-linear")
def _(name):
    m = llama(name)
    m.set("rope.scaling.type", "linear")
    m.set("rope.scaling.factor", 2.5)
    return m


@case("llama-experts")
def _(name):
    m = Model(name, "llama", embd=64, dim=16, ff=64, kind="NVFP4")
    for n in range(2):
        m.attention(n)
        m.experts(n, count=4, used=2, ff=64, own_ff=False)
    m.head()
    return m


def vocabulary():
    fields = gguf.GGUFReader(os.path.join(GOLDEN, "llama-F16.gguf")).fields
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


def make(driver, variant):
    m = CASES[variant]()
    name = f"{variant}-{m.kind}"
    path = os.path.join(GOLDEN, name + ".gguf")
    write(m, path, wide=False)
    prompt = [int(i) for i in np.random.default_rng(zlib.crc32(name.encode())).integers(0, 316, N_PROMPT)]
    with tempfile.TemporaryDirectory() as folder:
        wide = os.path.join(folder, "wide.gguf")
        write(m, wide, wide=True)
        want, greedy = run(driver, wide, "f32", prompt)
    best = np.sort(want, 1)
    margins = best[:, -1] - best[:, -2]
    kinds = [m.kinds[name].name if name in m.kinds else "F32" for name in m.tensors]
    types = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    np.save(os.path.join(GOLDEN, name + ".npy"), want)
    description = {
        "file": name + ".gguf",
        "logits": name + ".npy",
        "arch": m.arch,
        "variant": variant,
        "quant": m.kind,
        "recipe": "tests/recipes/own_goldens.py",
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
    with open(os.path.join(GOLDEN, name + ".json"), "w") as f:
        json.dump(description, f, separators=(",", ":"))
        f.write("\n")
    index = os.path.join(GOLDEN, "index.json")
    with open(index) as f:
        rows = json.load(f)
    if not any(row["json"] == name + ".json" for row in rows):
        rows.append({"json": name + ".json", "arch": m.arch, "variant": variant})
        with open(index, "w") as f:
            json.dump(rows, f, indent=1)
            f.write("\n")
    print(f"{name}: {description['size']} bytes, logits' deviation {want.std():.2f}, anchor {description['anchor']}")


if __name__ == "__main__":
    for variant in sys.argv[2:] or CASES:
        make(sys.argv[1], variant)
