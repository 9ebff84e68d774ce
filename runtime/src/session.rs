//! A session: one sequence of tokens with its KV cache, and the recorded programs that extend it.

use crate::device::{Buffer, Device};
use crate::error::Error;
use crate::exec::program::Bindings;
use crate::exec::rope::{Frequencies, RopeTables, angles, position_scales};
use crate::exec::{Activations, Drafts, KernelStore, Program};
use crate::model::ModelData;
use crate::session_plan::{SessionPlan, cache_bytes, state_bytes};
use hrx_ir::graph::{Graph, Input, KvCache, State, Tensor};
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
    /// Positions that the KV cache has room for; 0 for the model's training context, but at most 4096.
    pub n_ctx: u32,
    /// The most tokens of one step; longer prompts take several.
    pub n_batch: u32,
    /// What is computed.
    pub outputs: Outputs,
    /// In which form products with quantised weights read activations.
    pub activations: Activations,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions { n_ctx: 0, n_batch: 512, outputs: Outputs::Last, activations: Activations::F32 }
    }
}

/// One sequence on one device.
pub struct Session {
    model: Arc<ModelData>,
    device: Arc<dyn Device>,
    /// One token at a time, where only the last output is wanted.
    decode: Program,
    /// Several tokens.
    batch: Program,
    bindings: Bindings,
    /// The angles at position 1 of each rope table.
    frequencies: Vec<Frequencies>,
    /// The staircase of each table of factors.
    scales: Vec<(f32, u32)>,
    outputs: Outputs,
    cols: u32,
    n_ctx: u32,
    n_batch: u32,
    /// What is in the cache, in order.
    tokens: Vec<u32>,
    kv_bytes: u64,
    arena_bytes: u64,
}

impl Session {
    pub(crate) fn new(model: &Arc<ModelData>, store: &KernelStore, options: &SessionOptions) -> Result<Session, Error> {
        let device = Arc::clone(store.device());
        let graph = &model.graph;
        let SessionPlan { drafts, n_ctx, room, need } = SessionPlan::new(model, &*device, options)?;
        need.check(&device.info())?;
        let Drafts { decode, batch, output, max_tokens, max_outputs } = drafts;
        let (kv_bytes, arena_bytes) = (need.kv, need.arena);

        // Every kernel of both programs is compiled in one go, on all cores.
        let requests: Vec<_> = decode.requests().into_iter().chain(batch.requests()).collect();
        store.get(&requests)?;

        let mut ropes = RopeTables::default();
        let (decode_tables, batch_tables) = (ropes.add(&decode.lowered().ropes), ropes.add(&batch.lowered().ropes));
        let room_tokens = u64::from(max_tokens);
        let input = |n: u64| device.alloc(4 * n, "inputs");
        let bindings = Bindings {
            n_ctx: room,
            weights: model.place(&*device)?,
            inputs: HashMap::from([
                (Input::Tokens, input(room_tokens)?),
                (Input::Positions, input(room_tokens)?),
                (Input::OutputRows, input(u64::from(max_outputs))?),
            ]),
            caches: graph
                .caches()
                .map(|(_, c)| Ok((c.layer, cache(&*device, c, room)?)))
                .collect::<Result<_, Error>>()?,
            conv_states: states(&*device, graph, |s| matches!(s, State::Conv(_)))?,
            recurrent: states(&*device, graph, |s| matches!(s, State::Recurrent(_)))?,
            scales: ropes.scales().iter().map(|_| input(room_tokens)).collect::<Result<_, _>>()?,
            ropes: ropes
                .specs()
                .iter()
                .map(|s| {
                    let n = room_tokens * u64::from(s.n_rot / 2);
                    Ok([input(n)?, input(n)?])
                })
                .collect::<Result<_, Error>>()?,
            arena: device.alloc(arena_bytes, "activations")?,
        };
        let session = Session {
            decode: decode.record(store, &bindings, &decode_tables)?,
            batch: batch.record(store, &bindings, &batch_tables)?,
            frequencies: ropes.frequencies(n_ctx, |t: Tensor| model.weight_f32(t)),
            scales: ropes.scales().to_vec(),
            model: Arc::clone(model),
            device,
            bindings,
            outputs: options.outputs,
            cols: graph.cols(output),
            n_ctx,
            n_batch: max_tokens,
            tokens: Vec::new(),
            kv_bytes,
            arena_bytes,
        };
        session.clear_states()?;
        Ok(session)
    }

