// /// kforge
// [[step]]
// kernel = "aggregate"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["x", "x.numel", "out"]
// ///
// corpus: counts_int32
#include <cooperative_groups.h>
using namespace cooperative_groups;
__global__ void aggregate(const int* x, long long n, int* out) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n && x[i] > 7) {
        coalesced_group active = coalesced_threads();
        if (active.thread_rank() == 0) atomicAdd(out, static_cast<int>(active.size()));
    }
}
