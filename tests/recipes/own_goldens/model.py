"""Models with random weights: the metadata and tensors that files have, by the names that converters give them."""

import zlib

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize

VOCAB = 320

CASES = {}


def case(name):
    """The decorated function, given the name, builds the model of that variant."""

    def add(build):
        CASES[name] = lambda: build(name)
        return build

    return add


class Model:
    """Values of tensors as float32; of matrices also their data and types.

    `kind` is the type of the matrices; `dense` that of those that are no experts, where it is another one.
    """

    def __init__(
        self, variant, arch, layers=2, embd=32, heads=4, kv=2, dim=8, ff=48, eps="rms_", kind="F16", dense=None
    ):
        self.variant, self.arch, self.layers, self.embd, self.ff = variant, arch, layers, embd, ff
        self.heads, self.kv, self.dim, self.kind, self.dense = heads, kv, dim, kind, dense or kind
        self.random = np.random.default_rng(zlib.crc32(variant.encode()))
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

    def sets(self, prefix="", **keys):
        for key, value in keys.items():
            self.set(prefix + key, value)

    def drop(self, *parts):
        """Takes the keys out that have one of the texts."""
        self.keys = {key: value for key, value in self.keys.items() if not any(part in key for part in parts)}

    def vector(self, name, *shape, middle=1.0, spread=0.2):
        values = middle + spread * self.random.standard_normal(shape)
        self.tensors[name] = values.astype(np.float32)

    def plain(self):
        """The type of embeddings and head."""
        return "F16" if self.dense == "NVFP4" else self.dense

    def matrix(self, name, *shape, gain=1.0, small=False, kind=None):
        *_, n_in = shape
        kind = "F32" if small else kind or (self.kind if len(shape) == 3 else self.dense)
        size = gain / n_in**0.5
        if kind == "NVFP4":
            # Any bytes are values of about 3; a factor for the tensor, or for each expert, makes them as large as wanted.
            blocks = self.random.integers(0, 256, (*shape[:-1], n_in // 64, 36), np.uint8)
            blocks[..., :4] = self.random.integers(0x30, 0x40, blocks[..., :4].shape, np.uint8)
            self.data[name] = blocks.reshape(*shape[:-1], -1)
            experts = shape[0] if len(shape) == 3 else 1
            self.vector(name.replace(".weight", ".scale"), experts, middle=size / 3, spread=size / 10)
        elif kind == "IQ4_NL":
            # Any bytes behind the scale are values of about 69 times it.
            blocks = self.random.integers(0, 256, (*shape[:-1], n_in // 32, 18), np.uint8)
            scales = self.random.normal(size / 69, size / 400, (*shape[:-1], n_in // 32, 1)).astype("<f2")
            blocks[..., :2] = scales.view(np.uint8)
            self.data[name] = blocks.reshape(*shape[:-1], -1)
        else:
            values = (size * self.random.standard_normal(shape)).astype(np.float32)
            self.data[name] = values if small else quantize(values, GGMLQuantizationType[kind])
        kind = GGMLQuantizationType[kind]
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

    def norms(self, n, *names):
        """Norms of the layer."""
        for name in names:
            self.norm(f"blk.{n}.{name}")

    def head(self, norm="output_norm", bias=False, tied=False, middle=1.0):
        self.norm(norm, bias=bias, middle=middle)
        if not tied:
            self.matrix("output.weight", VOCAB, self.embd, gain=3.0, kind=self.plain())

    def attention(
        self,
        n,
        norm="attn_norm",
        bias=False,
        norm_bias=False,
        qk=None,
        gated=False,
        out_bias=False,
        fused=False,
        heads=None,
        kv=None,
        dim=None,
        parts="qkv",
    ):
        """qk: lengths of the norms of queries and keys; a pair of shapes for norms of each head."""
        b, d, heads, kv = f"blk.{n}.", dim or self.dim, heads or self.heads, kv or self.kv
        if norm:
            self.norm(b + norm, bias=norm_bias)
        if fused:
            self.linear(b + "attn_qkv", (heads + 2 * kv) * d, self.embd, 1.5, bias)
        else:
            rows = {"q": (2 if gated else 1) * heads * d, "k": kv * d, "v": kv * d}
            for part in parts:
                self.linear(f"{b}attn_{part}", rows[part], self.embd, 1.0 if part == "v" else 1.5, bias)
        self.linear(b + "attn_output", self.embd, heads * d, bias=out_bias)
        if qk:
            for part, shape in zip(parts, qk):
                shape = shape if isinstance(shape, tuple) else (shape,)
                self.vector(f"{b}attn_{part}_norm.weight", *shape, middle=1.5)

    def mlp(
        self, n, norm="ffn_norm", norm_bias=False, fused=False, ff=None, suffix="", gated=True, bias=False, gain=1.0
    ):
        b, ff = f"blk.{n}.", ff or self.ff
        if norm:
            self.norm(b + norm, bias=norm_bias)
        if gated and not fused:
            self.linear(f"{b}ffn_gate{suffix}", ff, self.embd, gain, bias)
        self.linear(f"{b}ffn_up{suffix}", (2 if fused else 1) * ff, self.embd, gain, bias)
        self.linear(f"{b}ffn_down{suffix}", self.embd, ff, bias=bias)

    def experts(
        self, n, norm="ffn_norm", count=8, used=3, ff=16, choice_bias=False, own_ff=True, bias=False, gain=1.0
    ):
        b = f"blk.{n}."
        self.set("expert_count", count)
        self.set("expert_used_count", used)
        if own_ff:
            self.set("expert_feed_forward_length", ff)
        if norm:
            self.norm(b + norm)
        self.linear(b + "ffn_gate_inp", count, self.embd, 2.0, small=True, bias=bias)
        for part in ("gate", "up"):
            self.matrix(f"{b}ffn_{part}_exps.weight", count, ff, self.embd, gain=gain)
        self.matrix(f"{b}ffn_down_exps.weight", count, self.embd, ff)
        if bias:
            for part, rows in (("gate", ff), ("up", ff), ("down", self.embd)):
                self.vector(f"{b}ffn_{part}_exps.bias", count, rows, middle=0.0)
        if choice_bias:
            self.vector(b + "exp_probs_b.bias", count, middle=0.0)

    def shared(self, n, ff, gated=False, gain=1.0):
        self.mlp(n, norm=None, ff=ff, suffix="_shexp", gain=gain)
        if gated:
            self.vector(f"blk.{n}.ffn_gate_inp_shexp.weight", self.embd, middle=0.0)
