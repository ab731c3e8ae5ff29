// /// kforge
// [[step]]
// kernel = "absolute_max"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["x", "x.numel", "bits"]
// [[step]]
// kernel = "to_float"
// grid = ["1"]
// block = ["1"]
// args = ["bits", "out"]
// [workspace]
// bits = { dtype = "int32", shape = ["1"], init = "zero" }
// ///
// corpus: reduce_fp32
__global__ void absolute_max(const float* x, long long n, int* bits) {
    long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) atomicMax(bits, __float_as_int(fabsf(x[i])));
}
__global__ void to_float(const int* bits, float* out) { *out = __int_as_float(*bits); }
