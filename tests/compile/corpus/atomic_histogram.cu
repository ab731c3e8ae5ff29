// /// kforge
// [[step]]
// kernel = "zero"
// grid = ["1"]
// block = ["256"]
// args = ["out"]
// [[step]]
// kernel = "histogram"
// grid = ["min(2 * sm_count, ceil_div(x.numel, 256))"]
// block = ["256"]
// args = ["x", "x.numel", "out"]
// ///
// corpus: counts_int64; shared 1024
__global__ void zero(long long* out) { out[threadIdx.x] = 0; }
__global__ void histogram(const long long* x, long long n, long long* out) {
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) atomicAdd(&bins[x[i] & 255], 1u);
    __syncthreads();
    if (bins[threadIdx.x]) atomicAdd(reinterpret_cast<unsigned long long*>(out) + threadIdx.x, (unsigned long long)bins[threadIdx.x]);
}
