; Kernels of different needs: LDS, scratch, all three workgroup ids, no arguments.
@tile = internal addrspace(3) global [256 x float] poison, align 16

define amdgpu_kernel void @first(ptr addrspace(1) %out) #0 {
  %x = call i32 @llvm.amdgcn.workgroup.id.x()
  %y = call i32 @llvm.amdgcn.workgroup.id.y()
  %z = call i32 @llvm.amdgcn.workgroup.id.z()
  %xy = add i32 %x, %y
  %sum = add i32 %xy, %z
  store i32 %sum, ptr addrspace(1) %out
  ret void
}

define amdgpu_kernel void @with_lds(ptr addrspace(1) %out, ptr addrspace(1) %in) #1 {
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %from = getelementptr float, ptr addrspace(1) %in, i32 %lane
  %value = load float, ptr addrspace(1) %from
  %mine = getelementptr [256 x float], ptr addrspace(3) @tile, i32 0, i32 %lane
  store float %value, ptr addrspace(3) %mine
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %other = xor i32 %lane, 255
  %theirs = getelementptr [256 x float], ptr addrspace(3) @tile, i32 0, i32 %other
  %read = load float, ptr addrspace(3) %theirs
  %to = getelementptr float, ptr addrspace(1) %out, i32 %lane
  store float %read, ptr addrspace(1) %to
  ret void
}

define amdgpu_kernel void @with_scratch(ptr addrspace(1) %out, i32 %n) #0 {
  %array = alloca [64 x i32], align 4, addrspace(5)
  %at = and i32 %n, 63
  %slot = getelementptr [64 x i32], ptr addrspace(5) %array, i32 0, i32 %at
  store volatile i32 %n, ptr addrspace(5) %slot
  %first = load volatile i32, ptr addrspace(5) %array
  store i32 %first, ptr addrspace(1) %out
  ret void
}

define amdgpu_kernel void @nothing() #0 {
  ret void
}

declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
attributes #0 = { nounwind "amdgpu-flat-work-group-size"="32,64" }
attributes #1 = { nounwind "amdgpu-flat-work-group-size"="256,256" "amdgpu-waves-per-eu"="2,4" }
