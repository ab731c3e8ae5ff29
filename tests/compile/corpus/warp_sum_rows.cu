// /// kforge
// [[step]]
// kernel = "row_sums"
// grid = ["ceil_div(x.shape[0], 4)"]
// block = ["32", "4"]
// args = ["x", "x.shape[0]", "x.shape[1]", "out"]
// ///
// corpus: rowsum_fp32
__global__ void row_sums(const float* x, long long rows, long long columns, float* out) {
    const long long row = blockIdx.x * 4LL + threadIdx.y;
    if (row >= rows) return;
    float sum = 0.f;
    for (long long c = threadIdx.x; c < columns; c += 32) sum += x[row * columns + c];
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x == 0) out[row] = sum;
}
