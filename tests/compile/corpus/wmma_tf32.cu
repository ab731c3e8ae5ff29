// /// kforge
// [[step]]
// kernel = "tf32"
// grid = ["out.shape[1] / 16", "out.shape[0] / 16"]
// block = ["32"]
// args = ["a", "b", "out.shape[1]", "a.shape[1]", "out"]
// ///
// corpus: gemm_fp32
#include <mma.h>
__global__ void tf32(const float* a, const float* b, long long n, long long k, float* c) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> fa;
    fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> fb;
    fragment<accumulator, 16, 16, 8, float> fc;
    fill_fragment(fc, 0.f);
    for (int i = 0; i < k; i += 8) {
        load_matrix_sync(fa, a + blockIdx.y * 16 * k + i, k);
        load_matrix_sync(fb, b + i * n + blockIdx.x * 16, n);
        for (int t = 0; t < fa.num_elements; ++t) fa.x[t] = __float_to_tf32(fa.x[t]);
        for (int t = 0; t < fb.num_elements; ++t) fb.x[t] = __float_to_tf32(fb.x[t]);
        mma_sync(fc, fa, fb, fc);
    }
    store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, fc, n, mem_row_major);
}
