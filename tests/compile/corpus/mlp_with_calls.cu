// /// kforge
// [[step]]
// call = "aten::linear"
// args = ["x", "w1"]
// out = "hidden"
// [[step]]
// kernel = "gelu"
// grid = ["ceil_div(hidden.numel, 256)"]
// block = ["256"]
// args = ["hidden", "hidden.numel"]
// [[step]]
// call = "aten::linear"
// args = ["hidden", "w2"]
// out = "out"
// ///
// corpus: mlp_bf16
__global__ void gelu(hidden_t* h, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= n) return;
    const float v = hidden_load(h[i]);
    h[i] = hidden_store(0.5f * v * (1.f + erff(v * 0.70710678f)));
}
