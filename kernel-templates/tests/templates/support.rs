//! Runs templates through the tile interpreter, with arguments by slot, and makes inputs.

use half::f16;
use hrx_ir::quant::Format;
use hrx_ir::tile::interp::{Input, Interpreted, Memory, Options};
use hrx_ir::tile::{Elem, verify};
use hrx_templates::{Activation, Output, Slot, Template};
use std::collections::HashMap;

/// What an argument is made of.
#[derive(Clone, Debug)]
pub enum Data {
    /// A scalar.
    Scalar(i32),
    /// Elements of a type.
    Elems(Elem, Vec<f64>),
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// Room for so many elements, not initialised.
    Room(Elem, usize),
}

pub fn f32s(values: &[f64]) -> Data {
    Data::Elems(Elem::F32, values.to_vec())
}

pub fn i32s(values: &[i32]) -> Data {
    Data::Elems(Elem::I32, values.iter().map(|&v| f64::from(v)).collect())
}

/// Memory after a launch, by slot.
pub struct Done {
    done: Interpreted,
    /// Where the n-th argument of each slot is, if the template has it, and what its elements are.
    places: HashMap<(Slot, usize), (Option<usize>, Elem)>,
}

impl Done {
    pub fn elems(&self, slot: Slot) -> Vec<f64> {
        self.elems_of(slot, 0)
    }

    /// Those of the n-th argument of a slot that a template has several times.
    pub fn elems_of(&self, slot: Slot, n: usize) -> Vec<f64> {
        let (Some(at), elem) = self.places[&(slot, n)] else { return Vec::new() };
        let mut memory = Memory::new();
        let id = memory.add(self.done.bytes(at).expect("a buffer").to_vec());
        memory.elems(id, elem)
    }

    /// The data, to pass it on to another launch.
    pub fn data(&self, slot: Slot) -> Data {
        Data::Elems(self.places[&(slot, 0)].1, self.elems(slot))
    }
}

/// The place of the n-th argument of a slot.
fn place(slots: &[Slot], slot: Slot, n: usize) -> Option<usize> {
    slots.iter().enumerate().filter(|(_, s)| **s == slot).nth(n).map(|(i, _)| i)
}

/// Each argument with how many of its slot come before it.
fn numbered(args: &[(Slot, Data)]) -> impl Iterator<Item = (Slot, usize, &Data)> {
    args.iter().enumerate().map(|(i, (slot, data))| (*slot, args[..i].iter().filter(|(s, _)| s == slot).count(), data))
}

/// Arguments in the order of a template's slots. The n-th data of a slot are for its n-th argument; what there are no data
/// for is the memory of the slot's first.
pub fn inputs(template: &impl Template, args: &[(Slot, Data)]) -> Vec<Input> {
    let slots = template.slots();
    let input = |(i, slot): (usize, &Slot)| {
        let of = numbered(args).find(|&(s, n, _)| s == *slot && place(&slots, s, n) == Some(i));
        let Some((_, _, data)) = of else {
            let first = place(&slots, *slot, 0).filter(|&first| first < i);
            return Input::Same(first.unwrap_or_else(|| panic!("no {slot:?}")));
        };
        match data {
            Data::Scalar(n) => Input::I32(*n),
            Data::Elems(elem, v) => {
                let mut memory = Memory::new();
                let id = memory.add_elems(*elem, v);
                Input::Bytes(memory.bytes(id).to_vec())
            }
            Data::Bytes(bytes) => Input::Bytes(bytes.clone()),
            Data::Room(elem, n) => Input::Room(n * elem.bytes() as usize),
        }
    };
    slots.iter().enumerate().map(input).collect()
}

