// /// kforge
// where = "out.shape[2] == x.shape[2]"
// [[step]]
// kernel = "blur"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["x", "x.numel", "out"]
// ///
// corpus: image
__global__ void blur(const float* x, long long n, float* out) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= n) return;
    const int c = i % 32;
    out[i] = (x[i - (c > 0)] + x[i] + x[i + (c < 31)]) * (1.f / 3);
}
