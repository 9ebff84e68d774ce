//! Forms of matrix products: those of the chips' tables, and those that only the emulator knows.
//!
//! Layouts and cycles of the latter are held to no document: they continue the rule that those of the tables follow, blocks
//! of four rows a lane for binary32 and one for binary64, passes of four cycles. That products of xf32 round factors to
//! ten bits of mantissa to nearest is an assumption too. No kernel of ours uses any of them.

use hrx_compiler::hsaco::Generation;
use hrx_compiler::target::amd::{MatrixOp, MatrixType};

/// Types of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    F16,
    Bf16,
    F32,
    /// binary32 of which factors have ten bits of mantissa.
    Xf32,
    F64,
    Fp8,
    Bf8,
    I8,
    /// Bytes, and values of four bits, of which the instruction says whether they are signed.
    Iu8,
    Iu4,
    I32,
}

impl Element {
    /// Its bits.
    pub const fn bits(self) -> u32 {
        match self {
            Element::Iu4 => 4,
            Element::Fp8 | Element::Bf8 | Element::I8 | Element::Iu8 => 8,
            Element::F16 | Element::Bf16 => 16,
            Element::F32 | Element::Xf32 | Element::I32 => 32,
            Element::F64 => 64,
        }
    }
}

impl From<MatrixType> for Element {
    fn from(ty: MatrixType) -> Element {
        match ty {
            MatrixType::F16 => Element::F16,
            MatrixType::Bf16 => Element::Bf16,
            MatrixType::F32 => Element::F32,
            MatrixType::I8 => Element::I8,
            MatrixType::Iu8 => Element::Iu8,
            MatrixType::Iu4 => Element::Iu4,
            MatrixType::Fp8 => Element::Fp8,
            MatrixType::Bf8 => Element::Bf8,
            MatrixType::I32 => Element::I32,
        }
    }
}

/// A part of a wave's register file, counted in lanes from a first register on: which word, and its lowest bit.
#[derive(Clone, Copy, Default, Debug)]
pub struct Place {
    pub word: u16,
    pub shift: u8,
}

impl Place {
    /// The place of a lane's element of so many bits.
    fn new(lane: usize, element: usize, bits: u32, wave: usize) -> Place {
        let bit = element * bits as usize;
        Place { word: (bit / 32 * wave + lane) as u16, shift: (bit % 32) as u8 }
    }
}

/// A product: blocks of M x N sums of K terms each, and where their elements are.
#[derive(Clone, Debug)]
pub struct Form {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub blocks: usize,
    pub types: [Element; 3],
    pub wave: usize,
    /// Registers of A, B, and C or D.
    pub registers: [u16; 3],
    /// Cycles of a matrix unit, if they are known.
    pub cycles: Option<u32>,
    /// Of A: row times K plus k, block after block; of a sparse one, row times K/2.
    pub a: Vec<Place>,
    /// Of B: k times N plus column.
    pub b: Vec<Place>,
    /// Of C and D: row times N plus column.
    pub result: Vec<Place>,
    /// Of a sparse A, where the two bits are that say which of four each of its elements is.
    pub index: Vec<Place>,
}

