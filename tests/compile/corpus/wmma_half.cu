// /// kforge
// [[step]]
// kernel = "wmma_tile"
// grid = ["out.shape[1] / 16", "out.shape[0] / 16"]
// block = ["32"]
// args = ["a", "b", "out.shape[1]", "a.shape[1]", "out"]
// ///
// corpus: gemm_fp16
#include <mma.h>
using namespace nvcuda;
__global__ void wmma_tile(const __half* a, const __half* b, long long n, long long k, __half* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, __half> fc;
    wmma::fill_fragment(fc, __float2half(0.f));
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * k + i, k);
        wmma::load_matrix_sync(fb, b + i * n + blockIdx.x * 16, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, fc, n, wmma::mem_row_major);
}
