// /// kforge
// [[step]]
// kernel = "ops::detail::lerp"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["a", "b", "scale", "out", "out.numel"]
// ///
// corpus: pair_fp32
namespace ops { namespace detail {
__global__ void lerp(const float* a, const float* b, float t, float* out, long long n) {
    if (long long i = blockIdx.x * 256LL + threadIdx.x; i < n) out[i] = a[i] + t * (b[i] - a[i]);
}
} }
