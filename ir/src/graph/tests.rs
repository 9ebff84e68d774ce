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
    let docs = include_str!("mod.rs");
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

/// A graph of one operation behind an embedding whose table has these rows, and its result for token 0.
fn run(table: &'static [[f32; 4]], op: impl Fn(&mut Builder, Tensor) -> Tensor) -> Vec<f64> {
    let mut b = Builder::new("one");
    let t = b.weight("table", F32, table.len() as u32, 4).unwrap();
    let x = b.embed(t, 1.0).unwrap();
    let y = op(&mut b, x);
    let y = b.select_rows(y).unwrap();
    b.output(LOGITS, y).unwrap();
    let g = b.finish().unwrap();
    let rows = |_: &str, row: u32, out: &mut [f32]| {
        out.copy_from_slice(&table[row as usize][..out.len()]);
        Ok(())
    };
    let (tokens, positions): (Vec<i32>, Vec<i32>) = (0..table.len() as i32).map(|i| (i, i)).unzip();
    Interp::new(&g).unwrap().step(&rows, &tokens, &positions, &positions).unwrap().data
}

fn close(found: &[f64], want: &[f64]) {
    assert_eq!(found.len(), want.len());
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-7;
    assert!(found.iter().zip(want).all(near), "found {found:?}, want {want:?}");
}

#[test]
fn operations_compute_what_they_say() {
    // Numbers worked out by hand or with another program.
    static ONE: [[f32; 4]; 1] = [[1.0, 2.0, 3.0, 4.0]];
    let norm = |b: &mut Builder, x, n| {
        let w = b.weight("w", F32, 1, n).unwrap();
        b.rms_norm(x, w, 0.5).unwrap()
    };
    // Mean square 7.5, plus 0.5: the root of 8; the weight is 1 2 3 4.
    let r = 8f64.sqrt();
    close(&run(&ONE, |b, x| norm(b, x, 4)), &[1.0 / r, 4.0 / r, 9.0 / r, 16.0 / r]);
    // Heads of two: mean squares 2.5 and 12.5.
    let (r, s) = (3f64.sqrt(), 13f64.sqrt());
    close(&run(&ONE, |b, x| norm(b, x, 2)), &[1.0 / r, 4.0 / r, 3.0 / s, 8.0 / s]);
    // Means 1.5 and 3.5, variances 0.25, plus 0.75: differences of a half stay.
    close(&run(&ONE, |b, x| b.normalize(x, NormKind::Layer, 2, 0.75).unwrap()), &[-0.5, 0.5, -0.5, 0.5]);
    let columns = |b: &mut Builder, x| b.push(Op::Columns { x, group: 2, start: 1, len: 1 }).unwrap();
    close(&run(&ONE, columns), &[2.0, 4.0]);
    let mul = |b: &mut Builder, x| {
        let y = columns(b, x);
        b.mul(x, y).unwrap()
    };
    close(&run(&ONE, mul), &[2.0, 4.0, 12.0, 16.0]);
    close(
        &run(&ONE, |b, x| b.push(Op::Concat { a: x, b: x, groups: 2 }).unwrap()),
        &[1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0],
    );
    let limited =
        |limit| move |b: &mut Builder, x| b.push(Op::Glu { gate: x, up: x, act: Activation::ReluSquared, limit });
    close(&run(&ONE, |b, x| limited(Limit::Gate(2.0))(b, x).unwrap()), &[1.0, 8.0, 8.0, 8.0]);
    close(&run(&ONE, |b, x| limited(Limit::Activated(2.0))(b, x).unwrap()), &[1.0, 4.0, 4.0, 4.0]);
    close(&run(&ONE, |b, x| limited(Limit::GatePlusOne(2.0))(b, x).unwrap()), &[2.0, 12.0, 12.0, 12.0]);
    close(&run(&ONE, |b, x| b.act(x, Activation::Softplus).unwrap())[..1], &[1.313_261_687_518]);
    close(&run(&ONE, |b, x| b.act(x, Activation::GeluQuick).unwrap())[..1], &[0.845_795_765_9]);
    close(&run(&ONE, |b, x| b.glu(x, x, Activation::Silu).unwrap())[..1], &[0.731_058_578_630]);
    close(&run(&ONE, |b, x| b.glu(x, x, Activation::GeluTanh).unwrap())[..1], &[0.841_191_990_608]);
    close(&run(&ONE, |b, x| b.soft_cap(x, 2.0).unwrap())[..1], &[2.0 * 0.462_117_157_260]);
    close(&run(&ONE, |b, x| b.scale(x, 0.5).unwrap()), &[0.5, 1.0, 1.5, 2.0]);
    let linear = |b: &mut Builder, x| {
        let w = b.weight("w", F32, 1, 4).unwrap();
        let bias = b.weight("bias", F32, 1, 1).unwrap();
        b.linear(x, w, Some(bias)).unwrap()
    };
    close(&run(&ONE, linear), &[31.0]);
}

