//! A session: sequences of tokens with their KV cache, and the recorded programs that extend them.

use crate::caches::Caches;
use crate::device::{Buffer, Device, LaunchTime};
use crate::error::Error;
use crate::exec::inputs::{Place, StepInputs, Tables};
use crate::exec::program::Bindings;
use crate::exec::rope::RopeTables;
use crate::exec::{Activations, Drafts, KernelStore, Program};
use crate::model::ModelData;
use crate::session_plan::{SessionPlan, state_bytes};
use hrx_ir::graph::{Graph, State, Tensor};
use std::collections::HashMap;
use std::sync::Arc;

/// What a session computes for its tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outputs {
    /// Logits of the last token given: what generation needs.
    #[default]
    Last,
    /// Logits of every token.
    All,
    /// The normed hidden state of every token: what embeddings are made of.
    Hidden,
}

/// How a session is made.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Positions that the KV cache has room for, in each sequence; 0 for the model's training context, but at most 4096.
    pub n_ctx: u32,
    /// The most tokens of one step; longer prompts take several.
    pub n_batch: u32,
    /// What is computed.
    pub outputs: Outputs,
    /// In which form products with quantised weights read activations.
    pub activations: Activations,
    /// How many sequences there are.
    pub sequences: u32,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            n_ctx: 0,
            n_batch: 512,
            outputs: Outputs::Last,
            activations: Activations::default(),
            sequences: 1,
        }
    }
}

/// One or more sequences on one device.
///
/// All but [`select`](Session::select) and [`eval_each`](Session::eval_each) is about one of them, at first the first one.
/// What a sequence gets does not depend on the others, nor on whether it is evaluated alone or with them.
pub struct Session {
    model: Arc<ModelData>,
    device: Arc<dyn Device>,
    /// One token of each of some sequences.
    decode: Program,
    /// Several tokens of one.
    batch: Program,
    bindings: Bindings,
    decode_inputs: StepInputs,
    batch_inputs: StepInputs,
    tables: Tables,
    /// A row of output.
    row: Vec<f32>,
    outputs: Outputs,
    cols: u32,
    n_ctx: u32,
    n_batch: u32,
    /// Rows of the caches that a sequence has.
    room: u32,
    /// What is in the cache of each sequence, in order.
    sequences: Vec<Vec<u32>>,
    /// Which one is spoken of.
    current: usize,
    kv_bytes: u64,
    arena_bytes: u64,
}

impl Session {
    pub(crate) fn new(model: &Arc<ModelData>, store: &KernelStore, options: &SessionOptions) -> Result<Session, Error> {
        let device = Arc::clone(store.device());
        let graph = &model.graph;
        let info = device.info();
        let plan = SessionPlan::new(model, &*device, info.free, options)?;
        let SessionPlan { drafts, n_ctx, room, need, needed, unpacked } = plan;
        need.check(&info)?;
        if let Some(bytes) = unpacked {
            let [bytes, free] = [bytes, info.free].map(|n| n.div_ceil(1 << 20));
            store.warn(&format!(
                "matrices packed for the processor would take {bytes} MiB, and {free} MiB are free: they are read as they are \
                 in the file, which is several times slower"
            ));
        }
        let Drafts { decode, batch, output, max_tokens, max_outputs } = drafts;
        let (kv_bytes, arena_bytes) = (need.kv, need.arena);

        // Every kernel of both programs is compiled in one go, on all cores.
        let requests: Vec<_> =
            decode.requests().into_iter().chain(batch.requests()).chain(needed.requests(graph)).collect();
        store.get(&requests)?;

        let mut ropes = RopeTables::default();
        let (decode_tables, batch_tables) = (ropes.add(&decode.lowered().ropes), ropes.add(&batch.lowered().ropes));
        // A token has a buffer of its own, which is short.
        let n_seq = options.sequences;
        let decode_inputs = StepInputs::new(&*device, &ropes, [n_seq; 2])?;
        let batch_inputs = StepInputs::new(&*device, &ropes, [max_tokens, max_outputs])?;
        let caches = Caches::new(&*device, graph, room * n_seq)?;
        let bindings = Bindings {
            n_ctx: room * n_seq,
            weights: model.place(store, &needed)?,
            panel_stride: caches.panel_stride,
            caches: caches.of_layer,
            conv_states: states(&*device, graph, |s| matches!(s, State::Conv(_)))?,
            recurrent: states(&*device, graph, |s| matches!(s, State::Recurrent(_)))?,
            arena: device.alloc(arena_bytes, "activations")?,
        };
        let session = Session {
            decode: decode.record(store, &bindings, &decode_inputs, &decode_tables)?,
            batch: batch.record(store, &bindings, &batch_inputs, &batch_tables)?,
            tables: Tables {
                frequencies: ropes.frequencies(n_ctx, |t: Tensor| model.weight_f32(t)),
                scales: ropes.scales().to_vec(),
            },
            decode_inputs,
            batch_inputs,
            row: vec![0.0; graph.cols(output) as usize],
            model: Arc::clone(model),
            device,
            bindings,
            outputs: options.outputs,
            cols: graph.cols(output),
            n_ctx,
            n_batch: max_tokens,
            room,
            // All the room, so that a token takes none.
            sequences: (0..n_seq).map(|_| Vec::with_capacity(n_ctx as usize)).collect(),
            current: 0,
            kv_bytes,
            arena_bytes,
        };
        session.clear_states()?;
        Ok(session)
    }

