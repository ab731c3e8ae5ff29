// /// kforge
// [[step]]
// kernel = "roles"
// grid = ["x.shape[0]"]
// block = ["256"]
// args = ["x", "x.shape[1]", "out"]
// ///
// corpus: rows_fp32; shared 512; arch sm_90a
__global__ void __launch_bounds__(256, 1) roles(const float* x, long long n, float* out) {
    __shared__ float stage[128];
    for (long long base = 0; base < n; base += 128) {
        if (threadIdx.x < 128) stage[threadIdx.x] = x[blockIdx.x * n + base + threadIdx.x];
        asm volatile("bar.sync 1, 256;" ::: "memory");
        if (threadIdx.x >= 128) out[blockIdx.x * n + base + threadIdx.x - 128] = stage[threadIdx.x - 128] * 2;
        asm volatile("bar.sync 2, 256;" ::: "memory");
    }
}
