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
    let spec = RopeSpec {
        head_dim: 8,
        n_rot: 6,
        style: RopeStyle::Normal,
        freq_base: 10000.0,
        freq_scale: 0.25,
        factors: Some(factors),
    };
    let q = b.rope(q, spec).unwrap();
    let neox = RopeSpec { n_rot: 8, style: RopeStyle::Neox, factors: None, ..spec };
    let k = b.rope(k, neox).unwrap();
    let cache = b.cache(KvCache { layer: 0, n_kv_head: 2, head_dim: 8 }).unwrap();
    let stored = b.kv_store(k, k, cache).unwrap();
    let positions = b.input(Input::Positions);
    let attention = Op::Attention {
        q,
        positions,
        cache: stored,
        n_head: 4,
        n_kv_head: 2,
        head_dim: 8,
        scale: 0.35355338,
        window: Some(3),
        softcap: Some(50.0),
    };
    let a = b.push(attention).unwrap();
    let x = b.add(a, x).unwrap();
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
    assert_eq!((g.caches().count(), cache.layer), (1, 0));
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
        ("window=3", "window=0", "size: attention: a window"),
        ("softcap=50.0", "softcap=0.0", "number: attention: softcap"),
        ("layer=0 n_kv_head=2", "layer=0 n_kv_head=0", "size: kv_cache of layer 0"),
        ("output \"hidden\" t2", "output \"hidden\" t2 output \"hidden\" t2", "output"),
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

#[test]
fn changed_graphs_are_caught() {
    type Change = (&'static str, fn(&mut Graph), Rule);
    let changes: [Change; 7] = [
        ("a weight's shape", |g| g.tensors[named(g, "norm")].shape.cols += 1, Rule::OperandShape),
        ("a result's shape", |g| g.tensors[g.outputs[1].tensor].shape.cols += 1, Rule::Result),
        ("a producer", |g| g.tensors[named(g, "norm")].producer = g.nodes.keys().last(), Rule::Result),
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
    let cache = b.cache(KvCache { layer: 0, n_kv_head: 1, head_dim: 8 }).unwrap();
    let positions = b.input(Input::Positions);
    let attention = |cache| Op::Attention {
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
    let stored = b.kv_store(x, x, cache).unwrap();
    assert_eq!(b.kv_store(x, x, cache).unwrap_err().rule, Rule::CacheChain);
    assert_eq!(b.kv_store(x, x, stored).unwrap_err().rule, Rule::CacheChain);
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
    // Only the asked-for rows, in the asked-for order; and an earlier position again.
    let some = Interp::new(&g).unwrap().step(&weights, &tokens, &positions, &[5, 2]).unwrap();
    assert_eq!(some.data, [batch.row(5), batch.row(2)].concat());
    let again = interp.step(&weights, &tokens[4..5], &positions[4..5], &[0]).unwrap();
    assert_eq!(again.data, batch.row(4));
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
    assert_eq!(error(&[1, 16], &[0, 1], &[]), "token 1: found 16, want an id below 16");
    assert_eq!(error(&[-1], &[0], &[]), "token 0: found -1, want an id below 16");
    assert_eq!(error(&[1, 2], &[0, 2], &[]), "position of token 1: found 2, want 0 to 1");
    assert_eq!(error(&[1], &[-1], &[]), "position of token 0: found -1, want 0 to 0");
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
        let spec = RopeSpec { head_dim: 4, n_rot, style, freq_base: 100.0, freq_scale: 0.5, factors: None };
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
        b.rope(x, RopeSpec { head_dim: 4, n_rot: 4, style, freq_base: 100.0, freq_scale: 1.0, factors }).unwrap()
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
            let cache = b.cache(KvCache { layer: 0, n_kv_head, head_dim: 2 }).unwrap();
            let cache = b.kv_store(kv, kv, cache).unwrap();
            let positions = b.input(Input::Positions);
            let op = Op::Attention {
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
