//! Whether a session fits its device, and what would. Asked before anything is allocated.

use crate::device::DeviceInfo;
use crate::error::Error;
use crate::session_plan::CTX_ALIGN;

/// Bits a weight of recipes that people find models in, the largest first. Source: the table in llama.cpp's
/// tools/quantize/README.md, for Llama 3.1 8B.
const RECIPES: &[(&str, f64)] = &[
    ("F16", 16.0),
    ("Q8_0", 8.50),
    ("Q6_K", 6.56),
    ("Q5_K_M", 5.70),
    ("Q4_K_M", 4.89),
    ("Q3_K_M", 4.00),
    ("Q2_K", 3.16),
];

/// What a session takes of a device's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Bytes of weights that have to be copied to the device.
    pub(crate) weights: u64,
    /// Elements of all weights.
    pub(crate) elements: u64,
    /// Bytes of the KV cache.
    pub(crate) kv: u64,
    /// Of these, bytes a position.
    pub(crate) per_token: u64,
    /// Bytes of activations.
    pub(crate) arena: u64,
    /// Tokens of the context.
    pub(crate) n_ctx: u32,
}

impl Need {
    /// All of it.
    pub(crate) fn total(&self) -> u64 {
        self.weights.saturating_add(self.kv).saturating_add(self.arena)
    }

    /// The longest context that fits beside weights and activations; none where nothing grows with it.
    pub(crate) fn longest_context(&self, device: &DeviceInfo) -> Option<u64> {
        let grows = self.per_token.saturating_mul(u64::from(self.n_ctx).next_multiple_of(CTX_ALIGN.into()));
        let fixed = self.weights.saturating_add(self.arena).saturating_add(self.kv.saturating_sub(grows));
        let left = device.free.saturating_sub(fixed);
        (self.per_token > 0).then(|| left / self.per_token / u64::from(CTX_ALIGN) * u64::from(CTX_ALIGN))
    }

    /// Refuses what the device has no memory for, and says what would fit.
    pub(crate) fn check(&self, device: &DeviceInfo) -> Result<(), Error> {
        if self.total() <= device.free {
            return Ok(());
        }
        let mib = |b: u64| b.div_ceil(1 << 20);
        let weights = match self.weights {
            0 => String::new(),
            n => format!("weights take {} MiB, ", mib(n)),
        };
        let takes = if self.weights == 0 { " takes" } else { "" };
        Err(Error::DoesNotFit(format!(
            "{weights}a context of {} tokens{takes} {} MiB of KV cache and {} MiB of activations; {} has {} MiB free: {}",
            self.n_ctx,
            mib(self.kv),
            mib(self.arena),
            device.name,
            mib(device.free),
            self.what_fits(device)
        )))
    }

    fn what_fits(&self, device: &DeviceInfo) -> String {
        match self.longest_context(device) {
            Some(tokens) if tokens > 0 || self.weights == 0 => {
                return format!("a context of {tokens} tokens would fit");
            }
            None if self.weights == 0 => return "a shorter context would take as much".into(),
            _ => {}
        }
        // The context is not what is too large. Weights may take what is left beside it.
        let room = device.free.saturating_sub(self.arena).saturating_sub(self.kv);
        let bits = |bytes: u64| 8.0 * bytes as f64 / self.elements.max(1) as f64;
        let (have, most) = (bits(self.weights), bits(room));
        let recipe = RECIPES.iter().find(|(_, b)| *b <= most && *b < have);
        let smaller = match recipe {
            Some((name, b)) => {
                format!("with this context, a file of {most:.2} bits a weight would ({name} has {b:.2})")
            }
            None => "no usual quantisation of the model would with this context".into(),
        };
        let other = if device.name == "cpu" { "" } else { "; --device cpu reads weights where the file is" };
        format!("no context fits beside these weights of {have:.2} bits each; {smaller}{other}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(weights: u64, free: u64) -> String {
        let mib = 1 << 20;
        let need = Need {
            weights: weights * mib,
            elements: 8_000 * mib,
            kv: 512 * mib,
            per_token: 128 << 10,
            arena: 100 * mib,
            n_ctx: 4096,
        };
        let device = DeviceInfo { name: "hip:0".into(), description: String::new(), memory: free, free: free * mib };
        need.check(&device).map_or_else(|e| e.to_string(), |()| "fits".into())
    }

    #[test]
    fn what_fits_exactly_fits() {
        assert_eq!(need(4500, 4500 + 512 + 100), "fits");
        assert_ne!(need(4500, 4500 + 512 + 99), "fits");
    }

    #[test]
    fn a_shorter_context_is_what_would_fit() {
        assert_eq!(
            need(4500, 4800),
            "weights take 4500 MiB, a context of 4096 tokens 512 MiB of KV cache and 100 MiB of activations; hip:0 has \
             4800 MiB free: a context of 1600 tokens would fit"
        );
        assert_eq!(
            need(0, 200),
            "a context of 4096 tokens takes 512 MiB of KV cache and 100 MiB of activations; hip:0 has 200 MiB free: a \
             context of 768 tokens would fit"
        );
    }

    #[test]
    fn states_are_no_part_of_what_a_shorter_context_gives_back() {
        let mib = 1u64 << 20;
        let device = |free| DeviceInfo { name: "cpu".into(), description: String::new(), memory: free, free };
        // 64 MiB of states beside a cache of 1000 tokens, which has room for 1024.
        let need = |per_token: u64| Need {
            weights: 0,
            elements: 1,
            kv: 64 * mib + 1024 * per_token,
            per_token,
            arena: 0,
            n_ctx: 1000,
        };
        assert_eq!(need(mib).longest_context(&device(64 * mib + 200 * mib)), Some(192));
        assert_eq!(need(mib).longest_context(&device(10 * mib)), Some(0));
        assert_eq!(need(0).longest_context(&device(mib)), None);
        let refused = need(0).check(&device(mib)).unwrap_err().to_string();
        assert!(refused.ends_with("a shorter context would take as much"), "{refused}");
    }

    #[test]
    fn a_smaller_quantisation_or_another_device_is_what_would_fit() {
        let said = need(8500, 5600);
        assert!(
            said.ends_with(
                "hip:0 has 5600 MiB free: no context fits beside these weights of 8.50 bits each; with this context, a file \
                 of 4.99 bits a weight would (Q4_K_M has 4.89); --device cpu reads weights where the file is"
            ),
            "{said}"
        );
        let said = need(8500, 1000);
        assert!(said.contains("no usual quantisation of the model would with this context; --device cpu"), "{said}");
    }
}
