// /// kforge
// [[step]]
// kernel = "square"
// grid = ["ceil_div(x.numel, 128)"]
// block = ["128"]
// args = ["x", "out", "x.numel"]
// ///
// corpus: complex
__device__ float2 operator*(float2 a, float2 b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }
__global__ void square(const float2* z, float2* out, long long n) {
    const long long i = blockIdx.x * 128LL + threadIdx.x;
    if (i < n) out[i] = z[i] * z[i];
}
