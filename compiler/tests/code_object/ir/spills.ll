; More values at once than the kernel is allowed registers.
define amdgpu_kernel void @spills(ptr addrspace(1) %data) #0 {
  %a = load volatile <16 x i32>, ptr addrspace(1) %data
  %b = load volatile <16 x i32>, ptr addrspace(1) %data
  %c = load volatile <16 x i32>, ptr addrspace(1) %data
  store volatile <16 x i32> %c, ptr addrspace(1) %data
  store volatile <16 x i32> %b, ptr addrspace(1) %data
  store volatile <16 x i32> %a, ptr addrspace(1) %data
  ret void
}

attributes #0 = { nounwind "amdgpu-num-vgpr"="24" "amdgpu-flat-work-group-size"="32,64" }
