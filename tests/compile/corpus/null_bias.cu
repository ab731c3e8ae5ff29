// /// kforge
// [[step]]
// kernel = "add_bias"
// grid = ["x.shape[0]"]
// block = ["128"]
// args = ["x", "bias", "bias is None", "x.shape[1]", "out"]
// ///
// corpus: nullable
__global__ void add_bias(const float* x, const bias_t* bias, bool none, long long n, float* out) {
    for (long long i = threadIdx.x; i < n; i += 128)
        out[blockIdx.x * n + i] = x[blockIdx.x * n + i] + (none ? 0.f : bias[i]);
}
