//! Ctrl-C: stops what is being generated, or else the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a program stopped with Ctrl-C: 128 and the number of the signal.
pub const EXIT_CODE: u8 = 130;

/// Whether Ctrl-C was pressed, while that is asked for.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    /// Somebody looks at `pressed` soon.
    watched: AtomicBool,
    pressed: AtomicBool,
}

impl Interrupt {
    /// Catches the signal from now on. Where it can't be caught it ends the program, as without this.
    pub fn install() -> Interrupt {
        let interrupt = Interrupt::default();
        let flags = Arc::clone(&interrupt.0);
        // Fails only if there is a handler already.
        let _ = ctrlc::set_handler(move || {
            let first = !flags.pressed.swap(true, Ordering::Relaxed);
            if !(first && flags.watched.load(Ordering::Relaxed)) {
                std::process::exit(EXIT_CODE.into());
            }
        });
        interrupt
    }

    /// From now on the first Ctrl-C only sets the flag, and the second ends the program.
    pub fn watch(&self) {
        self.0.pressed.store(false, Ordering::Relaxed);
        self.0.watched.store(true, Ordering::Relaxed);
    }

    /// From now on Ctrl-C ends the program.
    pub fn unwatch(&self) {
        self.0.watched.store(false, Ordering::Relaxed);
    }

    /// Whether it was pressed since [`watch`](Interrupt::watch).
    pub fn pressed(&self) -> bool {
        self.0.pressed.load(Ordering::Relaxed)
    }
}
