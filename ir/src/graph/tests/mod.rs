mod numbers;

use super::*;
use crate::quant::Format;
use crate::tile::{Content, Elem};

const F32: Content = Content::Elem(Elem::F32);

/// A graph that has every operation and every optional part.
fn full() -> Graph {
    let mut b = Builder::new("full");
    let q8 = Content::Quant(Format::from_name("q8_0").unwrap());
    let table = b.weight("token_embd.weight", q8, 16, 32).unwrap();
    let x = b.embed(table, 2.5).unwrap();
    let w = b.weight("norm", F32, 1, 32).unwrap();
    let h = b.rms_norm(x, w, 1e-5).unwrap();
    let (wq, wk) = (b.weight("q", F32, 32, 32).unwrap(), b.weight("k", Content::Elem(Elem::BF16), 16, 32).unwrap());
    let bias = b.weight("q.bias", F32, 1, 32).unwrap();
    let (q, k) = (b.linear(h, wq, Some(bias)).unwrap(), b.linear(h, wk, None).unwrap());
    let factors = b.weight("rope_freqs.weight", F32, 1, 3).unwrap();
    let long = b.weight("rope_long.weight", F32, 1, 3).unwrap();
    let spec = RopeSpec {
        n_rot: 6,
        start: 2,
        freq_scale: 0.25,
        magnitude: 1.25,
        factors: Some(factors),
        long_factors: Some(long),
        original: 16,
        yarn: Some(Yarn { beta_fast: 32.0, beta_slow: 1.0 }),
        ..RopeSpec::new(8, RopeStyle::Normal, 10000.0)
    };
    let q = b.rope(q, spec).unwrap();
    let neox = RopeSpec { freq_scale: 0.25, ..RopeSpec::new(8, RopeStyle::Neox, 10000.0) };
    let k = b.rope(k, neox).unwrap();
    let cache = b.cache(KvCache::new(0, 2, 8)).unwrap();
    let stored = b.kv_store(k, Some(k), cache).unwrap();
    let positions = b.input(Input::Positions);
    let sinks = b.weight("sinks", F32, 1, 4).unwrap();
    let attention = Op::Attention {
        q,
        positions,
        cache: stored,
        n_head: 4,
        sinks: Some(sinks),
        n_kv_head: 2,
        head_dim: 8,
        scale: 0.35355338,
        window: Some(3),
        softcap: Some(50.0),
    };
    let a = b.push(attention).unwrap();
    let x = b.add(a, x).unwrap();
    let x = sequence(&mut b, x, q);
    let x = experts(&mut b, x);
    let x = b.select_rows(x).unwrap();
    let g = b.glu(x, x, Activation::GeluTanh).unwrap();
    let g = b.glu(g, x, Activation::Silu).unwrap();
    let g = b.scale(g, -0.5).unwrap();
    b.output(HIDDEN, g).unwrap();
    let y = b.linear(g, table, None).unwrap();
    let y = b.soft_cap(y, 30.0).unwrap();
    b.output(LOGITS, y).unwrap();
    b.finish().unwrap()
}

