"""How long NVRTC takes for a candidate and for every seed, warm, and how many a second; beside torch's own way.

    .venv/bin/python benchmarks/bench_compile.py [--runs 15] [--without-torch]

Needs no GPU. `load_inline` compiles a C++ and a CUDA file that include `torch/extension.h`, with nvcc, where the model
interpreter has a CUDA build of torch. It links libraries that a CPU build does not have; there the CUDA file alone is
compiled by nvcc directly, the larger part of what `load_inline` would do.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan  # noqa: E402
from kforge_mcp.candidate.signature import groups  # noqa: E402
from kforge_mcp.compile.build import Limits  # noqa: E402
from kforge_mcp.compile.compiler import Compiled, compile_candidate  # noqa: E402
from kforge_mcp.compile.cuda import warm  # noqa: E402
from kforge_mcp.compile.cuda.compiler import unit_options  # noqa: E402
from kforge_mcp.compile.cuda.source import cuda_program  # noqa: E402
from kforge_mcp.compile.cuda.toolchain import Toolchain, find_toolchain  # noqa: E402
from kforge_mcp.compile.cuda.warm import Request, close_all, compile_program  # noqa: E402
from kforge_mcp.engine.context import JobContext  # noqa: E402
from kforge_mcp.records.card import OperatorCard  # noqa: E402
from kforge_mcp.seeds.catalogue import seeds_for  # noqa: E402
from kforge_mcp.store.workspace import Workspace  # noqa: E402
from tests.compile.cuda import programs  # noqa: E402
from tests.compile.cuda.test_sass import SOFTMAX  # noqa: E402
from tests.seeds.cuda_cards import CARDS  # noqa: E402

ARCH = "sm_90a"
KERNELS = {
    "plain (fp32)": (programs.PLAIN, "fp32", 0.15),
    "softmax (bf16)": (SOFTMAX, "bf16", 0.15),
    "cp.async (fp32)": (programs.ASYNC_COPY, "fp32", 0.15),
    "wmma (fp16)": (programs.MATRIX, "fp16", 0.15),
    "tensor map, cuda/ptx (fp32)": (programs.TENSOR_MAP, "fp32", 0.5),
    "cooperative groups (bf16)": (programs.GROUPS, "bf16", 0.5),
    "cub block reduce (fp16)": (programs.CUB, "fp16", 0.5),
}
"""Source, dtype of the card, and the target in seconds."""
SEED_TARGET_S = 0.15
MANY = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="warm compilations of each kernel")
    parser.add_argument("--without-torch", action="store_true", help="leave out nvcc with torch's headers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.open(Path(folder) / "workspace")
        with JobContext.standalone(workspace) as ctx:
            toolchain = find_toolchain(ctx)
            print(machine(toolchain))
            times = [one_by_one(ctx, toolchain, name, options.runs) for name in KERNELS]
            seeds = every_seed(ctx, toolchain, options.runs)
            rate = many(ctx)
            if not options.without_torch:
                beside_torch(ctx, toolchain, Path(folder), times[1])
        close_all()
        workspace.close()
    targets = {name: target for name, (_, _, target) in KERNELS.items()}
    for index, how in enumerate(("by the clock", "by processor time")):
        late = [name for (name, target), time_s in zip(targets.items(), times, strict=True) if time_s[index] > target]
        print(f"over their target {how}: {', '.join(late) or 'none'}")
    late = [name for name, time_s in seeds.items() if time_s > SEED_TARGET_S]
    print(f"{len(seeds)} seeds, slowest median {max(seeds.values()):.3f} s")
    print(f"over {SEED_TARGET_S} s: {', '.join(late) or 'none'}")
    print(f"{rate:.0f} a second (target 20 on 2 idle cores)")
    return 0


def machine(toolchain: Toolchain) -> str:
    info = Path("/proc/cpuinfo").read_text()
    name = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    return (
        f"{date.today()}; {name}, {len(os.sched_getaffinity(0))} processors; Python {platform.python_version()}; "
        f"NVRTC {toolchain.nvrtc}, headers {toolchain.versions['runtime']}, CCCL {toolchain.versions['cccl']}, "
        f"cuda-bindings {importlib.metadata.version('cuda-bindings')}; {ARCH}; load average {os.getloadavg()[0]:.1f}"
    )


def plan_of(source: str, dtype: str) -> Plan:
    plan = parse_plan(source, programs.card(dtype), "cuda")
    assert isinstance(plan, Plan), plan.message
    return plan


def one_by_one(ctx: JobContext, toolchain: Toolchain, name: str, runs: int) -> tuple[float, float]:
    """Median warm time of a kernel from request to images, the cache left out; by the clock and of the processor."""
    source, dtype, _ = KERNELS[name]
    return timed(ctx, toolchain, name, plan_of(source, dtype), programs.card(dtype), runs)


def every_seed(ctx: JobContext, toolchain: Toolchain, runs: int) -> dict[str, float]:
    """Median warm time of every CUDA seed, in seconds, in its first configuration."""
    found = {}
    for family, (card, _) in CARDS.items():
        for seed in seeds_for(card, "cuda"):
            plan = parse_plan(seed.source, card, "cuda")
            assert isinstance(plan, Plan), plan.message
            name = f"{seed.name} ({family})"
            found[name] = timed(ctx, toolchain, name, plan, card, runs)[0]
    return found


def timed(
    ctx: JobContext, toolchain: Toolchain, name: str, plan: Plan, card: OperatorCard, runs: int
) -> tuple[float, float]:
    """Median warm time of a plan's first configuration, and its processor time, in seconds."""
    config = configurations(plan)[0]
    group = groups(plan, card, config)[0]
    program = cuda_program(plan, card, group, config)
    options = unit_options(plan, ARCH, toolchain)
    request = Request(program.prelude, program.text, options, list(program.names), True)
    times, processor = [], []
    for _ in range(runs + 1):
        start = time.perf_counter()
        answer = compile_program(ctx, toolchain, request, Limits())
        times.append(time.perf_counter() - start)
        processor.append(answer.cpu_s)
        assert answer.ok, answer.log
    first, warm = times[0], sorted(times[1:])
    median = statistics.median(warm)
    print(
        f"{name:44s} first {first:6.3f} s, warm median {median:6.3f} s (least {warm[0]:.3f}, most {warm[-1]:.3f}), "
        f"of which processor time {statistics.median(processor[1:]):.3f} s"
    )
    return median, statistics.median(processor[1:])


