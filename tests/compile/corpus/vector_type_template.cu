// /// kforge
// [[step]]
// kernel = "scaled<float4>"
// grid = ["x.shape[0]"]
// block = ["128"]
// args = ["x", "x.shape[1] // 4", "out"]
// ///
// corpus: rows_fp32
template <class V> struct Width;
template <> struct Width<float4> { static constexpr int value = 4; };
template <class V> __global__ void scaled(const float* x, long long n, float* out) {
    const V* from = reinterpret_cast<const V*>(x) + blockIdx.x * n;
    V* to = reinterpret_cast<V*>(out) + blockIdx.x * n;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        V v = from[i];
        float* parts = &v.x;
        for (int k = 0; k < Width<V>::value; ++k) parts[k] *= 3.f;
        to[i] = v;
    }
}
