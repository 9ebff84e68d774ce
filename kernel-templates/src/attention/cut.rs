//! How the work of attention is cut.

use super::{Attention, FAMILY};
use crate::facts::{Output, TargetShape, TemplateError};
use crate::slot::value_block;
use hrx_ir::tile::Elem;

/// How the work of an [`Attention`] is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionCut {
    /// For a processor's vectors.
    Vectors(AttentionTiling),
    /// For waves.
    Waves(WaveAttention),
    /// For waves with a matrix unit, and many tokens.
    Tile(TileAttention),
}

impl From<AttentionTiling> for AttentionCut {
    fn from(t: AttentionTiling) -> AttentionCut {
        AttentionCut::Vectors(t)
    }
}

impl From<WaveAttention> for AttentionCut {
    fn from(t: WaveAttention) -> AttentionCut {
        AttentionCut::Waves(t)
    }
}

impl From<TileAttention> for AttentionCut {
    fn from(t: TileAttention) -> AttentionCut {
        AttentionCut::Tile(t)
    }
}

/// What of an [`Attention`] its cut is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionSizes {
    /// Query heads.
    pub heads: u32,
    /// Heads of the cache.
    pub kv_heads: u32,
    /// Elements of a key.
    pub head_dim: u32,
    /// Elements of a value.
    pub value_dim: u32,
    /// Whether a value is the first elements of its key.
    pub shared: bool,
    /// The cache's element type.
    pub cache: Elem,
}

impl AttentionSizes {
    /// Whether a target stores a cache in panels. Keys that share their first elements with values are rows.
    pub fn in_panels(shape: &TargetShape, shared: bool) -> bool {
        shape.waves.is_none() && !shared
    }
}

/// A cut for vectors. The result depends on `tile` and `panels` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionTiling {
    /// Query heads of a program: divides heads / kv_heads.
    pub group: u32,
    /// Tokens of a program.
    pub tokens: u32,
    /// Positions of a tile: 8, 16, 32 or 64.
    pub tile: u32,
    /// Keys whose scores are summed together: divides `tile`.
    pub keys: u32,
    /// Elements of a head whose weighted values are summed together: divides `value_dim`.
    pub depth: u32,
    /// Whether the cache is stored in panels.
    pub panels: bool,
    /// Whether each part of a token's positions is a program of its own, whose results
    /// [`AttentionJoin`](super::AttentionJoin) brings together. The result is the same.
    pub parted: bool,
}

impl AttentionTiling {
    /// A tiling for such heads, for launches of about this many tokens.
    pub fn choose(shape: &TargetShape, a: &AttentionSizes, tokens: u32) -> AttentionTiling {
        let power = |n: u32| 1u32 << n.max(1).ilog2();
        // Registers for sums; the rest holds what is multiplied.
        let sums = (shape.registers * 3 / 4).max(1);
        let panels = AttentionSizes::in_panels(shape, a.shared);
        let parted = tokens == 1;
        let tile = if panels { 64 } else { 32 };
        // Of a key's row a score has as many sums as there are lanes, which are brought together at the end. More lines than
        // half of the registers are no gain: the more there are, the more of a tile is seen by some of them only.
        let lines = if panels { (shape.registers / 2).max(1) } else { 8.min(sums) };
        let of_line = local_bytes([a.head_dim, a.value_dim], tile);
        // Numbers of lines are whole vectors, and views whole cache lines.
        let lines = lines.min(((hrx_ir::tile::MAX_LOCAL_BYTES - 1024) / of_line) as u32).max(1);
        let heads = a.heads / a.kv_heads;
        let group = (1..=heads.min(lines)).rev().find(|&g| heads.is_multiple_of(g)).unwrap_or(1);
        let tokens = tokens.min(lines / group);
        let lines = group * tokens;
        let accumulator = if panels { 1 } else { super::LANES.div_ceil(shape.lanes.max(1)) };
        let keys = power(sums / accumulator / lines);
        let keys = if panels { (keys * shape.lanes).clamp(1, tile) } else { keys.min(4) };
        let room = sums * shape.lanes / lines;
        let depth =
            [64, 32, 16, 8].into_iter().find(|&d| d <= room && a.value_dim.is_multiple_of(d)).unwrap_or(super::LANES);
        AttentionTiling { group, tokens, tile, keys, depth, panels, parted }
    }

    /// How many programs share the positions of a token.
    pub(super) fn parts(&self) -> u32 {
        if self.parted { super::parts::PARTS } else { 1 }
    }

