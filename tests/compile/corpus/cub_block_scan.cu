// /// kforge
// [[step]]
// kernel = "scan_rows"
// grid = ["x.shape[0]"]
// block = ["128"]
// args = ["x", "out"]
// ///
// corpus: rows_fp32
#include <cub/block/block_scan.cuh>
__global__ void scan_rows(const float* x, float* out) {
    using Scan = cub::BlockScan<float, 128>;
    __shared__ Scan::TempStorage storage;
    float items[8];
    const long long base = blockIdx.x * 1024LL + threadIdx.x * 8;
    for (int j = 0; j < 8; ++j) items[j] = x[base + j];
    Scan(storage).InclusiveSum(items, items);
    for (int j = 0; j < 8; ++j) out[base + j] = items[j];
}
