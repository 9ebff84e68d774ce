//! The tensor types of ggml: id in the file, name, and size of a block.
//!
//! A row of a tensor is a sequence of blocks of [`block_elements`](GgmlType::block_elements) elements, each
//! [`block_bytes`](GgmlType::block_bytes) bytes. All of ggml's types are listed, so that a file which uses one that no
//! kernel reads is refused by name. Source: the type ids and block layouts of ggml, checked against the tensor offsets
//! of the golden files.

use std::fmt;

macro_rules! ggml_types {
    ($($variant:ident = $id:literal, $name:literal, $elements:literal, $bytes:literal;)*) => {
        /// A tensor type of ggml. Its value is the id that the file stores.
        #[allow(non_camel_case_types, missing_docs, reason = "the names are ggml's, and name() documents them")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum GgmlType {
            $($variant = $id,)*
        }

        impl GgmlType {
            /// Every type, in order of its id.
            pub const ALL: &'static [GgmlType] = &[$(GgmlType::$variant,)*];

            /// The type with this id, if ggml has one.
            pub fn from_id(id: u32) -> Option<GgmlType> {
                match id {
                    $($id => Some(GgmlType::$variant),)*
                    _ => None,
                }
            }

            const fn row(self) -> (&'static str, u32, u32) {
                match self {
                    $(GgmlType::$variant => ($name, $elements, $bytes),)*
                }
            }
        }
    };
}

// variant = id, name, elements of a block, bytes of a block
ggml_types! {
    F32 = 0, "F32", 1, 4;
    F16 = 1, "F16", 1, 2;
    Q4_0 = 2, "Q4_0", 32, 18;
    Q4_1 = 3, "Q4_1", 32, 20;
    Q5_0 = 6, "Q5_0", 32, 22;
    Q5_1 = 7, "Q5_1", 32, 24;
    Q8_0 = 8, "Q8_0", 32, 34;
    Q8_1 = 9, "Q8_1", 32, 36;
    Q2_K = 10, "Q2_K", 256, 84;
    Q3_K = 11, "Q3_K", 256, 110;
    Q4_K = 12, "Q4_K", 256, 144;
    Q5_K = 13, "Q5_K", 256, 176;
    Q6_K = 14, "Q6_K", 256, 210;
    Q8_K = 15, "Q8_K", 256, 292;
    IQ2_XXS = 16, "IQ2_XXS", 256, 66;
    IQ2_XS = 17, "IQ2_XS", 256, 74;
    IQ3_XXS = 18, "IQ3_XXS", 256, 98;
    IQ1_S = 19, "IQ1_S", 256, 50;
    IQ4_NL = 20, "IQ4_NL", 32, 18;
    IQ3_S = 21, "IQ3_S", 256, 110;
    IQ2_S = 22, "IQ2_S", 256, 82;
    IQ4_XS = 23, "IQ4_XS", 256, 136;
    I8 = 24, "I8", 1, 1;
    I16 = 25, "I16", 1, 2;
    I32 = 26, "I32", 1, 4;
    I64 = 27, "I64", 1, 8;
    F64 = 28, "F64", 1, 8;
    IQ1_M = 29, "IQ1_M", 256, 56;
    BF16 = 30, "BF16", 1, 2;
    TQ1_0 = 34, "TQ1_0", 256, 54;
    TQ2_0 = 35, "TQ2_0", 256, 66;
    MXFP4 = 39, "MXFP4", 32, 17;
    NVFP4 = 40, "NVFP4", 64, 36;
    Q1_0 = 41, "Q1_0", 128, 18;
    Q2_0 = 42, "Q2_0", 64, 18; // ggml's; a fork gave the same id to blocks of 128 elements in 34 bytes
}

/// Ids that ggml once gave out and took back: named in the error, never read.
const REMOVED: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

impl GgmlType {
    /// The id stored in the file.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// ggml's name in capitals, e.g. `Q4_K`.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Elements of one block; a row's length is a multiple of it.
    pub const fn block_elements(self) -> u64 {
        self.row().1 as u64
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> u64 {
        self.row().2 as u64
    }

    /// Bytes of `elements` elements, or `None` where they aren't whole blocks or the size overflows.
    pub fn bytes_for(self, elements: u64) -> Option<u64> {
        if !elements.is_multiple_of(self.block_elements()) {
            return None;
        }
        (elements / self.block_elements()).checked_mul(self.block_bytes())
    }

    /// What an id that [`from_id`](GgmlType::from_id) refuses is: a removed type's name, or just the number.
    pub(super) fn describe_unknown(id: u32) -> String {
        match REMOVED.iter().find(|(removed, _)| *removed == id) {
            Some((_, name)) => {
                format!("type {id} ({name}, which ggml removed: quantise the model again)")
            }
            None => format!("unknown type {id}"),
        }
    }

    /// The known types as `name=id` pairs for an error.
    pub(super) fn list() -> String {
        let known: Vec<String> = GgmlType::ALL.iter().map(|t| format!("{t}={}", t.id())).collect();
        known.join(", ")
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
