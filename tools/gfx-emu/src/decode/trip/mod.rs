//! Decoding held to the assembler: random encodings are decoded, what was decoded is written as assembly again from the
//! decoded form alone, and `llvm-mc` must make the same bytes of it.
//!
//! Of the text that LLVM's disassembler gives, only the mnemonic is used again. Several ways of writing may be tried where
//! the decoded form does not say which one the assembler wants (halves by name or by selector, a mask that is implied):
//! the bytes that come out decide. An encoding counts as legal if LLVM assembles its own disassembly of it.

mod access;
mod draw;
mod print;
mod scalar;

use super::{Body, Context, Control, body};
use hrx_compiler::disasm::{LineKind, disassemble};
use hrx_compiler::inspect::asm;
use hrx_compiler::target::amd;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// Cases of one mnemonic in one encoding.
const EACH: usize = 12;

/// An encoding with what was decoded from it.
struct Case {
    text: String,
    bytes: Vec<u8>,
    body: Body,
    candidates: Vec<String>,
}

/// What the assembler makes of each line; none where it refuses.
fn assemble(chip: &str, lines: &[&str]) -> Vec<Option<Vec<u8>>> {
    let prefix = std::env::var_os("LLVM_SYS_221_PREFIX").unwrap_or_else(|| "/usr/lib/llvm-22".into());
    let tool = std::path::Path::new(&prefix).join("bin/llvm-mc");
    let wave32 = chip.starts_with("gfx1");
    let features = if wave32 { "+wavefrontsize32,-wavefrontsize64,+real-true16" } else { "" };
    let mut child = Command::new(&tool)
        .args(["--triple=amdgcn-amd-amdhsa", &format!("-mcpu={chip}"), &format!("-mattr={features}"), "-show-encoding"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", tool.display()));
    let mut text = String::new();
    for (i, line) in lines.iter().enumerate() {
        text += &format!("L{i}:\n{line}\n");
    }
    let mut input = child.stdin.take().expect("its input");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("written").expect("written");
    let mut made = vec![None; lines.len()];
    let mut at = None;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(number) = line.strip_prefix('L').and_then(|l| l.strip_suffix(':')) {
            at = number.parse::<usize>().ok();
        } else if let (Some(at), Some((_, list))) = (at, line.split_once("encoding: [")) {
            let bytes =
                list.trim_end_matches(']').split(',').map(|b| u8::from_str_radix(b.trim_start_matches("0x"), 16));
            made[at] = bytes.collect::<Result<Vec<u8>, _>>().ok();
        }
    }
    made
}

/// Modifiers that decoding leaves out because nothing here depends on them: caches, other counters.
fn is_left_out(word: &str) -> bool {
    let word = word.trim_end_matches(',');
    ["glc", "slc", "dlc", "sc0", "sc1", "nt", "nv", "lds_direct"].contains(&word)
        || ["th:", "scope:", "expcnt("].iter().any(|start| word.starts_with(start))
}

/// A text without what decoding leaves out, and without what the assembler may choose.
fn essential(text: &str) -> String {
    let text = text.split(" ; ").next().unwrap_or(text);
    let words = text.split_whitespace().filter(|w| !is_left_out(w));
    words
        .map(|w| w.trim_end_matches(',').replace("_e64_dpp", "_dpp").replace("_e64", "").replace("_e32", ""))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The instruction that some bytes are.
fn read(chip: &str, wave: u32, bytes: &[u8], context: &Context<'_>) -> Option<(String, Body)> {
    let line = disassemble(chip, wave, bytes).ok()?.into_iter().next()?;
    let word = bytes.first_chunk().map(|w| u32::from_le_bytes(*w))?;
    let inst = asm::Inst::parse(0, bytes.len(), &line.text);
    Some((line.text.clone(), body(&inst.ops, context, word, line.bytes.len() as u32).ok()?))
}

/// Random encodings that LLVM and the emulator know.
fn cases(name: &str, context: &Context<'_>) -> Vec<Case> {
    let mut draw = draw::Draw::new(name);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut cases = Vec::new();
    let mut code = Vec::new();
    for _ in 0..draw::CASES {
        draw.encoding(&mut code);
    }
    for line in disassemble(name, context.wave, &code).expect("a chip that LLVM knows") {
        if line.kind != LineKind::Instruction || line.offset % draw::SLOT != 0 {
            continue;
        }
        let mnemonics: Vec<&str> = line.text.split(" :: ").filter_map(|t| t.split_whitespace().next()).collect();
        let dpp = if line.text.contains("dpp8") { "8" } else { "" };
        let count = counts.entry(mnemonics.join(" ") + dpp).or_default();
        if *count >= EACH {
            continue;
        }
        let word = line.bytes.first_chunk().map_or(0, |w| u32::from_le_bytes(*w));
        let inst = asm::Inst::parse(0, line.bytes.len(), &line.text);
        let Ok(body) = body(&inst.ops, context, word, line.bytes.len() as u32) else { continue };
        // Nothing is kept of what does nothing, and which message is asked for the time.
        let time = matches!(body, Body::Control(Control::Time(..))) && mnemonics[0].contains("sendmsg");
        if time || matches!(body, Body::Control(Control::Nop | Control::Acquire | Control::Trap | Control::End)) {
            continue;
        }
        if matches!(&body, Body::Wait(w) if w.left == [None; 4]) {
            continue;
        }
        *count += 1;
        let candidates = print::candidates(&mnemonics, &body, context, line.bytes.len() as u32);
        cases.push(Case { text: line.text, bytes: line.bytes.to_vec(), body, candidates });
    }
    cases
}

/// Takes encodings of a chip there and back; at least so many must be legal.
fn trip(name: &str, least: usize) {
    let chip = amd::find(name).expect("a chip of the table");
    let generation = hrx_compiler::hsaco::processor(name).expect("a processor").generation;
    let context = Context::new(chip, generation, chip.wave);
    let cases = cases(name, &context);
    let own: Vec<&str> = cases.iter().map(|c| c.text.as_str()).collect();
    let legal = assemble(name, &own);
    let written: Vec<&str> = cases.iter().flat_map(|c| c.candidates.iter().map(String::as_str)).collect();
    let mut made = assemble(name, &written).into_iter();
    let (mut total, mut exact, mut alike) = (0, 0, 0);
    let mut failures: Vec<String> = Vec::new();
    for (case, legal) in cases.iter().zip(&legal) {
        let made: Vec<Option<Vec<u8>>> = made.by_ref().take(case.candidates.len()).collect();
        let Some(legal) = legal else { continue };
        total += 1;
        if made.iter().flatten().any(|m| *m == case.bytes || m == legal) {
            exact += 1;
            continue;
        }
        // Bits that mean nothing, or a literal that need not be one: the same text, or the same decoded form.
        let same = |bytes: &Vec<u8>| {
            let Some((text, body)) = read(name, context.wave, bytes, &context) else { return false };
            let literal = case.bytes.len() > bytes.len();
            essential(&text) == essential(&case.text)
                || (literal || print::has_free_choice(&case.text, &case.body))
                    && format!("{body:?}") == format!("{:?}", case.body)
        };
        if made.iter().flatten().any(same) {
            alike += 1;
            continue;
        }
        let shown: Vec<String> = case.candidates.iter().zip(&made).map(|(c, m)| format!("{c} -> {m:02x?}")).collect();
        failures.push(format!("{} {:02x?}: {}", case.text, case.bytes, shown.join(" | ")));
    }
    println!(
        "{name}: {total} legal encodings of {}: {exact} back to the same bytes, {alike} to the same meaning",
        cases.len()
    );
    if let Some(path) = std::env::var_os("GFX_EMU_TRIP_FAILURES").map(std::path::PathBuf::from) {
        std::fs::write(format!("{}-{name}.txt", path.display()), failures.join("\n")).expect("written");
    }
    let count = failures.len();
    failures.truncate(20);
    assert!(count == 0, "{name}: {count} of {total} do not come back:\n{}", failures.join("\n"));
    assert!(total >= least, "{name}: {total} legal encodings, where {least} were expected");
    assert!(alike * 5 < total, "{name}: only {exact} of {total} come back to the same bytes");
}

#[test]
fn encodings_of_gfx1100_come_back() {
    trip("gfx1100", 10_000);
}

#[test]
fn encodings_of_gfx1151_come_back() {
    trip("gfx1151", 10_000);
}

#[test]
fn encodings_of_gfx1201_come_back() {
    trip("gfx1201", 10_000);
}

#[test]
fn encodings_of_gfx942_come_back() {
    trip("gfx942", 7_000);
}
