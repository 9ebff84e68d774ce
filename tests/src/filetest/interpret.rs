//! `// test: interpret`: runs kernels in the interpreter.
//!
//! ```text
//! // test: interpret
//! // run: sum; 1 2 3 4; fill 1 0
//! // out: 1 = 10.0
//! ```
//!
//! A `run:` line has the kernel's name and then an argument for each slot, with `;` between them. A scalar's is its
//! value. A view's are its elements, or `fill N X` (N times X), `iota N` (0, 1, … N - 1) or `bytes HEX…`, as quantised
//! blocks need. Each run gives an `out:` line for each view that is written, slot and elements, or one with the fault.
//! With the argument `exact` the interpreter rounds as a device does.

use super::commands::verified;
use super::{Line, Outcome, TestFile};
use hrx_ir::tile::interp::{Arg, BufferId, Memory, Options, run};
use hrx_ir::tile::print::Names;
use hrx_ir::tile::{Content, Elem, Kernel, Param};

/// The most elements that `fill` and `iota` make.
const ELEMENTS: usize = 1 << 20;

/// Runs the command.
pub(super) fn interpret(file: &TestFile, args: &str) -> Result<Outcome, String> {
    let options = match args {
        "" => Options::default(),
        "exact" => Options::exact(),
        other => return Err(format!("the argument is `exact` or nothing, not {other:?}")),
    };
    let (kernels, runs) = (verified(file)?, file.lines("run"));
    if runs.is_empty() {
        return Err("the head has no line `// run: KERNEL; ARGUMENT; …`".into());
    }
    let mut lines = Vec::new();
    for line in runs {
        let mut parts = line.split(';').map(str::trim);
        let name = parts.next().unwrap_or("");
        let kernel = kernels.iter().find(|k| k.name == name).ok_or_else(|| format!("run: no kernel {name:?}"))?;
        let args: Vec<&str> = parts.collect();
        lines.extend(run_one(kernel, &args, &options).map_err(|e| format!("run: {line}: {e}"))?);
    }
    let lines = lines.into_iter().map(|decisive| Line { decisive, prose: String::new() }).collect();
    Ok(Outcome::Lines { key: "out", lines })
}

fn run_one(k: &Kernel, texts: &[&str], options: &Options) -> Result<Vec<String>, String> {
    if texts.len() != k.params.len() {
        return Err(format!("{} arguments for {} slots", texts.len(), k.params.len()));
    }
    let mut memory = Memory::new();
    let (mut args, mut outputs): (Vec<Arg>, Vec<(usize, BufferId, Elem)>) = (Vec::new(), Vec::new());
    for (slot, (param, text)) in k.params.iter().zip(texts).enumerate() {
        let wrong = |e: String| format!("slot {slot}: {e}");
        args.push(match *param {
            Param::Scalar(v) if k.ty(v).elem == Elem::F32 => Arg::F32(number(text).map_err(wrong)? as f32),
            Param::Scalar(_) => Arg::I32(text.parse().map_err(|_| wrong(format!("{text:?} is no i32")))?),
            Param::View(m) => {
                let view = &k.views[m];
                let id = match (text.strip_prefix("bytes"), view.content) {
                    (Some(hex), _) => memory.add(bytes(hex).map_err(wrong)?),
                    (None, Content::Elem(e)) => memory.add_elems(e, &elements(text).map_err(wrong)?),
                    (None, Content::Quant(f)) => return Err(wrong(format!("blocks of {} are given as bytes", f.name))),
                };
                if let (true, Content::Elem(e)) = (view.access.writes(), view.content) {
                    outputs.push((slot, id, e));
                }
                Arg::buffer(id)
            }
        });
    }
    match run(k, &args, &mut memory, options) {
        Err(fault) => Ok(vec![format!("fault: {}", Names::new(k).translate(&fault.to_string()))]),
        Ok(_) => Ok(outputs.into_iter().map(|(slot, id, e)| show(slot, e, &memory.elems(id, e))).collect()),
    }
}

fn show(slot: usize, elem: Elem, elements: &[f64]) -> String {
    let text = |x: &f64| match elem {
        // The shortest decimal of an f32 is shorter than that of the same f64.
        Elem::F32 => format!("{:?}", *x as f32),
        e if e.is_float() => format!("{x:?}"),
        _ => format!("{x}"),
    };
    format!("{slot} = {}", elements.iter().map(text).collect::<Vec<_>>().join(" "))
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn count(text: &str) -> Result<usize, String> {
    let n = text.parse().ok().filter(|&n| n <= ELEMENTS);
    n.ok_or_else(|| format!("{text:?} is no number of elements up to {ELEMENTS}"))
}

fn elements(text: &str) -> Result<Vec<f64>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["fill", n, x] => Ok(vec![number(x)?; count(n)?]),
        ["iota", n] => Ok((0..count(n)?).map(|i| i as f64).collect()),
        list => list.iter().map(|x| number(x)).collect(),
    }
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|p| p.len() == 2);
        text.and_then(|p| u8::from_str_radix(p, 16).ok()).ok_or_else(|| "bytes are pairs of hex digits".to_string())
    };
    digits.chunks(2).map(byte).collect()
}
