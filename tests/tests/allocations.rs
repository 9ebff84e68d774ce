//! A step takes no memory: everything it needs was taken when the session was made.

use hrx::SessionOptions;
use hrx_tests::golden::{Golden, Model};
use hrx_tests::models::options;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, with a count of what is asked of it, by whichever thread.
struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on as it is.
#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Dense models and experts, rotations of all kinds, none, a window, states: the first golden of each.
const MODELS: [&str; 6] = ["llama-Q4", "gemma3-", "qwen3moe-", "gpt2-", "lfm2-", "mistral3-"];

#[test]
fn a_token_takes_no_memory() {
    let golden = Golden::locate();
    let models = golden.models().expect("goldens");
    for name in MODELS {
        let wanted = |m: &&Model| m.file.starts_with(name) && m.is_readable();
        let m = models.iter().find(wanted).unwrap_or_else(|| panic!("no golden {name}"));
        let model = hrx::Model::open(golden.path(m), &options(2)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let sequences = if model.graph().is_recurrent() { 1 } else { 3 };
        let of = SessionOptions { n_ctx: 64, sequences, ..SessionOptions::default() };
        let mut session = model.session(&of).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut row = Vec::new();
        // The first steps of a process may have the C library and threads take something.
        session.eval_into(&[1, 2, 3], &mut row).expect("room");
        session.eval_into(&[4], &mut row).expect("room");
        let before = TAKEN.load(Ordering::Relaxed);
        for token in 5..25 {
            session.eval_into(&[token], &mut row).expect("room");
        }
        session.eval_into(&[1, 2, 3], &mut row).expect("room");
        if sequences > 1 {
            let mut rows = 0;
            session
                .eval_each(&[(0, 5), (1, 6), (2, 7)], |_, row| {
                    rows += row.len();
                    Ok(())
                })
                .expect("room");
            assert!(rows > 0);
        }
        let taken = TAKEN.load(Ordering::Relaxed) - before;
        assert_eq!(taken, 0, "{name}: 20 tokens, a prompt of three and a step of {sequences} sequences took memory");
    }
    assert!(TAKEN.load(Ordering::Relaxed) > 0, "nothing was counted");
}
