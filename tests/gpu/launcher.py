"""Runs CUDA programs for the tests in the model interpreter: one JSON job a line, one JSON answer a line.

A job has `cubin` (a path), `kernels`, `bound`, `tensors` and `outputs` (specifications; a tensor's `file` has its
bytes), `overwritten` (for each output the input that it is, -1 for none), and may have `eager` (a name in `eager.py`)
with `names` and `constants`, `how` (`run`, `stepwise`, `graph`, `check`, `nothing`), `timeout_s`, `time`. Every job
runs in a fork of its own, since an error of a kernel costs the context; a job that does not end in time is killed.

The answer has `status` (`ok`, `failed`, `killed`, `died`), `reason`, `message`, `outputs` and `eager` (files with
bytes), `intact` (whether the memory around outputs and workspaces is), `functions`, `candidate_us` and `eager_us`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from kforge_mcp.runtime.cuda import device
from kforge_mcp.runtime.cuda.driver import Driver
from kforge_mcp.runtime.cuda.program import LaunchError, Program
from kforge_mcp.runtime.tensors import DTYPES, extent

sys.path.insert(0, str(Path(__file__).parent))
import eager

GUARD = 4096
CALLS = 30


class Guarded:
    """Memory between two zones that nobody is to write; filled with ordinary bits."""

    def __init__(self, spec: dict[str, Any]) -> None:
        dtype, shape = DTYPES[spec["dtype"]], spec["shape"]
        stride = spec.get("stride") or torch.empty(shape, device="meta").stride()
        count = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        size = count * torch.empty((), dtype=dtype).element_size()
        self._raw = torch.randint(1, 255, (2 * GUARD + size,), dtype=torch.uint8, device="cuda")
        self._before = self._raw.clone()
        self._size = size
        self.tensor = self._raw[GUARD : GUARD + size].view(dtype).as_strided(shape, stride)

    def intact(self) -> bool:
        """Whether both zones are as they were."""
        end = GUARD + self._size
        return torch.equal(self._raw[:GUARD], self._before[:GUARD]) and torch.equal(self._raw[end:], self._before[end:])


def restored(spec: dict[str, Any]) -> torch.Tensor:
    dtype = DTYPES[spec["dtype"]]
    data = bytearray(Path(spec["file"]).read_bytes())
    flat = torch.frombuffer(data, dtype=torch.uint8).cuda() if data else torch.empty(0, dtype=torch.uint8).cuda()
    return flat.view(dtype).as_strided(spec["shape"], spec["stride"])


def saved(tensor: torch.Tensor, path: str) -> str:
    flat = tensor.detach().as_strided((extent(tensor),), (1,), tensor.storage_offset())
    Path(path).write_bytes(flat.view(torch.uint8).cpu().numpy().tobytes())
    return path


def job(request: dict[str, Any]) -> dict[str, Any]:
    how = request.get("how", "run")
    driver = Driver(0)
    if how == "nothing":
        others = device.company(driver.uuid())
        return {
            "device": device.facts(driver),
            "company": [vars(one) for one in others.processes],
            "unknown": others.unknown,
            "said": others.message("the GPU"),
        }
    program = Program(driver, Path(request["cubin"]).read_bytes(), request["bound"], request["kernels"])
    finding = program.check()
    if finding is not None:
        return {"status": "failed", "reason": finding.reason, "message": finding.message}
    functions = {name: vars(known) for name, known in program.functions.items()}
    if how == "check":
        return {"functions": functions}
    inputs = [restored(spec) for spec in request["tensors"]]
    kept = [tensor.clone() for tensor in inputs]
    spaces = [Guarded(space) for space in request["bound"]["workspaces"]]
    overwritten = request.get("overwritten") or [-1] * len(request["outputs"])
    places = [Guarded(spec) if index < 0 else None for spec, index in zip(request["outputs"], overwritten, strict=True)]
    outputs = [
        place.tensor if place else inputs[index] for place, index in zip(places, overwritten, strict=True)
    ]  # fmt: skip
    work = [space.tensor for space in spaces]
    graph = None
    if how == "graph":
        graph = captured(program, inputs, outputs, work)
        for place in (*places, *spaces):
            if place is not None:
                place.tensor.view(torch.uint8).random_(1, 255) if place.tensor.is_contiguous() else None
        graph.replay()
        torch.cuda.synchronize()
    elif how == "stepwise":
        program.run_stepwise(inputs, outputs, work)
    else:
        program.run(inputs, outputs, work)
        program.settle()
    unchanged = all(
        torch.equal(a.view(torch.uint8) if a.is_contiguous() else a, b.view(torch.uint8) if a.is_contiguous() else b)
        for number, (a, b) in enumerate(zip(inputs, kept, strict=True))
        if number not in overwritten
    )
    answer: dict[str, Any] = {
        "functions": functions,
        "intact": all(place.intact() for place in (*places, *spaces) if place is not None),
        "unchanged": unchanged,
        "outputs": [saved(tensor, f"{request['folder']}/out{number}") for number, tensor in enumerate(outputs)],
    }
    if request.get("eager"):
        named = {name: kept[index] for name, index in request["names"].items()}
        function = getattr(eager, request["eager"])

        def run_eager() -> list[torch.Tensor]:
            with torch.no_grad():
                result = function({**named}, request["constants"])
            return list(result) if isinstance(result, (tuple, list)) else [result]

        answer["eager"] = [
            saved(tensor.contiguous(), f"{request['folder']}/eager{number}")
            for number, tensor in enumerate(run_eager())
        ]
        if request.get("time"):
            answer["eager_us"] = timed(run_eager)
            answer["candidate_us"] = timed(lambda: program.run(inputs, outputs, work))
            answer["call_us"] = called(lambda: program.run(inputs, outputs, work))
            answer["eager_call_us"] = called(run_eager)
    return answer


def captured(program: Program, inputs: Any, outputs: Any, work: Any) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        program.run(inputs, outputs, work)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        program.run(inputs, outputs, work)
    return graph


def timed(call: Any) -> float:
    """Median microseconds on the device, the host's part hidden behind a sleep."""
    spans = []
    for _ in range(CALLS):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(400_000)
        first.record()
        call()
        last.record()
        torch.cuda.synchronize()
        spans.append(first.elapsed_time(last) * 1e3)
    return sorted(spans)[CALLS // 2]


def called(call: Any) -> float:
    """Median microseconds that a call takes on the host."""
    spans = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        spans.append((time.perf_counter() - start) * 1e6)
    torch.cuda.synchronize()
    return sorted(spans)[CALLS // 2]


def child(request: dict[str, Any], channel: int) -> None:
    try:
        answer = {"status": "ok", **job(request)}
    except LaunchError as error:
        answer = {"status": "failed", "reason": error.finding.reason, "message": error.finding.message}
    except Exception:  # noqa: BLE001 - the top of the fork: the test has to see what happened
        answer = {"status": "died", "message": traceback.format_exc()}
    os.write(channel, json.dumps(answer).encode() + b"\n")
    os._exit(0)


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.close(reading)
            child(request, writing)
        os.close(writing)
        deadline = time.monotonic() + request.get("timeout_s", 60)
        answer = {"status": "died", "message": "the process ended without an answer"}
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                answer = {"status": "killed", "message": f"no end in {request.get('timeout_s', 60)} s"}
                break
            time.sleep(0.005)
        data = os.fdopen(reading, "rb").read()
        if data:
            answer = json.loads(data)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
