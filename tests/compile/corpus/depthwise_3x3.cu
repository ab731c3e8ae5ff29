// /// kforge
// [[step]]
// kernel = "depthwise"
// grid = ["x.shape[0] * x.shape[1]"]
// block = ["32", "32"]
// args = ["x", "weight", "x.shape[1]", "out"]
// ///
// corpus: image
__global__ void depthwise(const float* x, const float* w, long long channels, float* out) {
    const long long plane = blockIdx.x * 1024LL, k = blockIdx.x % channels * 9;
    float sum = 0;
    #pragma unroll
    for (int dy = -1; dy <= 1; ++dy)
        #pragma unroll
        for (int dx = -1; dx <= 1; ++dx) {
            const int r = int(threadIdx.y) + dy, c = int(threadIdx.x) + dx;
            if (r >= 0 && r < 32 && c >= 0 && c < 32) sum += x[plane + r * 32 + c] * w[k + (dy + 1) * 3 + dx + 1];
        }
    out[plane + threadIdx.y * 32 + threadIdx.x] = sum;
}
