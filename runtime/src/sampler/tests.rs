use proptest::prelude::*;

use super::*;

fn open() -> SamplerOptions {
    SamplerOptions { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplerOptions::default() }
}

/// The tokens that the cuts leave, in rising order.
fn kept(options: SamplerOptions, logits: &[f32]) -> Vec<u32> {
    let mut sampler = Sampler::new(options).unwrap();
    sampler.sample(&mut logits.to_vec());
    let mut ids: Vec<_> = sampler.candidates.iter().map(|c| c.id).collect();
    ids.sort_unstable();
    ids
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|l| f64::from(l - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| w / sum).collect()
}

#[test]
fn greedy_takes_the_first_of_the_greatest() {
    let mut sampler = Sampler::new(SamplerOptions::greedy()).unwrap();
    for (logits, token) in [
        (&[1.0, 3.0, 3.0][..], 1),
        (&[f32::NAN, -2.0, f32::NAN], 1),
        (&[f32::NAN, f32::NAN], 0),
        (&[f32::NEG_INFINITY, -1.0], 1),
        (&[0.0, f32::INFINITY], 1),
        (&[], 0),
    ] {
        assert_eq!(sampler.sample(&mut logits.to_vec()), token, "{logits:?}");
    }
}

#[test]
fn drawing_survives_logits_that_are_no_numbers() {
    let mut sampler = Sampler::new(open()).unwrap();
    for _ in 0..100 {
        assert_eq!(sampler.sample(&mut [f32::NAN, f32::NEG_INFINITY, 1.0, f32::NAN]), 2);
        assert_eq!(sampler.sample(&mut [0.0, f32::INFINITY, 1.0]), 1);
        assert_eq!(sampler.sample(&mut [f32::NAN]), 0);
        assert_eq!(sampler.sample(&mut []), 0);
    }
}

#[test]
fn draws_follow_the_distribution() {
    // Chi-square with 4 degrees of freedom stays below 18.5 with probability 0.999.
    for (temperature, seed) in [(1.0, 1), (0.5, 2), (2.0, 3)] {
        let logits = [0.0, 1.0, -1.0, 0.5, 2.0];
        let scaled: Vec<f32> = logits.iter().map(|l| l / temperature).collect();
        let probabilities = softmax(&scaled);
        let mut sampler = Sampler::new(SamplerOptions { temperature, seed, ..open() }).unwrap();
        let draws = 20_000;
        let mut counts = [0.0; 5];
        for _ in 0..draws {
            counts[sampler.sample(&mut logits.clone()) as usize] += 1.0;
        }
        let chi_square: f64 = counts
            .iter()
            .zip(&probabilities)
            .map(|(count, p)| {
                let expected = p * f64::from(draws);
                (count - expected) * (count - expected) / expected
            })
            .sum();
        assert!(chi_square < 18.5, "temperature {temperature}: {chi_square} from {counts:?}");
    }
}

#[test]
fn a_seed_gives_the_same_tokens_on_every_platform() {
    let logits: Vec<f32> = (0..100).map(|i| ((i * 37) % 101) as f32 / 10.0).collect();
    let tokens = |seed| -> Vec<u32> {
        let mut sampler = Sampler::new(SamplerOptions { seed, ..SamplerOptions::default() }).unwrap();
        (0..12).map(|_| sampler.sample(&mut logits.clone())).collect()
    };
    assert_eq!(tokens(42), tokens(42));
    assert_ne!(tokens(42), tokens(43));
}

#[test]
fn the_penalty_looks_at_the_window_only_and_once_at_each_token() {
    let options = SamplerOptions { repeat_penalty: 2.0, penalty_last_n: 2, ..SamplerOptions::greedy() };
    let mut sampler = Sampler::new(options).unwrap();
    for token in [0, 1, 1] {
        sampler.accept(token);
    }
    let mut logits = [4.0, 4.0, -1.0];
    sampler.sample(&mut logits);
    assert_eq!(logits, [4.0, 2.0, -1.0]);
    sampler.accept(2);
    sampler.accept(99);
    sampler.sample(&mut logits);
    assert_eq!(logits, [4.0, 2.0, -2.0]);
}

#[test]
fn options_out_of_range_are_named() {
    for (options, name) in [
        (SamplerOptions { temperature: -1.0, ..open() }, "temperature"),
        (SamplerOptions { temperature: f32::NAN, ..open() }, "temperature"),
        (SamplerOptions { top_p: 1.5, ..open() }, "top_p"),
        (SamplerOptions { min_p: -0.1, ..open() }, "min_p"),
        (SamplerOptions { repeat_penalty: 0.0, ..open() }, "repeat_penalty"),
    ] {
        let error = Sampler::new(options).unwrap_err();
        assert_eq!(error.option, name);
        assert!(error.to_string().contains(name));
    }
}

fn logits() -> impl Strategy<Value = Vec<f32>> {
    // Whole numbers make ties common.
    prop::collection::vec(prop_oneof![(-8i32..8).prop_map(|v| v as f32), -8f32..8.0], 1..40)
}

proptest! {
    #[test]
    fn top_k_keeps_the_greatest(logits in logits(), k in 1usize..50) {
        let kept = kept(SamplerOptions { top_k: k, ..open() }, &logits);
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b)));
        order.truncate(k);
        order.sort_unstable();
        prop_assert_eq!(kept, order);
    }

    #[test]
    fn top_p_keeps_the_smallest_prefix_that_suffices(logits in logits(), p in 0.01f32..0.99) {
        let kept = kept(SamplerOptions { top_p: p, ..open() }, &logits);
        let probabilities = softmax(&logits);
        let sum: f64 = kept.iter().map(|id| probabilities[*id as usize]).sum();
        let least = kept.iter().map(|id| probabilities[*id as usize]).fold(1.0, f64::min);
        prop_assert!(sum >= f64::from(p) - 1e-9);
        prop_assert!(sum - least < f64::from(p) + 1e-9);
        prop_assert!((0..logits.len() as u32).all(|id| kept.contains(&id) || probabilities[id as usize] <= least));
    }

    #[test]
    fn min_p_keeps_exactly_the_likely(logits in logits(), p in 0.01f32..1.0) {
        let kept = kept(SamplerOptions { min_p: p, ..open() }, &logits);
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (id, logit) in logits.iter().enumerate() {
            let share = f64::from(logit - max).exp();
            if (share - f64::from(p)).abs() > 1e-6 {
                prop_assert_eq!(kept.contains(&(id as u32)), share > f64::from(p));
            }
        }
    }

    #[test]
    fn a_drawn_token_is_one_of_those_kept(logits in logits(), seed: u64, k in 0usize..9, p in 0f32..=1.0, t in 0f32..3.0) {
        let options = SamplerOptions { temperature: t, top_k: k, top_p: p, min_p: p / 2.0, seed, ..open() };
        let mut sampler = Sampler::new(options).unwrap();
        let token = sampler.sample(&mut logits.clone());
        if t == 0.0 {
            prop_assert_eq!(token, argmax(&logits));
        } else {
            prop_assert!(sampler.candidates.iter().any(|c| c.id == token));
        }
    }
}
