// /// kforge
// [[step]]
// kernel = "reduce_max"
// grid = ["x.shape[0]"]
// block = ["BLOCK"]
// shared_bytes = "BLOCK * x.itemsize"
// args = ["x", "x.shape[1]", "out"]
// [tunables]
// BLOCK = [64, 128]
// ///
// corpus: rowsum_fp32
__global__ void reduce_max(const float* x, long long columns, float* out) {
    extern __shared__ float scratch[];
    float best = -3.4e38f;
    for (int c = threadIdx.x; c < columns; c += BLOCK) best = fmaxf(best, x[blockIdx.x * columns + c]);
    scratch[threadIdx.x] = best;
    __syncthreads();
    for (int stride = BLOCK / 2; stride; stride >>= 1) {
        if (threadIdx.x < stride) scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + stride]);
        __syncthreads();
    }
    if (!threadIdx.x) out[blockIdx.x] = *scratch;
}
