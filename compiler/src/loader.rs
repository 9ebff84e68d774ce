//! Loads a relocatable x86-64 ELF object into memory and makes its kernel callable, without a linker or a file.

use crate::CompileError;
use object::elf::{R_X86_64_32S, R_X86_64_64, R_X86_64_PC32, R_X86_64_PC64, R_X86_64_PLT32};
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionIndex, SectionKind};
use std::collections::HashMap;
use std::ptr::NonNull;

/// The signature of generated kernels: argument slots, program ids, local memory.
type Entry = unsafe extern "C" fn(*const u64, i32, i32, i32, *mut u8);

/// More than any kernel needs: a bound on what a damaged object can make the loader allocate.
const MAX_IMAGE: u64 = 64 << 20;

/// A kernel's machine code in executable memory.
pub struct LoadedKernel {
    image: Image,
    entry: Entry,
}

// SAFETY: the image is never written after loading, and generated code keeps no state of its own.
unsafe impl Send for LoadedKernel {}
// SAFETY: as above; calls from several threads touch only what their arguments point to.
unsafe impl Sync for LoadedKernel {}

/// An anonymous mapping, unmapped when dropped.
struct Image {
    base: NonNull<u8>,
    len: usize,
}

impl Image {
    fn new(len: usize) -> std::io::Result<Image> {
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match NonNull::new(p.cast::<u8>()) {
            Some(base) if p != libc::MAP_FAILED => Ok(Image { base, len }),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is readable and writable until `seal`, this long, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }

    /// Takes the right to write away and gives the right to execute.
    fn seal(&self) -> std::io::Result<()> {
        // SAFETY: the range is exactly the mapping.
        let rc = unsafe { libc::mprotect(self.base.as_ptr().cast(), self.len, libc::PROT_READ | libc::PROT_EXEC) };
        if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl LoadedKernel {
    /// Loads an object made by [`crate::compile`] and finds the function called `name` in it.
    ///
    /// # Errors
    /// If the bytes are no x86-64 object, hold a relocation or symbol that kernels don't have, or lack the function.
    /// Bytes from outside must have been authenticated before (the cache does): code is only as good as its source.
    pub fn load(object_bytes: &[u8], name: &str) -> Result<LoadedKernel, CompileError> {
        load(object_bytes, name).map_err(|reason| CompileError::Object { kernel: name.into(), reason })
    }

    /// Bytes of executable memory, rounded to pages.
    pub fn image_bytes(&self) -> usize {
        self.image.len
    }

    /// Runs one program of the kernel's grid.
    ///
    /// # Safety
    /// `slots` points to an argument for each of the kernel's parameters: pointers to memory that the kernel may
    /// access as its views say for all program ids of its grid, scalars in the low bits. `local` points to as many
    /// bytes as the kernel's local views take, aligned to 64. No other thread writes what the program reads or writes.
    pub unsafe fn call(&self, slots: *const u64, ids: [i32; 3], local: *mut u8) {
        // SAFETY: the entry has this signature by construction; the rest is the caller's promise.
        unsafe { (self.entry)(slots, ids[0], ids[1], ids[2], local) }
    }
}

fn load(object_bytes: &[u8], name: &str) -> Result<LoadedKernel, String> {
    let file = object::File::parse(object_bytes).map_err(|e| e.to_string())?;
    if file.architecture() != object::Architecture::X86_64 || file.kind() != object::ObjectKind::Relocatable {
        return Err(format!("not a relocatable x86-64 object but {:?} for {:?}", file.kind(), file.architecture()));
    }
    let mut offsets: HashMap<SectionIndex, u64> = HashMap::new();
    let mut end = 0u64;
    for section in file.sections().filter(|s| is_loaded(s.kind())) {
        let align = section.align().max(1);
        if !align.is_power_of_two() || align > 4096 {
            return Err(format!("a section aligned to {align}"));
        }
        let at = end.next_multiple_of(align);
        end = at.checked_add(section.size()).filter(|&e| e <= MAX_IMAGE).ok_or("sections larger than 64 MiB")?;
        offsets.insert(section.index(), at);
    }
    if end == 0 {
        return Err("no code in it".into());
    }
    let mut image = Image::new(end.next_multiple_of(4096) as usize).map_err(|e| format!("no memory for it: {e}"))?;
    let base = image.base.as_ptr() as u64;
    for section in file.sections().filter(|s| is_loaded(s.kind())) {
        let at = offsets[&section.index()] as usize;
        let data = section.data().map_err(|e| e.to_string())?;
        image.bytes()[at..at + data.len()].copy_from_slice(data);
    }
    for section in file.sections().filter(|s| is_loaded(s.kind())) {
        let at = offsets[&section.index()];
        for (offset, relocation) in section.relocations() {
            let symbol_at = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    let symbol = file.symbol_by_index(index).map_err(|e| e.to_string())?;
                    let place = symbol.section_index().and_then(|s| offsets.get(&s));
                    let place = place.ok_or_else(|| format!("it refers to {}", symbol.name().unwrap_or("?")))?;
                    place.wrapping_add(symbol.address())
                }
                RelocationTarget::Section(index) => *offsets.get(&index).ok_or("it refers to a section not loaded")?,
                other => return Err(format!("a relocation against {other:?}")),
            };
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                return Err("a relocation that is not ELF's".into());
            };
            let place = at.checked_add(offset).ok_or("a relocation outside its section")?;
            let value = base.wrapping_add(symbol_at).wrapping_add(relocation.addend() as u64);
            let relative = value.wrapping_sub(base.wrapping_add(place)) as i64;
            match r_type {
                R_X86_64_PC32 | R_X86_64_PLT32 => write32(&mut image, place, relative)?,
                R_X86_64_32S => write32(&mut image, place, value as i64)?,
                R_X86_64_64 => write(&mut image, place, &value.to_le_bytes())?,
                R_X86_64_PC64 => write(&mut image, place, &relative.to_le_bytes())?,
                other => return Err(format!("relocation type {other:?}, which kernels don't have")),
            }
        }
    }
    let symbol = file.symbols().find(|s| s.is_definition() && s.name() == Ok(name));
    let symbol = symbol.ok_or_else(|| format!("no function {name} in it"))?;
    let section = symbol.section_index().and_then(|s| offsets.get(&s)).ok_or("the function lies in no section")?;
    let at =
        section.checked_add(symbol.address()).filter(|&a| a < end).ok_or("the function lies outside its section")?;
    image.seal().map_err(|e| format!("can't make it executable: {e}"))?;
    // SAFETY: the address lies inside the image, where the compiler put a function of this signature.
    let entry = unsafe { std::mem::transmute::<*mut u8, Entry>(image.base.as_ptr().add(at as usize)) };
    Ok(LoadedKernel { image, entry })
}

fn is_loaded(kind: SectionKind) -> bool {
    matches!(kind, SectionKind::Text | SectionKind::ReadOnlyData | SectionKind::ReadOnlyString)
}

fn write32(image: &mut Image, at: u64, value: i64) -> Result<(), String> {
    let value = i32::try_from(value).map_err(|_| "a relocation does not fit 32 bits")?;
    write(image, at, &value.to_le_bytes())
}

fn write(image: &mut Image, at: u64, bytes: &[u8]) -> Result<(), String> {
    let at = usize::try_from(at).map_err(|_| "a relocation outside the object")?;
    let end = at.checked_add(bytes.len()).ok_or("a relocation outside the object")?;
    image.bytes().get_mut(at..end).ok_or("a relocation outside the object")?.copy_from_slice(bytes);
    Ok(())
}
