"""CUDA forms of cheats that the contract makes impossible: each is refused before it could run."""

from __future__ import annotations

from kforge_mcp.judge.adversaries import operators as op
from tests.cheats import cuda_kernels as cuda
from tests.cheats.adversary import Refused
from tests.cheats.cuda_kernels import EACH, RMS_ROW


def _refused(row: int, name: str, says: str, *, body: str = RMS_ROW, before: str = "", top: str = "", more: str = ""):
    return Refused(row, name, op.RMS_NORM, cuda.rms_norm(body, before, top=top, more=more), says)


REFUSED = [
    _refused(
        4,
        "declares its output in a smaller shape",
        "`out`",
        more='[workspace]\nout = { dtype = "fp32", shape = ["1"] }\n',
    ),
    _refused(
        7,
        "remembers pointers in a device variable",
        "`seen`",
        before="__device__ const void* seen[64];\n",
        body="    for (int j = 0; j < 64; ++j) if (seen[j] == x) return;\n"
        + RMS_ROW
        + "    seen[blockIdx.x % 64] = x;\n",
    ),
    _refused(
        7,
        "keeps a result in a device variable",
        "`kept`",
        before="__device__ float kept[1 << 14];\n",
        body=RMS_ROW + f"    {EACH} kept[blockIdx.x * n + i] = b[i];\n",
    ),
    _refused(
        7,
        "keeps a result in a static variable of the kernel",
        "`kept`",
        body=f"    static float kept[1024];\n    if (kept[1] == a[1]) {EACH} b[i] = kept[i];\n"
        f"    {EACH} kept[i] = b[i];\n",
    ),
    _refused(
        7,
        "keeps a result in managed memory",
        "`kept`",
        before="__managed__ float kept[64];\n",
        body="    if (kept[0]) return;\n" + RMS_ROW,
    ),
    _refused(7, "keeps a result on the heap", "heap", body=RMS_ROW + "    b[0] = *static_cast<float*>(malloc(8));\n"),
    _refused(
        9,
        "leaves its pointers to the next call in a device variable",
        "`pending`",
        before="__device__ const x_t* pending;\n",
        body="    const x_t* now = a;\n    a = pending;\n" + RMS_ROW + "    pending = now;\n",
    ),
    _refused(
        10, "makes a stream", "cudaStreamCreate", before="void host() { cudaStream_t s; cudaStreamCreate(&s); }\n"
    ),
    _refused(
        10,
        "launches from the device",
        "",
        body="    if (threadIdx.x == 0) other<<<1, 1>>>(y);\n" + RMS_ROW,
        before="__global__ void other(out_t* y) { y[0] = 0; }\n",
    ),
    _refused(10, "starts threads", "thread", before="#include <thread>\n"),
    Refused(
        21,
        "asks for an alias of its input where eager makes a new tensor",
        op.RMS_NORM,
        cuda.rms_norm(RMS_ROW, top="inplace = true\n")
        .replace(', "out"', "")
        .replace(", out_t* y", "")
        .replace("b = y +", "b = (float*)x +"),
        "inplace",
    ),
    _refused(
        23,
        "has host code that ends the process",
        "exit",
        before="void host() { exit(0); }\n",
        body="    exit(0);\n" + RMS_ROW,
    ),
    _refused(
        23,
        "a variable with a constructor",
        "",
        before="struct E { int n; __device__ E() { n = clock(); } };\n__device__ E e;\n",
        body="    if (e.n) return;\n" + RMS_ROW,
    ),
    _refused(24, "reads a file", "fstream", before="#include <fstream>\n"),
    _refused(24, "goes to the network", "sys/socket.h", before="#include <sys/socket.h>\n"),
    _refused(24, "reads the environment", "getenv", body='    if (getenv("HOME")) return;\n' + RMS_ROW),
    _refused(24, "includes a file of the machine", "not a header", before='#include "/etc/passwd"\n'),
    _refused(25, "forks", "fork", body="    fork();\n" + RMS_ROW),
    _refused(26, "sets a flag of torch", "torch/torch.h", before="#include <torch/torch.h>\n"),
    _refused(26, "sets the host's rounding mode", "xmmintrin.h", before="#include <xmmintrin.h>\n"),
    _refused(
        26, "asks for options that are not listed", "option", top='options = ["--relocatable-device-code=true"]\n'
    ),
    _refused(
        27,
        "sets a window of persisting L2",
        "cudaStreamSetAttribute",
        before="void host() { cudaStreamSetAttribute(0, 1, 0); }\n",
    ),
    _refused(
        28,
        "counts its calls to be slow at first",
        "`calls`",
        before="__device__ int calls;\n",
        body="    if (threadIdx.x == 0 && atomicAdd(&calls, 1) < 1000) for (volatile int j = 0; j < 9999; ++j) {}\n"
        + RMS_ROW,
    ),
    _refused(
        29,
        "counts its calls to be right at first",
        "`calls`",
        before="__device__ unsigned calls;\n",
        body="    if (atomicAdd(&calls, 1u) > 100000) return;\n" + RMS_ROW,
    ),
    _refused(
        29,
        "counts its launches by the register that numbers grids",
        "%gridid",
        body='    unsigned long long id; asm volatile("mov.u64 %0, %%gridid;" : "=l"(id));\n    if (id > 60) return;\n'
        + RMS_ROW,
    ),
    _refused(
        29,
        "tells the time of day to be right until tomorrow",
        "%globaltimer",
        body='    unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));\n'
        "    if (t > 1893456000000000000ull) return;\n" + RMS_ROW,
    ),
    _refused(34, "leaves a thread behind that slows eager down", "pthread.h", before="#include <pthread.h>\n"),
]
