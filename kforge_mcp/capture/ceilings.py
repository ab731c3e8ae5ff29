"""The device's measured limits, kept in the workspace for a day, and what they mean for a variant."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from kforge_mcp.records.project import Ceilings, DeviceInfo, Interpreter
from kforge_mcp.records.tensor import FLOATING, TensorSpec
from kforge_mcp.store.workspace import Workspace

MAXIMUM_AGE_S = 86_400.0


def known_or_measured(
    workspace: Workspace, device: DeviceInfo, interpreter: Interpreter, measure: Callable[[], dict[str, Any]]
) -> Ceilings:
    """Ceilings of the device, with its thread count or its driver, and this torch: from the workspace's cache, or
    `measure()` and cached."""
    key = [device.target, device.name, device.uuid, device.threads, device.cpu_capability, interpreter.torch_version]
    key += [device.driver] if device.target == "cuda" else []
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
    path = workspace.root / "cache" / "ceilings" / f"{name}.json"
    try:
        if time.time() - path.stat().st_mtime < MAXIMUM_AGE_S:
            return Ceilings.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        pass
    ceilings = Ceilings.model_validate(measure())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{time.monotonic_ns()}")
    temporary.write_text(ceilings.model_dump_json())
    temporary.replace(path)
    return ceilings


def allowed(ceilings: Ceilings, flags: dict[str, bool | int | str]) -> Ceilings:
    """Ceilings of a workload with these backend flags: where it lets fp32 run as TF32, that is the rate of fp32."""
    tf32 = ceilings.gflops.get("tf32", 0.0)
    if tf32 and "tf32" in (flags.get("cuda_matmul_fp32"), flags.get("cudnn_conv_fp32")):
        return raised(ceilings, {"fp32": tf32})
    return ceilings


def raised(ceilings: Ceilings, rates: dict[str, float]) -> Ceilings:
    """Ceilings no lower than rates that were seen in practice: what was reached can be reached."""
    gflops = {dtype: max(ceilings.gflops.get(dtype, 0.0), rate) for dtype, rate in rates.items() if rate > 0}
    return ceilings.model_copy(update={"gflops": {**ceilings.gflops, **gflops}})


def speed_of_light_us(ceilings: Ceilings, unique_bytes: int, flops: int, dtype: str) -> float:
    """The least time for moving these bytes once and for this many operations, whichever is longer, microseconds."""
    moving = unique_bytes / (ceilings.bandwidth(unique_bytes) * 1e3) if unique_bytes else 0.0
    rate = ceilings.gflops.get(dtype) or ceilings.gflops.get("fp32") or 0.0
    return max(moving, flops / (rate * 1e3) if rate else 0.0)


def matrix_dtype(tensors: list[TensorSpec]) -> str:
    """The dtype whose matrix rate bounds a call: that of the largest floating tensor."""
    floating = [tensor for tensor in tensors if tensor.dtype in FLOATING]
    return max(floating, key=lambda tensor: tensor.numel).dtype if floating else "fp32"