/// Verifies and runs a template's kernel. Every byte of `Room` must be written by it.
pub fn launch(template: &impl Template, args: &[(Slot, Data)], options: &Options) -> Done {
    let kernel = template.kernel().unwrap_or_else(|e| panic!("{e}"));
    if let Err(e) = verify(&kernel) {
        panic!("{}: {e}\n{kernel}", template.name());
    }
    assert_eq!(kernel.name, template.name());
    let slots = template.slots();
    assert_eq!(kernel.params.len(), slots.len());
    let mut places: HashMap<(Slot, usize), (Option<usize>, Elem)> = HashMap::new();
    for (slot, n, data) in numbered(args) {
        let elem = match data {
            Data::Scalar(_) => continue,
            Data::Elems(elem, _) | Data::Room(elem, _) => *elem,
            Data::Bytes(_) => Elem::U8,
        };
        places.insert((slot, n), (place(&slots, slot, n), elem));
    }
    let done = Interpreted::run(&kernel, &inputs(template, args), options).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    for (slot, &(at, _)) in &places {
        let Some(at) = at else { continue };
        let bytes = done.bytes(at).expect("a buffer").len();
        let unwritten = (0..bytes).find(|&byte| !done.is_written(at, byte));
        assert_eq!(unwritten, None, "{}: {slot:?} is not written", template.name());
    }
    Done { done, places }
}

/// A source of test inputs (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// Between -1 and 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() % 20001) as f64 / 10000.0 - 1.0
    }

    /// Values that `elem` holds exactly.
    pub fn values(&mut self, elem: Elem, n: usize) -> Vec<f64> {
        (0..n).map(|_| rounded(elem, self.unit())).collect()
    }

    pub fn f32s(&mut self, n: usize) -> Vec<f64> {
        self.values(Elem::F32, n)
    }

    /// Random blocks with scales of a sensible size.
    pub fn blocks(&mut self, format: &Format, n: usize) -> Vec<u8> {
        (0..n).flat_map(|_| format.random_block(0.3, || self.bits())).collect()
    }
}

/// A value rounded to a float type.
pub fn rounded(elem: Elem, x: f64) -> f64 {
    match elem {
        Elem::F16 => f16::from_f64(x).to_f64(),
        Elem::BF16 => half::bf16::from_f64(x).to_f64(),
        _ => f64::from(x as f32),
    }
}

/// Checks values against a reference with a tolerance relative to the largest of the reference.
pub fn check(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    let size = want.iter().fold(1e-3f64, |m, w| m.max(w.abs()));
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * size, "{what}: element {i} is {g}, not {w} (of at most {size})");
    }
}

/// The largest magnitude of a form's numbers, of which a block's largest element has one.
fn largest(form: Output) -> f32 {
    match form {
        Output::F32 => panic!("f32 has no blocks"),
        Output::Q8 => 127.0,
        Output::Q15 => 127.0 * 128.0,
    }
}

/// Rows as Q8 or Q15: bytes and scales by the definition, from f32 rows.
pub fn to_blocks(form: Output, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (largest, mut out) = (largest(form), (Vec::new(), Vec::new()));
    for block in x.chunks(32) {
        let absmax = block.iter().fold(0.0f32, |m, v| m.max((*v as f32).abs()));
        let inverse = if absmax > 0.0 { largest / absmax } else { 0.0 };
        match form {
            // Two roundings.
            Output::Q8 => out.0.extend(block.iter().map(|v| f64::from((*v as f32 * inverse).round_ties_even()))),
            // One.
            _ => {
                let numbers = block.iter().map(|v| (v * f64::from(inverse)).round_ties_even());
                let (high, low): (Vec<f64>, Vec<f64>) = numbers
                    .map(|n| {
                        let high = ((n + 64.0) / 128.0).floor();
                        (high, n - 128.0 * high)
                    })
                    .unzip();
                out.0.extend(high.into_iter().chain(low));
            }
        }
        out.1.push(f64::from(if form == Output::Q8 { absmax / largest } else { absmax * (1.0 / largest) }));
    }
    out
}

/// The values that Q8 or Q15 rows stand for.
pub fn from_blocks(form: Output, bytes: &[f64], scales: &[f64]) -> Vec<f64> {
    let block = |bytes: &[f64], scale: f64| -> Vec<f64> {
        match bytes.split_at(32) {
            (codes, []) => codes.iter().map(|c| c * scale).collect(),
            (high, low) => high.iter().zip(low).map(|(h, l)| (128.0 * h + l) * scale).collect(),
        }
    };
    bytes.chunks(32 * form.bytes() as usize).zip(scales).flat_map(|(b, &s)| block(b, s)).collect()
}

