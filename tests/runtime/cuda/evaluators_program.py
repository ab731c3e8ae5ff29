"""Run as a program: serves evaluations as on a CUDA device, on a fake one, and prints what came of each as JSON.

argv: a folder with `operators.py`, and kernels by name, separated by commas.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kforge_mcp.runtime.cuda import evaluators, referee
from tests.runtime.cuda.fake_gpu import FakeGpu

Tensors = Sequence[torch.Tensor]


def honest(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
    outputs[0].copy_(torch.relu(inputs[0]))


def hang(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
    time.sleep(1000)


def die(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(inputs: Tensors, outputs: Tensors, workspaces: Tensors) -> None:
    raise ZeroDivisionError("a fault of the judge's own")


KERNELS = {"honest": honest, "hang": hang, "die": die, "leave": leave}


class NamedGpu(FakeGpu):
    """A device on which a cubin is the name of a kernel of this file."""

    def load(self, image: bytes, bound: dict[str, Any], kernels: Any) -> Any:
        self._kernel = KERNELS[image.decode()]
        return super().load(image, bound, kernels)


def payload(folder: Path, kernel: str) -> dict[str, Any]:
    spec = {
        "dtype": "fp32", "shape": [16, 40], "stride": [40, 1], "storage_offset": 0, "alignment": 0, "storage_id": 0,
        "sample": "", "recipe": None,
    }  # fmt: skip
    recipe = {
        "kind": "quantiles", "quantiles": [-2.0, 0.0, 2.0], "zeros_share": 0.0, "low": 0, "high": 0,
        "sorted_last": False, "distinct_last": False, "true_share": 0.0,
    }  # fmt: skip
    variant = {
        "variant_id": "v",
        "tensors": [{**spec, "recipe": recipe}],
        "arguments": [{"name": "x", "kind": "tensor", "tensors": [0], "role": "input"}],
        "outputs": [{**spec, "storage_id": 1}],
        "call": {"args": [{"t": 0}], "kwargs": {}, "parameters": {}},
    }
    cubin = folder / f"{kernel}.cubin"
    cubin.write_text(kernel)
    imports = [{"name": "operators", "path": str(folder / "operators.py")}]
    card = {
        "reference": {
            "kind": "function", "module": "operators", "qualname": "relu", "sys_path": [], "imports": imports,
        },
        "variants": [variant], "in_place": False, "blob_root": "", "backend_flags": {}, "ordinal": 0,
    }  # fmt: skip
    bound = {"workspaces": [], "intermediates": [], "tensor_maps": [], "steps": []}
    request = {
        "mode": "judge",
        "programs": [{"admitted": True, "cubin": str(cubin), "kernels": {}, "bound": bound}],
        "schedule": {"pairs": 4, "first_stage": 4, "warm_up": 1, "null": True},
        "call_timeout_s": 0.5, "nondeterministic": False, "limits": {"memory_bytes": 1 << 20},
    }  # fmt: skip
    return {"card": card, "request": request, "spares": 2}


def main() -> None:
    folder = Path(sys.argv[1])
    referee.Gpu = NamedGpu(honest)  # type: ignore[assignment,misc]
    lock = folder / "lock"
    lock.touch()
    parent = evaluators.Parent(str(lock))
    for name in sys.argv[2].split(","):
        try:
            answer = parent.evaluate(payload(folder, name), lambda event: None)
            finding = answer["finding"] and answer["finding"]["reason"]
            said = {"finding": finding, "pairs": len(answer["variants"].get("v", {}).get("candidate_s", []))}
        except evaluators.Refusal as refusal:
            said = {"refused": refusal.kind, "message": str(refusal)}
        print(json.dumps({**said, "children": len(parent.children)}), flush=True)
    print(json.dumps({"pids": [child.pid for child in parent.children]}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
