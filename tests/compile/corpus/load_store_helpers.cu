// /// kforge
// [[step]]
// kernel = "geometric"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel"]
// ///
// corpus: pair_bf16
__global__ void geometric(const a_t* a, const b_t* b, out_t* out, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) out[i] = out_store(sqrtf(fabsf(a_load(a[i]) * b_load(b[i]))));
}
