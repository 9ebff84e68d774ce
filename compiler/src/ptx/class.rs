//! What instructions of PTX do, by their mnemonics.

use serde::Serialize;

/// Kinds of instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Arithmetic on binary32.
    F32,
    /// Arithmetic on binary16 and bfloat16.
    F16,
    /// Dot products of bytes.
    Dot,
    /// Matrix products.
    Matrix,
    /// Reciprocals, roots, exponentials, logarithms, sines, quotients.
    Special,
    /// Conversions between types.
    Convert,
    /// Comparisons and choices.
    Select,
    /// Moves between lanes.
    Lanes,
    /// Integers and bits.
    Int,
    /// Copies of registers, and packing and unpacking of them.
    Move,
    /// Loads of arguments.
    Argument,
    /// Loads from device memory.
    GlobalLoad,
    /// Stores to device memory.
    GlobalStore,
    /// Copies from device memory to LDS, and waits for them.
    AsyncCopy,
    /// Reads of LDS.
    SharedLoad,
    /// Writes of LDS.
    SharedStore,
    /// Accesses of a lane's own memory.
    Local,
    /// Atomics.
    Atomic,
    /// Barriers.
    Barrier,
    /// Jumps and ends.
    Branch,
    /// All else.
    Other,
}

impl Class {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Class::F32 => "f32",
            Class::F16 => "f16",
            Class::Dot => "dot",
            Class::Matrix => "matrix",
            Class::Special => "special",
            Class::Convert => "convert",
            Class::Select => "select",
            Class::Lanes => "lanes",
            Class::Int => "int",
            Class::Move => "move",
            Class::Argument => "argument",
            Class::GlobalLoad => "global load",
            Class::GlobalStore => "global store",
            Class::AsyncCopy => "async copy",
            Class::SharedLoad => "LDS read",
            Class::SharedStore => "LDS write",
            Class::Local => "local memory",
            Class::Atomic => "atomic",
            Class::Barrier => "barrier",
            Class::Branch => "branch",
            Class::Other => "other",
        }
    }

    /// That of a mnemonic.
    pub fn of(name: &str) -> Class {
        RULES.iter().find(|r| r.fits(name)).map_or(Class::Other, |r| r.class)
    }
}

/// Bytes that an access moves for each lane; nothing where the mnemonic does not say.
pub(super) fn bytes(name: &str) -> Option<u32> {
    let mut count = 1;
    let mut bits = None;
    for part in name.split('.') {
        match part {
            "v2" => count = 2,
            "v4" => count = 4,
            "v8" => count = 8,
            // Matrices: two halves a lane each.
            "x1" => count = 2,
            "x2" => count = 4,
            "x4" => count = 8,
            _ => {
                let digits = part.strip_prefix(['b', 'u', 's', 'f']);
                bits = digits.and_then(|d| d.parse::<u32>().ok()).or(bits);
            }
        }
    }
    bits.map(|b| count * b / 8)
}

/// A mnemonic that starts with one text and ends with, or has, another.
struct Rule {
    start: &'static str,
    part: &'static str,
    class: Class,
}

impl Rule {
    fn fits(&self, name: &str) -> bool {
        name.starts_with(self.start) && (self.part.is_empty() || name.contains(self.part))
    }
}

const fn rule(start: &'static str, part: &'static str, class: Class) -> Rule {
    Rule { start, part, class }
}

/// The first that fits decides.
const RULES: &[Rule] = &[
    rule("mma.", "", Class::Matrix),
    rule("wgmma.", "", Class::Matrix),
    rule("wmma.", "", Class::Matrix),
    rule("ldmatrix.", "", Class::SharedLoad),
    rule("dp4a.", "", Class::Dot),
    rule("dp2a.", "", Class::Dot),
    rule("cp.async", "", Class::AsyncCopy),
    rule("ld.", "param", Class::Argument),
    rule("ld.", "global", Class::GlobalLoad),
    rule("ld.", "shared", Class::SharedLoad),
    rule("ld.", "local", Class::Local),
    rule("st.", "global", Class::GlobalStore),
    rule("st.", "shared", Class::SharedStore),
    rule("st.", "local", Class::Local),
    rule("atom.", "", Class::Atomic),
    rule("red.", "", Class::Atomic),
    rule("bar.", "", Class::Barrier),
    rule("barrier.", "", Class::Barrier),
    rule("shfl.", "", Class::Lanes),
    rule("vote.", "", Class::Lanes),
    rule("redux.", "", Class::Lanes),
    rule("bra", "", Class::Branch),
    rule("ret", "", Class::Branch),
    rule("exit", "", Class::Branch),
    rule("call", "", Class::Branch),
    rule("setp.", "", Class::Select),
    rule("set.", "", Class::Select),
    rule("selp.", "", Class::Select),
    rule("slct.", "", Class::Select),
    rule("cvt.", "", Class::Convert),
    rule("rcp.", "", Class::Special),
    rule("sqrt.", "", Class::Special),
    rule("rsqrt.", "", Class::Special),
    rule("ex2.", "", Class::Special),
    rule("lg2.", "", Class::Special),
    rule("sin.", "", Class::Special),
    rule("cos.", "", Class::Special),
    rule("tanh.", "", Class::Special),
    rule("div.", "f32", Class::Special),
    rule("mov.", "", Class::Move),
    rule("cvta.", "", Class::Int),
    rule("", "f32", Class::F32),
    rule("", "f16", Class::F16),
    rule("", "bf16", Class::F16),
    rule("prmt.", "", Class::Int),
    rule("add.", "", Class::Int),
    rule("sub.", "", Class::Int),
    rule("mul.", "", Class::Int),
    rule("mad.", "", Class::Int),
    rule("div.", "", Class::Int),
    rule("rem.", "", Class::Int),
    rule("min.", "", Class::Int),
    rule("max.", "", Class::Int),
    rule("abs.", "", Class::Int),
    rule("neg.", "", Class::Int),
    rule("and.", "", Class::Int),
    rule("or.", "", Class::Int),
    rule("xor.", "", Class::Int),
    rule("not.", "", Class::Int),
    rule("shl.", "", Class::Int),
    rule("shr.", "", Class::Int),
    rule("shf.", "", Class::Int),
    rule("lop3.", "", Class::Int),
    rule("bfe.", "", Class::Int),
    rule("bfi.", "", Class::Int),
    rule("popc.", "", Class::Int),
    rule("clz.", "", Class::Int),
    rule("brev.", "", Class::Int),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_sizes_follow_from_mnemonics() {
        let cases = [
            ("ld.global.nc.v4.b32", Class::GlobalLoad, Some(16)),
            ("ld.global.b16", Class::GlobalLoad, Some(2)),
            ("st.shared.v2.b32", Class::SharedStore, Some(8)),
            ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", Class::SharedLoad, Some(16)),
            ("ld.param.b64", Class::Argument, Some(8)),
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", Class::Matrix, Some(4)),
            ("dp4a.s32.s32", Class::Dot, Some(4)),
            ("fma.rn.f32", Class::F32, Some(4)),
            ("cvt.f32.f16", Class::Convert, Some(2)),
            ("div.rn.f32", Class::Special, Some(4)),
            ("div.s32", Class::Int, Some(4)),
            ("shfl.sync.bfly.b32", Class::Lanes, Some(4)),
            ("bar.sync", Class::Barrier, None),
            ("ret", Class::Branch, None),
            ("nothing.known", Class::Other, None),
        ];
        for (text, class, size) in cases {
            assert_eq!((Class::of(text), bytes(text)), (class, size), "{text}");
        }
    }
}
