//! The parts that decoder-only models are made of, one kind a module. An architecture says which it has, with what
//! differs from a kind's defaults; here they become operations.

mod attention;
mod decoder;
mod delta_net;
mod mla;
mod mlp;
mod moe;
mod per_layer;
mod short_conv;
mod ssm;
mod windows;

pub(crate) use attention::{Attention, Gate, QkNorm, Temperature, Values};
pub(crate) use decoder::{Decoder, FeedForward, Layer, Mixer};
pub(crate) use delta_net::{DeltaNet, Projections};
pub(crate) use mla::LatentAttention;
pub(crate) use mlp::{Mlp, Shape};
pub(crate) use moe::{Moe, Router};
pub(crate) use per_layer::PerLayerEmbedding;
pub(crate) use short_conv::ShortConv;
pub(crate) use ssm::{Ssm, SsmSizes};
pub(crate) use windows::Windows;
