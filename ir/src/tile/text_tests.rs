//! Tests of the text form and the verifier on random kernels, mutated texts and broken arenas.

use super::random::{Options, random_kernel};
use super::verify::Rule;
use super::*;
use crate::quant::Format;
use cranelift_entity::EntityRef;
use proptest::prelude::*;

fn parse(text: &str) -> Kernel {
    parse_kernel(text).unwrap_or_else(|e| panic!("{e}\nin\n{text}"))
}

/// A kernel with a loop, quantised weights, a mask and local memory.
fn matvec() -> Kernel {
    let mut b = Builder::new("matvec");
    let rows = b.scalar_param(Elem::I32);
    let w = b.quant_param(Format::from_name("q4_1").unwrap(), &[rows.into(), 18.into()]);
    let x = b.view_param(Elem::F32, &[1.into(), 576.into()], Access::In);
    let y = b.strided_param(Content::Elem(Elem::F32), &[rows.into(), 1.into()], &[2.into(), 1.into()], Access::Out);
    let scratch = b.local(Elem::F32, &[1, 32]);
    b.grid(0, GridExpr::ceil_div(rows, 1));
    let (row, zero, one, end) = (b.program_id(0), b.index(0), b.index(1), b.index(18));
    let (sum, block) = (b.float(-0.0, &[1, 32]), b.index(32));
    let sums = b.for_loop([zero, end, one], &[sum], |b, i, sum| {
        let values = b.load_block(w, [row, i], BlockPart::Values(0), 1);
        let at = b.mul(i, block);
        let x = b.load(x, &[zero, at], &[1, 32], None);
        vec![b.fma(values, x, sum[0])]
    });
    b.store(scratch, &[zero, zero], sums[0], None);
    let all = b.load(scratch, &[zero, zero], &[1, 32], None);
    let total = b.reduce(ReduceOp::Sum, all, 1);
    let mask = b.cmp(CmpOp::Lt, row, rows);
    b.store(y, &[row, zero], total, Some(mask));
    b.finish()
}

#[test]
fn prints_a_matvec() {
    let k = matvec();
    verify(&k).unwrap();
    insta::assert_snapshot!(k.to_string());
}

#[test]
fn reports_with_marks() {
    let mut k = matvec();
    let sum = k.values.iter().find(|(_, d)| d.ty == Type::new(Elem::F32, &[1, 1])).unwrap().0;
    k.values[sum].ty = Type::new(Elem::F32, &[1, 2]);
    k.name = "mat vec".into();
    insta::assert_snapshot!(verify(&k).unwrap_err().to_string());
}

#[test]
fn text_does_not_depend_on_the_order_of_arenas_or_on_what_is_unused() {
    let k = matvec();
    let mut other = parse(&k.to_string());
    assert_eq!(other.to_string(), k.to_string());
    other.new_value(Type::index(), ValueDef::Param);
    other.views.push(k.views[View::new(0)].clone());
    other.insts.push(k.insts[Inst::new(0)].clone());
    assert_eq!(other.to_string(), k.to_string());
    verify(&other).unwrap();
}

#[test]
fn floats_keep_their_bits() {
    let odd_nan = f64::from_bits(0x7ff0_0000_0000_0001);
    for x in [
        0.0,
        -0.0,
        0.1,
        1e-300,
        -1.5e300,
        f64::MIN_POSITIVE / 8.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        odd_nan,
        -f64::NAN,
    ] {
        let mut b = Builder::new("k");
        b.float(x, &[2]);
        let k = b.finish();
        assert_eq!(parse(&k.to_string()).to_string(), k.to_string());
        let bits = |k: &Kernel| match k.insts[Inst::new(0)].op {
            Op::Const { value: Literal::Float(x), .. } => x.to_bits(),
            _ => panic!("a float constant"),
        };
        assert_eq!(bits(&parse(&k.to_string())), x.to_bits());
    }
}

