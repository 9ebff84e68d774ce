//! Metadata whose keys begin with the architecture's name, read with checks.

use super::Problem;
use crate::gguf::{Gguf, Metadata, Value};

/// A number of each layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PerLayer {
    /// One for all.
    Same(u32),
    /// One for each layer.
    Each(Vec<u32>),
}

impl PerLayer {
    /// That of a layer; 0 where there is no such layer.
    pub fn at(&self, layer: u32) -> u32 {
        match self {
            PerLayer::Same(n) => *n,
            PerLayer::Each(list) => list.get(layer as usize).copied().unwrap_or(0),
        }
    }

    /// The number of a layer, with the layer where they differ, for messages.
    pub(crate) fn describe(&self, layer: u32) -> String {
        match self {
            PerLayer::Same(n) => n.to_string(),
            PerLayer::Each(_) => format!("{} for layer {layer}", self.at(layer)),
        }
    }

    /// The largest.
    pub fn max(&self) -> u32 {
        match self {
            PerLayer::Same(n) => *n,
            PerLayer::Each(list) => list.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Metadata whose keys begin with the architecture's name.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(gguf: &'a Gguf, architecture: &'a str) -> Keys<'a> {
        Keys { metadata: gguf.metadata(), architecture }
    }

    /// The whole key.
    pub(crate) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// The error about a key's value.
    pub(crate) fn wrong(&self, key: &str, found: impl ToString, want: impl ToString) -> Problem {
        Problem::Metadata { key: self.key(key), found: found.to_string(), want: want.to_string() }
    }

    /// The error about a key that is absent.
    pub(crate) fn missing(&self, key: &str) -> Problem {
        self.metadata.missing(&self.key(key)).into()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.metadata.get(&self.key(key))
    }

    pub(crate) fn str(&self, key: &str) -> Result<Option<&'a str>, Problem> {
        Ok(self.metadata.str(&self.key(key))?)
    }

    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, Problem> {
        Ok(self.metadata.bool(&self.key(key))?)
    }

    pub(crate) fn u32(&self, key: &str) -> Result<Option<u32>, Problem> {
        Ok(self.metadata.u32(&self.key(key))?)
    }

    /// A positive size.
    pub(crate) fn size(&self, key: &str) -> Result<Option<u32>, Problem> {
        match self.u32(key)? {
            Some(0) => Err(self.wrong(key, 0, "at least 1")),
            size => Ok(size),
        }
    }

    /// A size; the file may write zero for "none".
    pub(crate) fn size_or_none(&self, key: &str) -> Result<Option<u32>, Problem> {
        Ok(self.u32(key)?.filter(|&n| n > 0))
    }

    pub(crate) fn require_size(&self, key: &str) -> Result<u32, Problem> {
        self.size(key)?.ok_or_else(|| self.missing(key))
    }

    /// Truth values, one for each of `layers`.
    pub(crate) fn flags(&self, key: &str, layers: u32) -> Result<Option<Vec<bool>>, Problem> {
        let list = self.metadata.bool_array(&self.key(key))?;
        list.map(|list| self.one_each(key, list, layers)).transpose()
    }

    /// Numbers, one for all or one for each of `layers`.
    pub(crate) fn per_layer(&self, key: &str, layers: u32) -> Result<Option<PerLayer>, Problem> {
        if !matches!(self.get(key), Some(Value::Array(_))) {
            return Ok(self.u32(key)?.map(PerLayer::Same));
        }
        let list = self.metadata.require_u32_array(&self.key(key))?;
        self.one_each(key, list, layers).map(|list| Some(PerLayer::Each(list)))
    }

    /// Finite numbers of at least 0, one for all or one for each of `layers`; zeros where the file doesn't say.
    pub(crate) fn per_layer_f32(&self, key: &str, layers: u32) -> Result<impl Fn(u32) -> f32 + use<>, Problem> {
        let list = match self.get(key) {
            None => vec![0.0],
            Some(Value::Array(_)) => self.one_each(key, self.metadata.require_f32_array(&self.key(key))?, layers)?,
            Some(_) => vec![self.metadata.require_f32(&self.key(key))?],
        };
        if let Some(x) = list.iter().find(|x| !x.is_finite() || **x < 0.0) {
            return Err(self.wrong(key, x, "a number of at least 0"));
        }
        Ok(move |layer| list.get(layer as usize).or(list.first()).copied().unwrap_or(0.0))
    }

    fn one_each<T>(&self, key: &str, list: Vec<T>, layers: u32) -> Result<Vec<T>, Problem> {
        if list.len() == layers as usize {
            return Ok(list);
        }
        Err(self.wrong(key, format!("an array of {}", list.len()), format!("one of {layers}, the layers")))
    }

    /// A finite number above zero.
    pub(crate) fn positive(&self, key: &str) -> Result<Option<f32>, Problem> {
        let Some(x) = self.metadata.f32(&self.key(key))? else { return Ok(None) };
        if x.is_normal() && x > 0.0 { Ok(Some(x)) } else { Err(self.wrong(key, x, "a positive number")) }
    }

    /// A finite number above zero; the file may write zero for "none".
    pub(crate) fn positive_or_none(&self, key: &str) -> Result<Option<f32>, Problem> {
        match self.metadata.f32(&self.key(key))? {
            Some(0.0) => Ok(None),
            _ => self.positive(key),
        }
    }

    pub(crate) fn require_positive(&self, key: &str) -> Result<f32, Problem> {
        self.positive(key)?.ok_or_else(|| self.missing(key))
    }

    /// A finite number of at least zero.
    pub(crate) fn require_epsilon(&self, key: &str) -> Result<f32, Problem> {
        let eps = self.metadata.require_f32(&self.key(key))?;
        if eps.is_finite() && eps >= 0.0 { Ok(eps) } else { Err(self.wrong(key, eps, "a number of at least 0")) }
    }
}
