// /// kforge
// [[step]]
// kernel = "bitonic"
// grid = ["x.shape[0]"]
// block = ["1024"]
// args = ["x", "out0", "out1"]
// ///
// corpus: sort; shared 16384
__global__ void bitonic(const float* x, float* values, long long* indices) {
    __shared__ float key[2048];
    __shared__ int place[2048];
    const long long base = blockIdx.x * 2048LL;
    for (int i = threadIdx.x; i < 2048; i += 1024) key[i] = x[base + i], place[i] = i;
    __syncthreads();
    for (int size = 2; size <= 2048; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            const int i = 2 * threadIdx.x - (threadIdx.x & (stride - 1)), j = i + stride;
            if ((key[i] > key[j]) == ((i & size) == 0)) {
                const float k = key[i]; key[i] = key[j]; key[j] = k;
                const int p = place[i]; place[i] = place[j]; place[j] = p;
            }
            __syncthreads();
        }
    for (int i = threadIdx.x; i < 2048; i += 1024) values[base + i] = key[i], indices[base + i] = place[i];
}