#[test]
fn nesting_is_limited() {
    let nest = |n: usize| {
        let open = |i| format!("for v{} in v3..v3 step v4 {{\n", i + 5);
        let opens: String = (0..n).map(open).collect();
        let head = "kernel @k() ids (v0, v1, v2) { v3: i32 = const 0 v4: i32 = const 1\n";
        format!("{head}{opens}{}}}", "yield }\n".repeat(n))
    };
    verify(&parse(&nest(MAX_NESTING))).unwrap();
    assert!(parse_kernel(&nest(MAX_NESTING + 1)).unwrap_err().to_string().contains("nested more than 64 deep"));
    assert!(parse_kernel(&nest(100_000)).is_err());
    let deep = format!("kernel @k() grid ({}", "mul(".repeat(100_000));
    assert!(parse_kernel(&deep).unwrap_err().to_string().contains("nested more than 64 deep"));
}

#[test]
fn far_names_list_all_and_near_names_suggest() {
    let error = |op: &str| parse_kernel(&format!("kernel @k() {{ v0: i32 = {op} 1 }}")).unwrap_err().to_string();
    assert!(error("cnst").contains("an operation, perhaps const"), "{}", error("cnst"));
    assert!(error("zzzzzzzz").contains("block_codes, block_scales"), "{}", error("zzzzzzzz"));
}

/// Breaks a valid kernel's arenas in one way and gives the rule that is reported.
fn broken(damage: impl FnOnce(&mut Kernel)) -> Vec<Rule> {
    let mut k = matvec();
    damage(&mut k);
    let errors = verify(&k).unwrap_err();
    assert!(!errors.to_string().is_empty());
    errors.errors.iter().map(|e| e.rule).collect()
}

/// The first instruction for which a condition holds.
fn find(k: &Kernel, ok: impl Fn(&Op) -> bool) -> Inst {
    k.insts.iter().find(|(_, d)| ok(&d.op)).unwrap().0
}

#[test]
fn references_outside_arenas_are_reported() {
    let far = Value::new(1 << 20);
    assert!(broken(|k| k.params[0] = Param::Scalar(far)).contains(&Rule::Entity));
    assert!(broken(|k| k.params[1] = Param::View(View::new(99))).contains(&Rule::Entity));
    assert!(broken(|k| k.program_ids[1] = far).contains(&Rule::Entity));
    assert!(broken(|k| k.body = Block::new(9)).contains(&Rule::Entity));
    assert!(broken(|k| k.blocks[k.body].insts.push(Inst::new(999))).contains(&Rule::Entity));
    assert!(broken(|k| k.grid[2] = GridExpr::ceil_div(far, 2)).contains(&Rule::Grid));
    assert!(broken(|k| k.views[View::new(1)].dims[0] = far.into()).contains(&Rule::View));
    let damage_for = |damage: fn(&mut Op)| {
        broken(|k| {
            let i = find(k, |o| matches!(o, Op::For { .. }));
            damage(&mut k.insts[i].op)
        })
    };
    for damage in [
        (|o| {
            if let Op::For { body, .. } = o {
                *body = Block::new(50)
            }
        }) as fn(&mut Op),
        |o| {
            if let Op::For { inits, .. } = o {
                inits[0] = Value::new(1 << 20)
            }
        },
        |o| {
            if let Op::For { bounds, .. } = o {
                bounds[2] = Value::new(1 << 20)
            }
        },
    ] {
        assert!(damage_for(damage).contains(&Rule::Entity));
    }
    let results = |k: &mut Kernel| {
        let i = find(k, |o| matches!(o, Op::Reduce { .. }));
        k.insts[i].results[0] = Value::new(1 << 20);
    };
    assert!(broken(results).contains(&Rule::Entity));
    let none = |k: &mut Kernel| {
        let i = find(k, |o| matches!(o, Op::Reduce { .. }));
        k.insts[i].results.clear();
    };
    assert!(broken(none).contains(&Rule::Entity));
}

