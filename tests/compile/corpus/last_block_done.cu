// /// kforge
// [[step]]
// kernel = "sum_once"
// grid = ["64"]
// block = ["256"]
// args = ["x", "x.numel", "parts", "ticket", "out"]
// [workspace]
// parts = { dtype = "fp32", shape = ["64"] }
// ticket = { dtype = "int32", shape = ["1"], init = "zero" }
// ///
// corpus: reduce_fp32; shared 129
__device__ float block_sum(float v) {
    __shared__ float w[32];
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) w[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < 8 ? w[threadIdx.x] : 0.f;
    for (int o = 4; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}
__global__ void sum_once(const float* x, long long n, volatile float* parts, int* ticket, float* out) {
    __shared__ bool last;
    float v = 0;
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += 64 * 256) v += x[i];
    v = block_sum(v);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = v;
        __threadfence();
        last = atomicAdd(ticket, 1) == 63;
    }
    __syncthreads();
    if (!last) return;
    v = block_sum(threadIdx.x < 64 ? parts[threadIdx.x] : 0.f);
    if (threadIdx.x == 0) *out = v;
}
