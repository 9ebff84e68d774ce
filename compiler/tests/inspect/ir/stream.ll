; Kernels whose accesses of memory and of LDS are easy to say.

declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare void @llvm.amdgcn.s.barrier()

@tile = internal addrspace(3) global [1024 x float] poison, align 16

; y[i] = a * x[i] + y[i].
define amdgpu_kernel void @scale(ptr addrspace(1) %y, ptr addrspace(1) %x, float %a) #0 {
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %start = shl i32 %group, 8
  %i = or disjoint i32 %start, %item
  %at = zext i32 %i to i64
  %px = getelementptr float, ptr addrspace(1) %x, i64 %at
  %py = getelementptr float, ptr addrspace(1) %y, i64 %at
  %vx = load float, ptr addrspace(1) %px, align 4
  %vy = load float, ptr addrspace(1) %py, align 4
  %p = fmul contract float %a, %vx
  %s = fadd contract float %p, %vy
  store float %s, ptr addrspace(1) %py, align 4
  ret void
}

; Each lane reads the start of a row of 1024 bytes, and writes a word of every 16 of LDS.
define amdgpu_kernel void @columns(ptr addrspace(1) %y, ptr addrspace(1) %x) #1 {
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %row = shl i32 %item, 8
  %at = zext i32 %row to i64
  %px = getelementptr float, ptr addrspace(1) %x, i64 %at
  %v = load <4 x float>, ptr addrspace(1) %px, align 16
  %e = extractelement <4 x float> %v, i32 0
  %word = mul i32 %item, 16
  %to = getelementptr float, ptr addrspace(3) @tile, i32 %word
  store float %e, ptr addrspace(3) %to, align 4
  call void @llvm.amdgcn.s.barrier()
  %from = getelementptr float, ptr addrspace(3) @tile, i32 %item
  %r = load float, ptr addrspace(3) %from, align 4
  %py = getelementptr float, ptr addrspace(1) %y, i32 %item
  store float %r, ptr addrspace(1) %py, align 4
  ret void
}

; A sum of squares, sixty-four rows of 1024 bytes down.
define amdgpu_kernel void @sums(ptr addrspace(1) %y, ptr addrspace(1) %x) #0 {
entry:
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %sum = phi float [ 0.0, %entry ], [ %more, %loop ]
  %row = shl i32 %i, 8
  %word = add i32 %row, %item
  %at = zext i32 %word to i64
  %px = getelementptr float, ptr addrspace(1) %x, i64 %at
  %v = load float, ptr addrspace(1) %px, align 4
  %p = fmul contract float %v, %v
  %more = fadd contract float %p, %sum
  %next = add i32 %i, 1
  %done = icmp eq i32 %next, 64
  br i1 %done, label %end, label %loop

end:
  %to = getelementptr float, ptr addrspace(1) %y, i32 %item
  store float %more, ptr addrspace(1) %to, align 4
  ret void
}

attributes #0 = { "amdgpu-flat-work-group-size"="256,256" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }
attributes #1 = { "amdgpu-flat-work-group-size"="64,64" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" }
