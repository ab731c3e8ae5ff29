// /// kforge
// [[step]]
// kernel = "transpose"
// grid = ["ceil_div(x.shape[1], 32)", "ceil_div(x.shape[0], 32)"]
// block = ["32", "8"]
// args = ["x", "x.shape[0]", "out"]
// ///
// corpus: square_fp32; shared 4224
__global__ void transpose(const float* x, long long n, float* out) {
    __shared__ float tile[32][33];
    const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (c < n && r + k < n) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * n + c];
    __syncthreads();
    const int oc = blockIdx.y * 32 + threadIdx.x, orow = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (oc < n && orow + k < n) out[(orow + k) * n + oc] = tile[threadIdx.x][threadIdx.y + k];
}