/// Arguments for `n` elements that are written in a form.
pub fn written(form: Output, n: usize) -> Vec<(Slot, Data)> {
    match form {
        Output::F32 => vec![(Slot::Out, Data::Room(Elem::F32, n))],
        Output::Q8 | Output::Q15 => vec![
            (Slot::OutCodes, Data::Room(Elem::I8, n * form.bytes() as usize)),
            (Slot::OutScales, Data::Room(Elem::F32, n / 32)),
        ],
    }
}

/// Checks what was written in a form against the values in f64: of blocks the scales, and elements to half a step.
pub fn check_written(what: &str, done: &Done, form: Output, want: &[f64], tolerance: f64) {
    if form == Output::F32 {
        return check(what, &done.elems(Slot::Out), want, tolerance);
    }
    let scales = done.elems(Slot::OutScales);
    let got = from_blocks(form, &done.elems(Slot::OutCodes), &scales);
    assert_eq!(got.len(), want.len(), "{what}: length");
    for (b, (block, got)) in want.chunks(32).zip(got.chunks(32)).enumerate() {
        let absmax = block.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let (scale, wanted) = (scales[b], absmax / f64::from(largest(form)));
        assert!((scale - wanted).abs() <= tolerance * absmax, "{what}: scale {b} is {scale}, absmax {absmax}");
        for (i, (got, w)) in got.iter().zip(block).enumerate() {
            let room = scale * 0.5001 + tolerance * absmax;
            assert!((got - w).abs() <= room, "{what}: element {i} of block {b} is {got}, not {w} (step {scale})");
        }
    }
}

pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

pub fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * x * (1.0 + 0.044715 * x * x)).tanh())
}

/// The activations of f64, by another way where there is one.
pub fn activated(a: Activation, x: f64) -> f64 {
    match a {
        Activation::Silu => silu(x),
        Activation::GeluTanh => gelu(x),
        Activation::GeluQuick => silu(1.702 * x) / 1.702,
        Activation::Sigmoid => 0.5 + 0.5 * (0.5 * x).tanh(),
        Activation::Softplus if x > 30.0 => x,
        Activation::Softplus => x.exp().ln_1p(),
        Activation::ReluSquared => {
            if x > 0.0 {
                x * x
            } else {
                0.0
            }
        }
    }
}

/// x / sqrt(mean x² + eps) * w for each row.
pub fn rms_norm(x: &[f64], w: &[f64], eps: f64) -> Vec<f64> {
    x.chunks(w.len())
        .flat_map(|row| {
            let mean = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
            row.iter().zip(w).map(move |(v, w)| v / (mean + eps).sqrt() * w)
        })
        .collect()
}

/// x · wᵀ for x `[_, k]`, w `[_, k]`.
pub fn matmul(x: &[f64], w: &[f64], k: usize) -> Vec<f64> {
    x.chunks(k).flat_map(|x| w.chunks(k).map(move |w| x.iter().zip(w).map(|(a, b)| a * b).sum::<f64>())).collect()
}

/// A GPU as gfx1100 is one, or with waves of 64 as gfx942.
pub fn waves_shape(lanes: u32) -> hrx_templates::TargetShape {
    let (register_file, register_granule) = if lanes == 32 { (1536, 24) } else { (512, 8) };
    let waves = hrx_templates::Waves {
        register_file,
        register_granule,
        max_waves: if lanes == 32 { 16 } else { 8 },
        lds: 64 << 10,
        simds: Some(192),
        product_cycles: 32,
        product_instructions: 1,
        code_factor: 1,
        transposing_loads: false,
        cache_bytes: None,
        fixed_rows: false,
        arranged: false,
    };
    hrx_templates::TargetShape::waves(lanes, 256, waves)
}
