//! `// test: interpret` and `// test: run`: runs kernels in the interpreter, or compiled on this machine.
//!
//! ```text
//! // test: interpret
//! // test: run
//! // run: sum; 1 2 3 4; fill 1 0
//! // out: 1 = 10.0
//! ```
//!
//! A `run:` line has the kernel's name and then an argument for each slot, with `;` between them. A scalar's is its
//! value. A view's are its elements, or `fill N X` (N times X), `iota N` (0, 1, … N - 1) or `bytes HEX…`, as quantised
//! blocks need. Each run gives an `out:` line for each view that is written, slot and elements, or one with the fault.
//! With the argument `exact` the interpreter rounds as a device does. `run` takes the name of a target that this machine
//! can run (`host` without one); what the interpreter calls a fault is not run.

use super::commands::verified;
use super::{Line, Outcome, TestFile};
use crate::host::{Buffers, Flush, HostKernel, Input, decode, encode, interpret};
use hrx_compiler::Target;
use hrx_ir::tile::interp::Options;
use hrx_ir::tile::print::Names;
use hrx_ir::tile::{Content, Elem, Kernel, Param};

/// The most elements that `fill` and `iota` make.
const ELEMENTS: usize = 1 << 20;

/// Runs the command `interpret`.
pub(super) fn interpreted(file: &TestFile, args: &str) -> Result<Outcome, String> {
    let options = match args {
        "" => Options::default(),
        "exact" => Options::exact(),
        other => return Err(format!("the argument is `exact` or nothing, not {other:?}")),
    };
    each_run(file, |kernel, inputs| {
        let fault = |e: &dyn std::fmt::Display| format!("fault: {}", Names::new(kernel).translate(&e.to_string()));
        Ok(interpret(kernel, inputs, &options).map_err(|e| fault(&e)))
    })
}

/// Runs the command `run`.
pub(super) fn compiled(file: &TestFile, args: &str) -> Result<Outcome, String> {
    let target = Target::from_name(if args.is_empty() { "host" } else { args }).map_err(|e| e.to_string())?;
    each_run(file, |kernel, inputs| {
        interpret(kernel, inputs, &Options::exact()).map_err(|e| format!("not run, as {e}"))?;
        let compiled = HostKernel::new(kernel, &target).map_err(|e| e.to_string())?;
        compiled.run(inputs, Flush::End).map(Ok)
    })
}

/// Runs each `run:` line by `run`, which gives the buffers after it, or the line of a fault.
fn each_run(
    file: &TestFile,
    run: impl Fn(&Kernel, &[Input]) -> Result<Result<Buffers, String>, String>,
) -> Result<Outcome, String> {
    let (kernels, runs) = (verified(file)?, file.lines("run"));
    if runs.is_empty() {
        return Err("the head has no line `// run: KERNEL; ARGUMENT; …`".into());
    }
    let mut lines = Vec::new();
    for line in runs {
        let wrong = |e: String| format!("run: {line}: {e}");
        let mut parts = line.split(';').map(str::trim);
        let name = parts.next().unwrap_or("");
        let kernel = kernels.iter().find(|k| k.name == name).ok_or_else(|| format!("run: no kernel {name:?}"))?;
        let args: Vec<&str> = parts.collect();
        let inputs = inputs(kernel, &args).map_err(wrong)?;
        match run(kernel, &inputs).map_err(wrong)? {
            Ok(buffers) => lines.extend(outputs(kernel, &buffers)),
            Err(fault) => lines.push(fault),
        }
    }
    let lines = lines.into_iter().map(|decisive| Line { decisive, prose: String::new() }).collect();
    Ok(Outcome::Lines { key: "out", lines })
}

/// The inputs that the arguments of a `run:` line say.
fn inputs(k: &Kernel, texts: &[&str]) -> Result<Vec<Input>, String> {
    if texts.len() != k.params.len() {
        return Err(format!("{} arguments for {} slots", texts.len(), k.params.len()));
    }
    let input = |(slot, (param, text)): (usize, (&Param, &&str))| {
        let wrong = |e: String| format!("slot {slot}: {e}");
        Ok(match *param {
            Param::Scalar(v) if k.ty(v).elem == Elem::F32 => Input::F32(number(text).map_err(wrong)? as f32),
            Param::Scalar(_) => Input::I32(text.parse().map_err(|_| wrong(format!("{text:?} is no i32")))?),
            Param::View(m) => Input::Bytes(match (text.strip_prefix("bytes"), k.views[m].content) {
                (Some(hex), _) => bytes(hex).map_err(wrong)?,
                (None, Content::Elem(e)) => encode(e, &elements(text).map_err(wrong)?),
                (None, Content::Quant(f)) => return Err(wrong(format!("blocks of {} are given as bytes", f.name))),
            }),
        })
    };
    k.params.iter().zip(texts).enumerate().map(input).collect()
}

/// A line for each view that the kernel writes.
fn outputs(k: &Kernel, buffers: &Buffers) -> Vec<String> {
    let line = |(slot, param): (usize, &Param)| {
        let Param::View(m) = *param else { return None };
        match (k.views[m].access.writes(), k.views[m].content, &buffers[slot]) {
            (true, Content::Elem(e), Some(bytes)) => Some(show(slot, e, &decode(e, bytes))),
            _ => None,
        }
    };
    k.params.iter().enumerate().filter_map(line).collect()
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
