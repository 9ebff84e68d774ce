; Constant tables: of the module, private ones that are merged, and one of pointers to others.
@table = internal addrspace(4) constant [8 x i32] [i32 1, i32 2, i32 3, i32 5, i32 8, i32 13, i32 21, i32 34]
@pointers = internal addrspace(4) constant [2 x ptr addrspace(4)]
  [ptr addrspace(4) @table, ptr addrspace(4) getelementptr (i8, ptr addrspace(4) @table, i64 8)]
@text = private unnamed_addr addrspace(4) constant [6 x i8] c"hello\00"
@four = private unnamed_addr addrspace(4) constant [4 x i32] [i32 10, i32 20, i32 30, i32 50]

define amdgpu_kernel void @lookup(ptr addrspace(1) %out, i32 %n) #0 {
  %i = and i32 %n, 3
  %a = getelementptr i32, ptr addrspace(4) @table, i32 %i
  %va = load i32, ptr addrspace(4) %a
  %b = getelementptr i32, ptr addrspace(4) @four, i32 %i
  %vb = load i32, ptr addrspace(4) %b
  %c = getelementptr i8, ptr addrspace(4) @text, i32 %i
  %vc = load i8, ptr addrspace(4) %c
  %wide = zext i8 %vc to i32
  %ab = add i32 %va, %vb
  %abc = add i32 %ab, %wide
  store i32 %abc, ptr addrspace(1) %out
  ret void
}

define amdgpu_kernel void @indirect(ptr addrspace(1) %out, i32 %n) #0 {
  %i = and i32 %n, 1
  %a = getelementptr ptr addrspace(4), ptr addrspace(4) @pointers, i32 %i
  %p = load ptr addrspace(4), ptr addrspace(4) %a
  %v = load i32, ptr addrspace(4) %p
  store i32 %v, ptr addrspace(1) %out
  ret void
}
attributes #0 = { nounwind "amdgpu-flat-work-group-size"="32,64" }
