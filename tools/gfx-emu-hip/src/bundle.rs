//! Images: code objects, and bundles of them, passed as an address without a length.
//!
//! The format of bundles is in clang's documentation, "Clang Offload Bundler": a magic string, the number of entries, and
//! for each its offset, size and name, which ends with the target as `amdgcn-amd-amdhsa--gfx90a:xnack-`.

use crate::state::say;
use crate::status::Status;
use hrx_compiler::target::amd::Chip;
use std::ffi::c_void;
use std::marker::PhantomData;

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";
const ELF: &[u8] = b"\x7fELF";

/// Bytes of an ELF file's header.
const ELF_HEADER: usize = 64;

/// The most entries of a bundle; more are damage.
const MOST_ENTRIES: usize = 1024;

/// An image that a program passes.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    start: *const u8,
    /// Its bytes, where they are known.
    len: Option<usize>,
    _bytes: PhantomData<&'a [u8]>,
}

impl<'a> Image<'a> {
    /// An image of which only the address is known.
    ///
    /// # Safety
    /// The address is null or that of a whole code object, bundle or compressed bundle, which stays for as long as this.
    pub unsafe fn at(address: *const c_void) -> Image<'a> {
        Image { start: address.cast(), len: None, _bytes: PhantomData }
    }

    /// An image of which all bytes are known.
    pub fn of(bytes: &'a [u8]) -> Image<'a> {
        Image { start: bytes.as_ptr(), len: Some(bytes.len()), _bytes: PhantomData }
    }

    fn bytes(&self, at: usize, len: usize) -> Result<&'a [u8], Status> {
        let end = at.checked_add(len).filter(|&end| end <= self.len.unwrap_or(isize::MAX as usize));
        if end.is_none() || self.start.is_null() {
            return Err(Status::INVALID_IMAGE);
        }
        // SAFETY: inside the bytes that are known, or of what the headers of a whole image name.
        Ok(unsafe { std::slice::from_raw_parts(self.start.add(at), len) })
    }

    /// A number of 1 to 8 bytes.
    fn number(&self, at: usize, width: usize) -> Result<usize, Status> {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.bytes(at, width)?);
        Ok(u64::from_le_bytes(bytes) as usize)
    }

    fn starts_with(&self, magic: &[u8]) -> bool {
        self.bytes(0, magic.len()).is_ok_and(|b| b == magic)
    }

    /// The code object for a chip.
    pub fn code_object(&self, chip: &Chip) -> Result<&'a [u8], Status> {
        if self.starts_with(ELF) {
            return self.elf();
        }
        if self.starts_with(COMPRESSED) {
            say("an image is a compressed bundle, which is not read: compile with --no-offload-compress");
            return Err(Status::INVALID_IMAGE);
        }
        if !self.starts_with(MAGIC) {
            return Err(Status::INVALID_IMAGE);
        }
        let entries = self.number(MAGIC.len(), 8)?;
        if entries > MOST_ENTRIES {
            return Err(Status::INVALID_IMAGE);
        }
        let mut targets = Vec::new();
        let mut found: Option<(bool, &[u8])> = None;
        let mut at = MAGIC.len() + 8;
        for _ in 0..entries {
            let [offset, size, length] = [self.number(at, 8)?, self.number(at + 8, 8)?, self.number(at + 16, 8)?];
            let name = String::from_utf8_lossy(self.bytes(at + 24, length)?).into_owned();
            at += 24 + length;
            match fit(&name, chip) {
                None => targets.push(name),
                // The chip's own goes before one for several.
                Some(exact) if found.is_none_or(|(found, _)| exact && !found) => {
                    found = Some((exact, self.bytes(offset, size)?));
                }
                Some(_) => {}
            }
        }
        found.map(|(_, bytes)| bytes).ok_or_else(|| {
            say(&format!("no code for {} in an image; there is: {}", chip.name, targets.join(", ")));
            Status::NO_BINARY_FOR_GPU
        })
    }

    /// An ELF file: as long as what its headers name.
    fn elf(&self) -> Result<&'a [u8], Status> {
        // Class 64, little endian.
        if self.bytes(4, 2)? != [2, 1] {
            return Err(Status::INVALID_IMAGE);
        }
        let (segments, sections) = (self.number(32, 8)?, self.number(40, 8)?);
        let mut sizes = [0; 4];
        for (size, at) in sizes.iter_mut().zip([54, 56, 58, 60]) {
            *size = self.number(at, 2)?;
        }
        let [segment_bytes, segment_count, section_bytes, section_count] = sizes;
        let mut end = ELF_HEADER;
        end = end.max(segments.saturating_add(segment_bytes * segment_count));
        end = end.max(sections.saturating_add(section_bytes * section_count));
        for i in 0..segment_count {
            let at = segments.saturating_add(i * segment_bytes);
            end = end.max(self.number(at.saturating_add(8), 8)?.saturating_add(self.number(at.saturating_add(32), 8)?));
        }
        for i in 0..section_count {
            let at = sections.saturating_add(i * section_bytes);
            // A section of type SHT_NOBITS (8) has no bytes in the file.
            if self.number(at.saturating_add(4), 4)? != 8 {
                let [offset, size] = [self.number(at.saturating_add(24), 8)?, self.number(at.saturating_add(32), 8)?];
                end = end.max(offset.saturating_add(size));
            }
        }
        self.bytes(0, end)
    }
}

