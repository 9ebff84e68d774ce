//! How long kernels take to compile: those that a small model's decode and prefill steps are made of.

use criterion::{Criterion, criterion_group, criterion_main};
use hrx_compiler::{Target, compile};
use hrx_ir::tile::{Elem, Kernel};
use hrx_templates::{
    Activation, Attention, AttentionTiling, Embed, Gated, Linear, LinearTiling, Output, Real, Request, RmsNorm, Rope,
    RopeOutput, Rotation, TargetShape, Template, WeightType,
};

/// Sizes of a model of 135 million parameters.
const WIDTH: u32 = 576;
const FEED_FORWARD: u32 = 1536;
const HEADS: [u32; 2] = [9, 3];
const HEAD_DIM: u32 = 64;

fn weight(name: &str) -> WeightType {
    WeightType::from_name(name).expect("a weight type")
}
