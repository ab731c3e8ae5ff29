"""Host cost of one call of an exported operator against the native eager operator's, side by side on a GPU.

    python benchmarks/bench_export_gpu.py [--calls 400] [--pairs 60] [--json FILE]

Tensors are so small that the host, not the GPU, sets the pace. Both sides are called in batches, in random order; a
batch's time is that of its calls on the host alone, with the GPU idle before it. The native side is the function that a
model calls; the package's is its operator, with all guards, allocation and launch: `torch.ops.<package>.<name>.default`
called as such, and through its `op`, as the package's own dispatcher does. Needs `KFORGE_PYTHON` with torch for CUDA,
or runs with this Python's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.store.workspace import Workspace
from tests.candidate.cards import candidate_text, constant, dense, make_card, make_variant, tensor
from tests.export.cuda.conftest import on_gpu
from tests.gpu.packages import kernel, missing, open_gpu, package

ROWS, WIDTH = 8, 256


def elementwise(name: str, expression: str) -> tuple[OperatorCard, str]:
    text = """
[[step]]
kernel = "apply"
grid = ["ceil_div(input.numel, 256)"]
block = ["256"]
args = ["input", "input.numel", "out"]
"""
    code = f"""__global__ void apply(const float* x, long long n, float* y) {{
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) {{ const float v = x[i]; y[i] = {expression}; }}
}}
"""
    variant = make_variant("v0", [dense(ROWS, WIDTH)], [tensor("input", 0)], [dense(ROWS, WIDTH)])
    return make_card(on_gpu(variant), name=name), candidate_text(text, code)


LAYER_NORM = candidate_text(
    """
[[step]]
kernel = "layer_norm"
grid = ["input.shape[0]"]
block = ["256"]
args = ["input", "weight", "bias", "eps", "out"]
""",
    """__global__ void layer_norm(const float* x, const float* w, const float* b, float eps, float* y) {
    __shared__ float parts[2][8];
    const float v = x[blockIdx.x * 256 + threadIdx.x];
    float sum = v, squares = v * v;
    for (int step = 16; step; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
        squares += __shfl_xor_sync(~0u, squares, step);
    }
    if (threadIdx.x % 32 == 0) parts[0][threadIdx.x / 32] = sum, parts[1][threadIdx.x / 32] = squares;
    __syncthreads();
    sum = squares = 0;
    for (int i = 0; i < 8; ++i) sum += parts[0][i], squares += parts[1][i];
    const float mean = sum / 256, scale = rsqrtf(squares / 256 - mean * mean + eps);
    y[blockIdx.x * 256 + threadIdx.x] = (v - mean) * scale * w[threadIdx.x] + b[threadIdx.x];
}
""",
)
GROUP_NORM = LAYER_NORM.replace("w[threadIdx.x] + b[threadIdx.x]", "w[threadIdx.x / 4] + b[threadIdx.x / 4]")
SOFTMAX = candidate_text(
    """