#[test]
fn misplaced_blocks_and_instructions_are_reported() {
    let twice = |k: &mut Kernel| {
        let first = k.blocks[k.body].insts[0];
        k.blocks[k.body].insts.push(first);
    };
    assert!(broken(twice).contains(&Rule::Block));
    let shared = |k: &mut Kernel| {
        let i = find(k, |o| matches!(o, Op::For { .. }));
        let data = k.insts[i].clone();
        let types: Vec<Type> = data.results.iter().map(|&v| k.ty(v)).collect();
        k.append(k.body, data.op, &types);
    };
    assert!(broken(shared).contains(&Rule::Block));
    let cyclic = |k: &mut Kernel| {
        let i = find(k, |o| matches!(o, Op::For { .. }));
        let outer = k.body;
        if let Op::For { body, .. } = &mut k.insts[i].op {
            *body = outer;
        }
    };
    assert!(broken(cyclic).contains(&Rule::Block));
    let parameters = |k: &mut Kernel| k.blocks[k.body].params.push(Value::new(0));
    assert!(broken(parameters).contains(&Rule::Block));
    let disagreeing = |k: &mut Kernel| k.values[Value::new(3)].def = ValueDef::ProgramId(0);
    assert!(broken(disagreeing).contains(&Rule::Entity));
    let no_counter = |k: &mut Kernel| k.blocks[Block::new(1)].params.clear();
    assert!(broken(no_counter).contains(&Rule::Loop));
    let same_slot = |k: &mut Kernel| k.params.push(k.params[0]);
    assert!(broken(same_slot).contains(&Rule::Param));
    let same_view = |k: &mut Kernel| k.params.push(k.params[1]);
    assert!(broken(same_view).contains(&Rule::Param));
    let stray_view = |k: &mut Kernel| {
        k.params.remove(2);
    };
    assert!(broken(stray_view).contains(&Rule::View));
}

