// /// kforge
// [[step]]
// kernel = "vector_add"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["a", "b", "out", "out.numel"]
// ///
// corpus: pair_fp32
__global__ void vector_add(const float* a, const float* b, float* c, long long n) {
    long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
