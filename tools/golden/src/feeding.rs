//! Tokens through a session, and the logits that come of them.

use hrx::exec::Activations;
use hrx::npy::Matrix;
use hrx::{Error, Model, Outputs, SessionOptions};

/// How tokens are given to a session.
#[derive(Clone, Debug)]
pub struct Feeding {
    /// The most tokens of one step.
    pub n_batch: u32,
    /// Lengths of the calls of `eval_rows`; what they leave over comes one at a time.
    pub calls: Vec<usize>,
    /// In which form products with quantised weights read activations.
    pub activations: Activations,
}

impl Feeding {
    /// The first `n` in one call, in steps of any size, the rest one at a time.
    pub fn prompt(n: usize, activations: Activations) -> Feeding {
        Feeding { n_batch: SessionOptions::default().n_batch, calls: vec![n], activations }
    }
}

/// The logits of every token of a sequence.
///
/// # Errors
/// If the session can't be made or run.
pub fn logits(model: &Model, n_ctx: u32, tokens: &[u32], feeding: &Feeding) -> Result<Matrix, Error> {
    let options = SessionOptions {
        n_ctx,
        n_batch: feeding.n_batch,
        outputs: Outputs::All,
        activations: feeding.activations,
        ..SessionOptions::default()
    };
    let mut session = model.session(&options)?;
    let mut data = Vec::with_capacity(tokens.len() * session.cols() as usize);
    let mut keep = |row: &[f32]| {
        data.extend_from_slice(row);
        Ok(())
    };
    let mut rest = tokens;
    for n in feeding.calls.iter().copied().chain(std::iter::repeat(1)) {
        if rest.is_empty() {
            break;
        }
        let (now, later) = rest.split_at(n.min(rest.len()));
        session.eval_rows(now, &mut keep)?;
        rest = later;
    }
    Ok(Matrix { rows: tokens.len(), cols: session.cols() as usize, data })
}
