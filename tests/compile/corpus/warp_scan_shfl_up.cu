// /// kforge
// [[step]]
// kernel = "prefix"
// grid = ["x.shape[0]"]
// block = ["32"]
// args = ["x", "x.shape[1]", "out"]
// ///
// corpus: rows_fp32
__global__ void prefix(const float* x, long long n, float* out) {
    float carried = 0;
    for (long long base = 0; base < n; base += 32) {
        float v = x[blockIdx.x * n + base + threadIdx.x];
        #pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
            const float u = __shfl_up_sync(0xffffffff, v, d);
            if (threadIdx.x >= d) v += u;
        }
        out[blockIdx.x * n + base + threadIdx.x] = v + carried;
        carried += __shfl_sync(0xffffffff, v, 31);
    }
}