/// What runs along the sequence beside attention. `q` has 32 columns.
fn sequence(b: &mut Builder, x: Tensor, q: Tensor) -> Tensor {
    let positions = b.input(Input::Positions);
    let table = b.weight("position_embd.weight", F32, 64, 32).unwrap();
    let learned = b.push(Op::Embed { table, ids: positions, scale: 1.0 }).unwrap();
    let q = b.push(Op::PositionScale { x: q, positions, by: 0.1, every: 4 }).unwrap();
    let shared = b.cache(KvCache { value_dim: 4, shared: true, ..KvCache::new(1, 1, 8) }).unwrap();
    let key = b.columns(q, 8, 8).unwrap();
    let stored = b.kv_store(key, None, shared).unwrap();
    let latent = Op::Attention {
        q,
        positions,
        cache: stored,
        n_head: 4,
        sinks: None,
        n_kv_head: 1,
        head_dim: 8,
        scale: 0.5,
        window: None,
        softcap: None,
    };
    let latent = b.push(latent).unwrap();
    let both = b.push(Op::Concat { a: latent, b: latent, groups: 4 }).unwrap();
    let state = b.state(State::Conv(ConvState { layer: 0, cols: 32, taps: 4 })).unwrap();
    let taps = b.weight("conv", F32, 32, 4).unwrap();
    let bias = b.weight("conv.bias", F32, 1, 32).unwrap();
    let act = Some(Activation::Silu);
    let c = b.push(Op::ShortConv { x: both, weight: taps, bias: Some(bias), state, act }).unwrap();
    let state = RecurrentState { layer: 0, n_head: 4, key_dim: 8, value_dim: 8 };
    let state = b.state(State::Recurrent(state)).unwrap();
    let heads = b.push(Op::Columns { x: c, group: 8, start: 3, len: 1 }).unwrap();
    let beta = b.act(heads, Activation::Sigmoid).unwrap();
    let decay = b.act(heads, Activation::Softplus).unwrap();
    let decay = b.scale(decay, -1.0).unwrap();
    let (k, key_heads) = (b.columns(c, 0, 16).unwrap(), KeyHeads::Cyclic);
    let delta = Op::Recurrence { q: k, k, v: c, decay, beta: Some(beta), state, key_heads };
    let delta = b.push(delta).unwrap();
    let normed = b.normalize(delta, NormKind::Layer, 8, 1e-6).unwrap();
    let x = b.mul(normed, x).unwrap();
    b.add(x, learned).unwrap()
}

/// A mixture of experts. `x` has 32 columns.
fn experts(b: &mut Builder, x: Tensor) -> Tensor {
    let router = b.weight("router", F32, 8, 32).unwrap();
    let logits = b.linear(x, router, None).unwrap();
    let bias = Some(b.weight("router.bias", F32, 1, 8).unwrap());
    let (scoring, groups) = (Scoring::Sigmoid, [4, 2]);
    let routing = Routing { n_used: 3, scoring, normalize: true, scale: 2.5, groups };
    let routes = b.push(Op::Route { logits, bias, routing }).unwrap();
    let up = b.weight("up", F32, 8 * 16, 32).unwrap();
    let (scale, bias) = (b.weight("up.scale", F32, 1, 8).unwrap(), b.weight("up.bias", F32, 8, 16).unwrap());
    let (scale, bias) = (Some(scale), Some(bias));
    let up = b.push(Op::ExpertLinear { x, weight: up, n_expert: 8, routes: Some(routes), scale, bias }).unwrap();
    let limit = Limit::GatePlusOne(7.0);
    let h = b.push(Op::Glu { gate: up, up, act: Activation::GeluQuick, limit }).unwrap();
    let down = b.weight("down", F32, 8 * 32, 16).unwrap();
    let (routes, none) = (Some(routes), None);
    let h = b.push(Op::ExpertLinear { x: h, weight: down, n_expert: 8, routes, scale: none, bias: none }).unwrap();
    let h = b.push(Op::ExpertSum { x: h, routes: routes.unwrap() }).unwrap();
    let h = b.act(h, Activation::ReluSquared).unwrap();
    let weight = b.weight("mul", F32, 1, 8).unwrap();
    b.mul(h, weight).unwrap()
}

#[test]
fn text_reads_back_as_the_same_graph() {
    let g = full();
    let text = g.to_string();
    let read = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(read, g, "{text}");
    assert_eq!(read.to_string(), text);
}

#[test]
fn the_module_documentation_shows_a_graph() {
    let docs = include_str!("../mod.rs");
    let text: String = docs
        .lines()
        .skip_while(|l| *l != "//! ```text")
        .skip(1)
        .take_while(|l| *l != "//! ```")
        .map(|l| format!("{}\n", l.trim_start_matches("//! ")))
        .collect();
    // Inputs and weights are declared where they are first used, so the numbers of the text stay.
    assert_eq!(parse(&text).unwrap().to_string().replace(' ', ""), text.replace(' ', ""));
}

