"""Which captured calls the package's dispatcher can recognise: the trees of `runtime/values.py`, read not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kforge_mcp.records.project import Target
from kforge_mcp.records.variant import Variant

_MOST_DIMENSIONS = 64


def cannot_dispatch(variant: Variant, target: Target = "cpu") -> str:
    """Why a variant cannot be served by a package for the target, or an empty string."""
    arguments = variant.arguments
    if any(argument.kind == "tensors" for argument in arguments):
        return "it takes a list of tensors, which packages do not support yet"
    if variant.overwritten:
        return "it overwrites an input, which packages do not support yet"
    if not variant.tensors or not variant.outputs:
        return "it takes or returns no tensor"
    if any(spec.device.partition(":")[0] != target for spec in (*variant.tensors, *variant.outputs)):
        place = "the CPU" if target == "cpu" else "the GPU"
        return f"not all of its tensors are on {place}, where the kernel runs"
    if any(spec.numel == 0 for spec in (*variant.tensors, *variant.outputs)):
        return "it has an empty tensor"
    if any(len(spec.shape) > _MOST_DIMENSIONS for spec in (*variant.tensors, *variant.outputs)):
        return f"it has a tensor of more than {_MOST_DIMENSIONS} dimensions"
    named = {argument.tensors[0] for argument in arguments if argument.kind == "tensor"}
    if named != set(range(len(variant.tensors))):
        return "a tensor's value is a constant of it, which packages do not support yet"
    parameters = list(variant.call.get("parameters", {}).values())
    if len(set(parameters)) < len(parameters):
        return "two of its parameters are one tensor, which packages do not support yet"
    held = {a.tensors[0] for a in arguments if a.kind == "tensor" and a.path.startswith("self.")}
    trees = [*variant.call.get("args", []), *variant.call.get("kwargs", {}).values()]
    reached = {index for tree in trees for index in _reached(tree)}
    if named - held - reached:
        return "a tensor of it is inside an object, which packages do not support yet"
    if not _buildable(variant.output_tree):
        return "it returns an object other than tensors, tuples, lists and dictionaries"
    return ""


def _reached(tree: dict[str, Any]) -> Iterator[int]:
    """Tensors that subscripts lead to."""
    if "t" in tree:
        yield tree["t"]
    for kind in ("list", "tuple"):
        for item in tree.get(kind, ()):
            yield from _reached(item)
    for key, item in tree.get("dict", ()):
        if "v" in key:
            yield from _reached(item)


def _buildable(tree: dict[str, Any]) -> bool:
    if not tree or "object" in tree or "slice" in tree or "size" in tree:
        return False
    items = [*tree.get("list", ()), *tree.get("tuple", ())]
    pairs = tree.get("dict", ())
    return all(_buildable(item) for item in items) and all("v" in key and _buildable(item) for key, item in pairs)
