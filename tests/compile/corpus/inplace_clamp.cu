// /// kforge
// inplace = true
// [[step]]
// kernel = "clamp"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["x", "x.numel"]
// ///
// corpus: inplace
__global__ void clamp(float* x, long long n) {
    long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) x[i] = fminf(fmaxf(x[i], -1.f), 1.f);
}
