// /// kforge
// [[step]]
// kernel = "matmul"
// grid = ["ceil_div(out.shape[1], 16)", "ceil_div(out.shape[0], 16)"]
// block = ["16", "16"]
// args = ["a", "b", "a.shape[0]", "b.shape[1]", "a.shape[1]", "out"]
// ///
// corpus: gemm_fp32
__global__ void matmul(const float* a, const float* b, long long m, long long n, long long k, float* c) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
}
