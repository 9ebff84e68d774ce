//! Where lanes take values from under DPP, and parts of registers under SDWA.

use super::inst::{Dpp, Put, Rest, Select};
use hrx_compiler::inspect::asm::Op;

/// The controls of DPP, each a lane's source. None where there is none.
fn from(op: &Op, lane: u32, wave: u32) -> Result<Option<u32>, String> {
    let row = lane & !15;
    let at = lane & 15;
    let in_row = |n: Option<u32>| n.filter(|&n| n < 16).map(|n| row + n);
    if let Some(list) = op.list("quad_perm") {
        let which = list.get((lane & 3) as usize).ok_or("quad_perm of fewer than four")?;
        return Ok(Some(lane & !3 | which & 3));
    }
    if let Some(list) = op.list("dpp8") {
        let which = list.get((lane & 7) as usize).ok_or("dpp8 of fewer than eight")?;
        return Ok(Some(lane & !7 | which & 7));
    }
    let has = |name: &str| op.modifier(name);
    Ok(if let Some(n) = has("row_shl") {
        in_row(at.checked_add(n))
    } else if let Some(n) = has("row_shr") {
        in_row(at.checked_sub(n))
    } else if let Some(n) = has("row_ror") {
        Some(row + (at + 16 - (n & 15)) % 16)
    } else if let Some(n) = has("row_share").or_else(|| has("row_newbcast")) {
        Some(row + (n & 15))
    } else if let Some(n) = has("row_xmask") {
        Some(row + (at ^ n & 15))
    } else if op.has("row_mirror") {
        Some(row + 15 - at)
    } else if op.has("row_half_mirror") {
        Some(lane & !7 | (7 - (lane & 7)))
    } else if let Some(n) = has("row_bcast") {
        match n {
            15 => row.checked_sub(1),
            _ => (lane & !31).checked_sub(1),
        }
    } else if has("wave_shl").is_some() {
        Some(lane + 1).filter(|&n| n < wave)
    } else if has("wave_shr").is_some() {
        lane.checked_sub(1)
    } else if has("wave_rol").is_some() {
        Some((lane + 1) % wave)
    } else if has("wave_ror").is_some() {
        Some((lane + wave - 1) % wave)
    } else {
        return Err("an unknown control of DPP".into());
    })
}

fn is_control(modifier: &str) -> bool {
    const STARTS: [&str; 6] = ["quad_perm:", "dpp8:", "row_", "wave_", "bank_mask:", "bound_ctrl"];
    STARTS.iter().any(|start| modifier.starts_with(start))
}

/// The lanes of a DPP instruction; none if it has no DPP.
pub fn dpp(op: &Op, wave: u32) -> Result<Option<Box<Dpp>>, String> {
    // The mnemonic need not say it: that of comparisons which write EXEC alone does not.
    if !op.encoding.contains("dpp") && !op.modifiers.iter().any(|m| is_control(m)) {
        return Ok(None);
    }
    let mut found = Dpp { from: [Dpp::NONE; 64], there: 0, enabled: 0, zero: false, inactive: false };
    let rows = op.modifier("row_mask").unwrap_or(15);
    let banks = op.modifier("bank_mask").unwrap_or(15);
    for lane in 0..wave {
        if let Some(source) = from(op, lane, wave)? {
            found.from[lane as usize] = source as u8;
            found.there |= 1 << lane;
        }
        let enabled = rows >> ((lane / 16) & 3) & banks >> ((lane / 4) & 3) & 1;
        found.enabled |= u64::from(enabled) << lane;
    }
    found.zero = op.setting("bound_ctrl").is_some();
    found.inactive = op.modifier("fi") == Some(1);
    // Lanes of dpp8 take what is there, and zero of a lane that is not active.
    if op.setting("dpp8").is_some() {
        found.zero = true;
    }
    Ok(Some(Box::new(found)))
}

/// First bit and bits of a part of a register.
fn part(name: &str) -> Option<Select> {
    Some(match name {
        "BYTE_0" => (0, 8),
        "BYTE_1" => (8, 8),
        "BYTE_2" => (16, 8),
        "BYTE_3" => (24, 8),
        "WORD_0" => (0, 16),
        "WORD_1" => (16, 16),
        "DWORD" => (0, 32),
        _ => return None,
    })
}

/// The part that SDWA takes of a source.
pub fn select(op: &Op, source: usize) -> Option<Select> {
    // A third source is the result's register as a whole.
    let name = ["src0_sel", "src1_sel"].get(source)?;
    op.setting(name).and_then(part).filter(|p| p.1 != 32)
}

/// Where SDWA puts a result; none if it is a whole register.
pub fn destination(op: &Op) -> Option<Put> {
    let (at, bits) = op.setting("dst_sel").and_then(part).filter(|p| p.1 != 32)?;
    let rest = match op.setting("dst_unused") {
        Some("UNUSED_SEXT") => Rest::Sign,
        Some("UNUSED_PRESERVE") => Rest::Keep,
        _ => Rest::Zero,
    };
    Some(Put::Part(at, bits, rest))
}
