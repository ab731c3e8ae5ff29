// /// kforge
// [[step]]
// kernel = "axpy"
// grid = ["min(ceil_div(out.numel, BLOCK), 4 * sm_count)"]
// block = ["BLOCK"]
// args = ["scale", "a", "b", "out", "out.numel"]
// [tunables]
// BLOCK = [128, 256]
// ///
// corpus: pair_fp32
__global__ void axpy(scale_t alpha, const a_t* __restrict__ x, const b_t* __restrict__ y, out_t* __restrict__ z, size_t n) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
        z[i] = fmaf(alpha, x[i], y[i]);
}
