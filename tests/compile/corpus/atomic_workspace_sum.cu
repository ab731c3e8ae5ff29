// /// kforge
// [[step]]
// kernel = "partial"
// grid = ["ceil_div(x.numel, 1024)"]
// block = ["256"]
// args = ["x", "x.numel", "total"]
// [[step]]
// kernel = "finish"
// grid = ["1"]
// block = ["1"]
// args = ["total", "x.numel", "out"]
// [workspace]
// total = { dtype = "fp32", shape = ["1"], init = "zero" }
// ///
// corpus: reduce_fp32
__global__ void partial(const float* x, long long n, float* total) {
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
        long long i = blockIdx.x * 1024LL + k * 256 + threadIdx.x;
        if (i < n) sum += x[i];
    }
    for (int s = 1; s < 32; s *= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
    if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
}
__global__ void finish(const float* total, long long n, float* out) { *out = *total / n; }
