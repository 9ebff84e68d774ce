"""Qwen: experts, and gated delta nets between layers of attention."""

from model import Model, case


@case("qwen2moe")
def _(name):
    m = Model(name, "qwen2moe", embd=64, dim=16, ff=96, kind="Q5_1")
    m.set("expert_shared_feed_forward_length", 96)
    for n in range(2):
        m.attention(n, bias=True)
        m.experts(n, ff=32)
        m.shared(n, 96, gated=True)
    m.head()
    return m


@case("qwen3moe")
def _(name):
    m = Model(name, "qwen3moe", embd=64, dim=16, ff=96, kind="Q5_0")
    for n in range(2):
        m.attention(n, qk=(16, 16))
        m.experts(n, used=2, ff=32)
    m.head()
    return m


def delta_net(m, n, scalars):
    """A gated delta net: 2 key heads of 32, 4 value heads of 32.

    `scalars` says where the two numbers of each value head come from: "ssm_ba" by key heads, "ssm_in" so with queries,
    keys, values and gates in one matrix too, "split" a matrix for each.
    """
    b, keys, values = f"blk.{n}.", 2, 4
    n_key, n_inner = keys * 32, values * 32
    m.norm(b + "attn_norm")
    if scalars == "ssm_in":
        m.linear(b + "ssm_in", 2 * n_key + 2 * n_inner, m.embd)
    else:
        m.linear(b + "attn_qkv", 2 * n_key + n_inner, m.embd)
        m.linear(b + "attn_gate", n_inner, m.embd)
    if scalars == "split":
        m.linear(b + "ssm_alpha", values, m.embd)
        m.linear(b + "ssm_beta", values, m.embd)
    else:
        m.linear(b + "ssm_ba", 2 * values, m.embd)
    m.matrix(b + "ssm_conv1d.weight", 2 * n_key + n_inner, 4, small=True)
    m.vector(b + "ssm_dt.bias", values, middle=0.0)
    m.vector(b + "ssm_a", values, middle=-0.5)
    m.vector(b + "ssm_norm.weight", 32)
    m.linear(b + "ssm_out", m.embd, n_inner)


def hybrid(name, arch, layers=2, scalars="split", **sizes):
    """The last layer attends, those before it are delta nets."""
    m = Model(name, arch, layers, dim=16, **sizes)
    m.sets("ssm.", conv_kernel=4, state_size=32, group_count=2, time_step_rank=4, inner_size=128)
    m.set("full_attention_interval", layers)
    m.set("rope.dimension_count", 8)
    if scalars == "split":
        m.set("rope.dimension_sections", [2, 1, 1, 0])
    for n in range(layers - 1):
        delta_net(m, n, scalars)
    m.attention(layers - 1, qk=(16, 16), gated=True)
    return m


def with_experts(m, ff):
    m.set("expert_shared_feed_forward_length", ff)
    for n in range(m.layers):
        m.experts(n, norm="post_attention_norm", ff=ff)
        m.shared(n, ff, gated=True)
    m.head()
    return m


@case("qwen3next")
def _(name):
    return with_experts(hybrid(name, "qwen3next", scalars="ssm_ba"), 16)


@case("qwen3next-ssm_in")
def _(name):
    return with_experts(hybrid(name, "qwen3next", scalars="ssm_in"), 16)


@case("qwen35")
def _(name):
    m = hybrid(name, "qwen35", layers=3, ff=64, kind="Q8_0")
    for n in range(3):
        m.mlp(n, norm="post_attention_norm")
    m.head(tied=True, middle=0.4)
    return m


@case("qwen35moe")
def _(name):
    return with_experts(hybrid(name, "qwen35moe", ff=32, kind="IQ4_NL"), 32)
