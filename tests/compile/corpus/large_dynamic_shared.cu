// /// kforge
// [[step]]
// kernel = "whole_tile"
// grid = ["1"]
// block = ["1024"]
// shared_bytes = "32 * x.shape[1] // 2 * x.itemsize"
// args = ["x", "out"]
// ///
// corpus: rows_fp32
extern __shared__ __align__(16) unsigned char raw[];
__global__ void whole_tile(const float* x, float* out) {
    float* tile = reinterpret_cast<float*>(raw);
    for (int i = threadIdx.x; i < 16384; i += 1024) tile[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < 16384; i += 1024) out[i] = tile[16383 - i];
}