    /// Why such attention can't be cut so.
    fn refused(&self, a: &Attention) -> Option<&'static str> {
        let divides = self.group > 0 && self.group <= 64 && (a.heads / a.kv_heads).is_multiple_of(self.group);
        let rules = [
            (divides, "group divides the heads that share one of the cache"),
            ((1..=64).contains(&self.tokens), "tokens and group are 1 to 64"),
            ([8, 16, 32, 64].contains(&self.tile), "tile is 8, 16, 32 or 64"),
            (self.keys > 0 && self.tile.is_multiple_of(self.keys), "keys divides tile"),
            (self.depth > 0 && a.value_dim.is_multiple_of(self.depth), "depth divides value_dim"),
            (
                !self.panels || value_block(a.value_dim).is_multiple_of(self.depth),
                "depth divides a panel's rows of value_dim elements",
            ),
            (!(self.panels && a.shared), "values in keys want keys in rows"),
            (!self.parted || self.tokens == 1, "parts are those of one token"),
            (
                !self.parted || (!a.sinks && a.output == Output::F32),
                "sinks, and results other than f32, are the affair of what joins parts",
            ),
        ];
        rules.into_iter().find(|(ok, _)| !ok).map(|(_, reason)| reason)
    }
}

/// Bytes of a line's local memory: its query, sums of a part and of all, a tile's scores, and eight numbers.
fn local_bytes([key, value]: [u32; 2], tile: u32) -> u64 {
    4 * u64::from(key + 2 * value + tile + 8)
}

/// A cut for waves: a program has one token, the queries of some heads that share one of the cache, and all positions or
/// one of `parts` equal parts of them. The result depends on `positions` and `parts` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaveAttention {
    /// Query heads of a program: divides heads / kv_heads.
    pub group: u32,
    /// Positions of a step: a power of two up to 64.
    pub positions: u32,
    /// Waves of a program.
    pub waves: u32,
    /// How many programs share the positions of a token: a power of two up to 64. With more than one, what is written are
    /// the parts that [`AttentionJoin`](super::AttentionJoin) brings together.
    pub parts: u32,
}

/// Elements of one head's parts, which a program of [`AttentionJoin`](super::AttentionJoin) has in registers.
pub(super) const JOINED: u32 = 8192;

/// Registers of a lane for the queries and sums of all heads of a program.
const HEAD_REGISTERS: u32 = 128;

impl WaveAttention {
    /// The cut for `heads` of queries and of the cache and launches of about this many tokens. A lane has 16 bytes of a
    /// key; the registers for queries and sums, of sizes `dims`, bound the heads. One token's positions are shared out
    /// until each SIMD has a wave.
    pub fn choose(shape: &TargetShape, heads: [u32; 2], dims: [u32; 2], tokens: u32) -> WaveAttention {
        let group = heads[0] / heads[1];
        let lanes_of_key = (dims[0] / 8).next_power_of_two().clamp(1, shape.lanes);
        let of_head = (dims[0] + dims[1]).div_ceil(lanes_of_key);
        let most = (HEAD_REGISTERS / of_head).clamp(1, 8);
        let group = (1..=group.min(most)).rev().find(|&g| group.is_multiple_of(g)).unwrap_or(1);
        let waves = 128 / shape.lanes;
        let positions = (shape.lanes / lanes_of_key * waves).clamp(1, 64);
        let simds = shape.waves.and_then(|w| w.simds).unwrap_or(1);
        let wanted = simds * 4 / 3 / (heads[0] / group * tokens).max(1);
        let most = (JOINED / dims[1].max(1)).clamp(1, 64);
        WaveAttention { group, positions, waves, parts: 1 << wanted.clamp(1, most).ilog2() }
    }
}

/// A cut for a matrix unit: a program has the queries of some tokens, of each for some heads that share one of the cache,
/// and all positions that they see or, of one token, one of `parts` equal parts of them. A token's result depends on `keys`
/// and `parts` alone, and not on the tokens beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileAttention {
    /// Query heads of a program: divides heads / kv_heads; without parts a power of two, with parts at most 16.
    pub group: u32,
    /// Tokens of a program: a power of two; with `group` they make 16 to 256 rows. One where there are parts; its rows are
    /// filled up to 16.
    pub tokens: u32,
    /// Positions of a step: 16, 32 or 64.
    pub keys: u32,
    /// Waves of a program.
    pub waves: u32,
    /// Whether values are transposed on their way to local memory, and not out of it.
    pub turned: bool,
    /// How many programs share the positions of a token, as for [`WaveAttention::parts`].
    pub parts: u32,
}

