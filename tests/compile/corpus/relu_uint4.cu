// /// kforge
// [[step]]
// kernel = "add_relu8"
// grid = ["ceil_div(out.numel // 8, 128)"]
// block = ["128"]
// args = ["a", "b", "out", "out.numel // 8"]
// ///
// corpus: pair_bf16
union Eight { uint4 raw; __nv_bfloat16 at[8]; };
__global__ void add_relu8(const a_t* a, const b_t* b, out_t* out, long long groups) {
    const long long i = blockIdx.x * 128LL + threadIdx.x;
    if (i >= groups) return;
    Eight u, v;
    u.raw = reinterpret_cast<const uint4*>(a)[i];
    v.raw = reinterpret_cast<const uint4*>(b)[i];
    #pragma unroll
    for (int j = 0; j < 8; ++j)
        u.at[j] = __float2bfloat16(fmaxf(__bfloat162float(u.at[j]) + __bfloat162float(v.at[j]), 0.f));
    reinterpret_cast<uint4*>(out)[i] = u.raw;
}
