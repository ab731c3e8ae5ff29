// /// kforge
// [[step]]
// kernel = "through_tma"
// grid = ["x.shape[1] / 32", "x.shape[0] / 32"]
// block = ["128"]
// args = ["tiles", "x.shape[1]", "out"]
// [tensor_maps]
// tiles = { tensor = "x", box = ["32", "32"] }
// ///
// corpus: square_fp32; shared 4104; arch sm_90a
__global__ void through_tma(const __grid_constant__ CUtensorMap map, long long n, float* out) {
    __shared__ alignas(128) float tile[1024];
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned b = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    const unsigned t = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(b) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(t), "l"(&map), "r"(blockIdx.x * 32), "r"(blockIdx.y * 32), "r"(b) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra again;\n}" ::"r"(b) : "memory");
    for (int e = threadIdx.x; e < 1024; e += 128) out[(blockIdx.y * 32 + e / 32) * n + blockIdx.x * 32 + e % 32] = tile[e] + 1;
}