#[test]
fn a_graph_is_walked_both_ways() {
    let g = full();
    for (n, node) in g.nodes.iter() {
        assert_eq!(g.producer(node.result), Some(n));
        for t in node.op.operands() {
            assert!(g.users(t).contains(&n) && t < node.result);
        }
    }
    let (root, cache) = g.caches().next().unwrap();
    assert_eq!((g.caches().count(), g.states().count(), cache.layer), (2, 4, 0));
    let stored = g.result(g.users(root)[0]);
    assert_eq!(g.root(stored), root);
    let table = named(&g, "token_embd.weight");
    assert_eq!(g.users(table).len(), 2, "the embedding and the head share the table");
}

/// Each change of the full graph's text that breaks a rule, and the rule and tensor that the error names.
#[test]
fn the_verifier_names_tensor_and_rule() {
    let text = full().to_string();
    let cases = [
        ("rms_norm t2, t3", "rms_norm t2, t0", "t4: operand-shape: rms_norm: weight t0"),
        ("embed t0, t1", "embed t1, t1", "t2: operand-kind: embed: table t1 is the input tokens, not a weight"),
        ("eps=1e-5", "eps=-1.0", "number: rms_norm: eps is -1.0"),
        ("eps=1e-5", "eps=NaN", "number: rms_norm: eps is NaN"),
        ("scale=2.5", "scale=inf", "t2: number: embed: scale is inf"),
        ("[1, 32] = weight \"norm\"", "[1, 33] = weight \"norm\"", "operand-shape: rms_norm: x t2 has 32 columns"),
        ("[16, 32] = weight \"token", "[16, 31] = weight \"token", "t0: whole-blocks: weight \"token_embd.weight\""),
        ("[16, 32] = weight \"token", "[0, 32] = weight \"token", "t0: size"),
        ("weight \"norm\" f32", "weight \"norm\" i32", "operand-kind: weight \"norm\" is of i32"),
        ("weight \"norm\" f32", "weight \"q\" f32", "unique"),
        ("n_head=4", "n_head=3", "heads: attention: 3 query heads do not divide"),
        ("n_head=4", "n_head=2", "heads: attention: q"),
        ("n_head=4 n_kv_head=2", "n_head=4 n_kv_head=4", "heads: attention: 4 key/value heads of 8, cache"),
        ("n_rot=6", "n_rot=5", "heads: rope: 5 elements"),
        ("n_rot=6", "n_rot=4", "operand-shape: rope: factors"),
        ("start=2", "start=3", "heads: rope: 6 elements"),
        (" original=16", "", "size: rope: scaling by frequency"),
        ("n_used=3", "n_used=5", "heads: route: 5 experts of 4"),
        ("groups_used=2", "groups_used=0", "heads: route: 0 of 4 groups"),
        ("[1, 8] = weight \"up.scale\"", "[1, 9] = weight \"up.scale\"", "operand-shape: expert_linear: scale"),
        ("[32, 4] = weight \"conv\"", "[32, 5] = weight \"conv\"", "operand-shape: short_conv"),
        ("taps=4", "taps=1", "size: conv_state of layer 0"),
        ("value_dim=4 shared=1", "value_dim=4", "operand-kind: kv_store: cache"),
        ("value_dim=4 shared=1", "value_dim=16 shared=1", "size: kv_cache of layer 1"),
        ("len=8", "len=80", "operand-shape: columns: 80 from 8"),
        ("window=3", "window=0", "size: attention: a window"),
        ("softcap=50.0", "softcap=0.0", "number: attention: softcap"),
        ("layer=0 n_kv_head=2", "layer=0 n_kv_head=0", "size: kv_cache of layer 0"),
        ("output \"hidden\" t6", "output \"hidden\" t2 output \"hidden\" t6", "output"),
    ];
    for (from, to, want) in cases {
        assert!(text.contains(from), "no {from:?} in\n{text}");
        let error = parse(&text.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(want), "{from} -> {to}: {error}");
    }
}

