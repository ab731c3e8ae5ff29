// /// kforge
// [[step]]
// kernel = "accumulate<ACC>"
// grid = ["x.shape[0]"]
// block = ["32"]
// args = ["x", "x.shape[1]", "out"]
// [tunables]
// ACC = ["float", "double"]
// ///
// corpus: rows_fp16
template <class A> __global__ void accumulate(const __half* x, long long n, __half* out) {
    A sum = 0;
    for (long long i = threadIdx.x; i < n; i += 32) sum += A(__half2float(x[blockIdx.x * n + i]));
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    for (long long i = threadIdx.x; i < n; i += 32) out[blockIdx.x * n + i] = __float2half(float(sum / n));
}
