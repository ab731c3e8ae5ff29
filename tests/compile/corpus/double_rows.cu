// /// kforge
// [[step]]
// kernel = "normalize"
// grid = ["x.shape[0]"]
// block = ["32"]
// args = ["x", "eps", "x.shape[1]", "out"]
// ///
// corpus: double
__global__ void normalize(const double* x, double eps, long long n, double* out) {
    double sum = 0;
    for (long long i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    const double mean = sum * (1.0 / 256) + eps;
    for (long long i = threadIdx.x; i < n; i += 32) out[blockIdx.x * n + i] = x[blockIdx.x * n + i] - mean;
}
