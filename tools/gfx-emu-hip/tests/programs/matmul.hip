// A product of matrices by tiles in LDS, of sizes that are no multiples of a tile, on a stream with events.
#include "check.h"

constexpr int TILE = 16;

__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum = 0;
    for (int at = 0; at < k; at += TILE) {
        left[y][x] = row < m && at + x < k ? a[row * k + at + x] : 0.0f;
        right[y][x] = column < n && at + y < k ? b[(at + y) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += left[y][i] * right[i][x];
        BARRIER();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

int main() {
    const int m = 45, n = 37, k = 50;
    float *a = new float[m * k], *b = new float[k * n], *c = new float[m * n];
    for (int i = 0; i < m * k; i++) a[i] = (float)(i % 13 - 6);
    for (int i = 0; i < k * n; i++) b[i] = (float)(i % 7 - 3);
    float *da, *db, *dc;
    CHECK(hipMalloc((void **)&da, m * k * sizeof(float)));
    CHECK(hipMalloc((void **)&db, k * n * sizeof(float)));
    CHECK(hipMalloc((void **)&dc, m * n * sizeof(float)));
    CHECK(hipMemcpy(da, a, m * k * sizeof(float), hipMemcpyHostToDevice));
    CHECK(hipMemcpy(db, b, k * n * sizeof(float), hipMemcpyHostToDevice));
    hipStream_t stream;
    hipEvent_t start, stop;
    CHECK(hipStreamCreate(&stream));
    CHECK(hipEventCreate(&start));
    CHECK(hipEventCreate(&stop));
    CHECK(hipEventRecord(start, stream));
    matmul<<<dim3((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), dim3(TILE, TILE), 0, stream>>>(da, db, dc, m, n, k);
    CHECK(hipGetLastError());
    CHECK(hipEventRecord(stop, stream));
    CHECK(hipEventSynchronize(stop));
    float ms = -1;
    CHECK(hipEventElapsedTime(&ms, start, stop));
    CHECK(hipMemcpy(c, dc, m * n * sizeof(float), hipMemcpyDeviceToHost));
    CHECK(hipEventDestroy(start));
    CHECK(hipEventDestroy(stop));
    CHECK(hipStreamDestroy(stream));
    int wrong = ms < 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j];
            wrong += c[i * n + j] != sum;
        }
    printf("%d wrong\n", wrong);
    return wrong ? 1 : 0;
}
