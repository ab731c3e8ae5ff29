// /// kforge
// [[step]]
// kernel = "ring"
// grid = ["x.shape[0]"]
// block = ["64"]
// args = ["x", "x.shape[1]", "out"]
// ///
// corpus: rows_fp32; shared 256
class Ring {
    float* memory_;
public:
    __device__ explicit Ring(float* memory) : memory_(memory) {}
    __device__ void put(int at, float v) { memory_[at & 63] = v; }
    __device__ float get(int at) const { return memory_[at & 63]; }
};
__global__ void ring(const float* x, long long n, float* out) {
    __shared__ float memory[64];
    Ring r(memory);
    for (long long base = 0; base < n; base += 64) {
        r.put(threadIdx.x, x[blockIdx.x * n + base + threadIdx.x]);
        __syncthreads();
        out[blockIdx.x * n + base + threadIdx.x] = r.get(threadIdx.x + 1);
        __syncthreads();
    }
}
