; Symbols of default visibility, which LLVM reaches through the global offset table, data that is written, and sections
; of their own.
@seen = addrspace(4) constant [4 x i32] [i32 11, i32 12, i32 13, i32 14]
@counter = addrspace(1) global i32 7
@zeros = addrspace(1) global [100 x i32] zeroinitializer, align 16

@odd = hidden addrspace(4) constant [3 x i8] c"abc", section ".rodata.odd"
@line = hidden addrspace(4) constant [4 x i32] [i32 21, i32 22, i32 23, i32 24], section ".rodata.line", align 128

define i32 @helper(i32 %x) noinline #1 section ".text.helper" {
  %y = mul i32 %x, 17
  ret i32 %y
}

define amdgpu_kernel void @visible(i32 %n) #0 section ".text.visible" {
  %i = and i32 %n, 3
  %a = getelementptr i32, ptr addrspace(4) @seen, i32 %i
  %v = load i32, ptr addrspace(4) %a
  %w = call i32 @helper(i32 %v)
  store i32 %w, ptr addrspace(1) @counter
  %z = getelementptr i32, ptr addrspace(1) @zeros, i32 %i
  store i32 %w, ptr addrspace(1) %z
  %o = getelementptr i8, ptr addrspace(4) @odd, i32 %i
  %vo = load i8, ptr addrspace(4) %o
  %wo = zext i8 %vo to i32
  %l = getelementptr i32, ptr addrspace(4) @line, i32 %i
  %vl = load i32, ptr addrspace(4) %l
  %s = add i32 %wo, %vl
  store i32 %s, ptr addrspace(1) @counter
  ret void
}
attributes #0 = { nounwind "amdgpu-flat-work-group-size"="32,64" }
attributes #1 = { nounwind }
