// /// kforge
// [[step]]
// kernel = "newton"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["x", "out", "x.numel"]
// ///
// corpus: rows_fp32
__global__ void newton(const float* x, float* out, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= n) return;
    const float v = fabsf(x[i]) + 1e-3f;
    float r = v;
    for (int step = 0; step < 20 && fabsf(r * r - v) > 1e-6f * v; ++step) r = 0.5f * (r + v / r);
    out[i] = r;
}
