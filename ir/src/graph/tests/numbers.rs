//! What operations compute, by numbers worked out by hand or with another program.

use super::super::*;
use super::F32;

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
