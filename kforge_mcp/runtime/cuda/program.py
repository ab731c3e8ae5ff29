"""A bound CUDA program with its loaded cubin: checked against the device, and run on torch's current stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..checks import Finding
from .arguments import Parameters, Pointers
from .calls import OperatorCall
from .driver import Driver, DriverError, Function
from .library import CAUSES, LAUNCH_TIMEOUT, NO_BINARY_FOR_GPU, OUT_OF_MEMORY, STICKY
from .limits import configured, excess, opt_in
from .tensor_maps import Misaligned, TensorMaps

__all__ = ["LaunchError", "Program"]

AfterStep = Callable[[int], None]


class LaunchError(Exception):
    """A program that could not be loaded or run; `finding` says why, for the candidate's author."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Program:
    """One bound program (the JSON of the control plane's `BoundProgram`) with its loaded cubin.

    Not for several threads at a time: the parameters of a launch are kept and filled in for each call.
    """

    def __init__(self, driver: Driver, cubin: bytes, bound: dict[str, Any], kernels: Mapping[str, str]) -> None:
        """Load a cubin (or PTX). `kernels` gives the lowered name of each name expression. Raises LaunchError."""
        self._driver = driver
        self._bound = bound
        self._workspaces = [one["init"] == "zero" for one in bound["workspaces"]]
        self._maps = TensorMaps(driver.library, bound["tensor_maps"])
        self._functions: dict[str, Function] = {}
        launches = [step for step in bound["steps"] if "kernel_name_expression" in step]
        try:
            module = driver.load(cubin)
            for name in dict.fromkeys(one["kernel_name_expression"] for one in launches):
                self._functions[name] = driver.function(module, kernels[name])
                opt_in(
                    driver, [one for one in launches if one["kernel_name_expression"] == name], self._functions[name]
                )
        except DriverError as error:
            raise LaunchError(_unloadable(driver, error)) from error
        self._pointers = Pointers()
        self._steps: list[_Launch | _Call] = [
            _Launch(step, self._functions[step["kernel_name_expression"]], self._pointers, self._maps)
            if "kernel_name_expression" in step
            else _Call(step, bound["intermediates"])
            for step in bound["steps"]
        ]

    @property
    def functions(self) -> dict[str, Function]:
        """What the driver knows of each kernel, by name expression."""
        return dict(self._functions)

    @property
    def kinds(self) -> list[str]:
        """`launch` or `call`, for every step in order, repeated ones each time."""
        return [step.kind for step in self._steps]

    def label(self, position: int) -> str:
        """A step in words, with its kernel or operator."""
        return self._steps[position].label

    def check(self) -> Finding | None:
        """The first limit of the device that the program exceeds, or None. Launches nothing."""
        for step in self._steps:
            try:
                said = excess(self._driver, step.step, step.function) if isinstance(step, _Launch) else ""
            except DriverError as error:
                return failure(error, step.label)
            if said:
                return Finding("launch_failed", f"{step.label}: {said}")
        if self._bound["tensor_maps"] and not self._driver.attribute("tensor_map_access"):
            name = self._bound["tensor_maps"][0]["name"]
            text = f"tensor map `{name}`: this device has none, they begin with compute capability 9.0"
            return Finding("launch_failed", text)
        return None

    def run(
        self,
        inputs: Sequence[torch.Tensor | None],
        outputs: Sequence[torch.Tensor],
        workspaces: Sequence[torch.Tensor],
        *,
        after_step: AfterStep | None = None,
    ) -> None:
        """Enqueue the whole program on `torch.cuda.current_stream()`; waits for nothing.

        Workspaces are contiguous and of the sizes that the program states; those that want it are zeroed here.
        Results of operator calls come from torch's allocator. `after_step` is called with the position of each step
        once it is enqueued: to record an event or to wait. Works while torch captures a graph.

        Raises:
            LaunchError: a launch or call was refused, or an earlier kernel of this context failed.
        """
        stream = torch.cuda.current_stream(self._driver.ordinal).cuda_stream
        self._run(inputs, outputs, workspaces, stream, after_step)

    def run_stepwise(
        self,
        inputs: Sequence[torch.Tensor | None],
        outputs: Sequence[torch.Tensor],
        workspaces: Sequence[torch.Tensor],
    ) -> None:
        """Run the program and wait after each step, so that a kernel that fails is the one that is named.

        Raises LaunchError.
        """
        stream = torch.cuda.current_stream(self._driver.ordinal).cuda_stream

        def wait(position: int) -> None:
            try:
                self._driver.synchronize(stream)
            except DriverError as error:
                raise LaunchError(failure(error, self.label(position))) from error

        self._run(inputs, outputs, workspaces, stream, wait)

    def settle(self) -> None:
        """Wait for all that was enqueued. Raises LaunchError, naming the kernel where only one can have failed."""
        try:
            self._driver.synchronize()
        except DriverError as error:
            labels = list(dict.fromkeys(step.label for step in self._steps if isinstance(step, _Launch)))
            where = labels[0] if len(labels) == 1 else f"one of {len(labels)} kernels"
            raise LaunchError(failure(error, where)) from error

    def _run(
        self,
        inputs: Sequence[torch.Tensor | None],
        outputs: Sequence[torch.Tensor],
        workspaces: Sequence[torch.Tensor],
        stream: int,
        after_step: AfterStep | None,
    ) -> None:
        intermediates: list[Any] = [None] * len(self._bound["intermediates"])
        pointers = self._pointers
        pointers.point("tensor", inputs)
        pointers.point("output", outputs)
        pointers.point("workspace", workspaces)
        self._zero(workspaces, stream)
        for position, step in enumerate(self._steps):
            try:
                if isinstance(step, _Launch):
                    self._driver.launch(step.config, step.function, step.parameters.array(), stream)
                else:
                    tensors = {"tensor": inputs, "output": outputs, "workspace": workspaces}
                    step.run({**tensors, "intermediate": intermediates}, intermediates)
                    pointers.point("intermediate", intermediates)
            except DriverError as error:
                raise LaunchError(failure(error, step.label)) from error
            except Misaligned as error:
                raise LaunchError(Finding("launch_failed", f"{step.label}: {error}")) from error
            if after_step:
                after_step(position)

    def _zero(self, workspaces: Sequence[torch.Tensor], stream: int) -> None:
        try:
            for zeroed, space in zip(self._workspaces, workspaces, strict=True):
                if zeroed and space.numel():
                    self._driver.zero(space.data_ptr(), space.numel() * space.element_size(), stream)
        except DriverError as error:
            raise LaunchError(failure(error, "zeroing the workspaces")) from error


