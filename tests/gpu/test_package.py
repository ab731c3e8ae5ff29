"""Packages on the GPU: every kind of step, streams, graphs, threads, compilation, and acceptance in a model."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.engine.context import JobContext
from kforge_mcp.engine.interpreter import find_interpreter
from kforge_mcp.export import evidence, job
from kforge_mcp.records.base import now
from kforge_mcp.records.candidate import Candidate
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import DeviceInfo, Project
from kforge_mcp.records.result import StageResult
from kforge_mcp.store import candidates, cards, projects
from kforge_mcp.store.workspace import Workspace
from tests.compile.test_corpus import FILES, facts_of
from tests.export.conftest import MODEL, norm_card, pair_card
from tests.export.cuda.conftest import on_gpu
from tests.export.test_job import _result
from tests.gpu.packages import Gpu, kernel, missing, open_gpu, package

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(missing()), reason=f"needs an NVIDIA GPU: {missing()}")]

NORM = """// /// kforge
// [[step]]
// kernel = "norm<BLOCK>"
// grid = ["hidden_states.numel // hidden_states.shape[-1]"]
// block = ["BLOCK"]
// args = ["hidden_states", "weight", "eps", "hidden_states.shape[-1]", "out"]
// [tunables]
// BLOCK = [128]
// ///
template <int B> __global__ void norm(const float* x, const float* w, float eps, long long n, float* out) {
    __shared__ float parts[B / 32];
    const float* row = x + blockIdx.x * n;
    float sum = 0;
    for (long long i = threadIdx.x; i < n; i += B) sum += row[i] * row[i];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < B / 32; ++i) sum += parts[i];
    const float scale = rsqrtf(sum / n + eps);
    for (long long i = threadIdx.x; i < n; i += B) out[blockIdx.x * n + i] = w[i] * (row[i] * scale);
}
"""
PAIR = """// /// kforge
// [[step]]
// kernel = "pair"
// grid = ["ceil_div(first.numel, 256)"]
// block = ["256"]
// args = ["first", "second", "scale", "first.numel", "out0", "out1"]
// ///
__global__ void pair(const float* a, const float* b, float scale, long long n, float* out0, float* out1) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= n) return;
    out0[i] = a[i] * scale;
    out1[i] = b[i] + a[i];
}
"""
GPU_MODEL = MODEL.replace("TinyModel().eval(), (torch.randn(", "TinyModel().eval().cuda(), (torch.randn(").replace(
    "),)\n", ', device="cuda"),)\n'
)
START = """
import torch, tiny_model, tinykernels as tk
torch.set_grad_enabled(False)
model, (x,) = tiny_model.make()
plain = model(x)
close = lambda one, two: torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
"""
KINDS = {
    "cooperative_grid_sync": "lambda x: x.sum().reshape(1)",
    "cluster_ranks": "lambda x: x.sum(1)",
    "repeat_stencil": "smoothed",
    "tma_tile_load": "lambda x: x + 1",
    "tma_store": "lambda x: x",
    "mlp_with_calls": "lambda x, a, b: F.linear(F.gelu(F.linear(x, a)), b)",
    "attention_by_operator": "lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None])[0]",
    "null_bias": "lambda x: x",
    "three_steps_two_spaces": "lambda x: x - x.mean(0)",
    "half_workspace": "lambda x: x.roll(-1, 1)",
}


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpu]:
    opened = open_gpu(tmp_path_factory.mktemp("scripts"))
    yield opened
    opened.scripts.close()


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobContext]:
    workspace = Workspace.open(tmp_path_factory.mktemp("gpu") / "workspace")
    with JobContext.standalone(workspace) as opened:
        yield opened
    workspace.close()


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the user's model."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "tiny_model.py").write_text(GPU_MODEL)
    return folder


def device_card(card: OperatorCard) -> OperatorCard:
    trees = {variant.variant_id: (variant.call, variant.output_tree) for variant in card.variants}
    moved = [
        on_gpu(variant).model_copy(
            update={"call": trees[variant.variant_id][0], "output_tree": trees[variant.variant_id][1]}
        )
        for variant in card.variants
    ]
    return card.model_copy(update={"variants": moved})


@pytest.fixture(scope="module")
def tiny(context: JobContext, gpu: Gpu, user: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package for the user's model."""
    digests = json.loads(
        gpu.run(
            """
import hashlib, inspect, json, textwrap, tiny_model
found = [textwrap.dedent(inspect.getsource(one)) for one in (tiny_model.TinyNorm, tiny_model.scaled_pair)]
print(json.dumps([hashlib.sha256(text.encode()).hexdigest() for text in found]))
""",
            user,
        )
    )
    kernels = [
        kernel(context, gpu, device_card(norm_card()), NORM, sha256=digests[0]),
        kernel(context, gpu, device_card(pair_card()), PAIR, sha256=digests[1]),
    ]
    folder = tmp_path_factory.mktemp("package") / "tinykernels"
    package(gpu, folder, "tinykernels", kernels)
    return folder


