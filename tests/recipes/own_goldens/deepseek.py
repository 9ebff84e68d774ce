"""DeepSeek: attention to a latent row."""

from model import Model, case


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


@case("deepseek2")
def _(name):
    # V3: short rows of queries, the absorbed form, experts in groups scored by sigmoids.
    m = Model(name, "deepseek2", embd=64, heads=2, kv=1, dim=48, ff=96, kind="Q8_0")
    m.sets("attention.", q_lora_rank=32, kv_lora_rank=32, value_length=32, key_length_mla=48, value_length_mla=32)
    m.set("rope.dimension_count", 16)
    m.sets("rope.scaling.", type="yarn", factor=40.0, original_context_length=16, yarn_log_multiplier=0.1)
    m.sets("rope.scaling.", yarn_beta_fast=32.0, yarn_beta_slow=1.0)
    m.sets("expert_", shared_count=1, gating_func=2, weights_scale=2.5, weights_norm=True)
    m.sets("expert_", group_count=4, group_used_count=2)
    m.set("leading_dense_block_count", 1)
    for n in range(2):
        b = f"blk.{n}."
        m.norm(b + "attn_norm")
        m.linear(b + "attn_q_a", 32, 64)
        m.norm(b + "attn_q_a_norm", 32)
        m.linear(b + "attn_q_b", 2 * 48, 32, 1.5)
        m.linear(b + "attn_kv_a_mqa", 32 + 16, 64, 1.5)
        m.norm(b + "attn_kv_a_norm", 32)
        m.matrix(b + "attn_k_b.weight", 2, 32, 32)
        m.matrix(b + "attn_v_b.weight", 2, 32, 32)
        m.linear(b + "attn_output", 64, 2 * 32)
        if n == 0:
            m.mlp(n)
        else:
            m.experts(n, ff=32, choice_bias=True)
            m.shared(n, 32)
    m.head()
    return m
