//! Which layers see a window of positions, and which see all.

use crate::gguf::Value;
use crate::models::Problem;
use crate::models::builder::ModelBuilder;

/// The windows of a model's layers.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    window: Option<u32>,
    pattern: Pattern,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// For each layer whether it has the window.
    Each(Vec<bool>),
    /// The last layer of each period sees everything; 0 for no such layer.
    Period(u32),
}

impl Windows {
    /// What `attention.sliding_window` and `attention.sliding_window_pattern` say: a truth value for each layer, or the
    /// length of a period, of which the last layer sees everything. `period` is for files that don't say.
    pub(crate) fn read(m: &ModelBuilder<'_>, period: u32) -> Result<Windows, Problem> {
        const KEY: &str = "attention.sliding_window_pattern";
        let keys = m.keys();
        let blocks = m.config().n_layer + m.config().n_layer_nextn;
        let pattern = match keys.get(KEY) {
            Some(Value::Array(_)) => Pattern::Each(keys.flags(KEY, blocks)?.unwrap_or_default()),
            _ => Pattern::Period(keys.u32(KEY)?.unwrap_or(period)),
        };
        Ok(Windows { window: keys.u32("attention.sliding_window")?.filter(|&w| w > 0), pattern })
    }

    /// As [`read`](Self::read), with the window that the model has where the file doesn't say.
    pub(crate) fn read_or(m: &ModelBuilder<'_>, period: u32, window: u32) -> Result<Windows, Problem> {
        let windows = Windows::read(m, period)?;
        let given = m.keys().get("attention.sliding_window").is_some();
        Ok(if given { windows } else { Windows { window: Some(window), ..windows } })
    }

    /// The window of a layer; none where it sees everything.
    pub(crate) fn at(&self, layer: u32) -> Option<u32> {
        let sliding = match &self.pattern {
            Pattern::Each(list) => list.get(layer as usize).copied().unwrap_or(false),
            Pattern::Period(period) => *period == 0 || layer % period + 1 < *period,
        };
        self.window.filter(|_| sliding)
    }

    /// Whether any layer may have a window.
    pub(crate) fn exist(&self) -> bool {
        self.window.is_some()
    }
}
