; Functions that are called, directly and through a table, one of them with a table of its own.
@primes = internal addrspace(4) constant [4 x i32] [i32 2, i32 3, i32 5, i32 7]
@functions = internal addrspace(4) constant [2 x ptr] [ptr @times, ptr @plus]

define internal i32 @times(i32 %x) noinline #1 {
  %i = and i32 %x, 3
  %a = getelementptr i32, ptr addrspace(4) @primes, i32 %i
  %p = load i32, ptr addrspace(4) %a
  %y = mul i32 %x, %p
  ret i32 %y
}

define hidden i32 @plus(i32 %x) noinline #1 {
  %y = add i32 %x, 12345
  %z = call i32 @times(i32 %y)
  ret i32 %z
}

define amdgpu_kernel void @calls(ptr addrspace(1) %out, i32 %n) #0 {
  %a = call i32 @times(i32 %n)
  %b = call i32 @plus(i32 %a)
  store i32 %b, ptr addrspace(1) %out
  ret void
}

define amdgpu_kernel void @calls_through_table(ptr addrspace(1) %out, i32 %n) #0 {
  %i = and i32 %n, 1
  %a = getelementptr ptr, ptr addrspace(4) @functions, i32 %i
  %f = load ptr, ptr addrspace(4) %a
  %v = call i32 %f(i32 %n)
  store i32 %v, ptr addrspace(1) %out
  ret void
}
attributes #0 = { nounwind "amdgpu-flat-work-group-size"="32,64" }
attributes #1 = { nounwind }
