// /// kforge
// [[step]]
// kernel = "sum3"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["tensors[0]", "tensors[1]", "tensors[2]", "out", "out.numel"]
// ///
// corpus: list
__global__ void sum3(const tensors_t* a, const tensors_t* b, const tensors_t* c, out_t* out, long long n) {
    long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i] + c[i];
}
