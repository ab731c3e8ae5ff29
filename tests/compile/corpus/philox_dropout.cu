// /// kforge
// [[step]]
// kernel = "dropout"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["x", "out", "x.numel"]
// ///
// corpus: rows_fp32
__device__ uint2 round_of(uint2 c, unsigned key) {
    const unsigned hi = __umulhi(0xD256D193u, c.x), lo = 0xD256D193u * c.x;
    return make_uint2(hi ^ key ^ c.y, lo);
}
__global__ void dropout(const float* x, float* out, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= n) return;
    uint2 c = make_uint2((unsigned)i, (unsigned)(i >> 32));
    unsigned key = 17;
    #pragma unroll
    for (int r = 0; r < 10; ++r, key += 0x9E3779B9u) c = round_of(c, key);
    out[i] = c.x & 1 ? 2 * x[i] : 0.f;
}
