"""The files of a package that are rendered: the operators' C++ and the build description."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import jinja2

from kforge_mcp.candidate.expressions import CPP_HELPERS
from kforge_mcp.export.contents import PYTHON_MINIMUM, TORCH_MINIMUM, VERSION, Operator, is_operand
from kforge_mcp.export.device_body import DeviceBody
from kforge_mcp.export.kernels import ServedVariant
from kforge_mcp.export.literals import dtype_function
from kforge_mcp.records.project import Target
from kforge_mcp.records.tensor import TensorSpec

TEMPLATE = Path(__file__).with_name("template")

_ALIGNMENT = 64
_MOST_DEVICES = 64


def render(template: str, **values: Any) -> str:
    """A template of this folder with values filled in; an unknown name is an error."""
    return _environment().get_template(template).render(**values)


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def operators_source(name: str, packed: list[Operator], target: Target, *, device: str = "") -> str:
    """The C++ of a package's operators: every variant's guards as tables, and what a call of it does.

    `device` is the type of the tensors' device where it is not the target's own, which no package has: tests run the
    code for CUDA on CPU tensors.
    """
    cards = [_card(operator) for operator in packed]
    bodies = [served.body for operator in packed for served in operator.kernel.variants]
    programs = [body for body in bodies if isinstance(body, DeviceBody)]
    calls = [call for body in programs for call in body.calls]
    return render(
        "operators.cpp.jinja",
        name=name,
        target=target,
        device=device or target,
        cards=cards,
        most_slots=max(body.slots for body in bodies),
        most_devices=_MOST_DEVICES if target == "cuda" else 1,
        most_arguments=max((body.most_arguments for body in programs), default=0),
        most_maps=max((len(body.maps) for body in programs), default=0),
        helpers=CPP_HELPERS if any(body.asks_sm_count or _loops(body) for body in programs) else "",
        calls_operators=bool(calls),
        uses_addmm=any(call.operator == "aten::addmm" for call in calls),
    )


def _loops(body: DeviceBody) -> bool:
    return any(step.repeat for step in body.steps)


def project_file(name: str) -> str:
    """The package's pyproject.toml: an in-tree backend without requirements, so that pip needs no network."""
    return render(
        "pyproject.toml.jinja",
        name=name,
        version=VERSION,
        torch_minimum=TORCH_MINIMUM,
        python_minimum=PYTHON_MINIMUM,
    )


def _card(operator: Operator) -> dict[str, Any]:
    return {
        "number": operator.number,
        "operator": operator.name,
        "title": " ".join(operator.kernel.card.name.split()),
        "schema": operator.schema,
        "operands": [{"name": o.name, "optional": o.name in operator.optional} for o in operator.operands],
        "output_count": len(operator.kernel.variants[0].variant.outputs),
        "variants": [_variant(number, served) for number, served in enumerate(operator.kernel.variants)],
    }


def _variant(number: int, served: ServedVariant) -> dict[str, Any]:
    variant = served.variant
    operands = [argument for argument in variant.arguments if is_operand(argument)]
    return {
        "number": number,
        "operands": [_layout(variant.tensors[a.tensors[0]]) if a.kind == "tensor" else _ABSENT for a in operands],
        "outputs": [_layout(spec) for spec in variant.outputs],
        "body": served.body,
    }


_ABSENT = {"dtype": "nullptr", "ndim": 0, "shape": [], "stride": [], "alignment": 1}


def _layout(spec: TensorSpec) -> dict[str, Any]:
    return {
        "dtype": dtype_function(spec.dtype),
        "ndim": len(spec.shape),
        "shape": spec.shape,
        "stride": spec.stride,
        "alignment": math.gcd(spec.alignment, _ALIGNMENT),
    }
