// /// kforge
// [[step]]
// kernel = "masked_fill"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["x", "mask", "out", "x.numel"]
// ///
// corpus: bools
__global__ void masked_fill(const float* x, const bool* mask, float* out, long long n) {
    long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) out[i] = mask[i] ? -1e9f : x[i];
}
