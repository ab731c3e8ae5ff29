// /// kforge
// [[step]]
// kernel = "gather"
// grid = ["index.numel"]
// block = ["table.shape[1]"]
// args = ["index", "table", "table.shape[1]", "out"]
// ///
// corpus: gather
__global__ void gather(const long long* index, const float* table, long long columns, float* out) {
    out[blockIdx.x * columns + threadIdx.x] = table[index[blockIdx.x] * columns + threadIdx.x];
}
