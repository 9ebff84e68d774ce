//! Memory of a session's KV caches.

use crate::device::{Buffer, Device};
use crate::error::Error;
use crate::exec::target_shape;
use crate::session_plan::{CTX_ALIGN, cache_bytes};
use hrx_ir::graph::Graph;
use hrx_templates::AttentionSizes;
use std::collections::HashMap;

/// Where the caches are.
pub(crate) struct Caches {
    /// Keys and values by layer; values that are a part of keys are where these are.
    pub(crate) of_layer: HashMap<u32, [Buffer; 2]>,
    /// Elements from one panel of the caches to the next.
    pub(crate) panel_stride: u32,
}

impl Caches {
    /// Makes caches with room for so many positions, a multiple of [`CTX_ALIGN`]. Those in panels share memory, in which all that is
    /// kept of a panel's positions is together: large pages hold what was written, and no more.
    ///
    /// # Errors
    /// If the device has no room.
    pub(crate) fn new(device: &dyn Device, graph: &Graph, room: u32) -> Result<Caches, Error> {
        let shape = target_shape(device.target());
        let caches: Vec<_> = graph.caches().map(|(_, c)| c).collect();
        let (panels, rows): (Vec<_>, Vec<_>) =
            caches.into_iter().partition(|c| AttentionSizes::in_panels(&shape, c.shared));
        let mut of_layer = HashMap::new();
        for c in rows {
            let [keys, values] = cache_bytes(c, room);
            let what = format!("the KV cache of layer {}", c.layer);
            let keys = device.alloc(keys, &what)?;
            let values = if c.shared { keys.clone() } else { device.alloc(values, &what)? };
            of_layer.insert(c.layer, [keys, values]);
        }
        let panel_stride = panels.iter().map(|c| CTX_ALIGN * c.n_kv_head * (c.head_dim + c.value_dim)).sum();
        if !panels.is_empty() {
            let bytes = panels.iter().flat_map(|&c| cache_bytes(c, room)).sum();
            let all = device.alloc_weights(bytes, "the KV cache")?;
            let mut at = 0;
            for c in panels {
                let [keys, values] = cache_bytes(c, CTX_ALIGN).map(|bytes| {
                    let part = all.part(at, all.len() - at);
                    at += bytes;
                    part
                });
                of_layer.insert(c.layer, [keys, values]);
            }
        }
        Ok(Caches { of_layer, panel_stride })
    }
}