/// Rows of a fragment of the matrix unit.
const FRAGMENT: u32 = 16;

/// Elements of a head, of which a wave has all: of longer ones two waves share the sums. Where values are transposed on
/// their way to local memory fragments fill more registers (gfx11 has those of queries twice), and heads longer than two
/// waves have don't fit them.
const OF_ONE_WAVE: u32 = 128;
const OF_ONE_WAVE_TURNED: u32 = 64;

impl TileAttention {
    /// Rows of a program.
    pub(super) fn rows(&self) -> u32 {
        match self.parts {
            1 => self.group * self.tokens,
            _ => FRAGMENT,
        }
    }

    /// Bytes of local memory for keys and values of these sizes.
    fn local_bytes(&self, [key, value]: [u32; 2]) -> u64 {
        let pad = u64::from(crate::linear::PAD);
        let [keys, key, value] = [self.keys, key, value].map(u64::from);
        let values = if self.turned { value * (keys + pad) } else { keys * (value + pad) };
        2 * 2 * (keys * (key + pad) + values)
    }

    /// The cut for prompts; none where there is no matrix unit, or heads don't suit it.
    pub fn choose(shape: &TargetShape, a: &AttentionSizes) -> Option<TileAttention> {
        let w = shape.waves.filter(|w| w.product_instructions <= 2)?;
        let group = 1 << (a.heads / a.kv_heads).trailing_zeros().min(3);
        let waves = (256 / shape.lanes).min(8);
        let of_one_wave = if w.transposing_loads { OF_ONE_WAVE } else { OF_ONE_WAVE_TURNED };
        let longest = a.head_dim.max(a.value_dim);
        if longest > 2 * of_one_wave {
            return None;
        }
        let share = if longest > of_one_wave { 2 } else { 1 };
        let tokens = FRAGMENT * waves / share / group;
        let cuts =
            [32, 16].map(|keys| TileAttention { group, tokens, keys, waves, turned: !w.transposing_loads, parts: 1 });
        let fits = |cut: &TileAttention| {
            cut.refused(a).is_none() && cut.local_bytes([a.head_dim, a.value_dim]) <= u64::from(w.lds)
        };
        cuts.into_iter().find(fits)
    }

    /// The cut for single tokens: the heads that share one of the cache are rows, and programs of few waves share out the
    /// positions. None where the matrix unit's rows are not worth filling up, or heads don't suit it.
    fn choose_parts(shape: &TargetShape, a: &AttentionSizes) -> Option<TileAttention> {
        let w = shape.waves.filter(|w| w.product_instructions <= 2 && w.transposing_loads)?;
        let heads = a.heads / a.kv_heads;
        let group = (1..=heads.min(FRAGMENT)).rev().find(|&g| heads.is_multiple_of(g)).unwrap_or(1);
        let wanted = w.simds.unwrap_or(1) * 4 / 3 / (a.heads / group).max(1);
        let most = (JOINED / a.value_dim.max(1)).clamp(1, 64);
        let parts = 1 << wanted.clamp(1, most).ilog2();
        // Two waves share the columns of the sums.
        let cut = TileAttention { group, tokens: 1, keys: 32, waves: 2, turned: false, parts };
        (parts > 1 && cut.refused(a).is_none()).then_some(cut)
    }

    /// Why such attention can't be cut so.
    fn refused(&self, a: &AttentionSizes) -> Option<&'static str> {
        let power = |n: u32, low: u32, high: u32| n.is_power_of_two() && (low..=high).contains(&n);
        let divides = self.group > 0 && (a.heads / a.kv_heads).is_multiple_of(self.group);
        let dims = [a.head_dim, a.value_dim];
        let rules = [
            (self.parts > 1 || power(self.group, 1, 64), "group is a power of two"),
            (divides, "group divides the heads that share one of the cache"),
            (power(self.parts, 1, 64), "parts is a power of two up to 64"),
            (power(self.tokens, 1, 256) && power(self.rows(), FRAGMENT, 256), "a program has 16 to 256 rows"),
            (
                self.parts == 1 || self.tokens == 1 && self.group <= FRAGMENT,
                "with parts there are up to 16 heads of a token",
            ),
            (power(self.keys, 16, 64), "keys is 16, 32 or 64"),
            (power(self.waves, 1, 16), "waves is a power of two up to 16"),
            (dims.iter().all(|d| d.is_multiple_of(FRAGMENT)), "elements of heads fill fragments of 16"),
            (!a.shared, "values are apart from keys"),
            (a.cache == Elem::F16, "the cache is f16"),
            (self.local_bytes(dims) <= hrx_ir::tile::MAX_LOCAL_BYTES, "keys and values fit local memory twice"),
        ];
        rules.into_iter().find(|(ok, _)| !ok).map(|(_, reason)| reason)
    }
}

