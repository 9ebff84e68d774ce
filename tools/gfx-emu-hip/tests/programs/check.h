#pragma once
#include <hip/hip_runtime.h>
#include <stdio.h>
#include <stdlib.h>

// Ends the program with what HIP says if a call fails.
#define CHECK(call)                                                                        \
    do {                                                                                   \
        hipError_t status = (call);                                                        \
        if (status != hipSuccess) {                                                        \
            printf("%s: %d: %s\n", #call, (int)status, hipGetErrorString(status));         \
            exit(3);                                                                       \
        }                                                                                  \
    } while (0)

// What a racy version leaves out.
#ifdef RACY
#define BARRIER()
#else
#define BARRIER() __syncthreads()
#endif
