; Kernels that start in other modes than the usual.
define amdgpu_kernel void @flushes(ptr addrspace(1) %out, float %x) #0 {
  %y = fmul float %x, %x
  store float %y, ptr addrspace(1) %out
  ret void
}

define amdgpu_kernel void @wide(ptr addrspace(1) %out, i32 %n) #1 {
  %lane = call i32 @llvm.amdgcn.workitem.id.y()
  %to = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  store i32 %n, ptr addrspace(1) %to
  ret void
}

define amdgpu_kernel void @many_registers(ptr addrspace(1) %out, i32 %n) #2 {
  call void asm sideeffect "", "~{v101},~{s77}"()
  store i32 %n, ptr addrspace(1) %out
  ret void
}

define amdgpu_kernel void @preloads(ptr addrspace(1) inreg %out, i32 inreg %n) #3 {
  store i32 %n, ptr addrspace(1) %out
  ret void
}

declare i32 @llvm.amdgcn.workitem.id.y()
attributes #0 = { nounwind "amdgpu-ieee"="false" "amdgpu-dx10-clamp"="false" "denormal-fp-math-f32"="preserve-sign,preserve-sign" "denormal-fp-math"="ieee,preserve-sign" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-cluster-id-x" "amdgpu-no-cluster-id-y" "amdgpu-no-cluster-id-z" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-implicitarg-ptr" }
attributes #1 = { nounwind "target-features"="+wavefrontsize64,-wavefrontsize32,+cumode" "amdgpu-flat-work-group-size"="1,128" }
attributes #2 = { nounwind "amdgpu-flat-work-group-size"="32,64" "target-features"="+tgsplit" }
attributes #3 = { nounwind "amdgpu-flat-work-group-size"="32,64" }
