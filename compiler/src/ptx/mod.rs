//! Reads PTX: what a launch has to know of its kernels, and their instructions.
//!
//! What the text can't say is in a comment of ours: the bytes of LDS that a launch adds (`DYNAMIC`), where a kernel needs
//! more than code may declare. Numbers of registers are the driver's assembler's business; the text's are not those.

mod class;
mod report;

pub use class::Class;
pub use report::{KernelReport, Loop, Mix, Report, report};

use crate::CompileError;

/// Starts the comment that says how much LDS a launch adds: then come the kernel's name and the bytes.
pub(crate) const DYNAMIC: &str = "// launches add LDS:";

/// A module of PTX.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ptx {
    /// What it is for, as `sm_90`.
    pub target: String,
    /// The version of PTX: major, minor. A driver takes what is not newer than itself.
    pub version: [u32; 2],
    /// Its kernels.
    pub kernels: Vec<PtxKernel>,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PtxParam {
    /// Its bytes, which it is aligned to: 8 of an address, 4 of a scalar.
    pub bytes: u32,
    /// Whether it is an address.
    pub address: bool,
}

/// A kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PtxKernel {
    /// The name to ask the driver for.
    pub name: String,
    /// Its parameters in order.
    pub params: Vec<PtxParam>,
    /// Threads of a workgroup, which are along x.
    pub threads: u32,
    /// Bytes of LDS that the code declares.
    pub static_shared: u32,
    /// Bytes of LDS that a launch adds.
    pub dynamic_shared: u32,
    /// Virtual registers of 32 bits, of 64 bits, of 16 bits, and predicates.
    pub registers: Registers,
    /// The instructions in order, each the text before its semicolon.
    pub instructions: Vec<PtxInst>,
    /// Labels, and which instruction comes behind them.
    pub labels: Vec<(String, usize)>,
}

/// An instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PtxInst {
    /// The predicate that it depends on, with its sign, as `%p1` or `!%p1`.
    pub predicate: Option<String>,
    /// Mnemonic and operands.
    pub text: String,
}

impl PtxInst {
    /// The mnemonic.
    pub fn name(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }
}

/// How many virtual registers are declared, by size.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct Registers {
    /// Of 32 bits, floats among them.
    pub words: u32,
    /// Of 64 bits.
    pub doubles: u32,
    /// Of 16 bits and less.
    pub halves: u32,
    /// Predicates.
    pub predicates: u32,
}

impl Ptx {
    /// Reads a module: text, with or without a 0 behind it.
    ///
    /// # Errors
    /// If it is not text, lacks what every module begins with, or a kernel does not say how many threads it has.
    pub fn read(bytes: &[u8]) -> Result<Ptx, CompileError> {
        let refused = |reason: String| CompileError::CodeObject { reason };
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|_| refused("no PTX: it is not text".into()))?;
        Reader::default().module(text).map_err(|reason| refused(format!("PTX: {reason}")))
    }

    /// Whether bytes look like PTX: text with its first directive.
    pub fn is(bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]);
        text.lines()
            .map(str::trim)
            .find(|l| !l.is_empty() && !l.starts_with("//"))
            .is_some_and(|l| l.strip_prefix(".version").is_some_and(|rest| rest.starts_with([' ', '\t'])))
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&PtxKernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}

/// State of reading a module line by line.
#[derive(Default)]
struct Reader {
    target: Option<String>,
    version: Option<[u32; 2]>,
    kernels: Vec<PtxKernel>,
    /// LDS of the module, which each of its kernels has.
    shared: u32,
    /// What comments say that launches add: names and bytes.
    dynamic: Vec<(String, u32)>,
    /// Whether lines are of a kernel's body, and how deep braces are open in it.
    depth: u32,
    /// Whether the last instruction goes on in the next line.
    unfinished: bool,
}