class _Launch:
    kind = "launch"

    def __init__(self, step: dict[str, Any], function: Function, pointers: Pointers, maps: TensorMaps) -> None:
        self.step = step
        self.function = function
        self.config = configured(step)
        self.parameters = Parameters(step["arguments"], pointers, maps)
        sizes = [f"grid {_sizes(step['grid'])}", f"block {_sizes(step['block'])}"]
        if step["shared_bytes"]:
            sizes.append(f"{step['shared_bytes']} bytes of dynamic shared memory")
        if math.prod(step["cluster"]) > 1:
            sizes.append(f"clusters of {_sizes(step['cluster'])}")
        if step["cooperative"]:
            sizes.append("cooperative")
        self.label = f"step {step['step']} (`{step['kernel_name_expression']}`, {', '.join(sizes)})"


class _Call:
    kind = "call"

    def __init__(self, step: dict[str, Any], intermediates: Sequence[dict[str, Any]]) -> None:
        self.step = step
        self.label = f"step {step['step']} (call of `{step['operator']}`)"
        self._call = OperatorCall(step, intermediates)

    def run(self, tensors: Mapping[str, Sequence[Any]], intermediates: list[Any]) -> None:
        """Call the operator. Raises LaunchError."""
        try:
            with torch.no_grad():
                self._call.run(tensors, intermediates)
        except torch.cuda.OutOfMemoryError as error:
            raise LaunchError(Finding("out_of_memory", f"{self.label}: {_first_line(error)}")) from error
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            # torch's own error of a lost context carries the driver's number.
            lost = getattr(error, "error_code", 0) in STICKY
            where = f"a kernel before {self.label}" if lost else self.label
            reason = "crashed" if lost else "launch_failed"
            raise LaunchError(Finding(reason, f"{where}: {_first_line(error)}")) from error


def failure(error: DriverError, where: str) -> Finding:
    """What a driver's error says of a candidate: kernels that fail while running crash it, the rest is not launched."""
    said = f"{error.name}: {error.text}"
    if error.code == OUT_OF_MEMORY:
        return Finding("out_of_memory", f"{where}: {said}")
    if error.code == LAUNCH_TIMEOUT:
        return Finding("timed_out", f"{where}: {CAUSES[LAUNCH_TIMEOUT]} ({said})")
    if error.sticky:
        at = where if error.function.endswith("Synchronize") else f"a kernel before {where}"
        return Finding("crashed", f"{at}: {CAUSES.get(error.code, 'a kernel failed')} ({said})")
    return Finding("launch_failed", f"{where}: {said}")


def _unloadable(driver: Driver, error: DriverError) -> Finding:
    major, minor = driver.capability
    if error.code == NO_BINARY_FOR_GPU:
        message = f"the cubin is for another architecture than this device's sm_{major}{minor}"
        return Finding("launch_failed", message)
    if error.code == OUT_OF_MEMORY:
        return Finding("out_of_memory", f"the cubin could not be loaded: {error.name}: {error.text}")
    return Finding("launch_failed", f"the cubin could not be loaded: {error}")


def _sizes(sizes: Sequence[int]) -> str:
    last = max((axis for axis, size in enumerate(sizes) if size != 1), default=0)
    return " * ".join(str(size) for size in sizes[: last + 1])


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__
