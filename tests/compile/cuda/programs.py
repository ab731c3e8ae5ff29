"""CUDA candidates of different kinds for one card: `x` (fp32, 4 x 256), `out` likewise."""

from __future__ import annotations

from kforge_mcp.records.card import OperatorCard
from tests.candidate.cards import candidate_text, constant, dense, make_card, make_variant, tensor

STEP = """[[step]]
kernel = "{kernel}"
grid = ["x.shape[0]"]
block = ["256"]
args = ["x", "scale", "x.shape[1]", "out"]
"""
OPENING = "__global__ void k(const x_t* x, float scale, long long n, out_t* out) {"


def card(dtype: str = "fp32") -> OperatorCard:
    return make_card(
        make_variant(
            "v0",
            [dense(4, 256, dtype=dtype)],
            [tensor("x", 0), constant("scale", 0.5)],
            [dense(4, 256, dtype=dtype)],
        )
    )


def candidate(code: str, kernel: str = "k", extra: str = "", top: str = "") -> str:
    return candidate_text(top + STEP.format(kernel=kernel) + extra, code)


PLAIN = candidate(OPENING + "\n    out[blockIdx.x * n + threadIdx.x] = x[blockIdx.x * n + threadIdx.x] * scale;\n}\n")

GROUPS = candidate(
    """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
"""
    + OPENING
    + """
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float sum = cg::reduce(warp, x_load(x[blockIdx.x * n + block.thread_rank()]), cg::plus<float>());
    block.sync();
    out[blockIdx.x * n + block.thread_rank()] = out_store(sum * scale);
}
"""
)

CUB = candidate(
    """#include <cub/block/block_reduce.cuh>
template <int THREADS>
__global__ void sums(const x_t* x, float scale, long long n, out_t* out) {
    using Reduce = cub::BlockReduce<float, THREADS>;
    __shared__ typename Reduce::TempStorage storage;
    __shared__ float total;
    float sum = Reduce(storage).Sum(x_load(x[blockIdx.x * n + threadIdx.x]));
    if (threadIdx.x == 0) total = sum;
    __syncthreads();
    out[blockIdx.x * n + threadIdx.x] = out_store(total * scale);
}
""",
    kernel="sums<THREADS>",
    extra="[tunables]\nTHREADS = [256]\n",
)

MATRIX = candidate_text(
    """[[step]]
kernel = "tiles"
grid = ["1"]
block = ["32"]
args = ["x", "out"]
""",
    """#include <mma.h>
using namespace nvcuda;
__global__ void tiles(const half* __restrict__ x, half* __restrict__ out) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> c;
    wmma::load_matrix_sync(a, x, 256);
    wmma::load_matrix_sync(b, x, 256);
    wmma::fill_fragment(c, __float2half(0.f));
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(out, c, 256, wmma::mem_row_major);
}
""",
)

TENSOR_MAP = candidate_text(
    """[[step]]
kernel = "load"
grid = ["x.shape[0]"]
block = ["128"]
cluster = ["2"]
args = ["tile", "out"]
[tensor_maps]
tile = { tensor = "x", box = ["1", "128"] }
""",
    """#include <cuda/ptx>
__global__ void load(const __grid_constant__ CUtensorMap tile, out_t* out) {
    __shared__ alignas(128) float buffer[128];
    __shared__ alignas(8) unsigned long long barrier;
    if (threadIdx.x == 0) {
        unsigned at = (unsigned)__cvta_generic_to_shared(&barrier), to = (unsigned)__cvta_generic_to_shared(buffer);
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(at));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&tile), "r"(0), "r"((int)blockIdx.x), "r"(at)
                     : "memory");
    }
    __syncthreads();
    out[blockIdx.x * 256 + threadIdx.x] = buffer[threadIdx.x];
}
""",
)

ASYNC_COPY = candidate(
    """#include <cuda_pipeline.h>
__device__ const float weights[4] = {1.f, 2.f, 3.f, 4.f};
"""
    + OPENING
    + """
    extern __shared__ __align__(16) unsigned char raw[];
    float* tile = reinterpret_cast<float*>(raw);
    if (threadIdx.x < 64)
        __pipeline_memcpy_async(tile + 4 * threadIdx.x, x + blockIdx.x * n + 4 * threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[blockIdx.x * n + threadIdx.x] = tile[threadIdx.x] * scale * weights[threadIdx.x & 3];
}
""",
).replace('block = ["256"]', 'block = ["256"]\n// shared_bytes = "x.shape[1] * x.itemsize"')
