// /// kforge
// [[step]]
// kernel = "apply_min"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel"]
// ///
// corpus: pair_fp32
#define POINTWISE(NAME, EXPRESSION)                                                                \
    __global__ void apply_##NAME(const float* a, const float* b, float* out, long long n) {        \
        const long long i = blockIdx.x * 256LL + threadIdx.x;                                      \
        if (i < n) { const float u = a[i], v = b[i]; out[i] = (EXPRESSION); }                      \
    }
POINTWISE(min, u < v ? u : v)
