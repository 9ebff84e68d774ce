"""Layers that keep a state of one size, whatever the context."""

from model import Model, case


@case("mamba2")
def _(name):
    # 4 heads of 32; their keys, in 2 groups, have 16 elements.
    m = Model(name, "mamba2", 3, embd=64, kind="Q8_0")
    m.drop("rope.", "key_length", "value_length", "head_count_kv")
    m.sets("", feed_forward_length=0)
    m.set("attention.head_count", 0)
    m.sets("ssm.", conv_kernel=4, inner_size=128, state_size=16, time_step_rank=4, group_count=2)
    n_conv = 128 + 2 * 2 * 16
    for n in range(3):
        b = f"blk.{n}."
        m.norm(b + "attn_norm")
        m.linear(b + "ssm_in", 128 + n_conv + 4, 64)
        m.matrix(b + "ssm_conv1d.weight", n_conv, 4, small=True)
        m.vector(b + "ssm_conv1d.bias", n_conv, middle=0.0)
        m.vector(b + "ssm_dt.bias", 4, middle=0.0)
        m.vector(b + "ssm_a", 4, 1, middle=-0.5, spread=0.1)
        m.vector(b + "ssm_d", 4, 1)
        m.vector(b + "ssm_norm.weight", 2, 64)
        m.linear(b + "ssm_out", 64, 128)
    m.head()
    return m


@case("lfm2")
def _(name):
    m = Model(name, "lfm2", 4, embd=64, dim=16, ff=96, kind="Q5_1")
    m.set("attention.head_count_kv", [0, 2, 0, 2])
    m.set("shortconv.l_cache", 3)
    for n in range(4):
        b = f"blk.{n}."
        if n % 2 == 0:
            m.norm(b + "attn_norm")
            m.linear(b + "shortconv.in_proj", 3 * 64, 64)
            m.matrix(b + "shortconv.conv.weight", 64, 3, small=True)
            m.linear(b + "shortconv.out_proj", 64, 64)
        else:
            m.attention(n, qk=(16, 16))
        m.mlp(n)
    m.head(norm="token_embd_norm", tied=True, middle=0.4)
    return m
