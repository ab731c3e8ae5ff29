// /// kforge
// [[step]]
// kernel = "matmul<16>"
// grid = ["out.shape[1] / 16", "out.shape[0] / 16"]
// block = ["16", "16"]
// args = ["a", "b", "out.shape[1]", "a.shape[1]", "out"]
// ///
// corpus: gemm_fp32; shared 2048
template <int T> __global__ void matmul(const float* __restrict__ a, const float* __restrict__ b, long long n, long long k, float* __restrict__ c) {
    __shared__ float as[T][T], bs[T][T];
    const int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int base = 0; base < k; base += T) {
        as[threadIdx.y][threadIdx.x] = a[row * k + base + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(base + threadIdx.y) * n + col];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < T; ++i) sum = fmaf(as[threadIdx.y][i], bs[i][threadIdx.x], sum);
        __syncthreads();
    }
    c[row * n + col] = sum;
}
