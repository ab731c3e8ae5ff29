// /// kforge
// [[step]]
// kernel = "count_positive"
// grid = ["x.shape[0]"]
// block = ["32"]
// args = ["x", "x.shape[1]", "out"]
// ///
// corpus: rowsum_fp32
__global__ void count_positive(const float* x, long long columns, float* out) {
    const float* row = x + blockIdx.x * columns;
    int count = 0;
    for (long long c = threadIdx.x; c < columns; c += 32) count += __popc(__ballot_sync(__activemask(), row[c] > 0.f));
    if (threadIdx.x == 0) out[blockIdx.x] = count;
}
