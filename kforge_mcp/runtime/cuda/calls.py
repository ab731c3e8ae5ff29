"""Operator calls of a bound program, between its launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..tensors import DTYPES

Tensors = Mapping[str, Sequence[Any]]
"""Tensors of `tensor`, `output`, `workspace` and `intermediate` by index."""


class OperatorCall:
    """One call of an ATen operator; its results become intermediates or are copied into outputs."""

    def __init__(self, step: dict[str, Any], intermediates: Sequence[dict[str, Any]]) -> None:
        self.step = step
        name = step["operator"].removeprefix("aten::")
        self._operator = getattr(getattr(torch.ops.aten, name), step["overload"])
        self._intermediates = intermediates
        floats = {one.name: "float" in str(one.type).lower() for one in self._operator._schema.arguments}
        self._positional = [self._read(one, floats) for one in step["arguments"] if not one["keyword"]]
        self._keyword = {one["parameter"]: self._read(one, floats) for one in step["arguments"] if one["keyword"]}

    @staticmethod
    def _read(argument: dict[str, Any], floats: dict[str, bool]) -> tuple[str, Any]:
        kind, value = argument["kind"], argument["value"]
        if kind == "none":
            return "value", None
        if kind != "value":
            return kind, argument["index"]
        if isinstance(value, str) or (floats.get(argument["parameter"]) and type(value) is int):
            return "value", float(value)
        return "value", value

    def run(self, tensors: Tensors, intermediates: list[Any]) -> None:
        """Call the operator and put its results where the program wants them.

        Raises whatever the operator raises; RuntimeError for a result that is not what the program says.
        """

        def given(one: tuple[str, Any]) -> Any:
            return one[1] if one[0] == "value" else tensors[one[0]][one[1]]

        results = self._operator(
            *(given(one) for one in self._positional), **{name: given(one) for name, one in self._keyword.items()}
        )
        if isinstance(results, torch.Tensor):
            results = (results,)
        for place, result in zip(self.step["outputs"], results, strict=True):
            if place["kind"] == "output":
                tensors["output"][place["index"]].copy_(result)
                continue
            wanted = self._intermediates[place["index"]]
            if result.dtype is not DTYPES[wanted["dtype"]] or list(result.shape) != wanted["shape"]:
                raise RuntimeError(
                    f"`{wanted['name']}` came out as {result.dtype} {list(result.shape)}, "
                    f"not {wanted['dtype']} {wanted['shape']}"
                )
            intermediates[place["index"]] = result.contiguous()
