// /// kforge
// [[step]]
// kernel = "dequantize"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["x", "scale", "out", "x.numel"]
// ///
// corpus: fp8
#include <cuda_fp8.h>
__global__ void dequantize(const __nv_fp8_e4m3* x, float scale, float* out, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) out[i] = float(x[i]) * scale;
}