def test_attached_kernels_serve_the_model(gpu: Gpu, user: Path, tiny: Path) -> None:
    gpu.run(
        START
        + """
report = tk.attach(model)
assert report.modules == {"TinyNorm": 3} and not report.left_alone, report
close(model(x), plain)
assert {card: counts["hits"] for card, counts in tk.stats().items()} == {"TinyNorm": 3, "scaled_pair": 3}
for other, reason in ((x[:, :32], "shape"), (x.repeat(1, 1, 2)[..., :256], "stride")):
    before = dict(tk.stats()["TinyNorm"]["misses"])
    model(other)
    assert tk.stats()["TinyNorm"]["misses"].get(reason, 0) > before.get(reason, 0), (reason, tk.stats())
odd = torch.empty(x.numel() + 1, device="cuda")[1:].view_as(x).copy_(x)
assert odd.data_ptr() % 64
close(model(odd), plain)
assert tk.stats()["TinyNorm"]["cloned_inputs"] == 1
tk.detach()
assert torch.equal(model(x), plain)
""",
        user,
        tiny,
    )


def test_nothing_synchronises_and_calls_follow_the_current_stream(gpu: Gpu, user: Path, tiny: Path) -> None:
    gpu.run(
        START
        + """
tk.attach(model)
model(x)
torch.cuda.synchronize()
stream = torch.cuda.Stream()
torch.cuda.set_sync_debug_mode("error")
with torch.cuda.stream(stream):
    torch.cuda._sleep(200_000_000)
    out = torch.ops.tinykernels.tiny_norm(x, model.norms[0].weight, 0)
    event = torch.cuda.Event()
    event.record()
assert not event.query(), "the call waited for the device"
assert torch.cuda.current_stream().query(), "the kernel went to another stream"
torch.cuda.set_sync_debug_mode("default")
stream.synchronize()
close(out, tiny_model.TinyNorm.forward(model.norms[0], x))
""",
        user,
        tiny,
    )


def test_calls_are_recorded_into_cuda_graphs_which_replay_them(gpu: Gpu, user: Path, tiny: Path) -> None:
    gpu.run(
        START
        + """
graph, early = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    early.capture_begin()
    try:
        tk.attach(model)
    except tk.UnsupportedError as error:
        assert "attach the package before" in str(error)
    else:
        raise AssertionError("kernels were loaded while a graph was captured")
    x + 1
    early.capture_end()
tk.attach(model)
model(x)
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    out = model(x)
assert tk.stats()["TinyNorm"]["hits"] == 6, tk.stats()
fresh = torch.randn_like(x)
x.copy_(fresh)
graph.replay()
close(out, model(fresh))
tk.detach()
close(out, model(fresh))
""",
        user,
        tiny,
    )


def test_a_new_thread_has_no_context_and_is_served(gpu: Gpu, user: Path, tiny: Path) -> None:
    gpu.run(
        START
        + """
import threading
tk.attach(model)
found = []
def call():
    with torch.no_grad():
        found.append(torch.ops.tinykernels.tiny_norm(x, model.norms[0].weight, 0))
threads = [threading.Thread(target=call) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert len(found) == 8
for one in found:
    close(one, tiny_model.TinyNorm.forward(model.norms[0], x))
""",
        user,
        tiny,
    )


