// /// kforge
// [[step]]
// kernel = "total<float, float, float>"
// grid = ["ceil_div(out.numel, 256)"]
// block = ["256"]
// args = ["out", "out.numel", "tensors[0]", "tensors[1]", "tensors[2]"]
// ///
// corpus: list
template <class... T> __global__ void total(float* out, long long n, const T*... in) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) out[i] = (in[i] + ...);
}