impl Reader {
    fn module(mut self, text: &str) -> Result<Ptx, String> {
        for (number, line) in text.lines().enumerate() {
            self.line(line).map_err(|e| format!("line {}: {e}", number + 1))?;
        }
        let mut kernels = self.kernels;
        for k in &mut kernels {
            k.static_shared = k.static_shared.checked_add(self.shared).ok_or("more LDS than there is")?;
            if let Some((_, bytes)) = self.dynamic.iter().find(|(name, _)| *name == k.name) {
                k.dynamic_shared = *bytes;
            }
            if k.threads == 0 {
                return Err(format!("{} does not say how many threads a workgroup has", k.name));
            }
        }
        Ok(Ptx { target: self.target.ok_or("no .target")?, version: self.version.ok_or("no .version")?, kernels })
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix(DYNAMIC) {
            let (name, bytes) = rest.trim().split_once(' ').ok_or("no bytes of LDS")?;
            self.dynamic.push((name.into(), number(bytes)?));
            return Ok(());
        }
        let line = line.split("//").next().unwrap_or_default().trim();
        if self.unfinished {
            let last =
                self.kernels.last_mut().and_then(|k| k.instructions.last_mut()).ok_or("nothing to go on with")?;
            self.unfinished = !line.ends_with(';');
            last.text = format!("{} {}", last.text, line.trim_end_matches(';').trim_end());
            return Ok(());
        }
        match line {
            "" => return Ok(()),
            "{" => {
                self.depth += 1;
                return Ok(());
            }
            "}" => {
                self.depth = self.depth.checked_sub(1).ok_or("a brace is closed that was not opened")?;
                return Ok(());
            }
            _ => {}
        }
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        match (word, self.depth) {
            (".version", 0) => {
                let (major, minor) = rest.trim().split_once('.').ok_or("a version without a dot")?;
                self.version = Some([number(major)?, number(minor)?]);
            }
            (".target", 0) => self.target = Some(rest.split(',').next().unwrap_or_default().trim().into()),
            (".shared", _) => {
                let bytes = declared(rest)?;
                self.shared = self.shared.checked_add(bytes).ok_or("more LDS than there is")?;
            }
            (".reqntid", 0) => {
                let kernel = self.kernels.last_mut().ok_or("threads of no kernel")?;
                let sizes = rest.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
                if sizes.iter().skip(1).any(|&n| n != 1) {
                    return Err(format!("a workgroup of {sizes:?}: threads are along x"));
                }
                kernel.threads = *sizes.first().ok_or("no number of threads")?;
            }
            (".param", 0) => {
                if let Some(kernel) = self.kernels.last_mut() {
                    kernel.params.push(param(rest)?);
                }
            }
            (".reg", 1..) => {
                let kernel = self.kernels.last_mut().ok_or("registers of no kernel")?;
                registers(rest, &mut kernel.registers)?;
            }
            _ if self.depth == 0 => {
                if let Some((_, after)) = line.split_once(".entry") {
                    let name = after.trim().split(['(', ' ']).next().unwrap_or_default();
                    self.kernels.push(PtxKernel {
                        name: name.into(),
                        params: Vec::new(),
                        threads: 0,
                        static_shared: 0,
                        dynamic_shared: 0,
                        registers: Registers::default(),
                        instructions: Vec::new(),
                        labels: Vec::new(),
                    });
                }
            }
            // Directives.
            _ if word.starts_with('.') => {}
            _ => {
                let kernel = self.kernels.last_mut().ok_or("instructions of no kernel")?;
                if let Some(label) = line.strip_suffix(':') {
                    kernel.labels.push((label.into(), kernel.instructions.len()));
                    return Ok(());
                }
                let (predicate, text) = match word.strip_prefix('@') {
                    Some(p) => (Some(p.into()), rest.trim()),
                    None => (None, line),
                };
                self.unfinished = !text.ends_with(';');
                let text = text.trim_end_matches(';').trim_end().into();
                kernel.instructions.push(PtxInst { predicate, text });
            }
        }
        Ok(())
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.trim().trim_end_matches(';').parse().map_err(|_| format!("{text:?} is no number"))
}

/// Bytes of a declared array: `.align 16 .b8 name[1024];`.
fn declared(rest: &str) -> Result<u32, String> {
    let open = rest.rfind('[').ok_or("a declaration of no array")?;
    let inside = rest[open + 1..].split(']').next().unwrap_or_default();
    if !rest.contains(".b8 ") {
        return Err(format!("an array of other elements than bytes: {rest}"));
    }
    number(inside)
}

/// A parameter: `.u64 .ptr .global .align 16 name,`.
fn param(rest: &str) -> Result<PtxParam, String> {
    let ty = rest.split_whitespace().next().unwrap_or_default();
    let bytes = match ty {
        ".u64" | ".b64" | ".s64" | ".f64" => 8,
        ".u32" | ".b32" | ".s32" | ".f32" => 4,
        _ => return Err(format!("a parameter of type {ty}")),
    };
    Ok(PtxParam { bytes, address: rest.contains(".ptr") || ty == ".u64" })
}

/// Registers: `.b32 %r<12>;`.
fn registers(rest: &str, to: &mut Registers) -> Result<(), String> {
    let ty = rest.split_whitespace().next().unwrap_or_default();
    // Names beyond the first are the numbers below that in brackets, of which LLVM leaves 0 out.
    let count = match rest.split_once('<') {
        Some((_, n)) => number(n.split('>').next().unwrap_or_default())?.saturating_sub(1),
        None => 1,
    };
    match ty {
        ".pred" => to.predicates += count,
        ".b64" | ".u64" | ".s64" | ".f64" => to.doubles += count,
        ".b32" | ".u32" | ".s32" | ".f32" => to.words += count,
        _ => to.halves += count,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//
// Made by hand
//
.version 7.8
.target sm_90
.address_size 64
// launches add LDS: sums 65536
.shared .align 64 .b8 sums_lds[1024];
\t// .globl\tsums
.visible .entry sums(
\t.param .u32 sums_param_0,
\t.param .u64 .ptr .global .align 16 sums_param_1
)
.reqntid 64
{
\t.reg .pred \t%p<2>;
\t.reg .b32 \t%r<5>;
\t.reg .b64 \t%rd<3>;
\tld.param.b64 \t%rd1, [sums_param_1];
\tmov.u32 \t%r1, %tid.x;
$L__BB0_1:
\t@%p1 bra \t$L__BB0_1;
\t{
\tdp4a.s32.s32
\t\t%r2, %r3,
\t\t%r4, %r2; // three lines
\t}
\tret;
}
";

    #[test]
    fn what_a_launch_needs_is_read() {
        let bytes = [TEXT.as_bytes(), &[0]].concat();
        assert!(Ptx::is(&bytes));
        let ptx = Ptx::read(&bytes).expect("read");
        assert_eq!((ptx.target.as_str(), ptx.version), ("sm_90", [7, 8]));
        let k = ptx.kernel("sums").expect("the kernel");
        let params = [PtxParam { bytes: 4, address: false }, PtxParam { bytes: 8, address: true }];
        assert_eq!(k.params, params);
        assert_eq!((k.threads, k.static_shared, k.dynamic_shared), (64, 1024, 65536));
        assert_eq!(k.registers, Registers { words: 4, doubles: 2, halves: 0, predicates: 1 });
        let names: Vec<&str> = k.instructions.iter().map(PtxInst::name).collect();
        assert_eq!(names, ["ld.param.b64", "mov.u32", "bra", "dp4a.s32.s32", "ret"]);
        assert_eq!(k.instructions[2].predicate.as_deref(), Some("%p1"));
        assert_eq!(k.labels, [("$L__BB0_1".to_string(), 2)]);
    }

    #[test]
    fn what_is_no_ptx_is_refused_with_a_line() {
        let refused = |text: &str| Ptx::read(text.as_bytes()).expect_err("refused").to_string();
        assert!(!Ptx::is(b"\x7fELF"));
        assert!(refused("").contains("no .target"));
        assert!(refused(&TEXT.replace(".reqntid 64", "")).contains("does not say how many threads"));
        assert!(
            refused(&TEXT.replace(".reqntid 64", ".reqntid 8, 8, 1")).contains("line 14: a workgroup of [8, 8, 1]")
        );
        assert!(refused(&TEXT.replace("[1024]", "[x]")).contains("line 8: \"x\" is no number"));
        assert!(refused(&(TEXT.to_string() + "}")).contains("a brace is closed"));
    }
}