def test_several_devices_are_served_each_with_its_own_kernels(gpu: Gpu, user: Path, tiny: Path) -> None:
    said = gpu.run(
        START
        + """
if torch.cuda.device_count() < 2:
    print("one device")
else:
    tk.attach(model)
    there = tiny_model.TinyModel().eval().to("cuda:1")
    there.load_state_dict(model.state_dict())
    try:
        torch.ops.tinykernels.tiny_norm(x.to("cuda:1"), there.norms[0].weight, 0)
    except RuntimeError as error:
        assert "its kernel is not loaded on this device" in str(error)
    tk.attach(there)
    before = tk.stats()["TinyNorm"]["hits"]
    close(there(x.to("cuda:1")).to("cuda:0"), plain)
    assert torch.cuda.current_device() == 0 and tk.stats()["TinyNorm"]["hits"] == before + 3
    close(model(x), plain)
    try:
        torch.ops.tinykernels.tiny_norm(x, there.norms[0].weight, 0)
    except RuntimeError as error:
        assert "is on another device than the others" in str(error)
    else:
        raise AssertionError("tensors of two devices were taken")
    print("several devices")
""",
        user,
        tiny,
    )
    if "one device" in said:
        pytest.skip("needs a second GPU")


def test_operators_compile_and_export(gpu: Gpu, user: Path, tiny: Path) -> None:
    gpu.run(
        START
        + """
tk.attach(model)
weight = model.norms[0].weight
class Calls(torch.nn.Module):
    def forward(self, x, weight):
        first, second = torch.ops.tinykernels.scaled_pair(torch.ops.tinykernels.tiny_norm(x, weight, 0), x, 0)
        return first + second
wanted = Calls()(x, weight)
close(torch.compile(Calls(), fullgraph=True)(x, weight), wanted)
close(torch.compile(Calls(), fullgraph=True, mode="reduce-overhead")(x, weight), wanted)
program = torch.export.export(Calls(), (x, weight))
assert "tinykernels.tiny_norm" in program.graph_module.code
close(program.module()(x, weight), wanted)
""",
        user,
        tiny,
    )


def test_a_gpu_that_the_package_was_not_made_for_is_refused(gpu: Gpu, user: Path, tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "other")
    place = tmp_path / "other" / "tinykernels" / "manifest.json"
    content = json.loads(place.read_text())
    content["architectures"] = {"sm_120": True}
    place.write_text(json.dumps(content))
    ask = START + "try:\n    tk.attach(model)\nexcept tk.UnsupportedError as error:\n    print(error)\n"
    assert "the kernels were compiled for sm_120, cuda:0 is" in gpu.run(ask, user, tmp_path / "other")
    content |= {"architectures": {gpu.arch: True}, "driver_minimum": {"cubin": "99.0", "ptx": "99.0"}}
    place.write_text(json.dumps(content))
    assert "the kernels need CUDA 99.0 (cubin)" in gpu.run(ask, user, tmp_path / "other")


def test_every_kind_of_step_computes_what_its_source_says(context: JobContext, gpu: Gpu, tmp_path: Path) -> None:
    sources = {path.stem: path.read_text() for path in FILES if path.stem in KINDS}
    kernels = []
    for name, source in sources.items():
        facts = facts_of(source)
        card = facts.card.model_copy(update={"variants": list(map(on_gpu, facts.card.variants)), "name": name})
        kernels.append(kernel(context, gpu, card, source))
    names = package(gpu, tmp_path / "kinds", "kinds", kernels)
    cases = []
    for number, (name, one) in enumerate(zip(names, kernels, strict=True)):
        variant = one.variants[0].variant
        operands = [a.tensors[0] if a.kind == "tensor" else None for a in variant.arguments if a.kind != "constant"]
        specs = [[spec.dtype, spec.shape] for spec in variant.tensors]
        cases.append([number, name, operands, specs, KINDS[name]])
    gpu.run(
        f"""
import torch, torch.nn.functional as F
from kinds import _devices, _facts, _library
torch.manual_seed(0)
torch.set_grad_enabled(False)
assert _devices.loaded(torch.device("cuda", 0)) == ""
def same(found, wanted, loose, name):
    found = found.reshape(wanted.shape)
    torch.testing.assert_close(found, wanted, rtol=loose, atol=10 * loose, msg=lambda text: f"{{name}}: {{text}}")
def smoothed(x):
    for _ in range(4):
        x = (x + x.roll(-1, 1)) * 0.5
    return x
for number, name, operands, specs, reference in {cases!r}:
    tensors = [torch.randn(shape, device="cuda").to(_facts.DTYPES[dtype]) for dtype, shape in specs]
    given = [None if place is None else tensors[place] for place in operands]
    operator = getattr(torch.ops.kinds, name)
    wanted = eval(reference)(*tensors)
    for turn in range(3):
        found = operator(*given, 0)
        narrow = found.dtype in (torch.bfloat16, torch.float16)
        loose = 3e-2 if narrow else 1e-3 if name == "half_workspace" else 1e-4
        same(found, wanted, loose, name)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = operator(*given, 0)
    for tensor in tensors:
        tensor.copy_(torch.randn_like(tensor.float()))
    graph.replay()
    wanted = eval(reference)(*tensors)
    same(kept, wanted, loose, f"{{name}}, replayed")
    print(name, "computes what it should")
""",
        tmp_path / "kinds",
    )


