//! Boards: how many CUs a product has, how fast they run, and on what memory.
//!
//! Peaks are the published ones. Tests hold them to CUs, clock and what the chip's instructions do in a clock.

use super::{Fact, Source};
use crate::target::fact::known;

/// A graphics card, an accelerator or the graphics of a processor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Board {
    /// Its name.
    pub name: &'static str,
    /// Its chip.
    pub chip: &'static str,
    /// Compute units, of all dies.
    pub cus: u32,
    /// Highest clock in MHz.
    pub boost_mhz: u32,
    /// Clock under typical load in MHz, where AMD says one.
    pub game_mhz: Option<u32>,
    /// Memory bandwidth in GB/s; none where it is that of the computer's memory.
    pub bandwidth: Fact<f32>,
    /// Bandwidth of reads that was measured, in GB/s.
    pub measured: Fact<f32>,
    /// MiB of the cache behind L2, where it is less than the full chip's.
    pub last_level: Fact<u32>,
    /// Peak of `f32` outside the matrix units, in TFLOP/s.
    pub f32_peak: Fact<f32>,
    /// Peak of dense `f16` (and `bf16`) matrix products in TFLOP/s.
    pub f16_matrix: Fact<f32>,
    /// Peak of dense products of bytes in the matrix unit in TOP/s.
    pub i8_matrix: Fact<f32>,
    /// Peak of dense products of 8-bit floats in TFLOP/s.
    pub fp8_matrix: Fact<f32>,
    /// Where CUs and clocks were read.
    pub source: Source,
}

const fn board(name: &'static str, chip: &'static str, cus: u32, boost_mhz: u32, source: Source) -> Board {
    Board {
        name,
        chip,
        cus,
        boost_mhz,
        game_mhz: None,
        bandwidth: None,
        measured: None,
        last_level: None,
        f32_peak: None,
        f16_matrix: None,
        i8_matrix: None,
        fp8_matrix: None,
        source,
    }
}

const fn page(value: f32) -> Fact<f32> {
    known(value, Source::ProductPage)
}

const fn tpu(value: f32) -> Fact<f32> {
    known(value, Source::TechPowerUp)
}

const fn blog(value: f32) -> Fact<f32> {
    known(value, Source::RocmMatrixBlog)
}