[[step]]
kernel = "softmax"
grid = ["input.shape[0]"]
block = ["32"]
args = ["input", "out"]
""",
    """__global__ void softmax(const float* x, float* y) {
    float v[8], most = -3e38f, sum = 0;
    for (int i = 0; i < 8; ++i) most = fmaxf(most, v[i] = x[blockIdx.x * 256 + i * 32 + threadIdx.x]);
    for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    for (int i = 0; i < 8; ++i) sum += v[i] = __expf(v[i] - most);
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    for (int i = 0; i < 8; ++i) y[blockIdx.x * 256 + i * 32 + threadIdx.x] = v[i] / sum;
}
""",
)


def cases() -> list[tuple[OperatorCard, str, str, str]]:
    """Card, source, the native call and the package's arguments."""
    layer = make_variant(
        "v0",
        [dense(ROWS, WIDTH), dense(WIDTH), dense(WIDTH)],
        [tensor("input", 0), tensor("weight", 1), tensor("bias", 2), constant("eps", 1e-5)],
        [dense(ROWS, WIDTH)],
    )
    shape = (ROWS, WIDTH // 4, 4)
    group = make_variant(
        "v0",
        [dense(*shape), dense(WIDTH // 4), dense(WIDTH // 4)],
        [tensor("input", 0), tensor("weight", 1), tensor("bias", 2), constant("eps", 1e-5)],
        [dense(*shape)],
    )
    rows = make_variant("v0", [dense(ROWS, WIDTH)], [tensor("input", 0)], [dense(ROWS, WIDTH)])
    return [
        (*elementwise("silu", "v / (1 + __expf(-v))"), "F.silu(x)", "x"),
        (*elementwise("gelu", "0.5f * v * (1 + erff(v * 0.70710678f))"), "F.gelu(x)", "x"),
        (make_card(on_gpu(rows), name="softmax"), SOFTMAX, "F.softmax(x, -1)", "x"),
        (make_card(on_gpu(layer), name="layer_norm"), LAYER_NORM, f"F.layer_norm(x, ({WIDTH},), w, b)", "x, w, b"),
        (make_card(on_gpu(group), name="group_norm"), GROUP_NORM, "F.group_norm(g, 1, w4, b4)", "g, w4, b4"),
    ]


SCRIPT = """
import gc, json, random, statistics, time, torch, torch.nn.functional as F
from hostcost import _devices
torch.set_grad_enabled(False)
assert _devices.loaded(torch.device("cuda", 0)) == ""
x = torch.randn({rows}, {width}, device="cuda")
w, b = torch.randn({width}, device="cuda"), torch.randn({width}, device="cuda")
g, w4, b4 = x.view({rows}, -1, 4), w[::4].contiguous(), b[::4].contiguous()
gc.disable()
order = random.Random(7)
answer = []
for name, native, arguments in {cases!r}:
    operator = getattr(torch.ops.hostcost, name).default
    scope = dict(F=F, x=x, w=w, b=b, g=g, w4=w4, b4=b4, operator=operator, bound=operator.op, range=range)
    exec(f"def native():\\n  for _ in range({calls}): {{native}}\\n"
         f"def package():\\n  for _ in range({calls}): operator({{arguments}}, 0)\\n"
         f"def dispatched():\\n  for _ in range({calls}): bound({{arguments}}, 0)\\n", scope)
    torch.testing.assert_close(eval(f"operator({{arguments}}, 0)", scope), eval(native, scope), rtol=1e-4, atol=1e-5)
    def timed(function):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        function()
        return (time.perf_counter_ns() - start) / 1e3 / {calls}
    for _ in range(3):
        timed(scope["native"]), timed(scope["package"])
    sides = {{"native": [], "again": [], "package": [], "dispatched": []}}
    for _ in range({pairs}):
        for side in order.sample(list(sides), 4):
            sides[side].append(timed(scope["native" if side == "again" else side]))
    bound = statistics.median(p / n for p, n in zip(sides["dispatched"], sides["native"]))
    ratios = sorted(p / n for p, n in zip(sides["package"], sides["native"]))
    null = sorted(a / n for a, n in zip(sides["again"], sides["native"]))
    middle = lambda values: statistics.median(values)
    answer.append(dict(operator=name, native=native, native_us=middle(sides["native"]),
                       package_us=middle(sides["package"]), ratio=middle(ratios), quarter=ratios[len(ratios) // 4],
                       dispatched_ratio=bound, three_quarters=ratios[3 * len(ratios) // 4], null_ratio=middle(null)))
print(json.dumps(answer))
"""


def main() -> None:
    """Build the package, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    if reason := missing():
        print(f"skipped, it needs an NVIDIA GPU: {reason}")
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        gpu = open_gpu(place)
        workspace = Workspace.open(place / "workspace")
        with JobContext.standalone(workspace) as ctx:
            kernels = [kernel(ctx, gpu, card, source) for card, source, _, _ in cases()]
        workspace.close()
        names = package(gpu, place / "hostcost", "hostcost", kernels)
        listed = [[name, native, given] for name, (_, _, native, given) in zip(names, cases(), strict=True)]
        script = SCRIPT.format(rows=ROWS, width=WIDTH, cases=listed, calls=options.calls, pairs=options.pairs)
        rows = json.loads(gpu.run(script, place / "hostcost").strip().splitlines()[-1])
        gpu.scripts.close()
    print(f"{gpu.name}: host time of one call, {options.pairs} pairs of batches of {options.calls} calls")
    print(
        f"{'operator':12} {'native us':>10} {'package us':>11} {'ratio':>7} {'quartiles':>15} {'as dispatched':>14} "
        f"{'null':>7}"
    )
    for row in rows:
        quartiles = f"{row['quarter']:.3f}-{row['three_quarters']:.3f}"
        print(
            f"{row['operator']:12} {row['native_us']:10.2f} {row['package_us']:11.2f} {row['ratio']:7.3f} "
            f"{quartiles:>15} {row['dispatched_ratio']:14.3f} {row['null_ratio']:7.3f}"
        )
    if options.json:
        Path(options.json).write_text(json.dumps({"device": gpu.name, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
