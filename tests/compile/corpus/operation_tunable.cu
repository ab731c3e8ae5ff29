// /// kforge
// [[step]]
// kernel = "combine<OPERATION>"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel"]
// [tunables]
// OPERATION = ["plus", "minus"]
// ///
// corpus: pair_fp32
__device__ __forceinline__ float plus(float a, float b) { return a + b; }
__device__ __forceinline__ float minus(float a, float b) { return a - b; }
template <float (*F)(float, float)> __global__ void combine(const float* a, const float* b, float* out, long long n) {
    long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) out[i] = F(a[i], b[i]);
}
