// /// kforge
// where = "x.shape[1] == 1024"
// [[step]]
// kernel = "softmax1024"
// grid = ["x.shape[0]"]
// block = ["128"]
// args = ["x", "out"]
// ///
// corpus: rows_fp16
#include <cuda_fp16.h>
struct alignas(16) Eight { __half2 at[4]; };
__global__ __launch_bounds__(128, 1) void softmax1024(const __half* x, __half* out) {
    const Eight pack = reinterpret_cast<const Eight*>(x + blockIdx.x * 1024LL)[threadIdx.x];
    float v[8], sum = 0;
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 two = __half22float2(pack.at[k]);
        v[2 * k] = exp2f(two.x), v[2 * k + 1] = exp2f(two.y);
        sum += v[2 * k] + v[2 * k + 1];
    }
    const int hot = __syncthreads_or(sum > 1e30f);
    Eight result;
    #pragma unroll
    for (int k = 0; k < 4; ++k) result.at[k] = __floats2half2_rn(v[2 * k] + hot, v[2 * k + 1]);
    reinterpret_cast<Eight*>(out + blockIdx.x * 1024LL)[threadIdx.x] = result;
}