#[test]
fn random_kernels_contain_every_operation() {
    let mut missing: std::collections::BTreeSet<String> = UnaryOp::ALL.iter().map(|o| o.name().into()).collect();
    missing.extend(BinaryOp::ALL.iter().map(|o| o.name().into()));
    missing.extend(CmpOp::ALL.iter().map(|o| o.name().into()));
    missing.extend(["const", "iota", "select", "fma", "convert", "bitcast", "broadcast", "reshape"].map(Into::into));
    missing.extend(["concat", "slice", "repeat", "reduce_sum", "reduce_max", "reduce_min", "dot"].map(Into::into));
    missing.extend(["dot4", "load", "store", "block_codes", "block_scales", "block_offsets"].map(Into::into));
    missing.extend(["block_values", "block_raw", "for", "yield"].map(Into::into));
    missing.extend(RunPart::ALL.iter().map(|p| p.name().into()));
    // A linear congruential generator (Knuth's MMIX constants), so that the test is the same each time.
    let mut state = 1u64;
    for _ in 0..1000 {
        let mut word = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32
        };
        let words: Vec<u32> = (0..100).map(|_| word()).collect();
        for data in random_kernel(&words, Options::default()).insts.values() {
            missing.remove(data.op.name());
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// Runs a random kernel in the interpreter on some data; whatever it does must be defined.
fn run_random(k: &Kernel, rows: u32, seed: u32) -> Result<(), interp::Fault> {
    let mut memory = interp::Memory::new();
    let args: Vec<interp::Arg> = k
        .params
        .iter()
        .map(|p| match *p {
            Param::Scalar(_) => interp::Arg::I32(rows as i32),
            Param::View(m) => {
                let d = &k.views[m];
                let Extent::Const(n) = d.dims[1] else { panic!("a row's length is constant") };
                let bytes = (rows * n * d.content.unit_bytes()) as usize;
                if d.access == Access::Out {
                    return interp::Arg::buffer(memory.add_uninit(bytes));
                }
                let byte = |i: usize| (seed.wrapping_mul(i as u32 * 2 + 1) >> 13) as u8;
                interp::Arg::buffer(memory.add((0..bytes).map(byte).collect()))
            }
        })
        .collect();
    interp::run(k, &args, &mut memory, &interp::Options::exact()).map(drop)
}

fn words() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_kernels_are_valid_and_round_trip(words in words()) {
        let k = random_kernel(&words, Options::default());
        if let Err(e) = verify(&k) {
            panic!("{e}");
        }
        let text = k.to_string();
        let again = parse(&text);
        prop_assert_eq!(again.to_string(), text);
        prop_assert!(verify(&again).is_ok());
    }

    #[test]
    fn random_kernels_run_without_fault(words in words(), rows in 1..10u32, seed: u32) {
        let k = random_kernel(&words, Options::default());
        if let Err(fault) = run_random(&k, rows, seed) {
            panic!("{fault}\n{k}");
        }
    }

    #[test]
    fn mutated_texts_never_panic(words in words(), edits in prop::collection::vec((any::<u32>(), 0..9u8, any::<u32>()), 1..6)) {
        let mut text: Vec<u8> = random_kernel(&words, Options::default()).to_string().into();
        for (at, kind, n) in edits {
            let at = at as usize % text.len();
            match kind {
                0 => text[at] = (n % 128) as u8,
                1 => _ = text.remove(at),
                2 => text.insert(at, b"[](){},:=-.@v9em"[n as usize % 16]),
                // A digit for another, so that names and numbers change and the rest still parses.
                3..7 => if let Some(d) = text[at..].iter_mut().find(|c| c.is_ascii_digit()) { *d = b'0' + (n % 10) as u8 },
                7 => { let end = (at + n as usize % 40).min(text.len()); text.drain(at..end); }
                _ => { let part = text[at..(at + n as usize % 60).min(text.len())].to_vec(); text.splice(at..at, part); }
            }
            if text.is_empty() { text.push(b' ') }
        }
        let text = String::from_utf8_lossy(&text);
        match parse_module(&text) {
            Err(e) => prop_assert!(!e.to_string().is_empty()),
            Ok(kernels) => for k in kernels {
                let printed = k.to_string();
                prop_assert_eq!(parse(&printed).to_string(), printed);
                if let Err(e) = verify(&k) { prop_assert!(!e.to_string().is_empty()) }
            }
        }
    }

    #[test]
    fn damaged_arenas_never_panic(words in words(), edits in prop::collection::vec((any::<u32>(), 0..9u8, any::<u32>()), 1..4)) {
        let mut k = random_kernel(&words, Options::default());
        for (at, kind, n) in edits {
            let value = Value::new(n as usize % (k.values.len() + 2));
            let at = |len: usize| at as usize % len;
            let inst = Inst::new(at(k.insts.len()));
            let block = Block::new(at(k.blocks.len()));
            let any = Value::new(at(k.values.len()));
            let extents = [n; 4];
            match kind {
                0 => k.insts[inst].op.map_operands(|_| value),
                1 => _ = k.insts[inst].results.pop(),
                2 => k.insts[inst].results.push(value),
                3 => k.blocks[block].insts.push(Inst::new(n as usize % (k.insts.len() + 1))),
                4 => _ = k.blocks[block].insts.pop(),
                5 => k.blocks[block].params.push(value),
                6 => _ = k.blocks[block].params.pop(),
                7 => k.values[any].ty = Type::new(Elem::ALL[n as usize % 10], &extents[..n as usize % 5]),
                _ => k.values[any].def = ValueDef::Result(Inst::new(n as usize % (2 * k.insts.len())), 0),
            }
        }
        let verdict = verify(&k);
        if let Err(e) = verdict { prop_assert!(!e.to_string().is_empty()) }
        prop_assert!(!k.to_string().is_empty());
    }
}
