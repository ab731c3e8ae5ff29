// /// kforge
// [[step]]
// kernel = "striped"
// grid = ["x.shape[0]"]
// block = ["128"]
// args = ["x", "out"]
// ///
// corpus: rows_fp32
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
__global__ void striped(const float* x, float* out) {
    using Load = cub::BlockLoad<float, 128, 8, cub::BLOCK_LOAD_VECTORIZE>;
    using Store = cub::BlockStore<float, 128, 8, cub::BLOCK_STORE_VECTORIZE>;
    __shared__ union { Load::TempStorage load; Store::TempStorage store; } storage;
    float v[8];
    Load(storage.load).Load(x + blockIdx.x * 1024LL, *reinterpret_cast<float(*)[8]>(v));
    for (float& one : v) one = one * one;
    __syncthreads();
    Store(storage.store).Store(out + blockIdx.x * 1024LL, *reinterpret_cast<float(*)[8]>(v));
}
