// /// kforge
// [[step]]
// kernel = "scale_rows"
// grid = ["x.shape[0]"]
// block = ["256"]
// args = ["x", "weight", "x.shape[1]", "out"]
// ///
// corpus: mixed
__global__ void scale_rows(const x_t* x, const weight_t* weight, long long n, out_t* out) {
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        const long long at = blockIdx.x * n + i;
        out[at] = out_store(x_load(x[at]) * weight[i]);
    }
}