fn named(g: &Graph, weight: &str) -> Tensor {
    g.weights().find(|(_, w)| w.name == weight).unwrap().0
}

fn at<'g>(g: &'g mut Graph, weight: &str) -> &'g mut TensorData {
    let t = named(g, weight);
    &mut g.tensors[t]
}

#[test]
fn changed_graphs_are_caught() {
    type Change = (&'static str, fn(&mut Graph), Rule);
    let changes: [Change; 7] = [
        ("a weight's shape", |g| at(g, "norm").shape.cols += 1, Rule::OperandShape),
        ("a result's shape", |g| g.tensors[g.outputs[1].tensor].shape.cols += 1, Rule::Result),
        ("a producer", |g| at(g, "norm").producer = Some(Node::from_u32(0)), Rule::Result),
        ("users", |g| g.tensors.values_mut().for_each(|d| d.users.clear()), Rule::Result),
        ("outputs", |g| g.outputs.clear(), Rule::Output),
        ("an output", |g| g.outputs[0].tensor = g.input(Input::Tokens).unwrap(), Rule::Output),
        (
            "an operand",
            |g| {
                let (last, first) = (g.outputs[1].tensor, g.nodes.keys().nth(1).unwrap());
                let Op::RmsNorm { x, .. } = &mut g.nodes[first].op else { panic!("the second operation is a norm") };
                *x = last;
            },
            Rule::Order,
        ),
    ];
    for (what, change, rule) in changes {
        let mut g = full();
        change(&mut g);
        assert_eq!(verify(&g).expect_err(what).rule, rule, "{what}");
    }
}

#[test]
fn a_cache_is_stored_to_once_and_then_read() {
    let mut b = Builder::new("caches");
    let table = b.weight("table", F32, 4, 8).unwrap();
    let x = b.embed(table, 1.0).unwrap();
    let cache = b.cache(KvCache::new(0, 1, 8)).unwrap();
    let positions = b.input(Input::Positions);
    let attention = |cache| Op::Attention {
        sinks: None,
        q: x,
        positions,
        cache,
        n_head: 1,
        n_kv_head: 1,
        head_dim: 8,
        scale: 1.0,
        window: None,
        softcap: None,
    };
    assert_eq!(b.push(attention(cache)).unwrap_err().rule, Rule::CacheChain);
    let stored = b.kv_store(x, Some(x), cache).unwrap();
    assert_eq!(b.kv_store(x, Some(x), cache).unwrap_err().rule, Rule::CacheChain);
    assert_eq!(b.kv_store(x, Some(x), stored).unwrap_err().rule, Rule::CacheChain);
    b.push(attention(stored)).unwrap();
}

#[test]
fn text_that_is_no_graph_says_where() {
    let cases = [
        ("", "line 1, column 1: found the end of the text"),
        ("graph \"g", "line 1, column 7: the string does not end"),
        ("graph \"g\" {\n  t0: [x, 1] = input tokens\n}", "line 2, column 8: found `x`"),
        ("graph \"g\" {\n  t0: [tokens, 1] = input token\n}", "line 2, column 27: there is no input `token`"),
        ("graph \"g\" {\n  t0: [tokens, 1] = add t1, t2\n}", "line 2, column 25: t1 is not defined"),
        ("graph \"g\" {\n  t0: [1, 1] = frob t1\n}", "line 2, column 16: there is no operation `frob`"),
        ("graph \"g\" {\n  t0: [1, 1] = weight \"w\" q9_0\n}", "line 2, column 27: there is no type `q9_0`"),
        ("graph \"g\" {\n  t0: [2, 1] = input tokens\n}", "t0 is [tokens, 1], not [2, 1]"),
        ("graph \"g\" {\n  t0: [tokens, 1] = input tokens\n  t1: [tokens, 1] = input tokens\n}", "occurs once"),
        ("graph \"g\" { } x", "line 1, column 15: found `x`, want the end"),
        ("graph \"g\" { }", "graph: output: no output"),
        ("graph \"g\" { ? }", "means nothing here: '?'"),
    ];
    for (text, want) in cases {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(want), "{text:?}: {error}");
    }
    let text = full().to_string();
    for (from, to, want) in [
        ("style=neox", "style=gpt", "style is `gpt`, want one of normal, neox"),
        ("n_rot=6 ", "", "attribute `n_rot` is missing"),
        ("n_rot=6", "n_rot=6 n_rot=6", "there is no attribute `n_rot` here, or it is given twice"),
        ("window=3", "windows=3", "there is no attribute `windows` here"),
        ("n_rot=6", "n_rot=-6", "n_rot is `-6`, want a whole number"),
    ] {
        let error = parse(&text.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(want), "{to}: {error}");
    }
    // No prefix of a text is a graph, and none is a panic.
    for (i, _) in text.char_indices().filter(|&(i, _)| i < text.len() - 2) {
        parse(&text[..i]).unwrap_err();
    }
}

