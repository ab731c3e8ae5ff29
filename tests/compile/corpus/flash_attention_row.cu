// /// kforge
// [[step]]
// kernel = "attend"
// grid = ["q.shape[1]", "q.shape[0]"]
// block = ["64"]
// args = ["q", "k", "v", "k.shape[1]", "out"]
// ///
// corpus: attention; shared 512
__global__ void attend(const float* q, const float* k, const float* v, long long keys, float* out) {
    __shared__ float query[64], weight[64];
    const long long row = (blockIdx.y * (long long)gridDim.x + blockIdx.x) * 64;
    k += blockIdx.y * keys * 64, v += blockIdx.y * keys * 64;
    query[threadIdx.x] = q[row + threadIdx.x] * 0.125f;
    float most = -1e30f, sum = 0, acc = 0;
    for (long long base = 0; base < keys; base += 64) {
        __syncthreads();
        float dot = 0;
        for (int d = 0; d < 64; ++d) dot += query[d] * k[(base + threadIdx.x) * 64 + d];
        weight[threadIdx.x] = dot;
        __syncthreads();
        float next = most;
        for (int j = 0; j < 64; ++j) next = fmaxf(next, weight[j]);
        const float keep = __expf(most - next);
        sum *= keep, acc *= keep, most = next;
        for (int j = 0; j < 64; ++j) {
            const float p = __expf(weight[j] - most);
            sum += p, acc += p * v[(base + j) * 64 + threadIdx.x];
        }
    }
    out[row + threadIdx.x] = acc / sum;
}
