// /// kforge
// [[step]]
// kernel = "through_ldmatrix"
// grid = ["out.shape[1] / 16", "out.shape[0] / 16"]
// block = ["32"]
// args = ["a", "a.shape[1]", "out", "out.shape[1]"]
// ///
// corpus: gemm_fp16; shared 512
__global__ void through_ldmatrix(const __half* a, long long k, __half* c, long long n) {
    __shared__ alignas(16) __half tile[16][16];
    for (int e = threadIdx.x; e < 256; e += 32) tile[e / 16][e % 16] = a[(blockIdx.y * 16 + e / 16) * k + e % 16];
    __syncwarp();
    unsigned r[4];
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&tile[threadIdx.x % 16][threadIdx.x / 16 * 8]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int j = 0; j < 4; ++j)
        *reinterpret_cast<unsigned*>(c + (blockIdx.y * 16 + threadIdx.x / 4 + j % 2 * 8) * n + blockIdx.x * 16 + threadIdx.x % 4 * 2 + j / 2 * 8) = r[j];
}