def children_s() -> float:
    """Processor time of all compilations so far, in seconds."""
    ticks = 0
    for parent in warm._parents.values():
        ticks += sum(int(field) for field in Path(f"/proc/{parent.process.pid}/stat").read_text().split()[15:17])
    return ticks / os.sysconf("SC_CLK_TCK")


def many(ctx: JobContext) -> float:
    """Candidates a second through `compile_candidate`: checks of the cubin and the cache included."""
    values = ", ".join(str(value) for value in range(MANY))
    source = SOFTMAX.replace("// ///\n", f"// [tunables]\n// SEED = [{values}]\n// ///\n", 1)
    source = source.replace("* scale, top", "* scale + SEED, top")
    plan = plan_of(source, "bf16")
    start, before = time.perf_counter(), children_s()
    outcome = compile_candidate(ctx, plan, programs.card("bf16"), configurations(plan), architectures=(ARCH,))
    elapsed = time.perf_counter() - start
    assert isinstance(outcome, Compiled), outcome.message
    assert len({binary.digest for binary in outcome.binaries}) == MANY
    print(
        f"{MANY} different softmax candidates in {elapsed:.2f} s: {MANY / elapsed:.1f} a second "
        f"({(children_s() - before) / MANY:.3f} s of processor time each)"
    )
    return MANY / elapsed


