// /// kforge
// [[step]]
// kernel = "two_phases"
// grid = ["min(sm_count, 64)"]
// block = ["256"]
// cooperative = true
// args = ["x", "x.numel", "parts", "out"]
// [workspace]
// parts = { dtype = "fp32", shape = ["sm_count"], init = "zero" }
// ///
// corpus: reduce_fp32
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void two_phases(const float* x, long long n, float* parts, float* out) {
    auto grid = cg::this_grid();
    float sum = 0;
    for (long long i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
    atomicAdd(parts + blockIdx.x, sum);
    grid.sync();
    if (grid.thread_rank() == 0) {
        float total = 0;
        for (unsigned b = 0; b < gridDim.x; ++b) total += parts[b];
        *out = total;
    }
}
