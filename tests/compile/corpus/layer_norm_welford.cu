// /// kforge
// [[step]]
// kernel = "welford"
// grid = ["ceil_div(x.shape[0], 8)"]
// block = ["32", "8"]
// args = ["x", "eps", "x.shape[0]", "x.shape[1]", "out"]
// ///
// corpus: rows_fp32
struct Moments {
    float mean = 0, m2 = 0, count = 0;
    __device__ void add(float v) { count += 1; float d = v - mean; mean += d / count; m2 += d * (v - mean); }
    __device__ void merge(const Moments& o) {
        float total = count + o.count;
        if (total == 0) return;
        float d = o.mean - mean;
        mean += d * o.count / total;
        m2 += o.m2 + d * d * count * o.count / total;
        count = total;
    }
    __device__ Moments from(int lane) const {
        Moments m;
        m.mean = __shfl_xor_sync(~0u, mean, lane);
        m.m2 = __shfl_xor_sync(~0u, m2, lane);
        m.count = __shfl_xor_sync(~0u, count, lane);
        return m;
    }
};
__global__ void welford(const float* x, float eps, long long rows, long long columns, float* out) {
    const long long row = blockIdx.x * 8LL + threadIdx.y;
    if (row >= rows) return;
    Moments m;
    for (long long c = threadIdx.x; c < columns; c += 32) m.add(x[row * columns + c]);
    for (int lane = 16; lane; lane /= 2) m.merge(m.from(lane));
    const float scale = rsqrtf(m.m2 / columns + eps);
    for (long long c = threadIdx.x; c < columns; c += 32) out[row * columns + c] = (x[row * columns + c] - m.mean) * scale;
}
