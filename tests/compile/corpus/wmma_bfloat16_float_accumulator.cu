// /// kforge
// [[step]]
// kernel = "wmma_bf16"
// grid = ["out.shape[1] / 16", "out.shape[0] / 16"]
// block = ["32"]
// args = ["a", "b", "out.shape[1]", "a.shape[1]", "out"]
// ///
// corpus: gemm_bf16; shared 1024
#include <mma.h>
#include <cuda_bf16.h>
__global__ void wmma_bf16(const a_t* a, const b_t* b, long long n, long long k, out_t* c) {
    using namespace nvcuda::wmma;
    __shared__ float tile[256];
    fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> fa;
    fragment<matrix_b, 16, 16, 16, __nv_bfloat16, row_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc;
    fill_fragment(fc, 0.f);
    for (int i = 0; i < k; i += 16) {
        load_matrix_sync(fa, a + blockIdx.y * 16 * k + i, k);
        load_matrix_sync(fb, b + i * n + blockIdx.x * 16, n);
        mma_sync(fc, fa, fb, fc);
    }
    store_matrix_sync(tile, fc, 16, mem_row_major);
    __syncwarp();
    for (int e = threadIdx.x; e < 256; e += 32) c[(blockIdx.y * 16 + e / 16) * n + blockIdx.x * 16 + e % 16] = out_store(tile[e]);
}
