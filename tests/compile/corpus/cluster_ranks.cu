// /// kforge
// [[step]]
// kernel = "cluster_sum"
// grid = ["2 * x.shape[0]"]
// block = ["128"]
// cluster = ["2"]
// args = ["x", "x.shape[1]", "out"]
// ///
// corpus: rowsum_fp32; shared 4; arch sm_90a
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void cluster_sum(const float* x, long long n, float* out) {
    __shared__ float mine;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) mine = 0;
    __syncthreads();
    float sum = 0;
    for (long long i = cluster.block_rank() * 128 + threadIdx.x; i < n; i += 256) sum += x[blockIdx.x / 2 * n + i];
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) atomicAdd(&mine, sum);
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) out[blockIdx.x / 2] = mine + *cluster.map_shared_rank(&mine, 1);
    cluster.sync();
}
