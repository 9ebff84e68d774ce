//! Code objects from assembly and C, by LLVM's own programs.

use gfx_emu::{Dispatch, Error, Gpu, Options, Run};
use hrx_compiler::target::amd::{self, Chip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One of LLVM's programs.
pub fn tool(name: &str) -> PathBuf {
    let prefix = std::env::var_os("LLVM_SYS_221_PREFIX").map_or_else(|| "/usr/lib/llvm-22".into(), PathBuf::from);
    prefix.join("bin").join(name)
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn with_folder(f: impl FnOnce(&Path)) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    f(folder.path());
    std::fs::read(folder.path().join("out.hsaco")).expect("a code object")
}

/// What a kernel in assembly has.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub chip: &'static str,
    pub lds: u32,
    pub scratch: u32,
    /// Bytes of arguments; their address is in s[0:1], the workgroup's number in s2, the lane's in v0.
    pub kernarg: u32,
    /// More directives of the kernel descriptor.
    pub directives: &'static str,
}

impl Shape {
    /// A kernel for a chip with three pointers.
    pub fn of(chip: &'static str) -> Shape {
        Shape { chip, lds: 0, scratch: 0, kernarg: 32, directives: "" }
    }
}

pub fn chip(name: &str) -> &'static Chip {
    amd::find(name).expect("a chip of the table")
}

/// A code object with the kernel `k`. The text must not end it.
pub fn assemble(shape: Shape, text: &str) -> Vec<u8> {
    let Shape { chip, lds, scratch, kernarg, directives } = shape;
    let wide = directives.contains("wavefront_size32 0");
    let wave32 = chip.starts_with("gfx1") && !wide;
    let new = ["gfx90a", "gfx942", "gfx950"].contains(&chip);
    let mut more = format!("{directives}\n");
    if !directives.contains("float_denorm_mode_32") {
        more += ".amdhsa_float_denorm_mode_32 3\n";
    }
    if wave32 {
        more += ".amdhsa_wavefront_size32 1\n";
    }
    if new {
        more += ".amdhsa_accum_offset 128\n";
    }
    let free = if new { 256 } else { 128 };
    let source = format!(
        ".amdgcn_target \"amdgcn-amd-amdhsa--{chip}\"\n.text\n.globl k\n.p2align 8\n.type k,@function\nk:\n{text}\n\
         s_endpgm\n.Lend:\n.size k, .Lend-k\n.rodata\n.p2align 6\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr {free}\n\
         .amdhsa_next_free_sgpr 96\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n.amdhsa_group_segment_fixed_size {lds}\n\
         .amdhsa_private_segment_fixed_size {scratch}\n.amdhsa_kernarg_size {kernarg}\n\
         {more}.end_amdhsa_kernel\n"
    );
    with_folder(|folder| {
        let path = |name: &str| folder.join(name);
        std::fs::write(path("in.s"), source).expect("the source");
        let features = if chip.starts_with("gfx11") || chip.starts_with("gfx12") {
            if wide { "+real-true16,+wavefrontsize64,-wavefrontsize32" } else { "+real-true16" }
        } else {
            ""
        };
        let mc = ["--triple=amdgcn-amd-amdhsa".into(), format!("-mcpu={chip}"), format!("-mattr={features}")];
        run(Command::new(tool("llvm-mc")).args(mc).args(["-filetype=obj", "in.s", "-o", "in.o"]).current_dir(folder));
        run(Command::new(tool("ld.lld")).args(["-shared", "in.o", "-o", "out.hsaco"]).current_dir(folder));
    })
}

/// What OpenCL's library would have, of the compiler's builtins.
const PRELUDE: &str = "
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned short ushort2 __attribute__((ext_vector_type(2)));
typedef char char4 __attribute__((ext_vector_type(4)));
#define get_local_id(d) ((d) == 0 ? __builtin_amdgcn_workitem_id_x() : __builtin_amdgcn_workitem_id_y())
#define get_group_id(d) ((d) == 0 ? __builtin_amdgcn_workgroup_id_x() : __builtin_amdgcn_workgroup_id_y())
#define get_num_groups(d) (((constant uint *)__builtin_amdgcn_implicitarg_ptr())[d])
#define get_local_size(d) (((constant unsigned short *)__builtin_amdgcn_implicitarg_ptr())[6 + (d)])
#define get_global_id(d) (get_group_id(d) * get_local_size(d) + get_local_id(d))
#define CLK_LOCAL_MEM_FENCE 1
#define barrier(f) do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); __builtin_amdgcn_s_barrier(); \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\"); } while (0)
";

/// A code object from OpenCL C.
pub fn opencl(chip: &str, source: &str) -> Vec<u8> {
    with_folder(|folder| {
        std::fs::write(folder.join("in.cl"), format!("{PRELUDE}{source}")).expect("the source");
        let target = ["-target", "amdgcn-amd-amdhsa", "-nogpulib", "-O2", "-cl-std=CL2.0"];
        let mcpu = format!("-mcpu={chip}");
        let files = ["in.cl", "-o", "out.hsaco"];
        run(Command::new(tool("clang")).args(target).arg(mcpu).args(files).current_dir(folder));
    })
}

/// Options of tests: one thread, waves in a random order.
pub fn options() -> Options {
    Options { threads: 1, shuffle: true, seed: 7, most_instructions: 1 << 22, ..Options::default() }
}

/// A GPU with buffers, and kernels that take their addresses.
pub struct Bench {
    pub gpu: Gpu,
    pub buffers: Vec<u64>,
}

impl Bench {
    pub fn new(name: &str) -> Bench {
        Bench { gpu: Gpu::new(chip(name), options()).expect("a GPU"), buffers: Vec::new() }
    }

    /// A buffer with these words.
    pub fn words(&mut self, words: &[u32]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let address = self.gpu.alloc(bytes.len() as u64).expect("memory");
        self.gpu.write(address, &bytes).expect("written");
        self.buffers.push(address);
        address
    }

    /// A buffer that nobody has written.
    pub fn room(&mut self, bytes: u64) -> u64 {
        let address = self.gpu.alloc(bytes).expect("memory");
        self.buffers.push(address);
        address
    }

    /// Launches the kernel `k` with the buffers' addresses as arguments.
    pub fn launch(&self, hsaco: &[u8], grid: u32, block: u32) -> Result<Run, Error> {
        let module = self.gpu.load(hsaco)?;
        let kernel = module.kernel("k").expect("the kernel");
        let mut kernarg: Vec<u8> = self.buffers.iter().flat_map(|b| b.to_le_bytes()).collect();
        kernarg.resize(kernarg.len().max(kernel.kernarg_size()), 0);
        let dispatch = Dispatch { grid: [grid, 1, 1], block: [block, 1, 1], dynamic_lds: 0 };
        self.gpu.fill_hidden_args(&kernel, &dispatch, &mut kernarg);
        self.gpu.launch(&kernel, dispatch, &kernarg)
    }

    /// The words of a buffer.
    pub fn read(&self, address: u64, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; 4 * count];
        self.gpu.read(address, &mut bytes).expect("read");
        bytes.chunks(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect()
    }
}
