// /// kforge
// [[step]]
// kernel = "hardswish"
// grid = ["ceil_div(x.numel // 2, 256)"]
// block = ["256"]
// args = ["x", "out", "x.numel // 2"]
// ///
// corpus: rows_fp16
#include <cuda_fp16.h>
__global__ void hardswish(const half* x, half* out, long long pairs) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= pairs) return;
    const half2 v = reinterpret_cast<const half2*>(x)[i];
    const half2 gate = __hmin2(__hmax2(__hadd2(v, __float2half2_rn(3.f)), __float2half2_rn(0.f)), __float2half2_rn(6.f));
    reinterpret_cast<half2*>(out)[i] = __hmul2(__hmul2(v, gate), __float2half2_rn(1.f / 6));
}
