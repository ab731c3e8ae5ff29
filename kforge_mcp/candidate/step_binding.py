"""What the steps of a CUDA plan do in one variant: every size, argument and operator call with its values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kforge_mcp.candidate.binding import (
    MAX_MEMORY_BYTES,
    NOMINAL_SM_COUNT,
    argument,
    bind_workspaces,
    rejection,
    scope_of,
    size,
    too_large,
)
from kforge_mcp.candidate.bound import (
    BoundArgument,
    BoundCall,
    BoundIntermediate,
    BoundLaunch,
    BoundProgram,
    BoundStep,
    BoundTensorMap,
    BoundWorkspace,
    CallArgument,
)
from kforge_mcp.candidate.c_types import POINTER_BYTES, SCALAR_BYTES, TENSOR_MAP_BYTES
from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.evaluation import dense_strides
from kforge_mcp.candidate.expressions import Expression, ExpressionError, TensorValue, Value, evaluate
from kforge_mcp.candidate.kernel_names import spelled
from kforge_mcp.candidate.operator_shapes import Operand, Unfit
from kforge_mcp.candidate.operators import OPERATORS, results
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.candidate.scope import output_names
from kforge_mcp.candidate.steps import Call, Launch
from kforge_mcp.candidate.tensor_map_binding import bind_tensor_map
from kforge_mcp.records.tensor import ITEMSIZE
from kforge_mcp.records.variant import Variant

__all__ = ["NOMINAL_SM_COUNT", "bind_steps", "kernel_instances"]

MAX_RUNS = 4096
"""Launches and calls of one program, repeats counted."""
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024
MAX_SHARED_BYTES = 227 * 1024
MAX_CLUSTER = 16
MAX_PARAMETER_BYTES = 4096


def kernel_instances(plan: Plan, config: Config) -> list[str]:
    """The distinct kernels of a plan as NVRTC name expressions, in the order of the steps.

    Tunables stand in them by name: they are constants of the translation unit of `config`.
    """
    del config
    return list(dict.fromkeys(spelled(step.kernel) for step in plan.steps if isinstance(step, Launch)))


def bind_steps(
    plan: Plan, variant: Variant, config: Config, *, sm_count: int = NOMINAL_SM_COUNT, ends_only: bool = False
) -> BoundProgram | Rejected:
    """Everything that a CUDA plan does in one variant and configuration, on a device with `sm_count` multiprocessors.

    With `ends_only` a repeated launch is bound for its first two and its last run: enough to check a plan.
    """
    workspaces = bind_workspaces(plan, variant, config, sm_count=sm_count)
    if isinstance(workspaces, Rejected):
        return workspaces
    binder = _Binder(plan, variant, scope_of(plan, variant, config, sm_count=sm_count), workspaces, ends_only)
    try:
        return binder.program()
    except _Unbound as fault:
        return rejection(plan, fault.expression, fault.error, variant, config)


class _Unbound(Exception):
    """An expression that is at fault, with the reason."""

    def __init__(self, expression: Expression, error: ExpressionError) -> None:
        super().__init__(error.message)
        self.expression = expression
        self.error = error


class _Binder:
    def __init__(
        self, plan: Plan, variant: Variant, scope: dict[str, Value], workspaces: list[BoundWorkspace], ends_only: bool
    ) -> None:
        self.plan = plan
        self.variant = variant
        self.scope = scope
        self.workspaces = workspaces
        self.ends_only = ends_only
        self.intermediates: list[BoundIntermediate] = []
        self.memory: dict[str, BoundArgument] = {}
        self.steps: list[BoundStep] = []
        self.runs = 0

    def program(self) -> BoundProgram:
        """Raises _Unbound."""
        for space in self.workspaces:
            self.scope[space.name] = _dense(space.dtype, space.shape)
        for index, one in enumerate(self.plan.tensor_maps):
            self.memory[one.name] = BoundArgument(kind="tensor_map", index=index, name=one.name)
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, Call):
                self.steps.append(self._call(number, step))
            else:
                self._launches(number, step)
        return BoundProgram(
            workspaces=self.workspaces,
            intermediates=self.intermediates,
            tensor_maps=self._tensor_maps(),
            steps=self.steps,
        )

    def _tensor_maps(self) -> list[BoundTensorMap]:
        found: list[BoundTensorMap] = []
        for one in self.plan.tensor_maps:
            try:
                tensor = argument(self.plan, self.variant, self.scope, one.tensor, self.memory)
                value = self._evaluated(one.tensor)
                if not isinstance(value, TensorValue):
                    raise ExpressionError("a tensor map is of a tensor that is there, not of None or a constant")
            except ExpressionError as error:
                raise _Unbound(one.tensor, error) from None
            found.append(bind_tensor_map(one, tensor, value, self._sizes, _blame))
        return found

    def _launches(self, number: int, step: Launch) -> None:
        repeat = self._integer(step.repeat) if step.repeat is not None else 1
        self.runs += repeat
        if self.runs > MAX_RUNS:
            where = step.repeat or step.grid[0]
            raise _blame(where, f"{self.runs} launches and calls; at most {MAX_RUNS} are run")
        runs: Iterable[int] = range(repeat)
        if self.ends_only:
            runs = sorted({0, 1, repeat - 1} & set(runs))
        for run in runs:
            if step.repeat is not None:
                self.scope["step"] = run
            launch = self._launch(number, step)
            if 0 not in launch.grid:
                self.steps.append(launch)
        if step.repeat is not None:
            del self.scope["step"]

    def _launch(self, number: int, step: Launch) -> BoundLaunch:
        grid = self._dimensions(step.grid, MAX_GRID, "grid", least=0)
        block = self._dimensions(step.block, MAX_BLOCK, "block")
        if math.prod(block) > MAX_THREADS:
            message = f"a block of {' * '.join(map(str, block))} = {math.prod(block)} threads; at most {MAX_THREADS}"
            raise _blame(step.block[0], message, hint="`where` may leave out combinations of tunables")
        cluster = (
            self._dimensions(step.cluster, (MAX_CLUSTER, MAX_CLUSTER, MAX_CLUSTER), "cluster")
            if step.cluster
            else (1, 1, 1)
        )
        if math.prod(cluster) > MAX_CLUSTER:
            raise _blame(step.cluster[0], f"a cluster of {math.prod(cluster)} blocks; at most {MAX_CLUSTER}")
        for axis, (blocks, together) in enumerate(zip(grid, cluster, strict=True)):
            if blocks % together:
                at = min(axis, len(step.cluster) - 1)
                message = f"a cluster of {together} does not divide the grid's {blocks} blocks in {'xyz'[axis]}"
                raise _blame(step.cluster[at], message)
        shared = self._integer(step.shared_bytes) if step.shared_bytes is not None else 0
        if step.shared_bytes is not None and shared > MAX_SHARED_BYTES:
            message = f"{shared} bytes of shared memory; no GPU has more than {MAX_SHARED_BYTES} a block"
            raise _blame(step.shared_bytes, message, hint="`where` may leave out combinations of tunables")
        arguments = [self._argument(expression) for expression in step.args]
        used = sum(_bytes(one) for one in arguments)
        if used > MAX_PARAMETER_BYTES:
            raise _blame(step.args[-1], f"arguments of {used} bytes; a kernel takes at most {MAX_PARAMETER_BYTES}")
        return BoundLaunch(
            step=number,
            kernel_name_expression=spelled(step.kernel),
            grid=grid,
            block=block,
            shared_bytes=shared,
            cluster=cluster,
            cooperative=step.cooperative,
            arguments=arguments,
        )

    def _argument(self, expression: Expression) -> BoundArgument:
        try:
            found = argument(self.plan, self.variant, self.scope, expression, self.memory)
        except ExpressionError as error:
            raise _Unbound(expression, error) from None
        if found.kind == "tensor_map":
            behind = self.plan.tensor_maps[found.index].tensor.names
            missing = [name for name, _ in behind if name not in self.scope]
            if missing:
                raise _blame(expression, f"the tensor map is of `{missing[0]}`, which a later step computes")
        return found

    def _dimensions(
        self, expressions: Sequence[Expression], limits: tuple[int, int, int], what: str, *, least: int = 1
    ) -> tuple[int, int, int]:
        found = [1, 1, 1]
        for axis, expression in enumerate(expressions):
            value = self._integer(expression)
            if value < least:
                raise _blame(expression, f"a {what} of {value} in {'xyz'[axis]}; at least {least} is needed")
            if value > limits[axis]:
                raise _blame(expression, f"a {what} of {value} in {'xyz'[axis]}; at most {limits[axis]} is allowed")
            found[axis] = value
        return found[0], found[1], found[2]

    def _call(self, number: int, step: Call) -> BoundCall:
        self.runs += 1
        operator = OPERATORS[step.call]
        values = [
            tuple(self._integer(item, least=-(2**63)) for item in one)
            if isinstance(one, tuple)
            else self._evaluated(one)
            for one in step.args
        ]
        places = dict(zip((slot.name for slot in operator.slots), step.args, strict=False))
        try:
            operands, returned = results(operator, values)
        except Unfit as fault:
            raise _blame(_first(places.get(fault.parameter, step.args[0])), fault.message) from None
        arguments = [
            self._call_argument(slot.name, slot.keyword, one, value)
            for slot, one, value in zip(operator.slots, step.args, operands, strict=False)
        ]
        outputs = [
            self._destination(name, dtype, shape, _first(step.args[0]))
            for name, (dtype, shape) in zip(step.outs, returned, strict=True)
        ]
        return BoundCall(
            step=number, operator=operator.name, overload=operator.overload, arguments=arguments, outputs=outputs
        )

    def _call_argument(
        self, parameter: str, keyword: bool, given: Expression | tuple[Expression, ...], value: Operand
    ) -> CallArgument:
        if isinstance(value, TensorValue):
            assert isinstance(given, Expression)
            found = self._argument(given)
            assert found.kind in ("tensor", "output", "workspace", "intermediate")
            return CallArgument(
                parameter=parameter, keyword=keyword, kind=found.kind, index=found.index, name=found.name
            )
        if value is None:
            return CallArgument(parameter=parameter, keyword=keyword, kind="none")
        plain = list(value) if isinstance(value, tuple) else value
        return CallArgument(parameter=parameter, keyword=keyword, kind="value", value=plain)

    def _destination(self, name: str, dtype: str, shape: tuple[int, ...], place: Expression) -> BoundArgument:
        outputs = [] if self.plan.inplace else output_names(self.variant)
        if name in outputs:
            spec = self.variant.outputs[outputs.index(name)]
            if (spec.dtype, tuple(spec.shape)) != (dtype, shape):
                message = f"the result is {dtype}{list(shape)}, but `{name}` is {spec.dtype}{spec.shape}"
                raise _blame(place, message)
            return BoundArgument(kind="output", index=outputs.index(name), name=name)
        found = BoundIntermediate.model_validate({"name": name, "dtype": dtype, "shape": list(shape)})
        if found.size_bytes > MAX_MEMORY_BYTES:
            raise _Unbound(place, too_large(self.plan, found.size_bytes))
        bound = BoundArgument(kind="intermediate", index=len(self.intermediates), name=name)
        self.intermediates.append(found)
        self.scope[name] = _dense(dtype, shape)
        self.memory[name] = bound
        return bound

    def _evaluated(self, expression: Expression) -> Value:
        try:
            return evaluate(expression, self.scope)
        except ExpressionError as error:
            raise _Unbound(expression, error) from None

    def _integer(self, expression: Expression, *, least: int = 0) -> int:
        value = self._evaluated(expression)
        if least < 0 and type(value) is int:
            return value
        try:
            return size(value)
        except ExpressionError as error:
            raise _Unbound(expression, error) from None

    def _sizes(self, expressions: Sequence[Expression]) -> list[int]:
        return [self._integer(expression) for expression in expressions]


def _blame(expression: Expression, message: str, *, hint: str = "") -> _Unbound:
    return _Unbound(expression, ExpressionError(message, hint=hint))


def _first(given: Expression | tuple[Expression, ...]) -> Expression:
    return given[0] if isinstance(given, tuple) else given


def _bytes(one: BoundArgument) -> int:
    if one.kind == "tensor_map":
        return TENSOR_MAP_BYTES
    return SCALAR_BYTES[one.scalar_type] if one.kind == "scalar" else POINTER_BYTES


def _dense(dtype: str, shape: Sequence[int]) -> TensorValue:
    return TensorValue(dtype, tuple(shape), dense_strides(shape), ITEMSIZE[dtype])
