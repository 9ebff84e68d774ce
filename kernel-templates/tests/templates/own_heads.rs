//! Attention of single tokens that turns and stores their own heads.

use crate::attention::{BASE, N_CTX, attend, case};
use crate::support::*;
use hrx_ir::tile::Elem;
use hrx_ir::tile::interp::Options;
use hrx_templates::{Attention, Output, OwnHeads, Real, Rope, RopeOutput, Rotation, Slot, Template, TileAttention};

/// Heads that attention turns and stores itself come to what rotations and attention come to one after the other, and the
/// cache gets the same rows. What was at the token's position, and behind it, is not read.
#[test]
fn own_heads_are_turned_and_stored() {
    for (position, group, own) in [
        (0, 3, OwnHeads { start: 0, n_rot: 32, rotation: Rotation::Neox, norms: [Some(Real(1e-6)), Some(Real(1e-5))] }),
        (37, 1, OwnHeads { start: 4, n_rot: 16, rotation: Rotation::Normal, norms: [None; 2] }),
        (64, 3, OwnHeads { start: 0, n_rot: 0, rotation: Rotation::None, norms: [None, Some(Real(1e-6))] }),
        (127, 3, OwnHeads { start: 0, n_rot: 8, rotation: Rotation::Neox, norms: [None; 2] }),
    ] {
        let cut = TileAttention { group, tokens: 1, keys: 16, waves: 2, turned: false, parts: 4 };
        let whole = Attention { heads: 6, kv_heads: 2, head_dim: 32, value_dim: 32, tiling: cut.into(), ..BASE };
        check_own(&Attention { own: Some(own), ..whole.clone() }, position, 70);
        let window = Attention { window: Some(19), softcap: Some(Real(50.0)), value_dim: 48, ..whole };
        check_own(&Attention { own: Some(own), ..window }, position, 71);
    }
}

fn check_own(a: &Attention, position: i32, seed: u64) {
    let own = a.own.expect("own heads");
    let (mut args, _) = case(&Attention { own: None, ..a.clone() }, &[position], seed);
    let mut r = Random::new(seed + 1);
    let (d, dv, hk) = (a.head_dim as usize, a.value_dim as usize, a.kv_heads as usize);
    let [weight, key_weight] = [r.f32s(d), r.f32s(d)];
    let [keys, values] = [r.f32s(hk * d), r.f32s(hk * dv)];
    let [cos, sin] = [r.f32s(own.n_rot as usize / 2), r.f32s(own.n_rot as usize / 2)];
    args.extend([
        (Slot::KeyNormWeight, f32s(&key_weight)),
        (Slot::NormWeight, f32s(&weight)),
        (Slot::Cos, f32s(&cos)),
        (Slot::Sin, f32s(&sin)),
        (Slot::OwnKeys, f32s(&keys)),
        (Slot::OwnValues, f32s(&values)),
    ]);
    let data = |args: &[(Slot, Data)], slot| args.iter().find(|(s, _)| *s == slot).expect("an argument").1.clone();
    let set = |args: &mut Vec<(Slot, Data)>, slot, data| {
        args.retain(|(s, _)| *s != slot);
        args.push((slot, data));
    };
    // One after the other.
    let rope = |heads, head_dim, norm, rotation, n_rot, output| Rope {
        heads,
        head_dim,
        start: own.start,
        n_rot,
        rotation,
        norm,
        scale: None,
        output,
        program_heads: heads,
    };
    let mut apart = args.clone();
    let mut stored = Vec::new();
    for (x, weight, cache, stride, of) in [
        (
            &keys,
            &key_weight,
            Slot::KeyCache,
            N_CTX * d,
            rope(a.kv_heads, a.head_dim, own.norms[1], own.rotation, own.n_rot, RopeOutput::Cache(a.cache)),
        ),
        (
            &values,
            &weight,
            Slot::ValueCache,
            N_CTX * dv,
            Rope { start: 0, ..rope(a.kv_heads, a.value_dim, None, Rotation::None, 0, RopeOutput::Cache(a.cache)) },
        ),
    ] {
        let mut of_rope = args.clone();
        set(&mut of_rope, Slot::X, f32s(x));
        set(&mut of_rope, Slot::NormWeight, f32s(weight));
        set(&mut of_rope, Slot::HeadStride, Data::Scalar(stride as i32));
        set(&mut of_rope, Slot::Cache, data(&args, cache));
        let done = launch(&of, &of_rope, &Options::default()).data(Slot::Cache);
        set(&mut apart, cache, done.clone());
        stored.push(done);
    }
    let turned = rope(a.heads, a.head_dim, own.norms[0], own.rotation, own.n_rot, RopeOutput::F32);
    let mut of_rope = args.clone();
    set(&mut of_rope, Slot::Out, Data::Room(Elem::F32, a.heads as usize * d));
    let q = launch(&turned, &of_rope, &Options::default()).data(Slot::Out);
    set(&mut apart, Slot::X, q);
    let want = attend(&Attention { own: None, ..a.clone() }, &apart, &Options::default()).elems(Slot::Out);
    // Together, where what the position has before is another number.
    for (cache, store, d) in [(Slot::KeyCache, Slot::KeyStore, d), (Slot::ValueCache, Slot::ValueStore, dv)] {
        let room = data(&args, cache);
        set(&mut args, store, room);
        let Data::Elems(elem, mut old) = data(&args, cache) else { panic!("a cache of elements") };
        old.chunks_mut(N_CTX * d).for_each(|head| head[position as usize * d..].fill(1000.0));
        set(&mut args, cache, Data::Elems(elem, old));
    }
    for options in [Options::default(), Options::exact()] {
        check(&a.name(), &attend(a, &args, &options).elems(Slot::Out), &want, 2e-3);
        let part = Attention { output: Output::F32, ..a.clone() };
        let mut args = args.clone();
        let rows = (a.heads * a.tiling.parts()) as usize;
        args.push((Slot::PartSums, Data::Room(Elem::F32, rows * dv)));
        args.push((Slot::PartTotals, Data::Room(Elem::F32, rows * 2)));
        let done = launch(&part, &args, &options);
        for (slot, want) in [Slot::KeyStore, Slot::ValueStore].into_iter().zip(&stored) {
            let Data::Elems(_, want) = want else { panic!("a cache of elements") };
            check(&a.name(), &done.elems(slot), want, 1e-3);
        }
    }
}
