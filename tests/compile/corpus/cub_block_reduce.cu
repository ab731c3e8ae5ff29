// /// kforge
// [[step]]
// kernel = "row_sum<BLOCK>"
// grid = ["x.shape[0]"]
// block = ["BLOCK"]
// args = ["x", "x.shape[1]", "out"]
// [tunables]
// BLOCK = [128, 256]
// ///
// corpus: rowsum_fp32
#include <cub/block/block_reduce.cuh>
template <int B> __global__ void row_sum(const float* x, long long n, float* out) {
    using Reduce = cub::BlockReduce<float, B>;
    __shared__ typename Reduce::TempStorage storage;
    float sum = 0;
    for (long long i = threadIdx.x; i < n; i += B) sum += x[blockIdx.x * n + i];
    sum = Reduce(storage).Sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
