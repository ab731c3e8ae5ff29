// /// kforge
// options = ["-maxrregcount=32"]
// [[step]]
// kernel = "distance"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel"]
// ///
// corpus: pair_fp32
__global__ void distance(const float* a, const float* b, float* out, long long n) {
    long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) out[i] = hypotf(a[i], b[i]);
}
