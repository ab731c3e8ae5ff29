"""The referee of CUDA evaluations, on a fake device: what it catches, and that eager in any guise passes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from kforge_mcp.runtime.cuda import sides
from kforge_mcp.runtime.cuda.referee import CudaReferee
from kforge_mcp.runtime.cuda.watch import Deadline
from tests.runtime.cuda.fake_gpu import FakeGpu, Kernel
from tests.runtime.judged_variants import variant

Tensors = Sequence[torch.Tensor]
OPERATORS = """
import torch

def softmax(x):
    return torch.softmax(x, -1)

def argmax(x):
    return x.argmax(-1)

def add_in_place(x, y):
    return x.add_(y)

def wide(x):
    return x * 2 + 1

def both(x, w):
    return x * w, (x * w).sum(-1)
"""
INPUTS = {
    "softmax": [torch.randn(16, 300)],
    "argmax": [torch.randn(16, 300)],
    "add_in_place": [torch.randn(16, 40), torch.randn(16, 40)],
    "wide": [torch.randn(64, 400).bfloat16()],
    "both": [torch.randn(16, 40), torch.randn(40)],
}


def judged(
    tmp_path: Path,
    name: str,
    kernel: Kernel | None,
    *,
    mode: str = "judge",
    timed: bool = True,
    in_place: bool = False,
    captures: bool = True,
    workspaces: Sequence[dict[str, Any]] = (),
    **options: Any,
) -> dict[str, Any]:
    module = f"operators_{random.randrange(1 << 40)}"
    (tmp_path / f"{module}.py").write_text(OPERATORS)
    (tmp_path / "cubin").write_bytes(b"")
    namespace: dict[str, Any] = {}
    exec(OPERATORS, namespace)
    described = variant(namespace[name], INPUTS[name])
    described["call"] = {"args": [{"t": i} for i in range(len(INPUTS[name]))], "kwargs": {}, "parameters": {}}
    reference = {
        "kind": "function", "module": module, "qualname": name, "sys_path": [],
        "imports": [{"name": module, "path": str(tmp_path / f"{module}.py")}],
    }  # fmt: skip
    card = {
        "reference": reference, "variants": [described], "in_place": in_place, "blob_root": "", "backend_flags": {},
        "ordinal": 0,
    }  # fmt: skip
    bound = {"workspaces": list(workspaces), "intermediates": [], "tensor_maps": [], "steps": []}
    request = {
        "mode": mode,
        "programs": [{"admitted": True, "cubin": str(tmp_path / "cubin"), "kernels": {}, "bound": bound}],
        "schedule": {"pairs": 6, "first_stage": 6, "warm_up": 1, "null": True} if timed else None,
        "call_timeout_s": 5.0,
        "nondeterministic": False,
        "limits": {"memory_bytes": 1 << 20},
        **options,
    }
    referee = CudaReferee(card, Deadline(), FakeGpu(kernel, captures=captures))  # type: ignore[arg-type]
    for _ in referee.prepare():
        pass
    return referee.judge(request, lambda: None, lambda text: None)


@pytest.fixture(autouse=True)
def _few_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "_MOST_REPEATS", 8)


def softmax(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
    outputs[0].copy_(torch.softmax(inputs[0], -1))


@pytest.mark.parametrize("captures", [True, False])
def test_an_honest_program_is_valid_and_timed(tmp_path: Path, captures: bool) -> None:
    answer = judged(tmp_path, "softmax", softmax, captures=captures)
    assert answer["finding"] is None, answer["finding"]
    samples = answer["variants"]["v"]
    assert len(samples["candidate_s"]) == len(samples["null_candidate_s"]) == 6
    assert answer["valid"]


@pytest.mark.parametrize("name", sorted(INPUTS))
@pytest.mark.parametrize("captures", [True, False])
def test_eager_in_the_candidates_place_passes(tmp_path: Path, name: str, captures: bool) -> None:
    answer = judged(tmp_path, name, None, mode="null", captures=captures)
    assert answer["finding"] is None, answer["finding"]


def test_outputs_of_several_kinds_are_compared(tmp_path: Path) -> None:
    def both(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
        outputs[0].copy_(inputs[0] * inputs[1])
        outputs[1].copy_((inputs[0] * inputs[1]).sum(-1))

    assert judged(tmp_path, "both", both)["finding"] is None


def test_an_input_may_be_changed_in_place_as_eager_does(tmp_path: Path) -> None:
    def add(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
        assert outputs[0].data_ptr() == inputs[0].data_ptr()
        inputs[0].add_(inputs[1])

    assert judged(tmp_path, "add_in_place", add, in_place=True)["finding"] is None


def test_workspaces_are_filled_anew_and_guarded(tmp_path: Path) -> None:
    seen: list[torch.Tensor] = []

    def use(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
        seen.append(workspaces[0].clone())
        workspaces[0].fill_(3)
        softmax(inputs, outputs, workspaces)

    space = {"name": "sums", "dtype": "fp32", "shape": [20], "init": "none"}
    assert judged(tmp_path, "softmax", use, timed=False, workspaces=[space])["finding"] is None
    # Of each two runs of a trial the second finds what the first left.
    assert all(not torch.equal(a, b) for a, b in itertools.pairwise(seen[:8:2]))
    assert all(bool((left == 3).all()) for left in seen[1:8:2])


def _beyond(tensor: torch.Tensor, place: int) -> torch.Tensor:
    return tensor.as_strided((1,), (1,), tensor.storage_offset() + place)


CHEATS: dict[str, tuple[Kernel, str]] = {
    "zeros": (lambda i, o, w: o[0].zero_(), "wrong_result"),  # type: ignore[return-value]
    "nothing is written": (lambda i, o, w: None, "wrong_result"),
    "half of the rows": (
        lambda i, o, w: o[0][: len(o[0]) // 2].copy_(torch.softmax(i[0][: len(o[0]) // 2], -1)),  # type: ignore[return-value]
        "wrong_result",
    ),
    "an input is changed": (lambda i, o, w: (softmax(i, o, w), i[0][0, 0].add_(1.0))[0], "input_mutated"),
    "beside the output": (
        lambda i, o, w: (softmax(i, o, w), _beyond(o[0], o[0].numel() + 3).fill_(1.0))[0],
        "out_of_bounds",
    ),
    "before the input": (lambda i, o, w: (softmax(i, o, w), _beyond(i[0], -3).fill_(1.0))[0], "out_of_bounds"),
    "no maximum is subtracted": (
        lambda i, o, w: o[0].copy_(i[0].exp() / i[0].exp().sum(-1, keepdim=True)),  # type: ignore[return-value]
        "nan_mismatch",
    ),
    "bf16 inside": (
        lambda i, o, w: o[0].copy_(torch.softmax(i[0].bfloat16(), -1)),  # type: ignore[return-value]
        "wrong_result",
    ),
    "one of two runs": (
        lambda i, o, w: o[0].copy_(torch.softmax(i[0], -1) * (1 + 1e-7 * float(torch.rand(())))),  # type: ignore[return-value]
        "nondeterministic",
    ),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_caught_by_the_trials(tmp_path: Path, name: str) -> None:
    kernel, reason = CHEATS[name]
    answer = judged(tmp_path, "softmax", kernel, timed=False)
    assert answer["finding"] is not None, "it got through"
    assert answer["finding"]["reason"] == reason, answer["finding"]
    assert not answer["valid"]


@pytest.mark.parametrize("how", ["stale", "one wrong element", "argmax"])
def test_what_is_honest_in_the_trials_only_is_caught_when_timed(tmp_path: Path, how: str) -> None:
    calls, after = 0, 42 if how == "argmax" else 28
    kept: list[torch.Tensor] = []

    def cheat(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
        nonlocal calls
        calls += 1
        right = inputs[0].argmax(-1) if how == "argmax" else torch.softmax(inputs[0], -1)
        kept.append(right)
        if calls > after and how == "stale":
            right = kept[after]
        elif calls > after:
            right.view(-1)[3] += 1
        outputs[0].copy_(right)

    answer = judged(tmp_path, "argmax" if how == "argmax" else "softmax", cheat)
    assert answer["valid"]
    assert answer["finding"]["reason"] == "wrong_result", answer["finding"]
    assert "timed call" in answer["finding"]["message"]


def test_what_is_wrong_after_many_calls_in_a_row_is_caught(tmp_path: Path) -> None:
    calls = 0

    def late(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
        nonlocal calls
        calls += 1
        softmax(inputs, outputs, workspaces)
        if calls > 14:
            outputs[0][3, 3] = 1

    answer = judged(tmp_path, "softmax", late, timed=False)
    assert answer["finding"]["reason"] == "nondeterministic", answer["finding"]
    assert "calls in a row" in answer["finding"]["message"]


def test_a_workspace_that_says_that_the_work_was_done_is_not_believed(tmp_path: Path) -> None:
    def lazy(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
        if float(workspaces[0][0]) != 12345.0:
            softmax(inputs, outputs, workspaces)
        workspaces[0][0] = 12345.0

    space = {"name": "sums", "dtype": "fp32", "shape": [4], "init": "none"}
    assert judged(tmp_path, "softmax", lazy, timed=False, workspaces=[space])["finding"] is not None


def test_a_program_that_cannot_be_loaded_is_no_fault_of_the_judge(tmp_path: Path) -> None:
    answer = judged(tmp_path, "softmax", None)
    assert answer["finding"]["reason"] == "launch_failed"


def test_too_large_workspaces_are_refused_before_anything_runs(tmp_path: Path) -> None:
    space = {"name": "sums", "dtype": "fp32", "shape": [1 << 20], "init": "none"}
    answer = judged(tmp_path, "softmax", softmax, workspaces=[space])
    assert answer["finding"]["reason"] == "out_of_memory"
    assert "4 MiB" in answer["finding"]["message"]
