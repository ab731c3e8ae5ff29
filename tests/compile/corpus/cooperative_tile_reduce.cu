// /// kforge
// [[step]]
// kernel = "tile_sums"
// grid = ["ceil_div(x.shape[0], 8)"]
// block = ["256"]
// args = ["x", "x.shape[0]", "x.shape[1]", "out"]
// ///
// corpus: rowsum_fp32
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void tile_sums(const float* x, long long rows, long long n, float* out) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    const long long row = blockIdx.x * 8LL + tile.meta_group_rank();
    if (row >= rows) return;
    float sum = 0;
    for (long long i = tile.thread_rank(); i < n; i += 32) sum += x[row * n + i];
    sum = cg::reduce(tile, sum, cg::plus<float>());
    if (tile.thread_rank() == 0) out[row] = sum;
}
