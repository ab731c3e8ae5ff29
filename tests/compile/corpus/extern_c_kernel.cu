// /// kforge
// [[step]]
// kernel = "half_max"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel"]
// ///
// corpus: pair_fp16
extern "C" __global__ void half_max(const a_t* a, const b_t* b, out_t* out, unsigned long long n) {
    unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
    if (i < n) out[i] = __hmax(a[i], b[i]);
}
