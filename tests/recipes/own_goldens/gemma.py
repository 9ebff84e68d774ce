"""Gemma: windows, bounds on scores and logits, and what Gemma 4 has for each layer."""

from model import Model, case


@case("gemma2")
def _(name):
    m = Model(name, "gemma2", embd=64, dim=16, ff=96, kind="Q8_0")
    m.drop("rope.")
    m.set("attention.sliding_window", 16)
    m.set("attn_logit_softcapping", 2.0)
    m.set("final_logit_softcapping", 5.0)
    for n in range(2):
        m.attention(n)
        m.norm(f"blk.{n}.post_attention_norm")
        m.mlp(n)
        m.norm(f"blk.{n}.post_ffw_norm")
    m.head(tied=True, middle=0.4)
    return m


def gemma4(name, layers, **sizes):
    """Layers in turn with a window and heads of 8, and without and heads of 16, whose frequencies are divided."""
    m = Model(name, "gemma4", layers, dim=16, **sizes)
    m.sets("attention.", key_length_swa=8, value_length_swa=8, sliding_window=16)
    m.set("attention.sliding_window_pattern", [n % 2 == 0 for n in range(layers)])
    m.sets("rope.", freq_base=1e6, freq_base_swa=10000.0, dimension_count_swa=8)
    m.set("final_logit_softcapping", 5.0)
    # Converters give the elements that don't rotate a divisor of 1e30.
    m.vector("rope_freqs.weight", 8)
    m.tensors["rope_freqs.weight"][4:] = 1e30
    return m


@case("gemma4")
def _(name):
    m = gemma4(name, 6, kv=1, kind="Q4_1")
    m.set("feed_forward_length", [64] * 4 + [96] * 2)
    m.set("attention.shared_kv_layers", 2)
    m.set("embedding_length_per_layer_input", 32)
    m.matrix("per_layer_token_embd.weight", 320, 6 * 32, gain=(6 * 32) ** 0.5)
    m.linear("per_layer_model_proj", 6 * 32, 32, small=True)
    m.norm("per_layer_proj_norm", 32)
    for n in range(6):
        dim = 8 if n % 2 == 0 else 16
        m.attention(n, parts="qkv" if n < 4 else "q", dim=dim, qk=(dim, dim))
        m.norm(f"blk.{n}.post_attention_norm")
        m.mlp(n, ff=64 if n < 4 else 96)
        m.norm(f"blk.{n}.post_ffw_norm")
        m.linear(f"blk.{n}.inp_gate", 32, 32)
        m.linear(f"blk.{n}.proj", 32, 32)
        m.norm(f"blk.{n}.post_norm")
        m.vector(f"blk.{n}.layer_output_scale.weight", 1, middle=0.8)
    m.head(tied=True, middle=0.4)
    return m


@case("gemma4-moe")
def _(name):
    m = gemma4(name, 2, ff=64, kind="Q4_0")
    m.set("attention.head_count_kv", [2, 1])
    m.set("attention.shared_kv_layers", 0)
    m.set("embedding_length_per_layer_input", 0)
    for n in range(2):
        b = f"blk.{n}."
        # Layers that see everything take the keys for values.
        dim, kv, parts = (8, 2, "qkv") if n == 0 else (16, 1, "qk")
        m.attention(n, parts=parts, dim=dim, kv=kv, qk=(dim, dim))
        m.norm(b + "post_attention_norm")
        m.mlp(n)
        m.experts(n, norm="pre_ffw_norm_2", used=2, ff=32)
        m.vector(b + "ffn_gate_inp.scale", 32)
        m.vector(b + "ffn_down_exps.scale", 8)
        m.norms(n, "post_ffw_norm_1", "post_ffw_norm_2", "post_ffw_norm")
        m.vector(b + "layer_output_scale.weight", 1, middle=0.8)
    m.head(tied=True, middle=0.4)
    return m
