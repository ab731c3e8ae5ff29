// /// kforge
// [[step]]
// kernel = "bulk_rows"
// grid = ["x.shape[0]"]
// block = ["128"]
// args = ["x", "out"]
// ///
// corpus: rows_fp32; shared 4104; arch sm_90a
__global__ void bulk_rows(const float* x, float* out) {
    __shared__ alignas(16) float row[1024];
    __shared__ unsigned long long bar;
    const unsigned b = (unsigned)__cvta_generic_to_shared(&bar), r = (unsigned)__cvta_generic_to_shared(row);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(b) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];" ::"r"(r), "l"(x + blockIdx.x * 1024LL), "r"(b) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred p;\nspin:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra spin;\n}" ::"r"(b) : "memory");
    for (int i = threadIdx.x; i < 1024; i += 128) out[blockIdx.x * 1024LL + i] = row[i] * row[i];
}
