// /// kforge
// [[step]]
// kernel = "meet"
// grid = ["min(sm_count, 64)"]
// block = ["256"]
// cooperative = true
// args = ["x", "x.numel", "parts", "arrived", "out"]
// [workspace]
// parts = { dtype = "fp32", shape = ["sm_count"], init = "zero" }
// arrived = { dtype = "int32", shape = ["1"], init = "zero" }
// ///
// corpus: reduce_fp32
__device__ void everyone(int* arrived, int blocks) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < blocks) __nanosleep(32);
    }
    __syncthreads();
}
__global__ void meet(const float* x, long long n, float* parts, int* arrived, float* out) {
    float sum = 0;
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) sum += x[i];
    atomicAdd(parts + blockIdx.x, sum);
    everyone(arrived, gridDim.x);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        sum = 0;
        for (unsigned b = 0; b < gridDim.x; ++b) sum += atomicAdd(parts + b, 0.f);
        *out = sum;
    }
}
