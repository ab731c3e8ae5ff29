// /// kforge
// [[step]]
// kernel = "mma16816"
// grid = ["out.shape[1] / 8", "out.shape[0] / 16"]
// block = ["32"]
// args = ["a", "b", "out.shape[1]", "a.shape[1]", "out"]
// ///
// corpus: gemm_fp16
__device__ unsigned pack(__half lo, __half hi) {
    __half2 both = __halves2half2(lo, hi);
    return *reinterpret_cast<unsigned*>(&both);
}
__global__ void mma16816(const __half* a, const __half* b, long long n, long long k, __half* c) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    a += blockIdx.y * 16 * k;
    b += blockIdx.x * 8;
    float d[4] = {};
    for (int i = 0; i < k; i += 16) {
        unsigned ra[4], rb[2];
        for (int j = 0; j < 4; ++j) ra[j] = *reinterpret_cast<const unsigned*>(a + (g + j % 2 * 8) * k + i + t * 2 + j / 2 * 8);
        for (int j = 0; j < 2; ++j) rb[j] = pack(b[(i + t * 2 + j * 8) * n + g], b[(i + t * 2 + j * 8 + 1) * n + g]);
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    }
    c += blockIdx.y * 16 * n + blockIdx.x * 8;
    for (int j = 0; j < 4; ++j) c[(g + j / 2 * 8) * n + t * 2 + j % 2] = __float2half(d[j]);
}
