// /// kforge
// [[step]]
// kernel = "halo"
// grid = ["x.shape[0] * x.shape[1]"]
// block = ["32", "32"]
// args = ["x", "weight", "x.shape[1]", "out"]
// ///
// corpus: image; shared 4624
__global__ void halo(const float* x, const float* w, long long channels, float* out) {
    __shared__ float tile[34][34];
    const int t = threadIdx.y * 32 + threadIdx.x;
    for (int e = t; e < 34 * 34; e += 1024) {
        const int r = e / 34 - 1, c = e % 34 - 1;
        tile[r + 1][c + 1] = r < 0 || r > 31 || c < 0 || c > 31 ? 0.f : x[blockIdx.x * 1024LL + r * 32 + c];
    }
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 9; ++k) sum += tile[threadIdx.y + k / 3][threadIdx.x + k % 3] * w[blockIdx.x % channels * 9 + k];
    out[blockIdx.x * 1024LL + t] = sum;
}
