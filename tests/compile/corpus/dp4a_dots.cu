// /// kforge
// [[step]]
// kernel = "dots"
// grid = ["1"]
// block = ["256"]
// args = ["x", "x.numel", "out"]
// ///
// corpus: counts_int32
__global__ void dots(const int* x, long long n, int* out) {
    int sum = 0;
    for (long long i = threadIdx.x; i < n; i += 256) sum = __dp4a(x[i], 0x01020304, sum);
    out[threadIdx.x] = sum;
}
