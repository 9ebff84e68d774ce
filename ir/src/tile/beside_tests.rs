//! Kernels side by side against each by itself.

use crate::tile::interp::{Input, Interpreted, Options};
use crate::tile::random::{Options as RandomOptions, random_kernel};
use crate::tile::{
    Access, Builder, Content, Elem, Extent, GridExpr, Kernel, Param, Part, parse_kernel, side_by_side, verify,
};
use proptest::prelude::*;

/// Arguments for a random kernel: `rows`, then inputs full of a pattern and rooms for outputs.
fn inputs(k: &Kernel, rows: u32, seed: u64) -> Vec<Input> {
    let mut state = seed | 1;
    let mut bits = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let input = |p: &Param| match *p {
        Param::Scalar(_) => Input::I32(rows as i32),
        Param::View(m) => {
            let d = &k.views[m];
            let size = |e: &Extent| match e {
                Extent::Const(n) => *n as usize,
                Extent::Param(_) => rows as usize,
            };
            let units: usize = d.dims.iter().map(size).product();
            match (d.content, d.access) {
                (Content::Elem(e), Access::Out) => Input::Room(units * e.bytes() as usize),
                (Content::Quant(f), _) => {
                    Input::Bytes((0..units).flat_map(|_| f.random_block(0.3, &mut bits)).collect())
                }
                (Content::Elem(Elem::F32), _) => {
                    let value = |n: u64| ((n % 2001) as f32 / 1000.0 - 1.0).to_le_bytes();
                    Input::Bytes((0..units).flat_map(|_| value(bits())).collect())
                }
                // Bytes that `dot4` takes.
                (Content::Elem(e), _) => {
                    Input::Bytes((0..units * e.bytes() as usize).map(|_| (bits() % 100) as u8).collect())
                }
            }
        }
    };
    k.params.iter().map(input).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_launch_together_does_what_each_does_alone(
        words in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..60), 1..=3),
        rows in prop::collection::vec(0..6u32, 3), seed: u64,
    ) {
        let options = RandomOptions { approximate: false, ..RandomOptions::default() };
        let mut kernels: Vec<Kernel> = words.iter().map(|w| random_kernel(w, options)).collect();
        let waves = kernels[0].waves;
        kernels.iter_mut().for_each(|k| k.waves = waves);
        // Nothing is shared but for the number of rows, where that is the same.
        let (mut inputs_of_all, mut places) = (Vec::new(), Vec::new());
        let mut place_of_rows = std::collections::HashMap::new();
        for (i, k) in kernels.iter().enumerate() {
            let mine = inputs(k, rows[i], seed ^ i as u64);
            let at: Vec<usize> = mine.into_iter().enumerate().map(|(n, input)| {
                let new = inputs_of_all.len();
                let at = if n == 0 { *place_of_rows.entry(rows[i]).or_insert(new) } else { new };
                if at == new {
                    inputs_of_all.push(input);
                }
                at
            }).collect();
            places.push(at);
        }
        let parts: Vec<Part> = kernels.iter().zip(&places).map(|(kernel, args)| Part { kernel, args }).collect();
        let whole = side_by_side("whole", &parts).expect("they suit one another");
        prop_assert!(verify(&whole).is_ok(), "{}\n{whole}", verify(&whole).unwrap_err());
        let text = whole.to_string();
        prop_assert_eq!(parse_kernel(&text).expect("it prints what can be read").to_string(), text);
        let together = Interpreted::run(&whole, &inputs_of_all, &Options::exact());
        let together = together.unwrap_or_else(|e| panic!("{e}\n{whole}"));
        for (k, at) in kernels.iter().zip(&places) {
            let mine: Vec<Input> = at.iter().map(|&i| inputs_of_all[i].clone()).collect();
            let alone = Interpreted::run(k, &mine, &Options::exact()).unwrap_or_else(|e| panic!("{e}\n{k}"));
            for (n, &i) in at.iter().enumerate() {
                prop_assert_eq!(alone.bytes(n), together.bytes(i), "argument {}", n);
            }
        }
    }
}

/// A grid with three axes, two of them arguments: each program writes its own ids.
#[test]
fn programs_have_the_ids_of_their_own_grid() {
    let ids = |waves| {
        let mut b = Builder::new("ids");
        b.waves(waves);
        let (x, z) = (b.scalar_param(Elem::I32), b.scalar_param(Elem::I32));
        let strides = [Extent::Const(64), Extent::Const(16), Extent::Const(4), Extent::Const(1)];
        let out =
            b.strided_param(Content::Elem(Elem::I32), &[x.into(), 4.into(), z.into(), 3.into()], &strides, Access::Out);
        b.grid(0, GridExpr::ceil_div(x, 1));
        b.grid(1, GridExpr::constant(2));
        b.grid(2, GridExpr::Extent(z.into()));
        let at = [b.program_id(0), b.program_id(1), b.program_id(2)];
        for (n, id) in at.into_iter().enumerate() {
            let (n, id) = (b.index(n as i64), b.reshape(id, &[1, 1, 1, 1]));
            b.store(out, &[at[0], at[1], at[2], n], id, None);
        }
        b.finish()
    };
    let k = ids(1);
    let args = |x, z| [Input::I32(x), Input::I32(z), Input::Room(4 * 256)];
    let whole =
        side_by_side("whole", &[Part { kernel: &k, args: &[0, 1, 2] }, Part { kernel: &k, args: &[3, 4, 5] }]).unwrap();
    let done = Interpreted::run(&whole, &[args(3, 2), args(2, 4)].concat(), &Options::exact()).unwrap();
    for (at, [x, z]) in [(2, [3, 2]), (5, [2, 4])] {
        let alone = Interpreted::run(&k, &args(x, z), &Options::exact()).unwrap();
        assert_eq!(alone.bytes(2), done.bytes(at));
        assert!((0..4 * 256).all(|byte| alone.is_written(2, byte) == done.is_written(at, byte)));
    }

    let part = |kernel, args| Part { kernel, args };
    let other = ids(2);
    let refused = |parts: &[Part]| side_by_side("whole", parts).unwrap_err();
    assert!(refused(&[part(&k, &[0, 1, 2]), part(&other, &[3, 4, 5])]).contains("waves"));
    assert!(refused(&[part(&k, &[0, 1, 2]), part(&k, &[3, 2, 5])]).contains("place 2"));
    assert!(refused(&[part(&k, &[0, 1])]).contains("2 places"));
    assert!(refused(&[part(&k, &[0, 1, 3])]).contains("place 2"));
    assert!(refused(&[]).contains("no parts"));
}