/// A row of the emulator's own table: mnemonic, M and N, blocks, K, types, passes.
type Row = (&'static str, usize, usize, usize, [Element; 3], u32);

const F16: [Element; 3] = [Element::F16, Element::F16, Element::F32];
const BF16: [Element; 3] = [Element::Bf16, Element::Bf16, Element::F32];
const F32: [Element; 3] = [Element::F32; 3];
const XF32: [Element; 3] = [Element::Xf32, Element::Xf32, Element::F32];
const F64: [Element; 3] = [Element::F64; 3];
const I8: [Element; 3] = [Element::I8, Element::I8, Element::I32];

/// Products of CDNA, by the names that gfx942 has; older ones lack the blocks and some underscores.
const CDNA: &[Row] = &[
    ("v_mfma_f32_4x4x1_16b_f32", 4, 16, 1, F32, 2),
    ("v_mfma_f32_16x16x1_4b_f32", 16, 4, 1, F32, 8),
    ("v_mfma_f32_32x32x1_2b_f32", 32, 2, 1, F32, 16),
    ("v_mfma_f32_4x4x4_16b_f16", 4, 16, 4, F16, 2),
    ("v_mfma_f32_16x16x4_4b_f16", 16, 4, 4, F16, 8),
    ("v_mfma_f32_32x32x4_2b_f16", 32, 2, 4, F16, 16),
    ("v_mfma_f32_4x4x4_16b_bf16", 4, 16, 4, BF16, 2),
    ("v_mfma_f32_16x16x4_4b_bf16", 16, 4, 4, BF16, 8),
    ("v_mfma_f32_32x32x4_2b_bf16", 32, 2, 4, BF16, 16),
    ("v_mfma_i32_4x4x4_16b_i8", 4, 16, 4, I8, 2),
    ("v_mfma_i32_16x16x4_4b_i8", 16, 4, 4, I8, 8),
    ("v_mfma_i32_32x32x4_2b_i8", 32, 2, 4, I8, 16),
    ("v_mfma_f32_16x16x8_xf32", 16, 1, 8, XF32, 4),
    ("v_mfma_f32_32x32x4_xf32", 32, 1, 4, XF32, 8),
    ("v_mfma_f64_16x16x4_f64", 16, 1, 4, F64, 8),
    ("v_mfma_f64_4x4x4_4b_f64", 4, 4, 4, F64, 4),
];

const FP8: Element = Element::Fp8;
const BF8: Element = Element::Bf8;

/// Products of CDNA 3 whose A has two of four elements.
const SPARSE: &[Row] = &[
    ("v_smfmac_f32_16x16x32_f16", 16, 1, 32, F16, 4),
    ("v_smfmac_f32_32x32x16_f16", 32, 1, 16, F16, 8),
    ("v_smfmac_f32_16x16x32_bf16", 16, 1, 32, BF16, 4),
    ("v_smfmac_f32_32x32x16_bf16", 32, 1, 16, BF16, 8),
    ("v_smfmac_i32_16x16x64_i8", 16, 1, 64, I8, 4),
    ("v_smfmac_i32_32x32x32_i8", 32, 1, 32, I8, 8),
    ("v_smfmac_f32_16x16x64_bf8_bf8", 16, 1, 64, [BF8, BF8, Element::F32], 4),
    ("v_smfmac_f32_16x16x64_bf8_fp8", 16, 1, 64, [BF8, FP8, Element::F32], 4),
    ("v_smfmac_f32_16x16x64_fp8_bf8", 16, 1, 64, [FP8, BF8, Element::F32], 4),
    ("v_smfmac_f32_16x16x64_fp8_fp8", 16, 1, 64, [FP8, FP8, Element::F32], 4),
    ("v_smfmac_f32_32x32x32_bf8_bf8", 32, 1, 32, [BF8, BF8, Element::F32], 8),
    ("v_smfmac_f32_32x32x32_bf8_fp8", 32, 1, 32, [BF8, FP8, Element::F32], 8),
    ("v_smfmac_f32_32x32x32_fp8_bf8", 32, 1, 32, [FP8, BF8, Element::F32], 8),
    ("v_smfmac_f32_32x32x32_fp8_fp8", 32, 1, 32, [FP8, FP8, Element::F32], 8),
];

/// A name without what generations write differently.
fn common(name: &str) -> String {
    let plain = ["_16b", "_4b", "_2b", "_1k"].iter().fold(name.to_owned(), |name, part| name.replace(part, ""));
    plain.replace('_', "")
}

/// Where lanes take A and B from: MFMA's broadcasts and rotations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Broadcast {
    /// Blocks of A in groups of two to the power of this all take one of the group.
    pub cbsz: u32,
    /// Which; of a sparse A, which part of the indices.
    pub abid: u32,
    /// Lanes of B.
    pub blgp: u32,
}

impl Broadcast {
    /// The lane that a lane's part of B comes from.
    fn lane(self, lane: usize) -> usize {
        match self.blgp {
            0 => lane,
            1 => lane % 32,
            2 => 32 + lane % 32,
            3 => (lane + 16) % 64,
            n => 16 * (n as usize - 4) + lane % 16,
        }
    }
}

impl Form {
    /// Of the chip's table; results of 16 bits may be in high halves. Waves of 64 lanes of gfx11 hold factors four times.
    pub fn of_chip(op: &MatrixOp, wave: u32, high: bool) -> Form {
        let (m, n, k) = (op.m as usize, op.n as usize, op.k as usize);
        let types = [op.a, op.b, op.acc].map(Element::from);
        let mut form = Form::empty([m, n, k, 1], types, wave as usize);
        let wide = wave > op.wave;
        for lane in 0..wave {
            for element in 0..op.factor_elements() {
                let (row, at) = op.a_at(lane % op.wave, element);
                form.a[row as usize * k + at as usize] = form.place(0, lane, element);
                let (at, column) = op.b_at(lane % op.wave, element);
                form.b[at as usize * n + column as usize] = form.place(1, lane, element);
            }
            for element in 0..op.result_elements() {
                // Rows go over all lanes before the next element.
                let used = op.d_at(lane % op.wave, element);
                let step = op.result_elements() / if op.acc.bits() == 16 { 8 } else { op.result_elements() };
                let wider = (element / step < 4).then_some((4 * (element / step) + lane / 16, lane % 16));
                let found = if wide { used.and(wider) } else { used };
                if let Some((row, column)) = found {
                    let place = form.place(2, lane, element + u32::from(high));
                    form.result[row as usize * n + column as usize] = place;
                }
            }
        }
        let factor = (op.factor_elements() * op.a.bits()).div_ceil(32) as u16;
        let result = (op.result_elements() * op.acc.bits()).div_ceil(32) as u16;
        form.registers = [factor, factor, if wide { result / 2 } else { result }];
        form.cycles = op.cycles.map(|c| c.value * if wide { 2 } else { 1 });
        form
    }