#[test]
fn rope_rotates_the_pairs_of_its_style() {
    static TWO: [[f32; 4]; 2] = [[1.0, 2.0, 3.0, 4.0]; 2];
    let rope = |style, n_rot| {
        let spec = RopeSpec { n_rot, freq_scale: 0.5, ..RopeSpec::new(4, style, 100.0) };
        run(&TWO, |b, x| b.rope(x, spec).unwrap())
    };
    let rotate = |a: f64, b: f64, angle: f64| [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()];
    // Position 1, frequencies 1 and 1/10, halved; position 0 is left alone.
    let ([a, b], [c, d]) = (rotate(1.0, 2.0, 0.5), rotate(3.0, 4.0, 0.05));
    close(&rope(RopeStyle::Normal, 4), &[1.0, 2.0, 3.0, 4.0, a, b, c, d]);
    let ([a, c], [b, d]) = (rotate(1.0, 3.0, 0.5), rotate(2.0, 4.0, 0.05));
    close(&rope(RopeStyle::Neox, 4), &[1.0, 2.0, 3.0, 4.0, a, b, c, d]);
    let [a, b] = rotate(1.0, 2.0, 0.5);
    close(&rope(RopeStyle::Neox, 2), &[1.0, 2.0, 3.0, 4.0, a, b, 3.0, 4.0]);
    let factors = |b: &mut Builder, x| {
        let f = b.weight("f", F32, 1, 2).unwrap();
        let (style, factors) = (RopeStyle::Normal, Some(f));
        b.rope(x, RopeSpec { factors, ..RopeSpec::new(4, style, 100.0) }).unwrap()
    };
    // The factors are 1 and 2.
    let ([a, b], [c, d]) = (rotate(1.0, 2.0, 1.0), rotate(3.0, 4.0, 0.05));
    close(&run(&TWO, factors), &[1.0, 2.0, 3.0, 4.0, a, b, c, d]);
}

