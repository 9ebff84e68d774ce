//! What instructions of x86-64 do, by their mnemonics and operands in AT&T's syntax.

use serde::Serialize;

/// Kinds of instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Dot products of bytes, of 16-bit integers or of bfloat16.
    Dot,
    /// Fused multiply-adds.
    Fma,
    /// Other arithmetic on floats.
    Float,
    /// Conversions between types, and widening of integers.
    Convert,
    /// Arithmetic and logic on vectors of integers.
    VectorInt,
    /// Moves between the lanes of vectors.
    Shuffle,
    /// Loads of vectors, and of one element for all lanes.
    VectorLoad,
    /// Stores of vectors.
    VectorStore,
    /// Copies of vector registers, and masks.
    Move,
    /// Hints to caches.
    Prefetch,
    /// Arithmetic, loads and stores of general registers.
    Scalar,
    /// Jumps, calls and returns.
    Branch,
}

impl Class {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Dot => "dot",
            Class::Fma => "fma",
            Class::Float => "float",
            Class::Convert => "convert",
            Class::VectorInt => "vector int",
            Class::Shuffle => "shuffle",
            Class::VectorLoad => "vector load",
            Class::VectorStore => "vector store",
            Class::Move => "move",
            Class::Prefetch => "prefetch",
            Class::Scalar => "scalar",
            Class::Branch => "branch",
        }
    }

    /// That of an instruction.
    pub fn of(text: &str) -> Class {
        let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
        if name.starts_with("vmov") || name.starts_with("vbroadcast") || name.starts_with("vpbroadcast") {
            return match memory(operands) {
                Some(Memory { written: true, .. }) => Class::VectorStore,
                Some(_) => Class::VectorLoad,
                None if name.starts_with("vmov") && !name.contains("dup") => Class::Move,
                None => Class::Shuffle,
            };
        }
        RULES.iter().find(|(start, _)| name.starts_with(start)).map_or(Class::Scalar, |&(_, class)| class)
    }
}

/// An access to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Whether it is the last operand, which is the result.
    pub written: bool,
    /// Whether its base is the stack pointer.
    pub stack: bool,
}

/// The access to memory among operands.
pub fn memory(operands: &str) -> Option<Memory> {
    let open = operands.find('(')?;
    let close = operands[open..].find(')')? + open;
    // What follows is a mask of the result at the most.
    let written = !operands[close..].contains(',');
    Some(Memory { written, stack: operands[open + 1..close].starts_with("%rsp") })
}

/// The first that fits decides.
const RULES: &[(&str, Class)] = &[
    ("vpdpbusd", Class::Dot),
    ("vpdpwssd", Class::Dot),
    ("vpdpb", Class::Dot),
    ("vpmaddubsw", Class::Dot),
    ("vpmaddwd", Class::Dot),
    ("vdpbf16ps", Class::Dot),
    ("vfmadd", Class::Fma),
    ("vfmsub", Class::Fma),
    ("vfnmadd", Class::Fma),
    ("vfnmsub", Class::Fma),
    ("vcvt", Class::Convert),
    ("vpmovzx", Class::Convert),
    ("vpmovsx", Class::Convert),
    ("vpack", Class::Convert),
    ("vpmov", Class::Convert),
    ("vperm", Class::Shuffle),
    ("vpshuf", Class::Shuffle),
    ("vshuf", Class::Shuffle),
    ("vpunpck", Class::Shuffle),
    ("vunpck", Class::Shuffle),
    ("vpblend", Class::Shuffle),
    ("vblend", Class::Shuffle),
    ("vinsert", Class::Shuffle),
    ("vpinsr", Class::Shuffle),
    ("vextract", Class::Shuffle),
    ("vpextr", Class::Shuffle),
    ("vpalignr", Class::Shuffle),
    ("valign", Class::Shuffle),
    ("vhadd", Class::Float),
    ("vadd", Class::Float),
    ("vsub", Class::Float),
    ("vmul", Class::Float),
    ("vdiv", Class::Float),
    ("vmax", Class::Float),
    ("vmin", Class::Float),
    ("vsqrt", Class::Float),
    ("vrsqrt", Class::Float),
    ("vrcp", Class::Float),
    ("vround", Class::Float),
    ("vrndscale", Class::Float),
    ("vcmp", Class::Float),
    ("vucomis", Class::Float),
    ("vcomis", Class::Float),
    ("vgather", Class::VectorLoad),
    ("vpgather", Class::VectorLoad),
    ("vscatter", Class::VectorStore),
    ("vzero", Class::Move),
    ("vxor", Class::VectorInt),
    ("vand", Class::VectorInt),
    ("vor", Class::VectorInt),
    ("vtest", Class::VectorInt),
    ("vp", Class::VectorInt),
    ("k", Class::Move),
    ("prefetch", Class::Prefetch),
    ("j", Class::Branch),
    ("call", Class::Branch),
    ("ret", Class::Branch),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_from_mnemonics_and_operands() {
        let cases = [
            ("vpdpbusd %zmm1, %zmm2, %zmm3", Class::Dot),
            ("vpmaddubsw (%rax), %ymm2, %ymm3", Class::Dot),
            ("vfmadd231ps %zmm1, %zmm2, %zmm3", Class::Fma),
            ("vmulps %ymm1, %ymm2, %ymm3", Class::Float),
            ("vcvtdq2ps %zmm1, %zmm2", Class::Convert),
            ("vpmovzxbd (%rsi), %zmm1", Class::Convert),
            ("vpermb %zmm1, %zmm2, %zmm3", Class::Shuffle),
            ("vpsrlw $4, %zmm1, %zmm2", Class::VectorInt),
            ("vmovups 64(%rsi,%rax,4), %zmm1", Class::VectorLoad),
            ("vmovups %zmm1, 64(%rdi)", Class::VectorStore),
            ("vmovups %zmm1, 64(%rdi) {%k1}", Class::VectorStore),
            ("vmovaps %zmm1, %zmm2", Class::Move),
            ("vpbroadcastd 4(%rdx), %zmm4", Class::VectorLoad),
            ("vbroadcastss %xmm1, %zmm4", Class::Shuffle),
            ("kmovw %eax, %k1", Class::Move),
            ("addq $64, %rax", Class::Scalar),
            ("jne -64", Class::Branch),
            ("retq", Class::Branch),
            ("prefetcht0 (%rax)", Class::Prefetch),
        ];
        for (text, class) in cases {
            assert_eq!(Class::of(text), class, "{text}");
        }
        assert_eq!(memory("%zmm1, -64(%rsp)"), Some(Memory { written: true, stack: true }));
        assert_eq!(memory("128(%rsp), %zmm2"), Some(Memory { written: false, stack: true }));
        assert_eq!(memory("(%rax,%rcx,8), %zmm0, %zmm2"), Some(Memory { written: false, stack: false }));
        assert_eq!(memory("%zmm1, %zmm2"), None);
    }
}
