"""What a CUDA plan does in one variant, as C++: values where the variant settles them, expressions of the device's
`sm_count` and of a repeat's `step` where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kforge_mcp.candidate.binding import argument, scope_of
from kforge_mcp.candidate.bound import BoundArgument, BoundCall, BoundProgram, BoundTensorMap, CallArgument
from kforge_mcp.candidate.c_types import scalar_type_name
from kforge_mcp.candidate.evaluation import TensorValue, dense_strides
from kforge_mcp.candidate.expressions import Expression, ExpressionError, Value, print_cpp
from kforge_mcp.candidate.folding import depends, fold
from kforge_mcp.candidate.kernel_names import spelled
from kforge_mcp.candidate.plan import Config, Plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.candidate.scope import variant_scope
from kforge_mcp.candidate.step_binding import bind_steps, kernel_instances
from kforge_mcp.candidate.steps import Call, Launch
from kforge_mcp.export.literals import SpaceText, dtype_function, integer, number
from kforge_mcp.export.operator_calls import call_arguments
from kforge_mcp.records.tensor import ITEMSIZE
from kforge_mcp.records.variant import Variant

_DATA_TYPES = {
    "UINT8": 0, "UINT16": 1, "INT32": 3, "INT64": 5, "FLOAT16": 6, "FLOAT32": 7, "FLOAT64": 8, "BFLOAT16": 9,
}  # fmt: skip
_INTERLEAVE = {"none": 0, "16B": 1, "32B": 2}
_SWIZZLE = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
_PROMOTION = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
_FILL = {"zero": 0, "nan": 1}


@dataclass(frozen=True)
class MapText:
    """A tensor map with the driver's numbers for its enumerations."""

    slot: int
    data_type: int
    size: list[int]
    stride_bytes: list[int]
    box: list[int]
    element_strides: list[int]
    interleave: int
    swizzle: int
    l2_promotion: int
    out_of_bounds: int


@dataclass(frozen=True)
class ResultText:
    """Where the result of an operator goes, and the layout it has to have there."""

    slot: int
    dtype: str
    shape: list[int]
    stride: list[int]


@dataclass(frozen=True)
class CallText:
    """A call of an operator, a function of its own in the C++."""

    step: int
    operator: str
    arguments: list[str]
    results: list[ResultText]


@dataclass(frozen=True)
class StepText:
    """A launch; with `call` only the number of a call."""

    number: int
    call: bool = False
    kernel: int = 0
    grid: list[str] = field(default_factory=list)
    block: list[str] = field(default_factory=list)
    cluster: list[str] = field(default_factory=list)
    shared_bytes: str = "0"
    cooperative: bool = False
    repeat: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DeviceBody:
    """A variant's program. `sm_count` is what the device must have, 0 where any will do."""

    spaces: list[SpaceText]
    maps: list[MapText]
    calls: list[CallText]
    steps: list[StepText]
    slots: int
    sm_count: int
    asks_sm_count: bool
    kernels: list[str]
    """Name expressions in the order of the launches' `kernel`."""

    @property
    def most_arguments(self) -> int:
        """Parameters of the kernel that has most."""
        return max((len(step.arguments) for step in self.steps), default=0)


def device_body(
    plan: Plan, variant: Variant, config: Config, operands: Sequence[str], *, sm_count: int
) -> DeviceBody | Rejected | str:
    """The program of a variant whose operator takes the tensors `operands`; a text says why it cannot be packaged.

    `sm_count` is that of the device on which it was judged. A plan whose tensor maps or operator calls follow it runs
    only on devices that have as many.
    """
    bound = bind_steps(plan, variant, config, sm_count=sm_count)
    if isinstance(bound, Rejected):
        return bound
    other = bind_steps(plan, variant, config, sm_count=sm_count + 1)
    pinned = isinstance(other, Rejected) or _fixed(bound) != _fixed(other)
    try:
        return _Writer(plan, variant, config, operands, bound, sm_count, pinned=pinned).body()
    except ExpressionError as error:
        return f"one of its sizes cannot be worked out where it runs: {error.message}"


def _fixed(program: BoundProgram) -> object:
    """What is written into the package as it was bound."""
    calls = [step for step in program.steps if isinstance(step, BoundCall)]
    return program.tensor_maps, program.intermediates, calls