#[test]
fn attention_weighs_the_positions_it_may_see() {
    static KEYS: [[f32; 4]; 3] = [[1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]];
    let attend = |n_kv_head: u32, window, softcap| {
        run(&KEYS, |b, x| {
            let kv = if n_kv_head == 2 {
                x
            } else {
                let w = b.weight("w", F32, 2, 4).unwrap();
                b.linear(x, w, None).unwrap()
            };
            let cache = b.cache(KvCache::new(0, n_kv_head, 2)).unwrap();
            let cache = b.kv_store(kv, Some(kv), cache).unwrap();
            let positions = b.input(Input::Positions);
            let op = Op::Attention {
                sinks: None,
                q: x,
                positions,
                cache,
                n_head: 2,
                n_kv_head,
                head_dim: 2,
                scale: 0.5,
                window,
                softcap,
            };
            b.push(op).unwrap()
        })
    };
    let e = f64::exp;
    let mix = |w: &[f64], v: &[f64]| w.iter().zip(v).map(|(w, v)| w * v).sum::<f64>() / w.iter().sum::<f64>();
    // Row 2, head 0: q = (1, 1); keys (1,0), (0,1), (1,1); scores 1/2, 1/2, 1.
    let w = [e(0.5), e(0.5), e(1.0)];
    let full = attend(2, None, None);
    close(&full[..4], &[1.0, 0.0, 0.0, 2.0]);
    close(&full[8..10], &[mix(&w, &[1.0, 0.0, 1.0]), mix(&w, &[0.0, 1.0, 1.0])]);
    close(&attend(2, Some(2), None)[8..9], &[mix(&w[1..], &[0.0, 1.0])]);
    close(&attend(2, Some(1), None), &KEYS.concat().iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    let cap = |x: f64| e(0.25 * (x / 0.25).tanh());
    close(&attend(2, None, Some(0.25))[8..9], &[mix(&[cap(0.5), cap(0.5), cap(1.0)], &[1.0, 0.0, 1.0])]);
    // One key/value head for both query heads: x times rows 0 and 1 of the table, (5, 0), (0, 2), (3, 1).
    let kv = [[5.0, 0.0], [0.0, 2.0], [3.0, 1.0]];
    let shared = attend(1, None, None);
    for (head, q) in [[1.0, 1.0], [0.0, 1.0]].iter().enumerate() {
        let w: Vec<f64> = kv.iter().map(|k| e(0.5 * (q[0] * k[0] + q[1] * k[1]))).collect();
        close(&shared[8 + 2 * head..9 + 2 * head], &[mix(&w, &[5.0, 0.0, 3.0])]);
    }
}

#[test]
fn experts_are_chosen_and_weighed() {
    // Experts 3 and 2 have the largest logits; exp(4) and exp(3) over their sum.
    static ONE: [[f32; 4]; 1] = [[1.0, 2.0, 3.0, 4.0]];
    let routing = Routing { n_used: 2, scoring: Scoring::Softmax, normalize: true, scale: 2.0, groups: [1, 1] };
    let route = move |b: &mut Builder, logits, routing| b.push(Op::Route { logits, bias: None, routing }).unwrap();
    let (first, second) = (2.0 / (1.0 + (-1f64).exp()), 2.0 / (1.0 + 1f64.exp()));
    close(&run(&ONE, |b, x| route(b, x, routing)), &[3.0, 2.0, first, second]);
    let of_chosen = Routing { scoring: Scoring::SoftmaxOfChosen, normalize: false, ..routing };
    close(&run(&ONE, |b, x| route(b, x, of_chosen)), &[3.0, 2.0, first, second]);
    let sigmoid = Routing { scoring: Scoring::Sigmoid, normalize: false, scale: 1.0, ..routing };
    close(&run(&ONE, |b, x| route(b, x, sigmoid))[2..], &[0.982_013_790_038, 0.952_574_126_822]);
    // The weight's four rows are the table's only one, so each of two experts has two outputs of 30.
    let linear = |b: &mut Builder, x| {
        let routes = route(b, x, routing);
        let weight = b.weight("w", F32, 8, 4).unwrap();
        let (routes, scale, bias) = (Some(routes), None, None);
        b.push(Op::ExpertLinear { x, weight, n_expert: 4, routes, scale, bias }).unwrap()
    };
    let rows = |_: &str, _: u32, out: &mut [f32]| {
        out.copy_from_slice(&ONE[0]);
        Ok(())
    };
    let mut b = Builder::new("one");
    let t = b.weight("table", F32, 1, 4).unwrap();
    let x = b.embed(t, 1.0).unwrap();
    let y = linear(&mut b, x);
    let routes = route(&mut b, x, routing);
    let y = b.push(Op::ExpertSum { x: y, routes }).unwrap();
    let y = b.select_rows(y).unwrap();
    b.output(LOGITS, y).unwrap();
    let g = b.finish().unwrap();
    // The weights sum to 2.
    close(&Interp::new(&g).unwrap().step(&rows, &[0], &[0], &[0]).unwrap().data, &[60.0, 60.0]);
}

#[test]
fn recurrences_carry_their_state() {
    static TWO: [[f32; 4]; 2] = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]];
    // Without decay and with keys and queries of 1: running sums.
    let scan = |delta: bool| {
        move |b: &mut Builder, x| {
            let zero = b.scale(x, 0.0).unwrap();
            // sigmoid(0) is a half.
            let half = b.act(zero, Activation::Sigmoid).unwrap();
            let state = RecurrentState { layer: 0, n_head: 4, key_dim: 1, value_dim: 1 };
            let state = b.state(State::Recurrent(state)).unwrap();
            let one = b.scale(half, 2.0).unwrap();
            let (decay, beta, key_heads) = (zero, delta.then_some(half), KeyHeads::Blocked);
            b.push(Op::Recurrence { q: one, k: one, v: x, decay, beta, state, key_heads }).unwrap()
        }
    };
    close(&run(&TWO, scan(false)), &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    // Half the way from the old state to the value.
    close(&run(&TWO, scan(true)), &[0.5, 1.0, 1.5, 2.0, 2.75, 3.5, 4.25, 5.0]);
    // Taps are the table's rows, the first element for the row before: c = row 0 for all columns.
    let conv = |b: &mut Builder, x| {
        let state = b.state(State::Conv(ConvState { layer: 0, cols: 4, taps: 2 })).unwrap();
        let weight = b.weight("taps", F32, 4, 2).unwrap();
        b.push(Op::ShortConv { x, weight, bias: None, state, act: None }).unwrap()
    };
    let mut b = Builder::new("conv");
    let t = b.weight("table", F32, 2, 4).unwrap();
    let x = b.embed(t, 1.0).unwrap();
    let y = conv(&mut b, x);
    let y = b.select_rows(y).unwrap();
    b.output(LOGITS, y).unwrap();
    let g = b.finish().unwrap();
    let rows = |name: &str, row: u32, out: &mut [f32]| {
        out.copy_from_slice(if name == "taps" { &[10.0, 1.0] } else { &TWO[row as usize] });
        Ok(())
    };
    let data = Interp::new(&g).unwrap().step(&rows, &[0, 1], &[0, 1], &[0, 1]).unwrap().data;
    close(&data, &[1.0, 2.0, 3.0, 4.0, 15.0, 26.0, 37.0, 48.0]);
}
