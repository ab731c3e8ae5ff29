// /// kforge
// [[step]]
// kernel = "fma_pairs"
// grid = ["ceil_div(out.numel // 2, 256)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel // 2"]
// ///
// corpus: pair_bf16
#include <cuda_bf16.h>
__global__ void fma_pairs(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* out, long long pairs) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= pairs) return;
    const __nv_bfloat162 u = reinterpret_cast<const __nv_bfloat162*>(a)[i];
    const __nv_bfloat162 v = reinterpret_cast<const __nv_bfloat162*>(b)[i];
    reinterpret_cast<__nv_bfloat162*>(out)[i] = __hfma2(u, v, u);
}
