// /// kforge
// [[step]]
// kernel = "clear"
// grid = ["1"]
// block = ["256"]
// args = ["out"]
// [[step]]
// kernel = "count_multiples"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["x", "x.numel", "out"]
// ///
// corpus: counts_int32
__global__ void clear(int* out) { out[threadIdx.x] = 0; }
__global__ void count_multiples(const int* x, long long n, int* out) {
    long long i = blockIdx.x * 256LL + threadIdx.x;
    int total = __reduce_add_sync(~0u, i < n && x[i] % 3 == 0 ? 1 : 0);
    if ((threadIdx.x & 31) == 0) atomicAdd(out + blockIdx.x % 256, total);
}
