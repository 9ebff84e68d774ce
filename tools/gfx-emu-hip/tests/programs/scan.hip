// Prefix sums: in each workgroup by doubling distances in dynamic LDS, then the sums of workgroups are added. The two
// kernels are captured on two streams that an event joins, and replayed as a graph.
#include "check.h"

constexpr int BLOCK = 128;

__global__ void scan(const int *in, int *out, int *sums, int n) {
    extern __shared__ int part[];
    const int i = blockIdx.x * BLOCK + threadIdx.x, at = threadIdx.x;
    int from = 0;
    part[at] = i < n ? in[i] : 0;
    __syncthreads();
    for (int distance = 1; distance < BLOCK; distance *= 2) {
        const int to = BLOCK - from;
        part[to + at] = part[from + at] + (at >= distance ? part[from + at - distance] : 0);
        from = to;
        BARRIER();
    }
    if (i < n) out[i] = part[from + at];
    if (at == BLOCK - 1) sums[blockIdx.x] = part[from + at];
}

__global__ void add(int *out, const int *sums, int n) {
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    int before = 0;
    for (unsigned block = 0; block < blockIdx.x; block++) before += sums[block];
    if (i < n) out[i] += before;
}

int main() {
    const int n = 1000, blocks = (n + BLOCK - 1) / BLOCK;
    int host[n], got[n], *in, *out, *sums;
    CHECK(hipMalloc((void **)&in, sizeof host));
    CHECK(hipMalloc((void **)&out, sizeof host));
    CHECK(hipMalloc((void **)&sums, blocks * sizeof(int)));
    hipStream_t first, second;
    hipEvent_t fork, join;
    CHECK(hipStreamCreate(&first));
    CHECK(hipStreamCreate(&second));
    CHECK(hipEventCreate(&fork));
    CHECK(hipEventCreate(&join));
    CHECK(hipStreamBeginCapture(first, 0));
    scan<<<blocks, BLOCK, 2 * BLOCK * sizeof(int), first>>>(in, out, sums, n);
    CHECK(hipEventRecord(fork, first));
    CHECK(hipStreamWaitEvent(second, fork, 0));
    add<<<blocks, BLOCK, 0, second>>>(out, sums, n);
    CHECK(hipEventRecord(join, second));
    CHECK(hipStreamWaitEvent(first, join, 0));
    hipGraph_t graph;
    hipGraphExec_t executable;
    CHECK(hipStreamEndCapture(first, &graph));
    CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    CHECK(hipGraphDestroy(graph));
    int wrong = 0;
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < n; i++) host[i] = i * round % 11 - 5;
        CHECK(hipMemcpy(in, host, sizeof host, hipMemcpyHostToDevice));
        CHECK(hipGraphLaunch(executable, first));
        CHECK(hipStreamSynchronize(first));
        CHECK(hipMemcpy(got, out, sizeof got, hipMemcpyDeviceToHost));
        for (int i = 0, sum = 0; i < n; i++) wrong += got[i] != (sum += host[i]);
    }
    CHECK(hipGraphExecDestroy(executable));
    printf("%d wrong\n", wrong);
    return wrong ? 1 : 0;
}
