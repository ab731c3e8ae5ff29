"""Variants of plain functions, as the control plane describes them, for tests of the referee's parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kforge_mcp.runtime.arena import place_call
from kforge_mcp.runtime.batch import Bound
from kforge_mcp.runtime.recipes import describe
from kforge_mcp.runtime.subject import Subject
from kforge_mcp.runtime.tensors import specification
from kforge_mcp.runtime.values import flatten

Function = Callable[..., Any]


class PlainReference:
    """Stands for `runtime.reference.Reference`: eager is a function of the tensors in order."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def call(self, tensors: list[torch.Tensor], call: dict[str, Any]) -> Any:
        with torch.no_grad():
            return self.function(*tensors)


def variant(function: Function, tensors: Sequence[torch.Tensor], parameters: int = 0) -> dict[str, Any]:
    """The variant of one call; the last `parameters` tensors are parameters."""
    ids: dict[int, int] = {}
    specs = [{**specification(t, ids), "recipe": describe(t), "sample": ""} for t in tensors]
    first_parameter = len(tensors) - parameters
    arguments = [
        {"name": f"t{i}", "kind": "tensor", "tensors": [i], "role": "parameter" if i >= first_parameter else "input"}
        for i in range(len(tensors))
    ]
    with torch.no_grad():
        results = flatten(function(*(t.clone() for t in tensors)))
    outputs = [{**specification(t.contiguous()), "alignment": 0} for t in results]
    return {"variant_id": "v", "tensors": specs, "arguments": arguments, "outputs": outputs, "call": {}}


def subject(function: Function, tensors: Sequence[torch.Tensor], parameters: int = 0) -> Subject:
    """A subject over the function."""
    described = variant(function, tensors, parameters)
    slot = place_call(described)
    return Subject(0, described, slot, Bound(0, slot, 0, (), {}), PlainReference(function), "")  # type: ignore[arg-type]
