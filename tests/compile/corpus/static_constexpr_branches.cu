// /// kforge
// [[step]]
// kernel = "convert<x_t, MODE>"
// grid = ["x.shape[0]"]
// block = ["128"]
// args = ["x", "x.shape[1]", "out"]
// [tunables]
// MODE = [0, 1]
// ///
// corpus: rows_bf16
#include <type_traits>
template <class T, int M> __global__ void convert(const T* x, long long n, out_t* out) {
    for (long long i = threadIdx.x; i < n; i += 128) {
        float v;
        if constexpr (std::is_same<T, float>::value) v = x[blockIdx.x * n + i];
        else v = __bfloat162float(x[blockIdx.x * n + i]);
        if constexpr (M == 1) v = tanhf(v);
        out[blockIdx.x * n + i] = out_store(v);
    }
}
