// /// kforge
// [[step]]
// kernel = "argmax"
// grid = ["x.shape[0]"]
// block = ["32"]
// args = ["x", "x.shape[1]", "out"]
// ///
// corpus: rowsum_fp32
__global__ void argmax(const float* x, long long n, float* out) {
    unsigned long long best = 0;
    for (unsigned i = threadIdx.x; i < n; i += 32) {
        unsigned bits = __float_as_uint(x[blockIdx.x * n + i]);
        bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        best = max(best, (unsigned long long)bits << 32 | (0xffffffffu - i));
    }
    for (int o = 16; o; o /= 2) best = max(best, __shfl_xor_sync(~0u, best, o));
    if (threadIdx.x == 0) out[blockIdx.x] = 0xffffffffu - (unsigned)best;
}
