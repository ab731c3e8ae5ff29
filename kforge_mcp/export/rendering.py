"""The files of a package that are rendered: the operators' C++ and the build description."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import jinja2

from kforge_mcp.candidate.binding import BoundArgument
from kforge_mcp.export.contents import PYTHON_MINIMUM, TORCH_MINIMUM, VERSION, Operator, is_operand
from kforge_mcp.export.kernels import ServedVariant
from kforge_mcp.records.tensor import TensorSpec

TEMPLATE = Path(__file__).with_name("template")

_DTYPES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2", "int64": "int64", "int32": "int32", "int16": "int16", "int8": "int8",
    "uint8": "uint8", "bool": "bool", "complex64": "complex64",
}  # fmt: skip
_SCALARS = {"int64": "int64_t", "int32": "int", "float": "float", "double": "double", "bool": "bool"}
_ALIGNMENT = 64


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


def operators_source(name: str, packed: list[Operator]) -> str:
    """The C++ of a package's operators: every variant's guards as tables, its scalars folded to values."""
    cards = [_card(operator) for operator in packed]
    most = max(len(variant["scratch"]) for card in cards for variant in card["variants"])
    return render("operators.cpp.jinja", name=name, target="cpu", cards=cards, most_scratch=most)


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
    names = [argument.name for argument in operands]
    return {
        "number": number,
        "operands": [_layout(variant.tensors[a.tensors[0]]) if a.kind == "tensor" else _ABSENT for a in operands],
        "outputs": [_layout(spec) for spec in variant.outputs],
        "scratch": [{"bytes": space.size_bytes, "zero": space.init == "zero"} for space in served.workspaces],
        "parameters": [_parameter(argument) for argument in served.arguments],
        "arguments": [_value(argument, names) for argument in served.arguments],
    }


_ABSENT = {"dtype": "nullptr", "ndim": 0, "shape": [], "stride": [], "alignment": 1}


def _layout(spec: TensorSpec) -> dict[str, Any]:
    return {
        "dtype": f"aoti_torch_dtype_{_DTYPES[spec.dtype]}",
        "ndim": len(spec.shape),
        "shape": spec.shape,
        "stride": spec.stride,
        "alignment": math.gcd(spec.alignment, _ALIGNMENT),
    }


def _parameter(argument: BoundArgument) -> str:
    return _SCALARS[argument.scalar_type] if argument.kind == "scalar" else "void*"


def _value(argument: BoundArgument, operands: list[str]) -> str:
    match argument.kind:
        case "tensor":
            return f"in[{operands.index(argument.name)}]"
        case "output":
            return f"out[{argument.index}]"
        case "workspace":
            return f"scratch[{argument.index}]"
        case "null":
            return "nullptr"
    value = argument.value
    if argument.scalar_type == "bool":
        return "true" if value else "false"
    if argument.scalar_type in ("float", "double"):
        return _floating(float(value or 0), argument.scalar_type)
    # The least 64-bit integer has no literal of its own in C++.
    return f"(-INT64_C({-(int(value or 0) + 1)}) - 1)" if int(value or 0) < 0 else f"INT64_C({int(value or 0)})"


def _floating(value: float, kind: str) -> str:
    """Every bit of the value: a hexadecimal literal, rounded once where a float is passed."""
    if math.isnan(value):
        return f"std::numeric_limits<{kind}>::quiet_NaN()"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}std::numeric_limits<{kind}>::infinity()"
    return f"static_cast<{kind}>({value.hex()})"