/// Positions that are not worth a second stage for each layer: bringing parts together.
const FEW: u32 = 1024;

/// The least tokens of a launch that is cut for a matrix unit.
const LEAST_TOKENS: u32 = 16;

impl AttentionCut {
    /// The cut for launches of about this many tokens.
    pub fn choose(shape: &TargetShape, a: &AttentionSizes, tokens: u32) -> AttentionCut {
        if shape.waves.is_none() {
            return AttentionTiling::choose(shape, a, tokens).into();
        }
        let tile = match tokens {
            1 => TileAttention::choose_parts(shape, a),
            LEAST_TOKENS.. => TileAttention::choose(shape, a),
            _ => None,
        };
        match tile {
            Some(tile) => tile.into(),
            None => WaveAttention::choose(shape, [a.heads, a.kv_heads], [a.head_dim, a.value_dim], tokens).into(),
        }
    }

    /// The cut where a token sees no more than a window: of few positions a processor's threads share out none.
    pub fn within(self, window: Option<u32>) -> AttentionCut {
        match self {
            AttentionCut::Vectors(t) if window.is_some_and(|w| w <= FEW) => {
                AttentionTiling { parted: false, ..t }.into()
            }
            other => other,
        }
    }

    /// How many programs share the positions of a token.
    pub fn parts(&self) -> u32 {
        match self {
            AttentionCut::Vectors(t) => t.parts(),
            AttentionCut::Waves(t) => t.parts,
            AttentionCut::Tile(t) => t.parts,
        }
    }

    pub(super) fn check(&self, a: &Attention) -> Result<(), TemplateError> {
        let unless = |ok, reason| TemplateError::unless(ok, FAMILY, format!("{self:?}"), reason);
        let shares = |group: u32| group > 0 && group <= 64 && (a.heads / a.kv_heads).is_multiple_of(group);
        match self {
            AttentionCut::Vectors(t) => {
                let refused = t.refused(a);
                unless(refused.is_none(), refused.unwrap_or_default())
            }
            AttentionCut::Waves(t) => {
                unless(shares(t.group), "group divides the heads that share one of the cache")?;
                let positions = t.positions.is_power_of_two() && t.positions <= 64;
                unless(positions, "positions is a power of two up to 64")?;
                unless(t.waves.is_power_of_two() && t.waves <= 16, "waves is a power of two up to 16")?;
                unless(t.parts.is_power_of_two() && t.parts <= 64, "parts is a power of two up to 64")?;
                let plain = t.parts == 1 || (!a.sinks && a.output == Output::F32);
                unless(plain, "sinks, and results other than f32, are the affair of what joins parts")
            }
            AttentionCut::Tile(t) => {
                let refused = t.refused(&a.sizes());
                unless(refused.is_none(), refused.unwrap_or_default())?;
                unless(a.output == Output::F32, "a tile is written as f32")?;
                unless(t.parts == 1 || !a.sinks, "sinks are the affair of what joins parts")
            }
        }
    }

    pub(super) fn tag(&self) -> String {
        match self {
            AttentionCut::Vectors(t) => {
                let panels = if t.panels { "p" } else { "" };
                let parted = if t.parted { "_parts" } else { "" };
                format!("_g{}t{}_s{}k{}{panels}v{}{parted}", t.group, t.tokens, t.tile, t.keys, t.depth)
            }
            AttentionCut::Waves(t) => {
                let parts = if t.parts == 1 { String::new() } else { format!("x{}", t.parts) };
                format!("_g{}p{}w{}{parts}", t.group, t.positions, t.waves)
            }
            AttentionCut::Tile(t) => {
                let turned = if t.turned { "r" } else { "" };
                let parts = if t.parts == 1 { String::new() } else { format!("p{}", t.parts) };
                format!("_tile{}x{}x{}w{}{turned}{parts}", t.group, t.tokens, t.keys, t.waves)
            }
        }
    }
}
