// /// kforge
// [[step]]
// kernel = "warps"
// grid = ["ceil_div(x.shape[0], 4)"]
// block = ["128"]
// args = ["x", "x.shape[0]", "x.shape[1]", "out"]
// ///
// corpus: rowsum_fp32
#include <cub/warp/warp_reduce.cuh>
__global__ void warps(const float* x, long long rows, long long n, float* out) {
    using Reduce = cub::WarpReduce<float>;
    __shared__ Reduce::TempStorage storage[4];
    const int warp = threadIdx.x / 32;
    const long long row = blockIdx.x * 4LL + warp;
    float sum = 0;
    if (row < rows)
        for (long long i = threadIdx.x % 32; i < n; i += 32) sum += x[row * n + i];
    sum = Reduce(storage[warp]).Sum(sum);
    if (row < rows && threadIdx.x % 32 == 0) out[row] = sum;
}