    /// How many sequences there are.
    pub fn sequences(&self) -> u32 {
        self.sequences.len() as u32
    }

    /// Makes a sequence the one that is spoken of.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn select(&mut self, sequence: u32) -> Result<(), Error> {
        self.sequence(sequence)?;
        self.current = sequence as usize;
        Ok(())
    }

    /// The tokens of a sequence.
    fn sequence(&self, sequence: u32) -> Result<&[u32], Error> {
        let n = self.sequences();
        let missing = || Error::Invalid(format!("there is no sequence {sequence}: the session has {n}"));
        self.sequences.get(sequence as usize).map(Vec::as_slice).ok_or_else(missing)
    }

    /// Tokens of the sequence.
    pub fn used(&self) -> u32 {
        self.tokens().len() as u32
    }

    /// The sequence's tokens, in order.
    pub fn tokens(&self) -> &[u32] {
        &self.sequences[self.current]
    }

    /// The most tokens that a sequence can have.
    pub fn n_ctx(&self) -> u32 {
        self.n_ctx
    }

    /// The most tokens of one step.
    pub fn n_batch(&self) -> u32 {
        self.n_batch
    }

    /// Columns of a row of output: the vocabulary, or the hidden state.
    pub fn cols(&self) -> u32 {
        self.cols
    }

    /// Bytes of the KV cache (not resident before they are used).
    pub fn kv_bytes(&self) -> u64 {
        self.kv_bytes
    }

    /// Bytes of activations, shared by all steps.
    pub fn activation_bytes(&self) -> u64 {
        self.arena_bytes
    }

    /// Launches of a decode step, and its stages.
    pub fn decode_launches(&self) -> (usize, usize) {
        (self.decode.launches(), self.decode.stages())
    }

    /// Forgets all tokens from position `n` on. A model with [recurrent states](Graph::is_recurrent) keeps nothing by
    /// position: the tokens that stay are evaluated again.
    ///
    /// # Errors
    /// If there are not so many, or the device fails.
    pub fn truncate(&mut self, n: u32) -> Result<(), Error> {
        if n > self.used() {
            return Err(Error::Invalid(format!("can't cut back to {n} tokens: there are {}", self.used())));
        }
        if n == self.used() {
            return Ok(());
        }
        let tokens = &mut self.sequences[self.current];
        tokens.truncate(n as usize);
        if self.model.graph.is_recurrent() {
            let kept = std::mem::take(tokens);
            self.clear_states()?;
            if !kept.is_empty() {
                self.eval_rows(&kept, |_| Ok(()))?;
            }
        }
        Ok(())
    }

    /// Fills the states of convolutions and recurrences with zeros.
    fn clear_states(&self) -> Result<(), Error> {
        for buffer in self.bindings.conv_states.values().chain(self.bindings.recurrent.values()) {
            self.device.write(buffer, 0, &vec![0; buffer.len() as usize])?;
        }
        Ok(())
    }

    /// Adds tokens to the sequence. `rows` gets the output rows in order, as the session's [`Outputs`] says: one for the
    /// last token, or one for each.
    ///
    /// # Errors
    /// If there are none, if they don't fit the context, or if one is not in the vocabulary; nothing is added then.
    pub fn eval_rows(
        &mut self,
        tokens: &[u32],
        mut rows: impl FnMut(&[f32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.steps(tokens, Program::start, |session, of, wanted, ()| session.read_rows(of, wanted, |_, row| rows(row)))
    }

    /// Adds a token to each of some sequences, all in one step. `rows` gets each one's place in the list and its row of
    /// output.
    ///
    /// # Errors
    /// If there are none, if a sequence does not exist or comes twice or is full, or if a token is not in the vocabulary;
    /// nothing is added then.
    pub fn eval_each(
        &mut self,
        tokens: &[(u32, u32)],
        rows: impl FnMut(usize, &[f32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if tokens.is_empty() {
            return Err(Error::Invalid("there are no tokens to evaluate".into()));
        }
        for (i, &(sequence, token)) in tokens.iter().enumerate() {
            self.check_for(self.sequence(sequence)?.len(), &[token])?;
            if tokens[..i].iter().any(|&(other, _)| other == sequence) {
                return Err(Error::Invalid(format!("sequence {sequence} comes twice: a step adds one token to each")));
            }
        }
        let (sequences, room) = (&self.sequences, self.room);
        let placed =
            tokens.iter().map(|&(s, token)| (token, place(s as usize, room, sequences[s as usize].len() as u32)));
        let n = tokens.len() as u32;
        self.decode_inputs.write(&*self.device, &self.tables, placed, true)?;
        self.decode.start(n, n)?;
        tokens.iter().for_each(|&(s, token)| self.sequences[s as usize].push(token));
        self.read_rows(|s| &s.decode, n, rows)
    }

    /// Hands out the first rows that a program has written.
    fn read_rows(
        &mut self,
        of: fn(&Session) -> &Program,
        wanted: u32,
        mut rows: impl FnMut(usize, &[f32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut row = std::mem::take(&mut self.row);
        let read = (0..wanted).try_for_each(|i| {
            read_row(&*self.device, of(self).output(), i, &mut row)?;
            rows(i as usize, &row)
        });
        self.row = row;
        read
    }

    /// Adds tokens as [`eval_rows`](Session::eval_rows) does, launch by launch; returns the times of each step's launches.
    ///
    /// # Errors
    /// As [`eval_rows`](Session::eval_rows).
    pub fn profile(&mut self, tokens: &[u32]) -> Result<Vec<Vec<LaunchTime>>, Error> {
        let mut times = Vec::new();
        self.steps(tokens, Program::profile, |_, _, _, step| {
            times.push(step);
            Ok(())
        })?;
        Ok(times)
    }

    /// Runs tokens in steps. `after` gets what came of each, with the program it was and the rows of output wanted of it.
    fn steps<T>(
        &mut self,
        tokens: &[u32],
        run: impl Fn(&mut Program, u32, u32) -> Result<T, Error>,
        mut after: impl FnMut(&mut Session, fn(&Session) -> &Program, u32, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.check(tokens)?;
        let every = self.outputs != Outputs::Last;
        let batch = self.batch.max_tokens() as usize;
        let mut rest = tokens;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(batch));
            let n = now.len() as u32;
            let (first, current, room) = (self.used(), self.current, self.room);
            let placed = now.iter().zip(first..).map(|(&token, p)| (token, place(current, room, p)));
            let (program, inputs) = match n {
                1 => (&mut self.decode, &mut self.decode_inputs),
                _ => (&mut self.batch, &mut self.batch_inputs),
            };
            inputs.write(&*self.device, &self.tables, placed, every)?;
            let came = run(program, n, if every { n } else { 1 })?;
            self.sequences[self.current].extend_from_slice(now);
            let wanted = if every { n } else { u32::from(later.is_empty()) };
            after(self, if n == 1 { |s| &s.decode } else { |s| &s.batch }, wanted, came)?;
            rest = later;
        }
        Ok(())
    }

    /// Adds tokens; returns the last row of output.
    ///
    /// # Errors
    /// As [`eval_rows`](Session::eval_rows).
    pub fn eval(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        let mut last = Vec::new();
        self.eval_into(tokens, &mut last)?;
        Ok(last)
    }

    /// Adds tokens; makes `last` the last row of output.
    ///
    /// # Errors
    /// As [`eval_rows`](Session::eval_rows).
    pub fn eval_into(&mut self, tokens: &[u32], last: &mut Vec<f32>) -> Result<(), Error> {
        self.eval_rows(tokens, |row| {
            last.clear();
            last.extend_from_slice(row);
            Ok(())
        })
    }

    pub(crate) fn check(&self, tokens: &[u32]) -> Result<(), Error> {
        self.check_for(self.tokens().len(), tokens)
    }

    /// Whether tokens can be added to a sequence of `used`.
    fn check_for(&self, used: usize, tokens: &[u32]) -> Result<(), Error> {
        if tokens.is_empty() {
            return Err(Error::Invalid("there are no tokens to evaluate".into()));
        }
        let n_vocab = self.model.config.n_vocab;
        if let Some(bad) = tokens.iter().find(|&&t| t >= n_vocab) {
            return Err(Error::Invalid(format!("token {bad} is not one of the vocabulary's {n_vocab}")));
        }
        if tokens.len() > self.n_ctx as usize - used {
            let wanted = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
            return Err(Error::ContextFull { n_ctx: self.n_ctx, used: used as u32, wanted });
        }
        Ok(())
    }
}

/// Where a position of a sequence is, of sequences that have `room` each.
fn place(sequence: usize, room: u32, position: u32) -> Place {
    Place { position, first: sequence as u32 * room }
}

fn read_row(device: &dyn Device, buffer: &Buffer, row: u32, out: &mut [f32]) -> Result<(), Error> {
    let len = 4 * out.len() as u64;
    device.read_with(buffer, u64::from(row) * len, len, &mut |bytes| {
        let (words, _) = bytes.as_chunks::<4>();
        out.iter_mut().zip(words).for_each(|(x, &b)| *x = f32::from_le_bytes(b));
    })?;
    Ok(())
}

/// Memory for the states of one kind, by layer.
fn states(device: &dyn Device, graph: &Graph, wanted: impl Fn(&State) -> bool) -> Result<HashMap<u32, Buffer>, Error> {
    let of_kind = graph.states().map(|(_, s)| s).filter(wanted);
    let made = of_kind.map(|s| {
        let what = format!("the {} of layer {}", s.name().replace('_', " "), s.layer());
        Ok((s.layer(), device.alloc(state_bytes(s), &what)?))
    });
    made.collect()
}
