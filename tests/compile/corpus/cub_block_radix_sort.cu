// /// kforge
// [[step]]
// kernel = "sort_rows"
// grid = ["x.shape[0]"]
// block = ["256"]
// args = ["x", "out0", "out1"]
// ///
// corpus: sort
#include <cub/block/block_radix_sort.cuh>
__global__ void __launch_bounds__(256) sort_rows(const float* x, float* values, long long* indices) {
    using Sort = cub::BlockRadixSort<float, 256, 8, int>;
    __shared__ Sort::TempStorage storage;
    float keys[8];
    int places[8];
    for (int j = 0; j < 8; ++j) {
        places[j] = threadIdx.x * 8 + j;
        keys[j] = x[blockIdx.x * 2048LL + places[j]];
    }
    Sort(storage).Sort(keys, places);
    for (int j = 0; j < 8; ++j) {
        values[blockIdx.x * 2048LL + threadIdx.x * 8 + j] = keys[j];
        indices[blockIdx.x * 2048LL + threadIdx.x * 8 + j] = places[j];
    }
}
