//! What a sequence gets does not depend on the sequences that are evaluated with it.

use hrx::exec::Activations;
use hrx::{CacheChoice, Error, Model, ModelOptions, SessionOptions};
use hrx_golden::together;
use hrx_tests::golden::Golden;
use hrx_tests::models::options;
use hrx_tests::turns;

/// Every golden without recurrent states, in both forms of activations; some of them each day.
#[test]
fn a_sequence_is_the_same_in_any_company() {
    let golden = Golden::locate();
    let mut held = 0;
    for (at, m) in golden.models().expect("goldens").iter().filter(|m| m.is_readable()).enumerate() {
        // Embedded positions are not rows of a cache.
        if !turns::is_turn(at, 6) && !m.file.starts_with("gpt2") {
            continue;
        }
        let model = Model::open(golden.path(m), &options(2)).unwrap_or_else(|e| panic!("{}: {e}", m.file));
        if model.graph().is_recurrent() {
            continue;
        }
        for activations in [Activations::F32, Activations::Q8] {
            let found = together::differences(&model, &[1, 2, 4, 8], activations);
            let found = found.unwrap_or_else(|e| panic!("{}: {e}", m.file));
            assert!(found.is_empty(), "{}, {activations:?}: {}", m.file, found[0]);
        }
        held += 1;
    }
    assert!(held > 2, "{held} models in turn {}", turns::now());
}

fn small(name: &str) -> Model {
    let golden = Golden::locate();
    let models = golden.models().expect("goldens");
    let m = models.iter().find(|m| m.name() == name).unwrap_or_else(|| panic!("no golden {name}"));
    let options = ModelOptions { cache: CacheChoice::Disabled, ..options(2) };
    Model::open(golden.path(m), &options).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn sequences_have_their_own_tokens_and_room() {
    let model = small("gemma3-Q4_0");
    let options = SessionOptions { n_ctx: 4, sequences: 2, ..SessionOptions::default() };
    let mut session = model.session(&options).expect("a session");
    assert_eq!(session.sequences(), 2);
    session.eval(&[1, 2]).expect("room");
    session.select(1).expect("a second one");
    assert_eq!((session.used(), session.tokens()), (0, &[][..]));
    session.eval(&[3, 4, 5, 6]).expect("as much room");
    let none = |_: usize, _: &[f32]| Ok(());
    // The second is full, so nothing is added to either.
    let full = session.eval_each(&[(0, 7), (1, 8)], none).expect_err("no room");
    assert!(matches!(full, Error::ContextFull { n_ctx: 4, used: 4, wanted: 1 }), "{full}");
    session.truncate(3).expect("shorter");
    let mut rows = 0;
    session
        .eval_each(&[(1, 8), (0, 7)], |i, _| {
            assert_eq!(i, rows);
            rows += 1;
            Ok(())
        })
        .expect("room");
    assert_eq!((rows, session.tokens()), (2, &[3, 4, 5, 8][..]));
    session.select(0).expect("the first one");
    assert_eq!(session.tokens(), [1, 2, 7]);
    for (bad, said) in [
        (session.select(2), "no sequence 2"),
        (session.eval_each(&[], none), "no tokens"),
        (session.eval_each(&[(0, 1), (0, 2)], none), "sequence 0 comes twice"),
        (session.eval_each(&[(5, 1)], none), "no sequence 5"),
        (session.eval_each(&[(0, 1 << 30)], none), "not one of the vocabulary"),
    ] {
        let e = bad.expect_err("refused").to_string();
        assert!(e.contains(said), "{e}");
    }
    assert_eq!(session.tokens(), [1, 2, 7]);
}

#[test]
fn sessions_refuse_sequences_that_they_cannot_keep_apart() {
    let error = |model: &Model, sequences| {
        let options = SessionOptions { n_ctx: 64, sequences, ..SessionOptions::default() };
        model.session(&options).err().expect("refused").to_string()
    };
    let recurrent = small("lfm2-Q5_1");
    assert!(error(&recurrent, 2).contains("2 sequences: what this model keeps"), "{}", error(&recurrent, 2));
    let plain = small("gemma3-Q4_0");
    assert!(error(&plain, 0).contains("one sequence"));
    assert!(error(&plain, 1 << 20).contains("1048576 times 64 tokens is beyond"), "{}", error(&plain, 1 << 20));
}
