// /// kforge
// where = "out.numel % 4 == 0"
// [[step]]
// kernel = "multiply4"
// grid = ["ceil_div(out.numel // 4, 128)"]
// block = ["128"]
// args = ["a", "b", "out", "out.numel // 4"]
// ///
// corpus: pair_fp32
__global__ void multiply4(const float* a, const float* b, float* out, int64_t quads) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= quads) return;
    const float4 u = reinterpret_cast<const float4*>(a)[i];
    const float4 v = reinterpret_cast<const float4*>(b)[i];
    reinterpret_cast<float4*>(out)[i] = make_float4(u.x * v.x, u.y * v.y, u.z * v.z, u.w * v.w);
}
