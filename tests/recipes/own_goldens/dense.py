"""Attention and one network in each layer."""

from model import Model, case


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


def llama(name, arch="llama", layers=2, tied=False, middle=1.0, **sizes):
    m = Model(name, arch, layers, **sizes)
    for n in range(layers):
        m.attention(n)
        m.mlp(n)
    m.head(tied=tied, middle=middle)
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


@case("phi3")
def _(name):
    m = Model(name, "phi3", embd=64, dim=16, ff=96, kind="Q4_0")
    m.set("context_length", 131072)
    m.set("rope.scaling.original_context_length", 4096)
    m.set("rope.scaling.attn_factor", 1.19)
    m.vector("rope_factors_short.weight", 8)
    m.vector("rope_factors_long.weight", 8, middle=4.0)
    for n in range(2):
        m.attention(n, fused=True)
        m.mlp(n, fused=True)
    m.head()
    return m


@case("mistral3")
def _(name):
    m = llama(name, "mistral3", kind="Q5_0", embd=64, dim=16, ff=96)
    m.set("rope.freq_base", 1e6)
    m.set("attention.temperature_scale", 0.1)
    m.sets("rope.scaling.", type="yarn", factor=16.0, original_context_length=16, yarn_log_multiplier=1.0)
    m.sets("rope.scaling.", yarn_beta_fast=32.0, yarn_beta_slow=1.0)
    return m


@case("smollm3")
def _(name):
    # The fourth layer does not rotate.
    m = llama(name, "smollm3", layers=4, kind="IQ4_NL", embd=64, dim=16, ff=96, tied=True, middle=0.4)
    m.set("rope.freq_base", 5e6)
    return m


@case("granite")
def _(name):
    m = llama(name, "granite", kind="Q4_0", embd=64, dim=16, ff=96, tied=True)
    m.set("attention.scale", 0.1)
    m.set("embedding_scale", 3.0)
    m.set("residual_scale", 0.5)
    m.set("logit_scale", 3.0)
    return m


@case("olmo2")
def _(name):
    m = Model(name, "olmo2", embd=64, dim=16, ff=96, kind="Q4_1")
    for n in range(2):
        m.attention(n, norm=None, qk=(64, 32))
        m.norm(f"blk.{n}.post_attention_norm")
        m.mlp(n, norm=None)
        m.norm(f"blk.{n}.post_ffw_norm")
    m.head()
    return m


@case("starcoder2")
def _(name):
    m = Model(name, "starcoder2", embd=64, dim=16, ff=96, eps="")
    for n in range(2):
        m.attention(n, bias=True, norm_bias=True, out_bias=True)
        m.mlp(n, norm_bias=True, gated=False, bias=True)
    m.head(bias=True, tied=True, middle=0.4)
    return m


@case("gpt2")
def _(name):
    m = Model(name, "gpt2", embd=64, kv=4, dim=16, ff=96, eps="", kind="Q5_0")
    m.drop("rope.", "head_count_kv", "_length")
    m.sets("", context_length=256, embedding_length=64, feed_forward_length=96)
    m.matrix("position_embd.weight", 256, 64, gain=8.0, small=True)
    for n in range(2):
        m.attention(n, fused=True, bias=True, norm_bias=True, out_bias=True)
        m.mlp(n, norm_bias=True, gated=False, bias=True)
    m.head(bias=True, tied=True, middle=0.4)
    return m
