// /// kforge
// [[step]]
// kernel = "weigh"
// grid = ["x.shape[0]"]
// block = ["256"]
// args = ["x", "x.shape[1]", "out"]
// ///
// corpus: rows_fp32
struct Table {
    float at[16];
    __device__ constexpr Table() : at() { for (int i = 0; i < 16; ++i) at[i] = 1.0f / (1 + i * i); }
};
__device__ constexpr Table table{};
__global__ void weigh(const float* x, long long n, float* out) {
    for (long long i = threadIdx.x; i < n; i += 256) out[blockIdx.x * n + i] = x[blockIdx.x * n + i] * table.at[i % 16];
}
