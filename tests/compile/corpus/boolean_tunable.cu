// /// kforge
// [[step]]
// kernel = "shift"
// grid = ["x.shape[0]"]
// block = ["256"]
// args = ["x", "x.shape[1]", "out"]
// [tunables]
// REVERSED = [false, true]
// FACTOR = [1.5]
// ///
// corpus: rows_fp32
__global__ void shift(const float* x, long long n, float* out) {
    for (long long i = threadIdx.x; i < n; i += 256)
        out[blockIdx.x * n + (REVERSED ? n - 1 - i : i)] = x[blockIdx.x * n + i] * FACTOR;
}
