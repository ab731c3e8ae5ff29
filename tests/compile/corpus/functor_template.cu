// /// kforge
// [[step]]
// kernel = "zip<Maximum, 2>"
// grid = ["ceil_div(out.numel, 512)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel"]
// ///
// corpus: pair_fp32
struct Maximum { __device__ float operator()(float u, float v) const { return fmaxf(u, v); } };
template <class F, int PER_THREAD> __global__ void zip(const float* a, const float* b, float* out, long long n) {
    F f;
    #pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
        long long i = (blockIdx.x * PER_THREAD + k) * (long long)blockDim.x + threadIdx.x;
        if (i < n) out[i] = f(a[i], b[i]);
    }
}
