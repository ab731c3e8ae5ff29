// /// kforge
// [[step]]
// kernel = "matmul64"
// grid = ["out.shape[1] / 64", "out.shape[0] / 64"]
// block = ["256"]
// args = ["a", "b", "out.shape[1]", "a.shape[1]", "out"]
// ///
// corpus: gemm_fp32; shared 4096
__global__ void __launch_bounds__(256, 1) matmul64(const float* a, const float* b, long long n, long long k, float* c) {
    __shared__ float as[8][64];
    __shared__ float bs[8][64];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float acc[4][4] = {};
    for (int base = 0; base < k; base += 8) {
        for (int e = threadIdx.x; e < 512; e += 256) {
            as[e % 8][e / 8] = a[(blockIdx.y * 64 + e / 8) * k + base + e % 8];
            bs[e / 64][e % 64] = b[(base + e / 64) * n + blockIdx.x * 64 + e % 64];
        }
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            float u[4], v[4];
            #pragma unroll
            for (int j = 0; j < 4; ++j) u[j] = as[i][ty * 4 + j], v[j] = bs[i][tx * 4 + j];
            #pragma unroll
            for (int r = 0; r < 4; ++r)
                #pragma unroll
                for (int s = 0; s < 4; ++s) acc[r][s] += u[r] * v[s];
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r)
        for (int s = 0; s < 4; ++s) c[(blockIdx.y * 64 + ty * 4 + r) * n + blockIdx.x * 64 + tx * 4 + s] = acc[r][s];
}
