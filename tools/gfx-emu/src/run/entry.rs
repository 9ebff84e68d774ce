//! What registers hold when a wave starts, by the kernel descriptor. From LLVM's "User Guide for AMDGPU Backend", section
//! "Initial Kernel Execution State".

use super::context::{PRIVATE_APERTURE, SHARED_APERTURE};
use super::wave::Wave;
use crate::decode::{Code, scalar};
use crate::exec::mode;
use hrx_compiler::hsaco::{Descriptor, Generation};

/// What waves of a launch start with.
#[derive(Debug)]
pub struct Entry<'a> {
    pub descriptor: &'a Descriptor,
    pub generation: Generation,
    /// Lanes of a wave.
    pub wave: u32,
    pub block: [u32; 3],
    /// The first instruction.
    pub first: usize,
    /// Addresses of the dispatch packet and of arguments.
    pub dispatch: u64,
    pub kernarg: u64,
    /// The arguments, for those that are there before the first load.
    pub arguments: &'a [u8],
    pub scratch: u32,
    pub accumulators: bool,
    /// Whether scratch memory needs no registers that say where it is.
    pub architected_scratch: bool,
}

/// Scalar registers in turn.
struct Next<'w>(&'w mut Wave, u16);

impl Next<'_> {
    fn put(&mut self, value: u32) {
        if self.1 < scalar::VCC {
            self.0.s[self.1 as usize] = value;
            self.0.know_scalar(self.1, 1);
        }
        self.1 += 1;
    }

    fn put_wide(&mut self, value: u64) {
        self.put(value as u32);
        self.put((value >> 32) as u32);
    }
}

impl Entry<'_> {
    fn items(&self) -> u32 {
        self.block.iter().product()
    }

    /// Waves of a workgroup.
    pub fn waves(&self, code: &Code) -> Vec<Wave> {
        (0..self.items().div_ceil(self.wave)).map(|_| Wave::new(self.wave, self.accumulators, code)).collect()
    }

    fn flag(&self, name: &str) -> bool {
        self.descriptor.field(name) == Some(1)
    }

    /// The mode that waves start with. What the descriptor of a generation does not say is as if it were set, but for
    /// IEEE's rule.
    fn mode(&self) -> u32 {
        let bit = |name: &str, otherwise: u32| self.descriptor.field(name).unwrap_or(otherwise);
        let clamp = mode::DX10_CLAMP * bit("enable_dx10_clamp", 1);
        let ieee = mode::IEEE * bit("enable_ieee_mode", 0);
        let overflow = mode::FP16_OVFL * bit("fp16_ovfl", 0);
        self.descriptor.rsrc1 >> 12 & 0xff | clamp | ieee | overflow
    }

    /// Sets the waves of a workgroup up.
    pub fn start(&self, waves: &mut [Wave], workgroup: [u32; 3]) {
        let Some((first, others)) = waves.split_first_mut() else { return };
        self.start_one(first, 0);
        first.mode = self.mode();
        self.scalars(first, workgroup);
        for (w, number) in others.iter_mut().zip(1..) {
            self.start_one(w, number);
            w.mode = first.mode;
            // All have the same scalars but for EXEC, which the start has set.
            let exec = w.exec();
            (w.s, w.unknown_s) = (first.s, first.unknown_s);
            w.set_exec(exec);
        }
    }

    fn start_one(&self, w: &mut Wave, number: u32) {
        w.reset(number, self.scratch);
        w.pc = self.first;
        let first = number * self.wave;
        let count = (self.items() - first).min(self.wave);
        w.started = u64::MAX >> (64 - count);
        w.set_exec(w.started);
        let high = scalar::SHARED_BASE as usize;
        w.s[high + 1] = SHARED_APERTURE;
        w.s[high + 3] = PRIVATE_APERTURE;
        w.s[high + 4] = u32::MAX;
        w.s[high + 5] = SHARED_APERTURE;
        w.s[high + 6] = u32::MAX;
        w.s[high + 7] = PRIVATE_APERTURE;
        self.items_of(w, first);
    }

    fn scalars(&self, w: &mut Wave, workgroup: [u32; 3]) {
        let mut next = Next(w, 0);
        if self.flag("enable_sgpr_private_segment_buffer") {
            // A resource that accesses know as scratch memory.
            next.put_wide(u64::from(PRIVATE_APERTURE & 0xffff) << 32);
            next.put_wide(u64::from(u32::MAX));
        }
        if self.flag("enable_sgpr_dispatch_ptr") {
            next.put_wide(self.dispatch);
        }
        if self.flag("enable_sgpr_queue_ptr") {
            next.put_wide(0);
        }
        if self.flag("enable_sgpr_kernarg_segment_ptr") {
            next.put_wide(self.kernarg);
        }
        if self.flag("enable_sgpr_dispatch_id") {
            next.put_wide(0);
        }
        if self.flag("enable_sgpr_flat_scratch_init") {
            next.put_wide(0);
        }
        if self.flag("enable_sgpr_private_segment_size") {
            next.put(self.scratch);
        }
        let skipped = self.descriptor.field("kernarg_preload_spec_offset").unwrap_or(0) as usize;
        let preloaded = self.descriptor.preloaded_kernargs().unwrap_or(0) as usize;
        for word in self.arguments.chunks(4).skip(skipped).take(preloaded) {
            let mut bytes = [0; 4];
            bytes[..word.len()].copy_from_slice(word);
            next.put(u32::from_le_bytes(bytes));
        }
        // Alignment may leave registers between.
        let user = self.descriptor.user_sgprs().unwrap_or(0) as u16;
        next.1 = next.1.max(user);
        if self.generation >= Generation::Gfx12 {
            let [x, y, z] = workgroup;
            next.0.s[scalar::TTMP0 as usize + 9] = x;
            next.0.s[scalar::TTMP0 as usize + 7] = y & 0xffff | z << 16;
            next.0.know_scalar(scalar::TTMP0 + 7, 1);
            next.0.know_scalar(scalar::TTMP0 + 9, 1);
            return;
        }
        for (id, wanted) in workgroup.into_iter().zip(self.descriptor.workgroup_ids()) {
            if wanted {
                next.put(id);
            }
        }
        if self.flag("enable_sgpr_workgroup_info") {
            next.put(0);
        }
        if self.flag("enable_private_segment") && !self.architected_scratch {
            next.put(0);
        }
    }

    fn items_of(&self, w: &mut Wave, first: u32) {
        use Generation::{Gfx11, Gfx12, Gfx90a, Gfx125};
        let packed = matches!(self.generation, Gfx90a | Gfx11 | Gfx12 | Gfx125);
        let dimensions = self.descriptor.workitem_id_dimensions().unwrap_or(3) as u16;
        let [x, y, _] = self.block;
        for lane in 0..self.wave {
            let item = first + lane;
            let ids = [item % x, item / x % y, item / (x * y)];
            if packed {
                w.set_lane(0, lane, ids[0] | ids[1] << 10 | ids[2] << 20);
                continue;
            }
            for (register, id) in (0..dimensions).zip(ids) {
                w.set_lane(register, lane, id);
            }
        }
    }
}
