from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kforge_mcp.compile.cuda import compiler, warm
from kforge_mcp.compile.cuda.toolchain import find_toolchain
from kforge_mcp.compile.cuda.warm import Answer, Request
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import JobCancelled
from kforge_mcp.store.workspace import Workspace
from tests.compile.cuda.conftest import CompileCuda, ok
from tests.compile.cuda.programs import CUB, PLAIN, candidate, card
from tests.compile.cuda.test_limits import _TREE, bomb

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What NVRTC was asked for."""
    asked: list[Request] = []
    original = compiler.compile_program

    def counting(ctx, toolchain, request, limits) -> Answer:
        asked.append(request)
        return original(ctx, toolchain, request, limits)

    monkeypatch.setattr(compiler, "compile_program", counting)
    return asked


def test_equal_tokens_compile_once_whatever_their_comments(
    workspace: Workspace, cuda: CompileCuda, requests: list[Request]
) -> None:
    other = PLAIN.replace("* scale;", "*\n  scale; // louder")
    with JobContext.standalone(workspace) as ctx:
        first, second = ok(cuda(PLAIN, ctx=ctx)), ok(cuda(other, ctx=ctx))
    assert len(requests) == 1
    assert first.binaries == second.binaries


def test_a_failure_is_compiled_again_for_other_lines(
    workspace: Workspace, cuda: CompileCuda, requests: list[Request]
) -> None:
    broken = PLAIN.replace("* scale", "* missing")
    with JobContext.standalone(workspace) as ctx:
        lines = [cuda(text, ctx=ctx).diagnostics[0].line for text in (broken, broken, broken.replace("{\n", "{\n\n"))]
    assert len(requests) == 2
    assert lines == [9, 9, 10]


def test_concurrent_identical_requests_compile_once(
    workspace: Workspace, cuda: CompileCuda, requests: list[Request]
) -> None:
    outcomes: list[object] = []

    def submit() -> None:
        with JobContext.standalone(workspace) as ctx:
            outcomes.append(cuda(PLAIN, ctx=ctx))

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(requests) == 1
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert len(outcomes) == 4


def test_a_parent_that_died_is_replaced(workspace: Workspace, cuda: CompileCuda) -> None:
    ok(cuda(candidate("__global__ void k(const x_t*, float, long long, out_t* out) { out[0] = 1; }")))
    (before,) = warm._parents.values()
    os.killpg(before.process.pid, signal.SIGKILL)
    ok(cuda(candidate("__global__ void k(const x_t*, float, long long, out_t* out) { out[0] = 2; }")))
    (after,) = warm._parents.values()
    assert after.process.pid != before.process.pid


def test_the_parent_has_one_thread_and_keeps_headers_precompiled(workspace: Workspace, cuda: CompileCuda) -> None:
    with JobContext.standalone(workspace) as ctx:
        ok(cuda(CUB, card("fp16"), ctx=ctx))
    (parent,) = warm._parents.values()
    process = Path("/proc", str(parent.process.pid))
    assert len(list((process / "task").iterdir())) == 1
    targets = [os.readlink(link) for link in (process / "fd").iterdir()]
    kept = [target for target in targets if "kforge-pch-" in target]
    assert kept
    assert all(target.endswith(" (deleted)") for target in kept)


def test_a_precompiled_header_changes_nothing(ctx: JobContext, workspace: Workspace, cuda: CompileCuda) -> None:
    toolchain = find_toolchain(ctx)
    images = []
    for pch in (True, False):
        text = "__global__ void k(__half* x) { x[threadIdx.x] = __hadd(x[0], x[1]); }"
        request = Request(
            "#include <cuda_fp16.h>\n", text, ["--gpu-architecture=sm_80", *toolchain.include_options], ["k"], pch
        )
        answer = warm.compile_program(ctx, toolchain, request, compiler.Limits())
        assert answer.ok, answer.log
        images.append(answer.cubin)
    assert images[0] == images[1]


def test_cancelling_ends_the_compilation(workspace: Workspace, cuda: CompileCuda) -> None:
    with JobContext.standalone(workspace) as ctx:
        timer = threading.Timer(0.5, ctx.cancel)
        timer.start()
        with pytest.raises(JobCancelled):
            cuda(bomb("out[0] = F<24, 1>::v;", _TREE), ctx=ctx)
        timer.join()
    ok(cuda(candidate("__global__ void k(const x_t*, float, long long, out_t* out) { out[0] = 3; }")))
    (parent,) = warm._parents.values()
    children = Path(f"/proc/{parent.process.pid}/task/{parent.process.pid}/children").read_text().split()
    assert children == []


def test_the_parent_ends_with_its_client() -> None:
    script = """
import json, tempfile
from pathlib import Path
from kforge_mcp.compile.cuda import warm
from kforge_mcp.compile.cuda.toolchain import find_toolchain
from kforge_mcp.engine.context import JobContext
from kforge_mcp.store.workspace import Workspace
with tempfile.TemporaryDirectory() as folder:
    workspace = Workspace.open(Path(folder) / "w")
    with JobContext.standalone(workspace) as ctx:
        parent = warm._parent(find_toolchain(ctx))
        print(json.dumps(parent.process.pid), flush=True)
        input()
"""
    client = subprocess.Popen(
        [sys.executable, "-c", script], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    parent = os.pidfd_open(json.loads(client.stdout.readline()))
    client.kill()
    client.wait()
    # A process descriptor becomes readable when its process ends.
    import select

    assert select.select([parent], [], [], 30)[0]
    os.close(parent)
    client.stdout.close()
    if client.stdin:
        client.stdin.close()
