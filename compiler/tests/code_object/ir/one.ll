; One kernel.
define amdgpu_kernel void @scale(ptr addrspace(1) noalias %out, ptr addrspace(1) readonly %in, float %by) #0 {
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %from = getelementptr float, ptr addrspace(1) %in, i32 %lane
  %value = load float, ptr addrspace(1) %from
  %scaled = fmul float %value, %by
  %to = getelementptr float, ptr addrspace(1) %out, i32 %lane
  store float %scaled, ptr addrspace(1) %to
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
attributes #0 = { nounwind "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" }
