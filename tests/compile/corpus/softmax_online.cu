// /// kforge
// [[step]]
// kernel = "softmax"
// grid = ["x.shape[0]"]
// block = ["32"]
// args = ["x", "x.shape[1]", "out"]
// ///
// corpus: rows_fp32
#include <math_constants.h>
__global__ void softmax(const float* __restrict__ x, long long n, float* __restrict__ y) {
    x += blockIdx.x * n, y += blockIdx.x * n;
    float most = -CUDART_INF_F, sum = 0;
    for (long long i = threadIdx.x; i < n; i += 32) {
        const float v = x[i], next = fmaxf(most, v);
        sum = sum * __expf(most - next) + __expf(v - next);
        most = next;
    }
    #pragma unroll
    for (int o = 16; o; o >>= 1) {
        const float m = __shfl_xor_sync(~0u, most, o), s = __shfl_xor_sync(~0u, sum, o), next = fmaxf(most, m);
        sum = sum * __expf(most - next) + s * __expf(m - next);
        most = next;
    }
    for (long long i = threadIdx.x; i < n; i += 32) y[i] = __expf(x[i] - most) / sum;
}
