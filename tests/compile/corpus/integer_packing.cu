// /// kforge
// [[step]]
// kernel = "flip_signs"
// grid = ["ceil_div(x.numel // 2, 256)"]
// block = ["256"]
// args = ["x", "out", "x.numel // 2"]
// ///
// corpus: rows_bf16
#include <cstdint>
__global__ void flip_signs(const x_t* x, out_t* out, int64_t pairs) {
    const int64_t i = blockIdx.x * int64_t(256) + threadIdx.x;
    if (i < pairs) reinterpret_cast<uint32_t*>(out)[i] = reinterpret_cast<const uint32_t*>(x)[i] ^ 0x80008000u;
}
