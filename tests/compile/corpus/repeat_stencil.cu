// /// kforge
// [[step]]
// kernel = "smooth"
// grid = ["x.shape[0]"]
// block = ["256"]
// repeat = "4"
// args = ["step", "x", "work", "out", "x.shape[0]"]
// [workspace]
// work = { dtype = "fp32", shape = ["x.numel"] }
// ///
// corpus: square_fp32
__global__ void smooth(long long step, const float* x, float* work, float* out, long long n) {
    const float* from = step == 0 ? x : step % 2 ? work : out;
    float* to = step % 2 ? out : work;
    for (long long c = threadIdx.x; c < n; c += 256) {
        const long long at = blockIdx.x * n + c;
        to[at] = (from[at] + from[blockIdx.x * n + (c + 1) % n]) * 0.5f;
    }
}