def test_ptx_serves_a_gpu_without_a_cubin_of_its_own(context: JobContext, gpu: Gpu, user: Path, tmp_path: Path) -> None:
    one = kernel(context, gpu, device_card(pair_card()), PAIR, arch="compute_80")
    (name,) = package(gpu, tmp_path / "portable", "portable", [one])
    gpu.run(
        f"""
import torch
from portable import _devices
assert _devices.loaded(torch.device("cuda", 0)) == ""
a, b = torch.randn(2, 1, 64, 256, device="cuda")
first, second = torch.ops.portable.{name}(a, b, 0)
assert torch.equal(first, a * 2) and torch.equal(second, a + b)
""",
        tmp_path / "portable",
    )


def test_the_whole_export_ships_what_helps_in_the_model(
    gpu: Gpu, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(ctx: JobContext, project: Project, claims: list[Any]) -> list[Any]:
        return [_result(claim, True) for claim in claims]

    monkeypatch.setattr(evidence, "holdout", measured)
    monkeypatch.setattr(job, "_BUDGET_S", 5.0)
    workspace = Workspace.open(tmp_path / "workspace")
    project = Project(
        project_id="project_sample",
        name="sample",
        entry="tiny_model.py:make",
        entry_path=str(user / "tiny_model.py"),
        project_dir=str(user),
        target="cuda",
        interpreter=find_interpreter(gpu.python, None),
        device=DeviceInfo(target="cuda", name=gpu.name, arch=gpu.arch, sm_count=gpu.sm_count),
        workload_us=1000.0,
        created_at=now(),
    )
    imports = {"imports": [{"name": "tiny_model", "path": project.entry_path}], "sys_path": [project.project_dir]}
    card = device_card(norm_card())
    card = card.model_copy(update={"reference": {**card.reference, **imports}})
    result = StageResult(
        candidate_id="cand_norm", stage="benchmark", status="ok", passed=True, verdict="faster", speedup=4.0,
        ci_low=3.9, ci_high=4.1, config={"BLOCK": 128},
    )  # fmt: skip
    made = Candidate(
        candidate_id="cand_norm", card_id=card.card_id, project_id=project.project_id, target="cuda",
        source=workspace.blobs.put(NORM.encode()), source_key="norm", created_at=now(), benchmarked=result,
    )  # fmt: skip
    with workspace.transaction() as session:
        projects.save(session, project)
        cards.save(session, card)
        candidates.save(session, made)
    with JobContext.standalone(workspace, tool="export_package", cwd=user) as ctx:
        answer = job.export(ctx, project_id=project.project_id, name="tinykernels")
    workspace.close()
    assert answer["path"], answer
    folder = Path(answer["path"])
    content = json.loads((folder / "tinykernels" / "manifest.json").read_text())
    print(json.dumps([answer["notes"], answer["end_to_end"], answer["kernels"]], indent=1))
    print((folder / "VERIFICATION.md").read_text())
    assert content["target"] == "cuda" and content["architectures"] == {gpu.arch: True}
    (kernel_of,) = [one for one in answer["kernels"] if one["included"]]
    assert kernel_of["in_model"]["verdict"] == "faster"
    assert content["cards"][0]["modes"] == ["eager", "cuda_graph"], answer["notes"]
    assert {one["mode"] for one in answer["end_to_end"]} == {"eager", "cuda_graph"}
    assert all(one["outputs_equal"] for one in answer["end_to_end"])
    text = (folder / "VERIFICATION.md").read_text()
    assert f"`{gpu.arch}` (measured)" in text and "| cuda_graph |" in text
    digest = hashlib.sha256((folder / "tinykernels" / "_operators.so").read_bytes()).hexdigest()
    assert content["libraries"]["_operators.so"] == digest
