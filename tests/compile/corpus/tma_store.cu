// /// kforge
// [[step]]
// kernel = "store_tile"
// grid = ["out.shape[1] / 32", "out.shape[0] / 32"]
// block = ["256"]
// args = ["x", "x.shape[1]", "target"]
// [tensor_maps]
// target = { tensor = "out", box = ["32", "32"], l2_promotion = "128B" }
// ///
// corpus: square_fp32; shared 4096; arch sm_90a
__global__ void store_tile(const float* x, long long n, const __grid_constant__ CUtensorMap target) {
    __shared__ alignas(128) float tile[32][32];
    for (int e = threadIdx.x; e < 1024; e += 256) tile[e / 32][e % 32] = x[(blockIdx.y * 32 + e / 32) * n + blockIdx.x * 32 + e % 32];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(&target), "r"(blockIdx.x * 32), "r"(blockIdx.y * 32), "r"((unsigned)__cvta_generic_to_shared(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
