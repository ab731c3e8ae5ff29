// /// kforge
// [[step]]
// kernel = "swap_halves"
// grid = ["ceil_div(x.numel // 2, 256)"]
// block = ["256"]
// args = ["x", "out", "x.numel // 2"]
// ///
// corpus: rows_fp16
__global__ void swap_halves(const x_t* x, out_t* out, long long pairs) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < pairs) ((unsigned*)out)[i] = __byte_perm(((const unsigned*)x)[i], 0, 0x1032);
}