/// Boards, the typical one of each chip before its others.
pub static BOARDS: &[Board] = &[
    Board {
        bandwidth: page(1024.0),
        f32_peak: page(13.3),
        ..board("Radeon Instinct MI50", "gfx906", 60, 1725, Source::ProductPage)
    },
    Board {
        bandwidth: tpu(1024.0),
        f32_peak: tpu(13.44),
        ..board("Radeon VII", "gfx906", 60, 1750, Source::TechPowerUp)
    },
    Board {
        bandwidth: page(1228.8),
        f32_peak: page(23.1),
        f16_matrix: page(184.6),
        i8_matrix: page(184.6),
        ..board("Instinct MI100", "gfx908", 120, 1502, Source::Cdna2Paper)
    },
    Board {
        bandwidth: page(3276.8),
        f32_peak: known(47.9, Source::Cdna2Paper),
        f16_matrix: known(383.0, Source::Cdna2Paper),
        i8_matrix: page(383.0),
        ..board("Instinct MI250X", "gfx90a", 220, 1700, Source::Cdna2Paper)
    },
    Board {
        bandwidth: page(1638.4),
        f32_peak: page(22.6),
        f16_matrix: page(181.0),
        i8_matrix: page(181.0),
        ..board("Instinct MI210", "gfx90a", 104, 1700, Source::ProductPage)
    },
    Board {
        bandwidth: page(5300.0),
        f32_peak: page(163.4),
        f16_matrix: page(1307.4),
        i8_matrix: page(2614.9),
        fp8_matrix: page(2614.9),
        ..board("Instinct MI300X", "gfx942", 304, 2100, Source::ProductPage)
    },
    Board {
        f32_peak: blog(163.4),
        f16_matrix: blog(1307.4),
        fp8_matrix: blog(2614.9),
        ..board("Instinct MI325X", "gfx942", 304, 2100, Source::RocmMatrixBlog)
    },
    Board {
        bandwidth: page(8000.0),
        f32_peak: blog(157.3),
        f16_matrix: page(2516.6),
        fp8_matrix: page(5033.2),
        ..board("Instinct MI355X", "gfx950", 256, 2400, Source::ProductPage)
    },
    Board {
        game_mhz: Some(2015),
        bandwidth: tpu(512.0),
        f32_peak: tpu(23.04),
        ..board("Radeon RX 6900 XT", "gfx1030", 80, 2250, Source::Rx6000News)
    },
    Board {
        game_mhz: Some(2015),
        bandwidth: tpu(512.0),
        f32_peak: tpu(20.74),
        ..board("Radeon RX 6800 XT", "gfx1030", 72, 2250, Source::Rx6000News)
    },
    Board {
        bandwidth: tpu(384.0),
        f32_peak: tpu(13.21),
        ..board("Radeon RX 6700 XT", "gfx1031", 40, 2581, Source::TechPowerUp)
    },
    Board {
        bandwidth: tpu(224.0),
        f32_peak: tpu(8.93),
        ..board("Radeon RX 6600", "gfx1032", 28, 2491, Source::TechPowerUp)
    },
    Board {
        game_mhz: Some(2300),
        bandwidth: tpu(960.0),
        f32_peak: tpu(61.39),
        f16_matrix: tpu(122.78),
        ..board("Radeon RX 7900 XTX", "gfx1100", 96, 2498, Source::TechPowerUp)
    },
    Board {
        game_mhz: Some(2000),
        bandwidth: tpu(800.0),
        last_level: known(80, Source::RocmSpecs),
        f32_peak: tpu(51.48),
        f16_matrix: tpu(102.96),
        ..board("Radeon RX 7900 XT", "gfx1100", 84, 2394, Source::TechPowerUp)
    },
    Board {
        bandwidth: page(864.0),
        f32_peak: page(61.3),
        f16_matrix: page(122.6),
        i8_matrix: page(122.6),
        ..board("Radeon PRO W7900", "gfx1100", 96, 2495, Source::ProductPage)
    },
    Board {
        bandwidth: tpu(624.0),
        f32_peak: tpu(37.32),
        f16_matrix: tpu(74.64),
        ..board("Radeon RX 7800 XT", "gfx1101", 60, 2430, Source::TechPowerUp)
    },
    Board {
        game_mhz: Some(2250),
        bandwidth: tpu(288.0),
        f32_peak: tpu(21.75),
        f16_matrix: tpu(43.5),
        ..board("Radeon RX 7600", "gfx1102", 32, 2655, Source::TechPowerUp)
    },
    board("Radeon 780M", "gfx1103", 12, 2700, Source::TechPowerUp),
    board("Radeon 890M", "gfx1150", 16, 2900, Source::TechPowerUp),
    Board {
        bandwidth: page(256.0),
        measured: known(221.0, Source::Measured),
        f16_matrix: page(59.4),
        i8_matrix: page(59.4),
        ..board("Radeon 8060S", "gfx1151", 40, 2900, Source::ProductPage)
    },
    board("Radeon 860M", "gfx1152", 8, 3000, Source::ProductPage),
    Board {
        bandwidth: tpu(320.0),
        f32_peak: tpu(25.6),
        ..board("Radeon RX 9060 XT", "gfx1200", 32, 3130, Source::ProductPage)
    },
    Board {
        game_mhz: Some(2400),
        bandwidth: tpu(640.0),
        f32_peak: tpu(48.66),
        f16_matrix: page(195.0),
        i8_matrix: page(389.0),
        fp8_matrix: page(389.0),
        ..board("Radeon RX 9070 XT", "gfx1201", 64, 2970, Source::ProductPage)
    },
    Board {
        game_mhz: Some(2350),
        bandwidth: page(640.0),
        f16_matrix: page(191.0),
        ..board("Radeon AI PRO R9700", "gfx1201", 64, 2920, Source::ProductPage)
    },
];
