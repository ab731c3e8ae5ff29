"""Whole-model outputs with a package against without, at a tolerance that the model itself gives.

With a float64 oracle o, eager e and package p, per floating output: rmse(p, o) <= 2 rmse(e, o) + f eps rms(o), eps of
the output's dtype and f = 0.5 for 16-bit types, else 4: the judge's formula, where e's own error carries what a deep
model makes of rounding. A float64 run that is far from eager (it wrote to a copy, drew other random numbers) is no
oracle. Without an oracle, rmse(p, e) <= 2 rmse(d, e) + f eps rms(e), where d are eager's outputs
after every result of a packaged card was disturbed by a random relative error of f eps. All else must be equal.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .oracle import Float64Mode

_RATIO = 2.0
_DEEPEST = 12


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Detached copies of all tensors of a result, through containers, dataclasses and plain objects such as caches."""
    return [tensor.detach().clone() for tensor in _walk(value, set(), 0)]


def _walk(value: Any, seen: set[int], depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
        return
    if depth > _DEEPEST or isinstance(value, (str, bytes, int, float, type(None), type, torch.nn.Module)):
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        items: Any = value.values()
    elif isinstance(value, (list, tuple)):
        items = value
    elif dataclasses.is_dataclass(value):
        items = [getattr(value, item.name) for item in dataclasses.fields(value)]
    else:
        items = getattr(value, "__dict__", {}).values()
    for item in items:
        yield from _walk(item, seen, depth + 1)


class Yardstick:
    """Eager's outputs and what differences from them are allowed, found out once and only if needed.

    `run` runs the plain model again; `perturbed` runs it with each packaged card's results off by a relative error.
    """

    def __init__(
        self,
        eager: list[torch.Tensor],
        run: Callable[[], list[torch.Tensor]],
        perturbed: Callable[[float], list[torch.Tensor]],
    ) -> None:
        self._eager = eager
        self._run = run
        self._perturbed = perturbed

    @functools.cached_property
    def _oracle(self) -> tuple[list[torch.Tensor] | None, str]:
        return _oracle(self._run, self._eager)

    @functools.cached_property
    def _disturbed(self) -> list[torch.Tensor]:
        floating = [tensor.dtype for tensor in self._eager if tensor.is_floating_point()]
        return self._perturbed(max(map(_allowance, floating), default=0.0))

    def compare(self, packaged: list[torch.Tensor]) -> dict[str, Any]:
        """`{"equal", "bitwise", "difference", "oracle", "tensors": [figures]}`; `difference` is text for people."""
        eager = self._eager
        if [_form(tensor) for tensor in eager] != [_form(tensor) for tensor in packaged]:
            return _answer(False, False, "none", [], "the outputs differ in number, shape or dtype")
        if all(_same_bits(one, two) for one, two in zip(eager, packaged, strict=True)):
            return _answer(True, True, "none", [], f"all {len(eager)} output tensors are equal bit for bit")
        oracle, name = self._oracle
        truth, scale = (eager, self._disturbed) if oracle is None else (oracle, eager)
        figures = [{"tensor": index, **_compare(got, scale[index], truth[index])} for index, got in enumerate(packaged)]
        worst = max(figures, key=lambda figure: figure["of_tolerance"])
        against = "eager" if oracle is None else "the float64 oracle"
        text = (
            f"output {worst['tensor']}: {worst['what']} against {against} is {worst['error']:.3g}, allowed "
            f"{worst['allowed']:.3g}; largest difference between the outputs {_largest(eager, packaged):.3g}"
        )
        return _answer(all(figure["equal"] for figure in figures), False, name, figures, text)


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype


def disturb(value: Any, relative: float, noise: torch.Generator) -> Any:
    """A result whose floating tensors are multiplied by 1 + a uniform error up to `relative`."""
    if isinstance(value, torch.Tensor):
        if not value.is_floating_point():
            return value
        error = torch.rand(value.shape, generator=noise, dtype=torch.float64) * 2 - 1
        return (value.double() * (1 + relative * error.to(value.device))).to(value.dtype)
    if type(value) in (list, tuple):
        return type(value)(disturb(item, relative, noise) for item in value)
    if type(value) is dict:
        return {key: disturb(item, relative, noise) for key, item in value.items()}
    return value


def _answer(equal: bool, bitwise: bool, oracle: str, figures: list[dict[str, Any]], text: str) -> dict[str, Any]:
    finite = [
        {key: str(item) if isinstance(item, float) and not math.isfinite(item) else item for key, item in each.items()}
        for each in figures
    ]
    return {"equal": equal, "bitwise": bitwise, "oracle": oracle, "difference": text, "tensors": finite}


def _same_bits(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.numel() == 0 or bool(torch.equal(_bits(one), _bits(two)))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _oracle(run: Callable[[], list[torch.Tensor]], eager: list[torch.Tensor]) -> tuple[list[torch.Tensor] | None, str]:
    """The whole model in float64, or None with what stood against it."""
    missing = "no float64 oracle of the whole model"
    try:
        with Float64Mode():
            result = run()
    except Exception as error:  # noqa: BLE001 - whatever the model does in float64, the other measure remains
        return None, f"{missing} ({type(error).__name__}: {str(error)[:200]})"
    if [tuple(tensor.shape) for tensor in result] != [tuple(tensor.shape) for tensor in eager]:
        return None, f"{missing}: its outputs have other shapes there"
    for narrow, wide in zip(eager, result, strict=True):
        if narrow.is_floating_point() and _strays(narrow, wide.double()):
            return None, f"{missing}: it computes something else there"
    return result, "float64"


def _strays(narrow: torch.Tensor, wide: torch.Tensor) -> bool:
    """Whether a float64 run is too far off to be the same computation: half of the digits of the dtype."""
    ordinary = narrow.isfinite() & wide.isfinite()
    error = _rms((narrow.double() - wide)[ordinary])
    return error > torch.finfo(narrow.dtype).eps ** 0.5 * _rms(wide[ordinary])


def _compare(got: torch.Tensor, scale: torch.Tensor, truth: torch.Tensor) -> dict[str, Any]:
    if not got.is_floating_point():
        equal = bool(torch.equal(got, truth.to(got.dtype)))
        wrong = float((got != truth.to(got.dtype)).double().sum())
        return {"equal": equal, "what": "count of unequal elements", "error": wrong, "allowed": 0.0, **_share(wrong, 0)}
    if got.numel() == 0:
        return {"equal": True, "what": "rmse", "error": 0.0, "allowed": 0.0, "of_tolerance": 0.0}
    got, wide_scale, truth = got.double(), scale.double(), truth.double()
    ordinary = truth.isfinite()
    if not torch.equal(got.isfinite(), ordinary) or not torch.equal(got[~ordinary].isnan(), truth[~ordinary].isnan()):
        return {"equal": False, "what": "places of NaN or infinity", "error": 1.0, "allowed": 0.0, **_share(1, 0)}
    size = _rms(truth[ordinary])
    allowed = _RATIO * _rms((wide_scale - truth)[ordinary]) + _allowance(scale.dtype) * size
    error = _rms((got - truth)[ordinary])
    return {"equal": error <= allowed, "what": "rmse", "error": error, "allowed": allowed, **_share(error, allowed)}


def _share(error: float, allowed: float) -> dict[str, float]:
    return {"of_tolerance": error / allowed if allowed else (math.inf if error else 0.0)}


def _allowance(dtype: torch.dtype) -> float:
    return (0.5 if dtype.itemsize == 2 else 4.0) * torch.finfo(dtype).eps


def _rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt()) if values.numel() else 0.0


def _largest(one: list[torch.Tensor], two: list[torch.Tensor]) -> float:
    differences = [(a.double() - b.double()).abs() for a, b in zip(one, two, strict=True) if a.numel()]
    return max((float(difference.nan_to_num(0.0, 0.0, 0.0).max()) for difference in differences), default=0.0)
