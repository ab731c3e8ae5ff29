// /// kforge
// [[step]]
// kernel = "column_sums"
// grid = ["x.shape[1] / 256"]
// block = ["256"]
// args = ["x", "x.shape[0]", "x.shape[1]", "sums"]
// [[step]]
// kernel = "to_means"
// grid = ["x.shape[1] / 256"]
// block = ["256"]
// args = ["sums", "x.shape[0]", "means"]
// [[step]]
// kernel = "subtract"
// grid = ["x.shape[0]"]
// block = ["256"]
// args = ["x", "means", "x.shape[1]", "out"]
// [workspace]
// sums = { dtype = "fp32", shape = ["x.shape[1]"] }
// means = { dtype = "bf16", shape = ["x.shape[1]"] }
// ///
// corpus: rows_fp32
__global__ void column_sums(const float* x, long long rows, long long n, float* sums) {
    const long long c = blockIdx.x * 256 + threadIdx.x;
    float s = 0;
    for (long long r = 0; r < rows; ++r) s += x[r * n + c];
    sums[c] = s;
}
__global__ void to_means(const float* sums, long long rows, means_t* means) {
    const int c = blockIdx.x * 256 + threadIdx.x;
    means[c] = means_store(sums[c] / rows);
}
__global__ void subtract(const float* x, const means_t* means, long long n, float* out) {
    for (long long c = threadIdx.x; c < n; c += 256) out[blockIdx.x * n + c] = x[blockIdx.x * n + c] - means_load(means[c]);
}