/// Weights as a function of name, row and column.
fn weights(name: &str, row: u32, out: &mut [f32]) -> Result<(), String> {
    let seed = name.bytes().fold(row.wrapping_mul(977), |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
    for (i, x) in out.iter_mut().enumerate() {
        let h = (seed ^ (i as u32).wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B);
        *x = (h >> 16) as f32 / 65536.0 + if name == "rope_freqs.weight" { 1.0 } else { -0.5 };
    }
    Ok(())
}

#[test]
fn a_prompt_at_once_equals_one_token_at_a_time() {
    let g = full();
    let (tokens, positions) = ([3, 1, 4, 1, 5, 9, 2, 6], [0, 1, 2, 3, 4, 5, 6, 7]);
    let rows: Vec<i32> = (0..8).collect();
    let batch = Interp::new(&g).unwrap().step(&weights, &tokens, &positions, &rows).unwrap();
    assert_eq!((batch.rows, batch.cols), (8, 16));
    let mut interp = Interp::new(&g).unwrap();
    for (i, row) in batch.data.chunks(16).enumerate() {
        let one = interp.step(&weights, &tokens[i..=i], &positions[i..=i], &[0]).unwrap();
        assert_eq!(one.data, row, "token {i}");
    }
    // Only the asked-for rows, in the asked-for order. An earlier position again is no step of a recurrence.
    let some = Interp::new(&g).unwrap().step(&weights, &tokens, &positions, &[5, 2]).unwrap();
    assert_eq!(some.data, [batch.row(5), batch.row(2)].concat());
    let again = interp.step(&weights, &tokens[4..5], &positions[4..5], &[0]).unwrap_err();
    assert_eq!(again.to_string(), "position of token 0: found 4, want 8");
    interp.reset();
    assert_eq!(interp.step(&weights, &tokens, &positions, &rows).unwrap(), batch);
}

#[test]
fn arguments_are_checked() {
    let g = full();
    let mut interp = Interp::new(&g).unwrap();
    let mut error = |tokens: &[i32], positions: &[i32], rows: &[i32]| {
        interp.step(&weights, tokens, positions, rows).unwrap_err().to_string()
    };
    assert_eq!(error(&[1, 2], &[0], &[]), "positions: found 1, want one for each of 2 tokens");
    assert_eq!(error(&[1, 16], &[0, 1], &[]), "token 1: found 16, want below 16");
    assert_eq!(error(&[-1], &[0], &[]), "token 0: found -1, want below 16");
    assert_eq!(error(&[1, 2], &[0, 2], &[]), "position of token 1: found 2, want 1");
    assert_eq!(error(&[1], &[-1], &[]), "position of token 0: found -1, want 0");
    assert_eq!(error(&[1], &[0], &[1]), "output row 0: found 1, want an index of 1 tokens");
    let broken = |name: &str, row: u32, out: &mut [f32]| {
        if name == "k" && row == 7 { Err("lost".into()) } else { weights(name, row, out) }
    };
    let error = Interp::new(&g).unwrap().step(&broken, &[1], &[0], &[0]).unwrap_err();
    assert_eq!(error.to_string(), "weight \"k\", row 7: lost");
}
