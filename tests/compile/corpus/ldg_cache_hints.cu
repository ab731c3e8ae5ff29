// /// kforge
// [[step]]
// kernel = "streamed"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel"]
// ///
// corpus: pair_fp32
__global__ void streamed(const float* a, const float* b, float* out, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) __stcs(out + i, __ldcs(a + i) * __ldg(b + i));
}
