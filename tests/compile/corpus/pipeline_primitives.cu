// /// kforge
// [[step]]
// kernel = "staged"
// grid = ["x.shape[0]"]
// block = ["64"]
// args = ["x", "x.shape[1]", "out"]
// ///
// corpus: rows_fp32; shared 1024
#include <cuda_pipeline_primitives.h>
__global__ void staged(const float* x, long long n, float* out) {
    __shared__ alignas(16) float stage[256];
    for (long long base = 0; base < n; base += 256) {
        __pipeline_memcpy_async(stage + threadIdx.x * 4, x + blockIdx.x * n + base + threadIdx.x * 4, 16);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int j = threadIdx.x; j < 256; j += 64) out[blockIdx.x * n + base + j] = stage[255 - j];
        __syncthreads();
    }
}
