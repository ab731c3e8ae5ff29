"""Runs bound programs on samples of their inputs, for tools that watch a whole process: `python sample.py JOBS`.

JOBS is a JSON file with a list of jobs: `cubin`, `kernels`, `bound`, `tensors` and `outputs` (specifications), `names`
(of both, in order), `overwritten` (for each output the input that it is, -1 for none), `blob_root`, `runs`.
Prints a JSON object a job: `finding`, null if every run ended well, and `memory`, where each tensor lies.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from .program import Program


class Sample:
    """A loaded program with inputs like the captured ones, each tensor in an allocation of exactly its size."""

    def __init__(self, program: Program, job: dict[str, Any], device: torch.device | str = "cuda") -> None:
        import torch

        self.program = program
        generator = torch.Generator().manual_seed(job.get("seed", 0))
        self.inputs = [_input(spec, generator, job.get("blob_root", ""), device) for spec in job["tensors"]]
        overwritten = job.get("overwritten") or [-1] * len(job["outputs"])
        self.outputs = [
            _exact(spec, device) if index < 0 else self.inputs[index]
            for spec, index in zip(job["outputs"], overwritten, strict=True)
        ]
        spaces = job["bound"]["workspaces"]
        self.workspaces = [_exact({**space, "stride": None}, device) for space in spaces]
        self._names = [*job.get("names", []), *(space["name"] for space in spaces)]

    def memory(self) -> list[list[Any]]:
        """Name, address and bytes of every tensor."""
        tensors = [*self.inputs, *self.outputs, *self.workspaces]
        return [
            [name, one.data_ptr(), one.untyped_storage().nbytes()]
            for name, one in zip(self._names, tensors, strict=False)
        ]

    def run(self) -> None:
        """Enqueue one call. Raises LaunchError."""
        self.program.run(self.inputs, self.outputs, self.workspaces)

    def run_telling(self, after_step: Callable[[int], None]) -> None:
        """Enqueue one call and tell after each step. Raises LaunchError."""
        self.program.run(self.inputs, self.outputs, self.workspaces, after_step=after_step)

    def run_stepwise(self) -> None:
        """One call, waiting after each step. Raises LaunchError."""
        self.program.run_stepwise(self.inputs, self.outputs, self.workspaces)


def _input(
    spec: dict[str, Any], generator: torch.Generator, blob_root: str, device: torch.device | str
) -> torch.Tensor:
    import torch

    from .. import blobs
    from ..recipes import draw
    from ..tensors import from_bytes

    if spec.get("sample") and blobs.path(blob_root, spec["sample"]).exists():
        values = from_bytes(spec, blobs.read(blob_root, spec["sample"]))
    elif spec.get("recipe"):
        values = draw(spec, generator, blob_root=blob_root)
    else:
        values = from_bytes(spec, b"")
        floating = values.is_floating_point() or values.is_complex()
        values.copy_(torch.randn(values.shape, generator=generator) if floating else torch.zeros(values.shape))
    placed = _exact(spec, device)
    if values.numel():
        flat = values.as_strided((_count(spec),), (1,), values.storage_offset())
        placed.as_strided((_count(spec),), (1,)).copy_(flat)
    return placed


def _exact(spec: dict[str, Any], device: torch.device | str) -> torch.Tensor:
    """Memory from the first to the last element and no more, so that a checker sees what lies outside of it."""
    import torch

    from ..tensors import DTYPES

    if spec["stride"] is None:
        return torch.empty(spec["shape"], dtype=DTYPES[spec["dtype"]], device=device)
    flat = torch.empty(_count(spec), dtype=DTYPES[spec["dtype"]], device=device)
    return flat.as_strided(spec["shape"], spec["stride"])


def _count(spec: dict[str, Any]) -> int:
    if 0 in spec["shape"]:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(spec["shape"], spec["stride"], strict=True))


def main(path: str) -> Iterator[dict[str, Any]]:
    """Run the jobs of a file one after another and say how each ended."""
    import torch

    from .driver import Driver
    from .program import LaunchError, Program

    torch.cuda.init()
    driver = Driver(torch.cuda.current_device())
    for job in json.loads(Path(path).read_text()):
        memory: list[list[Any]] = []
        try:
            program = Program(driver, Path(job["cubin"]).read_bytes(), job["bound"], job["kernels"])
            sample = Sample(program, job)
            memory = sample.memory()
            finding = program.check()
            for _ in range(job.get("runs", 1) if finding is None else 0):
                sample.run_stepwise()
        except LaunchError as error:
            finding = error.finding
        yield {"finding": None if finding is None else vars(finding), "memory": memory}
        if finding is not None:
            return


if __name__ == "__main__":
    # This folder's modules are the package's; none of them is to stand in for one of the standard library.
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != Path(__file__).parent]
    runpy.run_path(str(Path(__file__).parents[1] / "__main__.py"), run_name="kforge_main")["become_package"]()
    from kforge_runtime.cuda.sample import main as run_jobs  # pyright: ignore[reportMissingImports]

    for answer in run_jobs(sys.argv[1]):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
