//! What a step is given: tokens, positions, rows of output, and tables by position. It lies in one buffer, so that one copy
//! brings it to the device.

use super::rope::{Frequencies, RopeTables, angles, position_scales};
use crate::device::{Buffer, Device, DeviceError};
use hrx_ir::graph::Input;

/// Parts begin at multiples of this.
const ALIGN: usize = 256;

/// A session's tables by position.
#[derive(Debug)]
pub struct Tables {
    /// The angles at position 1 of each rope table.
    pub frequencies: Vec<Frequencies>,
    /// The staircase of each table of factors.
    pub scales: Vec<(f32, u32)>,
}

/// The inputs of steps of up to some size.
#[derive(Debug)]
pub struct StepInputs {
    buffer: Buffer,
    /// What is copied.
    bytes: Vec<u8>,
    tokens: Part,
    positions: Part,
    cache_rows: Part,
    firsts: Part,
    rows: Part,
    ropes: Vec<[Part; 2]>,
    scales: Vec<Part>,
}

/// Where a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its position in its sequence.
    pub position: u32,
    /// The first row of the caches that the sequence has.
    pub first: u32,
}

/// Bytes of the buffer.
#[derive(Clone, Copy, Debug)]
struct Part {
    at: usize,
    len: usize,
}

impl Part {
    fn write<const N: usize>(&self, to: &mut [u8], values: impl Iterator<Item = [u8; N]>) {
        let (places, _) = to[self.at..self.at + self.len].as_chunks_mut::<N>();
        places.iter_mut().zip(values).for_each(|(to, value)| *to = value);
    }
}

impl StepInputs {
    /// Memory for steps of up to this many tokens and outputs.
    ///
    /// # Errors
    /// If the device has none.
    pub fn new(
        device: &dyn Device,
        tables: &RopeTables,
        [max_tokens, max_outputs]: [u32; 2],
    ) -> Result<StepInputs, DeviceError> {
        let mut end = 0;
        let mut part = |words: u32| {
            let part = Part { at: end, len: 4 * words as usize };
            end = (end + part.len).next_multiple_of(ALIGN);
            part
        };
        let [tokens, positions, cache_rows, firsts] = [max_tokens; 4].map(&mut part);
        let rows = part(max_outputs);
        let ropes = tables.specs().iter().map(|s| [0; 2].map(|_| part(max_tokens * (s.n_rot / 2)))).collect();
        let scales = tables.scales().iter().map(|_| part(max_tokens)).collect();
        let buffer = device.alloc(end as u64, "inputs")?;
        Ok(StepInputs { buffer, bytes: vec![0; end], tokens, positions, cache_rows, firsts, rows, ropes, scales })
    }

    fn part(&self, part: Part) -> Buffer {
        self.buffer.part(part.at as u64, part.len as u64)
    }

    /// Where an input is.
    pub fn input(&self, input: Input) -> Buffer {
        self.part(match input {
            Input::Tokens => self.tokens,
            Input::Positions => self.positions,
            Input::OutputRows => self.rows,
        })
    }

    /// Where the rows of the caches that tokens' positions are.
    pub fn cache_rows(&self) -> Buffer {
        self.part(self.cache_rows)
    }

    /// Where the first rows of tokens' sequences are.
    pub fn firsts(&self) -> Buffer {
        self.part(self.firsts)
    }

    /// Where the cosines and sines of a table are.
    pub fn rope(&self, table: usize) -> [Buffer; 2] {
        self.ropes[table].map(|part| self.part(part))
    }

    /// Where the factors of a staircase are.
    pub fn scale(&self, table: usize) -> Buffer {
        self.part(self.scales[table])
    }

    /// Writes those of a step, without taking memory: tokens with their places; the rows of all of them are wanted, or that of the last.
    ///
    /// # Errors
    /// If the device fails.
    pub fn write(
        &mut self,
        device: &dyn Device,
        tables: &Tables,
        tokens: impl Iterator<Item = (u32, Place)> + Clone,
        every: bool,
    ) -> Result<(), DeviceError> {
        let n = tokens.clone().count() as i32;
        let places = tokens.clone().map(|(_, at)| at);
        let positions = places.clone().map(|at| at.position);
        let rows = if every { 0..n } else { n - 1..n };
        self.tokens.write(&mut self.bytes, tokens.map(|(t, _)| t.to_le_bytes()));
        self.positions.write(&mut self.bytes, positions.clone().map(u32::to_le_bytes));
        self.cache_rows.write(&mut self.bytes, places.clone().map(|at| (at.first + at.position).to_le_bytes()));
        self.firsts.write(&mut self.bytes, places.map(|at| at.first.to_le_bytes()));
        self.rows.write(&mut self.bytes, rows.map(i32::to_le_bytes));
        for (table, parts) in tables.frequencies.iter().zip(&self.ropes) {
            // All cosines, then all sines.
            for (i, part) in parts.iter().enumerate() {
                part.write(&mut self.bytes, angles(table, positions.clone()).map(|pair| pair[i].to_le_bytes()));
            }
        }
        for (&staircase, part) in tables.scales.iter().zip(&self.scales) {
            part.write(&mut self.bytes, position_scales(staircase, positions.clone()).map(f32::to_le_bytes));
        }
        device.write(&self.buffer, 0, &self.bytes)
    }
}
