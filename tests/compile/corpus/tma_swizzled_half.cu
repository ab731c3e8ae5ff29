// /// kforge
// [[step]]
// kernel = "fetch_swizzled"
// grid = ["a.shape[1] / 64", "a.shape[0] / 128"]
// block = ["128"]
// args = ["map", "out"]
// [tensor_maps]
// map = { tensor = "a", box = ["128", "64"], swizzle = "128B" }
// ///
// corpus: gemm_fp16; shared 16392; arch sm_90a
struct Barrier {
    unsigned long long word;
    __device__ unsigned address() { return static_cast<unsigned>(__cvta_generic_to_shared(&word)); }
    __device__ void init(int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(count)); }
    __device__ void expect(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
    }
    __device__ bool ready(int phase) {
        int done;
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.s32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(address()), "r"(phase) : "memory");
        return done;
    }
};
__global__ void fetch_swizzled(const __grid_constant__ CUtensorMap map, __half* out) {
    __shared__ alignas(1024) __half tile[128 * 64];
    __shared__ Barrier full;
    if (threadIdx.x == 0) {
        full.init(1);
        full.expect(sizeof(tile));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"((unsigned)__cvta_generic_to_shared(tile)), "l"(&map), "r"(blockIdx.x * 64), "r"(blockIdx.y * 128), "r"(full.address()) : "memory");
    }
    __syncthreads();
    while (!full.ready(0)) {}
    const int row = threadIdx.x;
    for (int c = 0; c < 8; ++c) out[row * 8 + c] = tile[row * 64 + (c ^ row % 8) * 8];
}
