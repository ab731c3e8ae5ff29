// /// kforge
// [[step]]
// kernel = "tree"
// grid = ["x.shape[0]"]
// block = ["256"]
// args = ["x", "x.shape[1]", "out"]
// ///
// corpus: rowsum_fp32; shared 1024
__global__ void tree(const float* x, long long columns, float* out) {
    __shared__ float parts[256];
    const int t = threadIdx.x;
    float sum = 0;
    for (long long c = t; c < columns; c += 256) sum += x[blockIdx.x * columns + c];
    parts[t] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) parts[t] += parts[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = parts[0];
}
