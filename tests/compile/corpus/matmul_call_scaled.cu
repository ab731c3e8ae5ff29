// /// kforge
// [[step]]
// call = "aten::matmul"
// args = ["a", "b"]
// out = "product"
// [[step]]
// kernel = "halve"
// grid = ["product.shape[0]"]
// block = ["product.shape[1]"]
// args = ["product", "out"]
// ///
// corpus: gemm_fp32
__global__ void halve(const product_t* p, out_t* out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 0.5f * p[i];
}
