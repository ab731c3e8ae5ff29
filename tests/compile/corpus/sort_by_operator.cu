// /// kforge
// [[step]]
// call = "aten::sort"
// args = ["x", "1", "False"]
// out = ["sorted", "places"]
// [[step]]
// kernel = "copy_out"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["sorted", "places", "out0", "out1", "x.numel"]
// ///
// corpus: sort
__global__ void copy_out(const float* sorted, const long long* places, float* values, long long* indices, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) values[i] = sorted[i], indices[i] = places[i];
}
