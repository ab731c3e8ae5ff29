// /// kforge
// [[step]]
// kernel = "votes"
// grid = ["ceil_div(x.numel, 128)"]
// block = ["128"]
// args = ["x", "x.numel", "out"]
// ///
// corpus: counts_int32
__global__ void votes(const int* x, long long n, int* out) {
    const long long i = blockIdx.x * 128LL + threadIdx.x;
    const bool inside = i < n;
    const unsigned active = __ballot_sync(~0u, inside);
    if (!inside) return;
    const int bin = x[i] & 255;
    const unsigned same = __match_any_sync(active, bin);
    if (__ffs(same) - 1 == threadIdx.x % 32) atomicAdd(out + bin, __popc(same));
}