class _Writer:
    def __init__(
        self,
        plan: Plan,
        variant: Variant,
        config: Config,
        operands: Sequence[str],
        bound: BoundProgram,
        sm_count: int,
        *,
        pinned: bool,
    ) -> None:
        self.plan, self.variant, self.bound = plan, variant, bound
        self.operands = list(operands)
        self.sm_count = sm_count if pinned else 0
        self.asked = False
        self.scope: dict[str, Value] = {**scope_of(plan, variant, config, sm_count=sm_count)}
        self.unknown: set[str] = set()
        if not pinned and "sm_count" not in variant_scope(variant, config):
            self.unknown.add("sm_count")
        self.memory = {
            one.name: BoundArgument(kind="tensor_map", index=index, name=one.name)
            for index, one in enumerate(bound.tensor_maps)
        }
        for index, one in enumerate(bound.intermediates):
            self.memory[one.name] = BoundArgument(kind="intermediate", index=index, name=one.name)
            self.scope[one.name] = _dense(one.dtype, one.shape)
        self.kernels = kernel_instances(plan, config)

    def body(self) -> DeviceBody:
        spaces = self._spaces()
        steps = [self._step(number, step) for number, step in enumerate(self.plan.steps)]
        calls = [self._call(step) for step in self.bound.steps if isinstance(step, BoundCall)]
        first = len(self.operands) + len(self.variant.outputs)
        return DeviceBody(
            spaces=spaces,
            maps=[self._map(one) for one in self.bound.tensor_maps],
            calls=calls,
            steps=steps,
            slots=first + len(spaces) + len(self.bound.intermediates),
            sm_count=self.sm_count,
            asks_sm_count=self.asked,
            kernels=self.kernels,
        )

    def _spaces(self) -> list[SpaceText]:
        found: list[SpaceText] = []
        for declared, space in zip(self.plan.workspace, self.bound.workspaces, strict=True):
            follows = any(depends(size, self.unknown) for size in declared.shape)
            found.append(
                SpaceText(
                    name=space.name if follows else "",
                    short=space.dtype,
                    dtype=dtype_function(space.dtype),
                    itemsize=ITEMSIZE[space.dtype],
                    shape=[self._size(size) for size in declared.shape],
                    zero=space.init == "zero",
                )
            )
            self.scope[space.name] = _dense(space.dtype, space.shape)
            if follows:
                self.unknown.add(space.name)
        return found

    def _step(self, number: int, step: Launch | Call) -> StepText:
        if isinstance(step, Call):
            return StepText(number, call=True)
        repeat = ""
        if step.repeat is not None:
            repeat = self._size(step.repeat)
            self.unknown.add("step")
            self.scope["step"] = 0
        written = StepText(
            number,
            kernel=self.kernels.index(spelled(step.kernel)),
            grid=self._three(step.grid),
            block=self._three(step.block),
            cluster=self._three(step.cluster),
            shared_bytes=self._size(step.shared_bytes) if step.shared_bytes is not None else "0",
            cooperative=step.cooperative,
            repeat=repeat,
            arguments=[self._argument(one) for one in step.args],
        )
        if step.repeat is not None:
            self.unknown.discard("step")
            del self.scope["step"]
        return written

    def _three(self, sizes: Sequence[Expression]) -> list[str]:
        return [*map(self._size, sizes), *["INT64_C(1)"] * (3 - len(sizes))]

    def _size(self, expression: Expression) -> str:
        folded = fold(expression, self.scope, self.unknown)
        return self._printed(folded) if isinstance(folded, Expression) else integer(folded)  # pyright: ignore[reportArgumentType]

    def _printed(self, expression: Expression) -> str:
        self.asked = self.asked or depends(expression, {"sm_count"})
        return print_cpp(expression)

    def _argument(self, expression: Expression) -> str:
        found = argument(self.plan, self.variant, self.scope, expression, self.memory)
        if found.kind == "tensor_map":
            return f"Argument::map({found.index})"
        if found.kind == "null":
            return "Argument::number<void*>(nullptr)"
        if found.kind != "scalar":
            return f"Argument::slot({self._slot(found)})"
        folded = fold(expression, self.scope, self.unknown)
        text = self._printed(folded) if isinstance(folded, Expression) else number(found.value, found.scalar_type)
        return f"Argument::number<{scalar_type_name(found.scalar_type, 'cuda')}>({text})"

    def _slot(self, found: BoundArgument | CallArgument) -> int:
        """The place of a tensor in the frame: operands, outputs, workspaces, results of operators."""
        if found.kind == "tensor":
            return self.operands.index(found.name)
        start = len(self.operands)
        if found.kind == "output":
            return start + found.index
        start += len(self.variant.outputs)
        return start + found.index + (len(self.plan.workspace) if found.kind == "intermediate" else 0)

    def _call(self, call: BoundCall) -> CallText:
        results = []
        for place in call.outputs:
            one = (self.variant.outputs if place.kind == "output" else self.bound.intermediates)[place.index]
            stride = self.variant.outputs[place.index].stride if place.kind == "output" else dense_strides(one.shape)
            results.append(ResultText(self._slot(place), dtype_function(one.dtype), one.shape, list(stride)))
        return CallText(call.step, call.operator, call_arguments(call, self._slot), results)

    def _map(self, one: BoundTensorMap) -> MapText:
        return MapText(
            slot=self._slot(one.tensor),
            data_type=_DATA_TYPES[one.data_type],
            size=one.size,
            stride_bytes=one.stride_bytes,
            box=one.box,
            element_strides=one.element_strides,
            interleave=_INTERLEAVE[one.interleave],
            swizzle=_SWIZZLE[one.swizzle],
            l2_promotion=_PROMOTION[one.l2_promotion],
            out_of_bounds=_FILL[one.out_of_bounds],
        )


def _dense(dtype: str, shape: Sequence[int]) -> TensorValue:
    return TensorValue(dtype, tuple(shape), dense_strides(shape), ITEMSIZE[dtype])
