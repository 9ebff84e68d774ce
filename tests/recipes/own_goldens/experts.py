"""Networks of experts."""

from model import Model, case


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


@case("llama-experts")
def _(name):
    m = Model(name, "llama", embd=64, dim=16, ff=64, kind="NVFP4")
    for n in range(2):
        m.attention(n)
        m.experts(n, count=4, used=2, ff=64, own_ff=False)
    m.head()
    return m


@case("gpt-oss")
def _(name):
    m = Model(name, "gpt-oss", embd=64, dim=16, ff=32, kind="MXFP4", dense="Q8_0")
    m.sets("rope.scaling.", type="yarn", factor=8.0, original_context_length=32)
    m.set("attention.sliding_window", 16)
    for n in range(2):
        m.attention(n, bias=True, out_bias=True)
        m.vector(f"blk.{n}.attn_sinks.weight", 4)
        # Large enough for the bounds inside the experts.
        m.experts(n, norm="post_attention_norm", ff=32, bias=True, gain=4.0)
    m.head()
    return m


def scored_by_sigmoids(m, scale):
    m.set("expert_gating_func", 2)
    m.set("expert_weights_scale", scale)
    m.set("expert_weights_norm", True)
    m.set("leading_dense_block_count", 1)


@case("glm4moe")
def _(name):
    m = Model(name, "glm4moe", embd=64, dim=16, ff=96, kind="Q4_1")
    scored_by_sigmoids(m, 1.5)
    m.set("rope.dimension_count", 8)
    m.set("expert_shared_count", 1)
    for n in range(2):
        m.attention(n, bias=True, qk=(16, 16))
        if n == 0:
            m.mlp(n, norm="post_attention_norm")
        else:
            m.experts(n, norm="post_attention_norm", ff=32, choice_bias=True)
            m.shared(n, 32)
    m.head()
    return m


@case("step35")
def _(name):
    m = Model(name, "step35", 3, ff=64, kind="Q8_0")
    scored_by_sigmoids(m, 2.0)
    heads = [4, 8, 8]
    m.sets("attention.", head_count=heads, head_count_kv=[2, 2, 2], sliding_window=16)
    m.set("attention.sliding_window_pattern", [False, True, True])
    m.sets("rope.", freq_base=5e6, freq_base_swa=10000.0)
    m.set("moe_every_n_layers", 1)
    m.set("expert_shared_feed_forward_length", 32)
    m.set("swiglu_clamp_exp", [0.0, 0.0, 1.0])
    m.set("swiglu_clamp_shexp", [0.0, 1.0, 0.0])
    m.vector("rope_freqs.weight", 4, middle=2.0)
    for n in range(3):
        m.attention(n, heads=heads[n], qk=(8, 8))
        m.linear(f"blk.{n}.attn_gate", heads[n], 32)
        if n == 0:
            m.mlp(n)
        else:
            m.experts(n, ff=32, choice_bias=True, gain=2.0)
            m.shared(n, 32, gain=2.0)
    m.head()
    return m


@case("maple")
def _(name):
    m = Model(name, "maple", embd=64, dim=16, ff=96, kind="Q4_0")
    m.set("attention.sliding_window", 16)
    m.set("attention.sliding_window_pattern", [True, False])
    m.set("rope.dimension_count", 8)
    m.set("swiglu_clamp_exp", [1.0, 1.0])
    for n in range(2):
        m.attention(n, qk=(16, 16))
        m.experts(n, ff=32, gain=2.0)
    m.head()
    return m
