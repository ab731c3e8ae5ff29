// /// kforge
// [[step]]
// kernel = "groups_of_eight"
// grid = ["x.numel // 2048"]
// block = ["256"]
// args = ["x", "out0", "out1"]
// ///
// corpus: sort
__device__ __forceinline__ void order(float& a, float& b, int& i, int& j) {
    if (a > b) { float t = a; a = b; b = t; int u = i; i = j; j = u; }
}
__global__ void groups_of_eight(const float* x, float* values, long long* indices) {
    const long long base = (blockIdx.x * 256LL + threadIdx.x) * 8;
    float v[8];
    int at[8];
    #pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = x[base + k], at[k] = k;
    #pragma unroll
    for (int round = 0; round < 8; ++round)
        #pragma unroll
        for (int k = 0; k < 7; ++k)
            if (k % 2 == round % 2) order(v[k], v[k + 1], at[k], at[k + 1]);
    #pragma unroll
    for (int k = 0; k < 8; ++k) values[base + k] = v[k], indices[base + k] = at[k];
}
