; An array that is indexed and therefore in memory.
define amdgpu_kernel void @scratch(ptr addrspace(1) %out, i32 %n) #0 {
  %array = alloca [64 x i32], align 4, addrspace(5)
  %at = and i32 %n, 63
  %slot = getelementptr [64 x i32], ptr addrspace(5) %array, i32 0, i32 %at
  store volatile i32 %n, ptr addrspace(5) %slot
  %first = load volatile i32, ptr addrspace(5) %array
  store i32 %first, ptr addrspace(1) %out
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="32,64" }
