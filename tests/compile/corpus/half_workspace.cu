// /// kforge
// [[step]]
// kernel = "first"
// grid = ["x.shape[0]"]
// block = ["256"]
// args = ["x", "x.shape[1]", "work"]
// [[step]]
// kernel = "second"
// grid = ["x.shape[0]"]
// block = ["256"]
// args = ["work", "x.shape[1]", "out"]
// [workspace]
// work = { dtype = "fp16", shape = ["x.numel"] }
// ///
// corpus: rows_fp32; arch sm_90a
__global__ void first(const float* x, long long n, work_t* work) {
    for (long long i = threadIdx.x; i < n; i += 256) work[blockIdx.x * n + i] = work_store(x[blockIdx.x * n + i]);
}
__global__ void second(const work_t* work, long long n, float* out) {
    for (long long i = threadIdx.x; i < n; i += 256) out[blockIdx.x * n + i] = work_load(work[blockIdx.x * n + (i + 1) % n]);
}