    /// Tokens in the cache.
    pub fn used(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// The tokens in the cache, in order.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The most tokens that the cache can hold.
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
        self.tokens.truncate(n as usize);
        if self.model.graph.is_recurrent() {
            let kept = std::mem::take(&mut self.tokens);
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
        self.check(tokens)?;
        let every = self.outputs != Outputs::Last;
        let mut row = vec![0f32; self.cols as usize];
        let batch = self.batch.max_tokens() as usize;
        let mut rest = tokens;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(batch));
            let n = now.len() as u32;
            self.write_inputs(now, every)?;
            let program = if n == 1 { &mut self.decode } else { &mut self.batch };
            program.replay(n, if every { n } else { 1 })?;
            self.tokens.extend_from_slice(now);
            let wanted = if every { n } else { u32::from(later.is_empty()) };
            for i in 0..wanted {
                read_row(&*self.device, program.output(), i, &mut row)?;
                rows(&row)?;
            }
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
        self.eval_rows(tokens, |row| {
            last.clear();
            last.extend_from_slice(row);
            Ok(())
        })?;
        Ok(last)
    }

    pub(crate) fn check(&self, tokens: &[u32]) -> Result<(), Error> {
        if tokens.is_empty() {
            return Err(Error::Invalid("there are no tokens to evaluate".into()));
        }
        let n_vocab = self.model.config.n_vocab;
        if let Some(bad) = tokens.iter().find(|&&t| t >= n_vocab) {
            return Err(Error::Invalid(format!("token {bad} is not one of the vocabulary's {n_vocab}")));
        }
        let free = (self.n_ctx - self.used()) as usize;
        if tokens.len() > free {
            let wanted = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
            return Err(Error::ContextFull { n_ctx: self.n_ctx, used: self.used(), wanted });
        }
        Ok(())
    }

    fn write_inputs(&self, tokens: &[u32], every: bool) -> Result<(), Error> {
        let n = tokens.len() as i32;
        let first = self.used() as i32;
        let positions: Vec<i32> = (first..first + n).collect();
        let ids: Vec<i32> = tokens.iter().map(|&t| t as i32).collect();
        let rows: Vec<i32> = if every { (0..n).collect() } else { vec![n - 1] };
        for (input, values) in [(Input::Tokens, &ids), (Input::Positions, &positions), (Input::OutputRows, &rows)] {
            self.device.write(&self.bindings.inputs[&input], 0, &i32_bytes(values))?;
        }
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for (table, [cos_buffer, sin_buffer]) in self.frequencies.iter().zip(&self.bindings.ropes) {
            angles(table, &positions, &mut cos, &mut sin);
            self.device.write(cos_buffer, 0, &f32_bytes(&cos))?;
            self.device.write(sin_buffer, 0, &f32_bytes(&sin))?;
        }
        for (&scale, buffer) in self.scales.iter().zip(&self.bindings.scales) {
            self.device.write(buffer, 0, &f32_bytes(&position_scales(scale, &positions)))?;
        }
        Ok(())
    }
}

fn i32_bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn read_row(device: &dyn Device, buffer: &Buffer, row: u32, out: &mut [f32]) -> Result<(), Error> {
    let mut bytes = vec![0u8; 4 * out.len()];
    device.read(buffer, u64::from(row) * bytes.len() as u64, &mut bytes)?;
    let (words, _) = bytes.as_chunks::<4>();
    out.iter_mut().zip(words).for_each(|(x, &b)| *x = f32::from_le_bytes(b));
    Ok(())
}

/// Memory for keys and values. Values that are a part of their keys have none.
fn cache(device: &dyn Device, c: KvCache, room: u32) -> Result<[Buffer; 2], Error> {
    let [keys, values] = cache_bytes(c, room);
    let what = format!("the KV cache of layer {}", c.layer);
    let keys = device.alloc(keys, &what)?;
    let values = if c.shared { keys.clone() } else { device.alloc(values, &what)? };
    Ok([keys, values])
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
