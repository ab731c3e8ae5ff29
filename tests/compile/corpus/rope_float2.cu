// /// kforge
// [[step]]
// kernel = "rope"
// grid = ["x.shape[0]"]
// block = ["128"]
// args = ["x", "x.shape[1] // 2", "out"]
// ///
// corpus: rows_fp32
__global__ void rope(const float* x, long long pairs, float* out) {
    for (long long i = threadIdx.x; i < pairs; i += 128) {
        const float2 v = reinterpret_cast<const float2*>(x)[blockIdx.x * pairs + i];
        float s, c;
        sincospif(blockIdx.x * exp2f(-12.f * i / pairs), &s, &c);
        reinterpret_cast<float2*>(out)[blockIdx.x * pairs + i] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
    }
}