/// Whether an entry is for a chip: of its own, or of a generic target that it is a member of.
fn fit(name: &str, chip: &Chip) -> Option<bool> {
    if !name.starts_with("hip") {
        return None;
    }
    let target = name.split(':').next()?;
    let processor = target.rsplit('-').find(|p| !p.is_empty())?;
    // Names of generic targets have dashes themselves.
    let generic = hrx_compiler::target::amd::CHIPS.iter().filter(|c| c.members.contains(&chip.name));
    if processor == chip.name {
        return Some(true);
    }
    generic.into_iter().any(|g| target.ends_with(&format!("-{}", g.name))).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hrx_compiler::target::amd::find;

    /// A bundle with one entry a name, whose bytes are the name's.
    fn bundle(names: &[&str]) -> Vec<u8> {
        let mut head = [MAGIC, &(names.len() as u64).to_le_bytes()].concat();
        let heads: usize = names.iter().map(|n| 24 + n.len()).sum();
        let (mut offset, mut data) = (head.len() + heads, Vec::new());
        for name in names {
            for n in [offset, name.len(), name.len()] {
                head.extend((n as u64).to_le_bytes());
            }
            head.extend(name.as_bytes());
            data.extend(name.as_bytes());
            offset += name.len();
        }
        [head, data].concat()
    }

    fn taken(names: &[&str], chip: &str) -> Result<String, Status> {
        let bytes = bundle(names);
        let found = Image::of(&bytes).code_object(find(chip).expect("a chip"));
        found.map(|b| String::from_utf8_lossy(b).into_owned())
    }

    #[test]
    fn the_entry_for_the_chip_is_taken() {
        let names = [
            "host-x86_64-unknown-linux-gnu-",
            "hipv4-amdgcn-amd-amdhsa--gfx11-generic",
            "hipv4-amdgcn-amd-amdhsa--gfx1100",
            "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-",
        ];
        assert_eq!(taken(&names, "gfx1100").as_deref(), Ok(names[2]));
        assert_eq!(taken(&names, "gfx1151").as_deref(), Ok(names[1]));
        assert_eq!(taken(&names, "gfx90a").as_deref(), Ok(names[3]));
        assert_eq!(taken(&names, "gfx942"), Err(Status::NO_BINARY_FOR_GPU));
        assert_eq!(taken(&names[..1], "gfx1100"), Err(Status::NO_BINARY_FOR_GPU));
    }

    #[test]
    fn other_images_are_refused() {
        let chip = find("gfx1100").expect("a chip");
        let cut = bundle(&["hip-amdgcn-amd-amdhsa--gfx1100"]);
        let class_32 = [ELF, &[1, 1], &[0; 64]].concat();
        for bytes in [&b"CCOB"[..], &[0; 64], &class_32, ELF, b"", &cut[..cut.len() - 1]] {
            assert_eq!(Image::of(bytes).code_object(chip), Err(Status::INVALID_IMAGE));
        }
        // SAFETY: null is refused.
        assert_eq!(unsafe { Image::at(std::ptr::null()) }.code_object(chip), Err(Status::INVALID_IMAGE));
    }

    #[test]
    fn a_code_object_is_as_long_as_its_headers_say() {
        let text = "kernel @k(m0: inout f32[32]) {
            v0: i32 = const 0
            v1: f32[32] = load m0[v0]
            store m0[v0], v1
        }";
        let chip = find("gfx1100").expect("a chip");
        let kernel = hrx_ir::tile::parse_kernel(text).expect("a kernel");
        let object = hrx_compiler::compile(&kernel, &hrx_compiler::Target::Amd(chip)).expect("compiles").object;
        let longer = [object.clone(), vec![0xCC; 100]].concat();
        // SAFETY: a whole code object.
        assert_eq!(unsafe { Image::at(longer.as_ptr().cast()) }.code_object(chip), Ok(&object[..]));
        let cut = &object[..object.len() - 1];
        assert_eq!(Image::of(cut).code_object(chip), Err(Status::INVALID_IMAGE));
    }
}
