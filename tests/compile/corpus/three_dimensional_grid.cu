// /// kforge
// [[step]]
// kernel = "transpose_planes"
// grid = ["1", "x.shape[1]", "x.shape[0]"]
// block = ["8", "8", "8"]
// args = ["x", "x.stride[0]", "x.stride[1]", "out"]
// ///
// corpus: image
__global__ void transpose_planes(const float* x, long long batch, long long plane, float* out) {
    const dim3 t = threadIdx;
    const long long base = blockIdx.z * batch + blockIdx.y * plane;
    for (int r = t.y + 8 * (t.z % 4); r < 32; r += 32)
        for (int c = t.x + 8 * (t.z / 4); c < 32; c += 16) out[base + c * 32 + r] = x[base + r * 32 + c];
}