    /// Of the emulator's own table.
    pub fn of_name(name: &str, broadcast: Broadcast) -> Option<Form> {
        let name = common(name);
        let find = |table: &'static [Row]| table.iter().find(|row| common(row.0) == name);
        match find(CDNA) {
            Some(row) => Some(Form::dense(row, broadcast)),
            None => find(SPARSE).map(|row| Form::sparse(row, broadcast)),
        }
    }

    fn empty([m, n, k, blocks]: [usize; 4], types: [Element; 3], wave: usize) -> Form {
        Form {
            m,
            n,
            k,
            blocks,
            types,
            wave,
            registers: [0; 3],
            cycles: None,
            a: vec![Place::default(); blocks * m * k],
            b: vec![Place::default(); blocks * k * n],
            result: vec![Place::default(); blocks * m * n],
            index: Vec::new(),
        }
    }

    fn place(&self, which: usize, lane: u32, element: u32) -> Place {
        Place::new(lane as usize, element as usize, self.types[which].bits(), self.wave)
    }

    /// Registers for so many elements of a lane.
    fn count(&self, which: usize, elements: usize) -> u16 {
        (elements * self.types[which].bits() as usize).div_ceil(32) as u16
    }

    /// Where results of CDNA are: four rows in a lane, of binary64 one.
    fn results(&mut self) {
        let (m, n) = (self.m, self.n);
        let elements = self.blocks * m * n / 64;
        for lane in 0..64 {
            for element in 0..elements {
                let (block, row) = match (self.types[2], m) {
                    (Element::F64, 4) => (lane / 4 % 4, lane / 16),
                    (Element::F64, _) => (0, 4 * element + lane / 16),
                    (_, 4) => (lane / 4, element),
                    (_, 16) => (element / 4, 4 * (lane / 16) + element % 4),
                    _ => (element / 16, 8 * (element % 16 / 4) + 4 * (lane / 32) + element % 4),
                };
                self.result[(block * m + row) * n + lane % n] =
                    Place::new(lane, element, self.types[2].bits(), self.wave);
            }
        }
        self.registers[2] = self.count(2, elements);
    }

    fn dense(&(_, m, blocks, k, types, passes): &Row, broadcast: Broadcast) -> Form {
        let mut form = Form::empty([m, m, k, blocks], types, 64);
        let elements = blocks * m * k / 64;
        for lane in 0..64 {
            for element in 0..elements {
                let (row, rest) = (lane % m, lane / m);
                let (block, at) = (rest % blocks, rest / blocks * elements + element);
                form.a[(block * m + row) * k + at] = Place::new(lane, element, types[0].bits(), 64);
                let from = broadcast.lane(lane);
                form.b[(block * k + at) * m + row] = Place::new(from, element, types[1].bits(), 64);
            }
        }
        // The block that a group takes is its own source, so that it is not overwritten.
        let group = 1 << broadcast.cbsz;
        for block in 0..blocks {
            let from = block / group * group + broadcast.abid as usize % group;
            if from < blocks && from != block {
                form.a.copy_within(from * m * k..(from + 1) * m * k, block * m * k);
            }
        }
        form.results();
        form.registers = [form.count(0, elements), form.count(1, elements), form.registers[2]];
        form.cycles = Some(4 * passes);
        form
    }

    /// Each lane holds elements of K/2 and, of a third register, two bits for each of them.
    fn sparse(&(_, m, _, k, types, passes): &Row, broadcast: Broadcast) -> Form {
        let mut form = Form::empty([m, m, k, 1], types, 64);
        let groups = 64 / m;
        let [held, dense] = [k / 2 / groups, k / groups];
        form.a.truncate(m * k / 2);
        form.index = vec![Place::default(); m * k / 2];
        // Indices of a lane are a part of its register, which the instruction chooses.
        let part = if broadcast.cbsz == 0 { broadcast.abid as usize % (32 / (2 * held)) } else { 0 };
        for lane in 0..64 {
            let (row, group) = (lane % m, lane / m);
            for element in 0..held {
                let at = row * k / 2 + group * held + element;
                form.a[at] = Place::new(lane, element, types[0].bits(), 64);
                form.index[at] = Place { word: lane as u16, shift: (2 * (part * held + element)) as u8 };
            }
            for element in 0..dense {
                form.b[(group * dense + element) * m + row] = Place::new(lane, element, types[1].bits(), 64);
            }
        }
        form.results();
        form.registers = [form.count(0, held), form.count(1, dense), form.registers[2]];
        form.cycles = Some(4 * passes);
        form
    }
}

/// Whether a product of a chip's table is for waves of so many lanes, as it is or held differently.
pub fn is_for(op: &MatrixOp, wave: u32, generation: Generation) -> bool {
    op.wave == wave || (generation == Generation::Gfx11 && op.wave == 32)
}
