// /// kforge
// [[step]]
// kernel = "rms_norm<256>"
// grid = ["x.shape[0]"]
// block = ["256"]
// args = ["x", "eps", "x.shape[1]", "out"]
// ///
// corpus: rows_bf16; shared 32
template <int B> __global__ void rms_norm(const x_t* x, float eps, long long n, out_t* y) {
    __shared__ float warps[B / 32];
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += B) { float v = x_load(x[i]); sum += v * v; }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < B / 32; ++w) sum += warps[w];
    const float scale = rsqrtf(sum / n + eps);
    for (int i = threadIdx.x; i < n; i += B) y[i] = out_store(x_load(x[i]) * scale);
}
