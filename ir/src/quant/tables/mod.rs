//! Tables that codes are looked up in.

mod iq1;
mod iq2;
mod iq3;

/// A constant table of a power of two of entries.
#[derive(Eq)]
pub struct Table {
    /// Its name in the text form.
    pub name: &'static str,
    /// Bytes of an entry, one an element: 1, 4 or 8.
    pub width: u32,
    /// The entries, one behind another.
    pub bytes: &'static [u8],
}

impl Table {
    /// The table of that name.
    pub fn from_name(name: &str) -> Option<&'static Table> {
        TABLES.iter().copied().find(|t| t.name == name)
    }

    /// The number of entries.
    pub fn entries(&self) -> u32 {
        self.bytes.len() as u32 / self.width
    }

    /// An entry's bytes.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn entry(&self, i: usize) -> &'static [u8] {
        let width = self.width as usize;
        &self.bytes[i * width..(i + 1) * width]
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        self.name == other.name
    }
}

impl std::hash::Hash for Table {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All tables.
pub static TABLES: &[&Table] = &[&PARITY, &IQ4NL, &E2M1, &IQ1S, &IQ2XXS, &IQ2XS, &IQ2S, &IQ3XXS, &IQ3S];

/// The bytes of signed numbers.
const fn signed<const N: usize>(values: [i8; N]) -> [u8; N] {
    let mut out = [0; N];
    let mut i = 0;
    while i < N {
        out[i] = values[i] as u8;
        i += 1;
    }
    out
}

/// The bytes of a grid: each entry packs the numbers of `WIDTH` values, `bits` wide, the first one lowest. `BYTES` is
/// `WIDTH` times the number of entries.
const fn grid<const WIDTH: usize, const BYTES: usize>(packed: &[u16], bits: u32, values: &[u8]) -> [u8; BYTES] {
    assert!(BYTES == WIDTH * packed.len());
    let mut out = [0; BYTES];
    let mut i = 0;
    while i < BYTES {
        let number = packed[i / WIDTH] >> (bits * (i % WIDTH) as u32) & ((1 << bits) - 1);
        out[i] = values[number as usize];
        i += 1;
    }
    out
}

/// Magnitudes of the IQ2 grids.
const IQ2_VALUES: &[u8] = &[8, 25, 43];

/// Bit 7 set for numbers with an odd number of bits set.
pub static PARITY: Table =
    Table { name: "parity", width: 1, bytes: &[0, 128, 128, 0, 128, 0, 0, 128, 128, 0, 0, 128, 0, 128, 128, 0] };

/// The codes of IQ4_NL and IQ4_XS.
pub static IQ4NL: Table = Table {
    name: "iq4nl",
    width: 1,
    bytes: &signed([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]),
};

/// Twice the values of E2M1, a float of 4 bits (OCP Microscaling Formats, 5.3.3): codes of MXFP4 and NVFP4.
pub static E2M1: Table =
    Table { name: "e2m1", width: 1, bytes: &signed([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]) };

/// Codes of IQ1_S and IQ1_M for g = -1, 0, 1 and a shift of +1/8: 8 g + 1, above the format's zero of 9. Exclusive or with
/// 2 makes it 8 g - 1.
pub static IQ1S: Table = Table { name: "iq1s", width: 8, bytes: &grid::<8, 16384>(&iq1::IQ1S, 2, &[2, 10, 18]) };

/// Magnitudes of IQ2_XXS.
pub static IQ2XXS: Table = Table { name: "iq2xxs", width: 8, bytes: &grid::<8, 2048>(&iq2::IQ2XXS, 2, IQ2_VALUES) };

/// Magnitudes of IQ2_XS.
pub static IQ2XS: Table = Table { name: "iq2xs", width: 8, bytes: &grid::<8, 4096>(&iq2::IQ2XS, 2, IQ2_VALUES) };

/// Magnitudes of IQ2_S.
pub static IQ2S: Table = Table { name: "iq2s", width: 8, bytes: &grid::<8, 8192>(&iq2::IQ2S, 2, IQ2_VALUES) };

/// Magnitudes of IQ3_XXS.
pub static IQ3XXS: Table =
    Table { name: "iq3xxs", width: 4, bytes: &grid::<4, 1024>(&iq3::IQ3XXS, 3, &[4, 12, 20, 28, 36, 44, 52, 62]) };

/// Magnitudes of IQ3_S.
pub static IQ3S: Table =
    Table { name: "iq3s", width: 4, bytes: &grid::<4, 2048>(&iq3::IQ3S, 3, &[1, 3, 5, 7, 9, 11, 13, 15]) };

#[cfg(test)]
mod tests {
    use super::{TABLES, Table};

    #[test]
    fn tables_have_a_power_of_two_of_entries_and_are_found_by_name() {
        for t in TABLES {
            assert!([1, 4, 8].contains(&t.width) && t.entries().is_power_of_two(), "{}", t.name);
            assert_eq!(t.entries() * t.width, t.bytes.len() as u32, "{}", t.name);
            assert_eq!(Table::from_name(t.name), Some(*t));
        }
    }

    #[test]
    fn grids_hold_what_can_be_negated_without_a_carry() {
        for t in TABLES.iter().filter(|t| t.width > 1) {
            assert!(t.bytes.iter().all(|&b| (1..128).contains(&b)), "{}", t.name);
        }
    }
}
