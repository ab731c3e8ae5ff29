// /// kforge
// [[step]]
// kernel = "wgmma64"
// grid = ["out.shape[1] / 64", "out.shape[0] / 64"]
// block = ["128"]
// args = ["a", "b", "out.shape[1]", "a.shape[1]", "out"]
// ///
// corpus: gemm_fp16; shared 12288; arch sm_90a
__device__ unsigned long long descriptor(const void* p) {
    const unsigned long long at = static_cast<unsigned>(__cvta_generic_to_shared(p));
    return (at & 0x3ffff) >> 4 | 8ull << 16 | 16ull << 32;
}
__global__ void __launch_bounds__(128) wgmma64(const __half* a, const __half* b, long long n, long long k, __half* c) {
    __shared__ alignas(128) __half as[64 * 64];
    __shared__ alignas(128) __half bs[64 * 32];
    for (int e = threadIdx.x; e < 4096; e += 128) as[e] = a[(blockIdx.y * 64 + e / 64) * k + e % 64];
    for (int e = threadIdx.x; e < 2048; e += 128) bs[e] = b[(e / 32) * n + blockIdx.x * 64 + e % 32];
    __syncthreads();
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(descriptor(as)), "l"(descriptor(bs)), "r"(0));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int j = 0; j < 4; ++j) c[(blockIdx.y * 64 + threadIdx.x / 4) * n + blockIdx.x * 64 + threadIdx.x % 4 * 2 + j] = __float2half(d[j]);
}
