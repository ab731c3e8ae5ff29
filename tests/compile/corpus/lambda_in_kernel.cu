// /// kforge
// [[step]]
// kernel = "mapped"
// grid = ["x.shape[0]"]
// block = ["128"]
// args = ["x", "eps", "x.shape[1]", "out"]
// ///
// corpus: rows_fp32
template <class F> __device__ void for_each(long long n, F f) { for (long long i = threadIdx.x; i < n; i += blockDim.x) f(i); }
__global__ void mapped(const float* x, float eps, long long n, float* out) {
    const float* from = x + blockIdx.x * n;
    float* to = out + blockIdx.x * n;
    for_each(n, [=](long long i) { to[i] = from[i] / (fabsf(from[i]) + eps); });
}