def beside_torch(ctx: JobContext, toolchain: Toolchain, folder: Path, ours: tuple[float, float]) -> None:
    """The softmax kernel as an extension of torch: by `load_inline`, or by nvcc with `torch/extension.h` alone."""
    nvcc = shutil.which("nvcc", path="/usr/local/cuda/bin") or shutil.which("nvcc")
    python = os.environ.get("KFORGE_PYTHON", str(REPOSITORY / ".venv-model" / "bin" / "python"))
    if nvcc is None or not Path(python).exists():
        print("torch's headers with nvcc: not measured, nvcc or the model interpreter is missing")
        return
    script = (
        "import sysconfig, torch; from torch.utils.cpp_extension import include_paths; "
        "print(torch.__version__, torch.version.cuda); "
        "print('\\n'.join([*include_paths(), sysconfig.get_paths()['include']]))"
    )
    told = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.split("\n")
    plan = plan_of(SOFTMAX, "bf16")
    (group,) = groups(plan, programs.card("bf16"), {})
    program = cuda_program(plan, programs.card("bf16"), group, {})
    if not told[0].endswith("None"):
        load_inline(python, folder, program.whole, ours)
        return
    call = (
        "\nvoid run(torch::Tensor x, double scale, torch::Tensor out) {\n    k<<<x.size(0), 256>>>"
        "(reinterpret_cast<const x_t*>(x.data_ptr()), float(scale), x.size(1), "
        "reinterpret_cast<out_t*>(out.data_ptr()));"
        '\n}\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }\n'
    )
    source = folder / "extension.cu"
    source.write_text("#include <torch/extension.h>\n" + program.whole + call)
    includes = [f"-I{path}" for path in told[1:] if path]
    command = [nvcc, "-c", f"-arch={ARCH}", "-std=c++20", "-O3", "-DTORCH_EXTENSION_NAME=extension", *includes]
    command += ["-Xcompiler", "-fPIC", str(source), "-o", str(folder / "extension.o")]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if run.returncode != 0:
        print(f"torch's headers with nvcc: failed: {run.stderr.strip()[:500]}")
        return
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    release = said.split("release ")[1].split(",")[0]
    print(
        f"softmax with torch/extension.h (torch {told[0]}) by nvcc {release}, not linked: {elapsed:.1f} s, "
        f"{elapsed / ours[0]:.0f} times NVRTC's warm {ours[0]:.3f} s; of processor time {processor:.1f} s, "
        f"{processor / ours[1]:.0f} times {ours[1]:.3f} s"
    )


def load_inline(python: str, folder: Path, kernel: str, ours: tuple[float, float]) -> None:
    """The softmax kernel through `torch.utils.cpp_extension.load_inline`, in a process that has imported torch."""
    host = (
        "\nvoid run(torch::Tensor x, double scale, torch::Tensor out) {\n    k<<<x.size(0), 256>>>("
        "reinterpret_cast<const x_t*>(x.data_ptr()), float(scale), x.size(1), "
        "reinterpret_cast<out_t*>(out.data_ptr()));\n}\n"
    )
    (folder / "kernel.cu").write_text(kernel + host)
    script = f"""
import pathlib, time, torch
from torch.utils.cpp_extension import load_inline
start = time.perf_counter()
load_inline("softmax_ext", cpp_sources="void run(torch::Tensor x, double scale, torch::Tensor out);",
            cuda_sources=pathlib.Path({str(folder / "kernel.cu")!r}).read_text(), functions=["run"],
            extra_cuda_cflags=["-arch={ARCH}"], build_directory={str(folder)!r})
print(torch.__version__, time.perf_counter() - start)
"""
    run = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        print(f"load_inline: failed: {run.stderr.strip()[-800:]}")
        return
    version, elapsed = run.stdout.split()[-2:]
    ratio = float(elapsed) / ours[0]
    print(
        f"softmax by load_inline (torch {version}): {float(elapsed):.1f} s, "
        f"{ratio:.0f} times NVRTC's warm {ours[0]:.3f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
