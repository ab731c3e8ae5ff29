// /// kforge
// [[step]]
// call = "aten::scaled_dot_product_attention"
// args = ["q", "k", "v"]
// out = "mixed"
// [[step]]
// kernel = "copy"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["mixed", "out", "out.numel"]
// ///
// corpus: attention
__global__ void copy(const mixed_t* from, out_t* to, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) to[i] = from[i];
}
