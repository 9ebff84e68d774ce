//! Models of published sizes with random weights, made in a device's memory: for measuring speed and memory where the
//! weights themselves can't be had or don't matter. Tensors, their types and sizes are the published model's, so bytes
//! moved and operations done are the same. What such a model says is noise.
//!
//! * [`shape`]: the sizes of models.
//! * [`recipe`]: which type each tensor has.
//! * `fill`: weights on a device, from a few MiB of random blocks that are repeated.

mod fill;
pub mod recipe;
pub mod shape;

pub(crate) use fill::Filler;
pub use recipe::Recipe;
pub use shape::Shape;

use crate::error::Error;
use crate::gguf::write::Builder;
use crate::gguf::{GgmlType, Gguf};
use std::fmt;
use std::str::FromStr;

/// A model to be made: `SHAPE:RECIPE`, as `qwen3-8b:q4_k_m`.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// Its sizes.
    pub shape: &'static Shape,
    /// The types of its weights.
    pub recipe: Recipe,
}

impl fmt::Display for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.shape.name, self.recipe.name())
    }
}

impl FromStr for Synthetic {
    type Err = String;

    fn from_str(text: &str) -> Result<Synthetic, String> {
        let (shape, recipe) = text.split_once(':').ok_or("want SHAPE:RECIPE, as qwen3-8b:q4_k_m")?;
        let shapes = || shape::SHAPES.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
        let found = shape::SHAPES.iter().find(|s| s.name == shape);
        let shape = found.ok_or_else(|| format!("no shape {shape}; there are: {}", shapes()))?;
        let recipes = || Recipe::ALL.iter().map(|r| r.name()).collect::<Vec<_>>().join(", ");
        let found = Recipe::ALL.into_iter().find(|r| r.name() == recipe);
        let recipe = found.ok_or_else(|| format!("no recipe {recipe}; there are: {}", recipes()))?;
        Ok(Synthetic { shape, recipe })
    }
}

/// What a tensor's elements are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Content {
    /// Random, of a size that keeps activations about as large as they are.
    Random,
    /// All 1, as norms have them.
    Ones,
    /// All 0, as biases have them.
    Zeros,
}

/// What a tensor's elements are, by its name.
pub(crate) fn content(name: &str, rank: usize) -> Content {
    match name {
        _ if name.ends_with("norm.weight") => Content::Ones,
        _ if name.ends_with(".bias") || rank == 1 => Content::Zeros,
        _ => Content::Random,
    }
}

impl Synthetic {
    /// The file that the model would have, without its data.
    ///
    /// # Errors
    /// If its rows are no whole blocks of the recipe's types.
    pub fn gguf(&self) -> Result<Gguf, Error> {
        let mut file = Builder::new();
        self.shape.metadata(&mut file);
        file.value("general.name", format!("{self} (random)").as_str());
        file.value("general.file_type", self.recipe.file_type());
        for tensor in self.shape.tensors() {
            let kind = if tensor.is_matrix { self.recipe.of(&tensor, self.shape) } else { GgmlType::F32 };
            file.tensor_elsewhere(&tensor.name, &tensor.dims, kind);
        }
        let (header, whole) = file.header().map_err(|e| Error::Invalid(format!("{self}: {e}")))?;
        Ok(Gguf::from_header(&self.to_string(), &header, whole)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ModelGraph;

    #[test]
    fn names_are_read_and_wrong_ones_say_what_there_is() {
        let model: Synthetic = "qwen3-30b-a3b:q4_k_m".parse().expect("a model");
        assert_eq!(model.to_string(), "qwen3-30b-a3b:q4_k_m");
        let wrong = |text: &str| text.parse::<Synthetic>().expect_err("refused");
        assert!(wrong("qwen3-8b").starts_with("want SHAPE:RECIPE"));
        assert!(wrong("qwen4-8b:f16").starts_with("no shape qwen4-8b; there are: llama3.2-1b, "));
        assert_eq!(wrong("qwen3-8b:f8"), "no recipe f8; there are: q4_k_m, q8_0, q4_0, f16, mxfp4");
    }

    /// Parameters as published, embeddings counted once where they are tied.
    #[test]
    fn every_shape_builds_with_every_recipe_and_has_the_published_size() {
        for (name, published) in [
            ("llama3.2-1b", 1.24e9),
            ("llama3.1-8b", 8.03e9),
            ("qwen3-0.6b", 0.596e9),
            ("qwen3-8b", 8.19e9),
            ("qwen3-32b", 32.8e9),
            ("qwen3-30b-a3b", 30.5e9),
            ("gpt-oss-20b", 20.9e9),
        ] {
            for recipe in Recipe::ALL {
                let model: Synthetic = format!("{name}:{}", recipe.name()).parse().expect("a model");
                let gguf = model.gguf().unwrap_or_else(|e| panic!("{model}: {e}"));
                let built = ModelGraph::from_gguf(&gguf).unwrap_or_else(|e| panic!("{model}: {e}"));
                assert_eq!(built.config.n_layer, model.shape.layers);
                let elements: u64 = gguf.tensors().iter().map(|t| t.elements()).sum();
                assert!((elements as f64 / published - 1.0).abs() < 0.01, "{model}: {elements}");
            }
        }
    }
}
