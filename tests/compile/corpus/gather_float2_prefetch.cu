// /// kforge
// [[step]]
// kernel = "gather2"
// grid = ["ceil_div(index.numel, 8)"]
// block = ["32", "8"]
// args = ["index", "index.numel", "table", "table.shape[1] // 2", "out"]
// ///
// corpus: gather
__global__ void gather2(const index_t* index, long long rows, const table_t* table, long long pairs, out_t* out) {
    const long long row = blockIdx.x * 8LL + threadIdx.y;
    if (row >= rows) return;
    const float2* from = reinterpret_cast<const float2*>(table) + index[row] * pairs;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
    for (long long i = threadIdx.x; i < pairs; i += 32) reinterpret_cast<float2*>(out)[row * pairs + i] = from[i];
}
