// /// kforge
// options = ["--use_fast_math"]
// [[step]]
// kernel = "soft"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel"]
// ///
// corpus: pair_fp32
#include <cmath>
__global__ void soft(const float* a, const float* b, float* out, long long n) {
    long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) out[i] = std::exp(a[i]) / (1.0f + std::exp(b[i]));
}
