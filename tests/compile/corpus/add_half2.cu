// /// kforge
// [[step]]
// kernel = "add_half2"
// grid = ["ceil_div(out.numel // 2, 256)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel // 2"]
// ///
// corpus: pair_fp16
#include <cuda_fp16.h>
__global__ void add_half2(const __half* a, const __half* b, __half* out, long long pairs) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < pairs)
        ((__half2*)out)[i] = __hadd2(((const __half2*)a)[i], ((const __half2*)b)[i]);
}
