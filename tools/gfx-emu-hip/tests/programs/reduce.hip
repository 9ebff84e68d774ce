// The sum of an array: a tree in each workgroup's LDS, and one atomic addition a workgroup.
#include "check.h"

constexpr int BLOCK = 256;
__constant__ int scale;

__global__ void reduce(const int *in, int n, int *sum) {
    __shared__ int part[BLOCK];
    int total = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) total += in[i];
    part[threadIdx.x] = total * scale;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        BARRIER();
    }
    if (threadIdx.x == 0) atomicAdd(sum, part[0]);
}

int main() {
    const int n = 10007, three = 3;
    int *host = new int[n], wanted = 0, got = -1;
    for (int i = 0; i < n; i++) wanted += three * (host[i] = i * 7 % 1001 - 500);
    int *in, *sum;
    CHECK(hipMalloc((void **)&in, n * sizeof(int)));
    CHECK(hipMalloc((void **)&sum, sizeof(int)));
    CHECK(hipMemcpy(in, host, n * sizeof(int), hipMemcpyHostToDevice));
    CHECK(hipMemset(sum, 0, sizeof(int)));
    CHECK(hipMemcpyToSymbol(&scale, &three, sizeof(int)));
    reduce<<<5, BLOCK>>>(in, n, sum);
    CHECK(hipGetLastError());
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpy(&got, sum, sizeof(int), hipMemcpyDeviceToHost));
    CHECK(hipFree(in));
    CHECK(hipFree(sum));
    printf("%d %d\n", got, wanted);
    return got == wanted ? 0 : 1;
}
