// /// kforge
// [[step]]
// kernel = "sobel"
// grid = ["x.shape[0] * x.shape[1]"]
// block = ["32", "32"]
// args = ["x", "out"]
// ///
// corpus: image
__constant__ float filter[9] = {-1, 0, 1, -2, 0, 2, -1, 0, 1};
__global__ void sobel(const float* x, float* out) {
    const float* plane = x + blockIdx.x * 1024LL;
    float sum = 0;
    for (int k = 0; k < 9; ++k) {
        int r = min(max(int(threadIdx.y) + k / 3 - 1, 0), 31), c = min(max(int(threadIdx.x) + k % 3 - 1, 0), 31);
        sum += filter[k] * plane[r * 32 + c];
    }
    out[blockIdx.x * 1024LL + threadIdx.y * 32 + threadIdx.x] = sum;
}
