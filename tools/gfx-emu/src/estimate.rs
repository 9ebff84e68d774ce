//! How long a launch might take on a board, from what was counted.
//!
//! An estimate and nothing else: the busiest part of the machine, were all of it busy all the time and nothing waited
//! for. What is left out (latency, the last workgroups that leave most of the machine idle, clocks that fall) makes
//! launches slower; caches that hold what is fetched twice make them faster.
//!
//! A SIMD of GCN and CDNA has 16 lanes and takes four cycles for a wave; one of RDNA has 32 (AMD, "RDNA Architecture",
//! white paper of 2019). Reciprocals, roots and the like run at a quarter of that rate.

use crate::Counters;
use hrx_compiler::inspect::Class;
use hrx_compiler::target::amd::{Board, Chip};
use std::fmt;

/// Bytes of the lines that are counted.
const LINE: f64 = 128.0;

/// What a launch might take.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// The board.
    pub board: &'static str,
    /// Microseconds of each part of the machine, the slowest first. Parts of which something is not known are left out.
    pub parts: Vec<(&'static str, f64)>,
}

impl Estimate {
    /// The estimate for a launch of waves of so many lanes on a board of the chip. None if nothing was counted that is
    /// known of the board.
    pub fn new(counters: &Counters, wave: u32, chip: &Chip, board: &'static Board) -> Option<Estimate> {
        let mhz = f64::from(board.boost_mhz);
        let simds = f64::from(board.cus * chip.simds / chip.block.cus());
        let per_instruction = f64::from(wave) / if chip.wave == 64 { 16.0 } else { 32.0 };
        let valu: u64 = Class::ALL.iter().filter(|c| c.is_valu()).map(|&c| counters.of(c)).sum();
        // The slow ones take four times as long.
        let issue = (valu + 3 * counters.of(Class::ValuTrans)) as f64 * per_instruction / simds / mhz;
        let mut parts = vec![("vector instructions", issue)];
        let lds = (counters.lds_accesses + counters.lds_conflicts) as f64 / f64::from(board.cus) / mhz;
        parts.push(("LDS", lds));
        let bandwidth = board.measured.or(board.bandwidth);
        if let Some(bandwidth) = bandwidth {
            parts.push(("memory", counters.vmem_lines as f64 * LINE / (f64::from(bandwidth.value) * 1e3)));
        }
        // One matrix unit in each SIMD.
        parts.push(("matrix products", counters.matrix_cycles as f64 / simds / mhz));
        parts.retain(|(_, time)| *time > 0.0);
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        // Without products of which the cycles are not known, a launch would look too fast.
        (!parts.is_empty() && counters.matrix_unknown == 0).then_some(Estimate { board: board.name, parts })
    }

    /// Microseconds of the slowest part.
    pub fn microseconds(&self) -> f64 {
        self.parts.first().map_or(0.0, |(_, time)| *time)
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "estimate for {}, not measured: at least {:.2} µs (", self.board, self.microseconds())?;
        for (i, (part, time)) in self.parts.iter().enumerate() {
            write!(f, "{}{part} {time:.2}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str(" if nothing else took time)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hrx_compiler::target::amd;

    #[test]
    fn the_slowest_part_is_what_a_launch_takes() {
        let chip = amd::find("gfx1100").expect("a chip");
        let board = chip.board().expect("a board");
        let mut counters = Counters::default();
        assert_eq!(Estimate::new(&counters, 32, chip, board), None, "nothing was done");
        // 96 CUs of two SIMDs at 2498 MHz: each takes a vector instruction of 32 lanes in a cycle.
        counters.issued[Class::ValuF32 as usize] = 192 * 2498;
        let found = Estimate::new(&counters, 32, chip, board).expect("an estimate");
        assert!((found.microseconds() - 1.0).abs() < 1e-9, "{found}");
        // 960 GB/s.
        counters.vmem_lines = 960 * 1000 / 128 * 3;
        let found = Estimate::new(&counters, 32, chip, board).expect("an estimate");
        assert_eq!(found.parts[0].0, "memory");
        assert!((found.microseconds() - 3.0).abs() < 1e-9, "{found}");
        assert!(
            found.to_string().starts_with("estimate for Radeon RX 7900 XTX, not measured: at least 3.00 µs (memory")
        );
        // Products of 32 cycles each: all SIMDs busy for four microseconds.
        counters.matrix_cycles = 192 * 2498 * 4;
        let found = Estimate::new(&counters, 32, chip, board).expect("an estimate");
        assert_eq!(found.parts[0].0, "matrix products");
        assert!((found.microseconds() - 4.0).abs() < 1e-9, "{found}");
        // Not of products whose cycles nobody knows.
        counters.matrix_unknown = 1;
        assert_eq!(Estimate::new(&counters, 32, chip, board), None);
    }
}
