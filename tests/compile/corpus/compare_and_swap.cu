// /// kforge
// [[step]]
// kernel = "product"
// grid = ["4"]
// block = ["64"]
// args = ["x", "x.numel", "out"]
// ///
// corpus: reduce_fp32
__device__ void atomic_multiply(float* at, float by) {
    int* bits = reinterpret_cast<int*>(at);
    int seen = *bits, expected;
    do {
        expected = seen;
        seen = atomicCAS(bits, expected, __float_as_int(__int_as_float(expected) * by));
    } while (seen != expected);
}
__global__ void product(const float* x, long long n, float* out) {
    for (long long i = blockIdx.x * 64 + threadIdx.x; i < n; i += 256) atomic_multiply(out, x[i]);
}
