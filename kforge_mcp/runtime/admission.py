"""Can these inputs tell a wrong kernel from a right one? Known wrong results go through the same checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .checks import check
from .inputs import Blocks
from .oracle import Expected, lowered

Impostor = Callable[[Sequence[torch.Tensor], Expected], "list[torch.Tensor] | None"]
Eager = Callable[[list[torch.Tensor]], list[torch.Tensor]]


class Admission:
    """The battery for one variant: feed it every draw of the trials, then ask who was never caught."""

    def __init__(self, eager: Eager) -> None:
        self._alive: dict[str, bool] = dict.fromkeys(_IMPOSTORS, True)
        """Impostors not yet caught, and whether each has equalled eager everywhere so far."""
        self._impostors: dict[str, Impostor] = {
            **_IMPOSTORS,
            "internals one class lower": lambda inputs, expected: lowered(eager, inputs, expected.narrow),
        }
        self._alive["internals one class lower"] = True

    def observe(self, inputs: Sequence[torch.Tensor], expected: Expected, blocks: Blocks) -> None:
        """Try the impostors that are still alive on one draw."""
        for name in list(self._alive):
            outputs = self._impostors[name](inputs, expected)
            if outputs is None or [t.shape for t in outputs] != [e.shape for e in expected.narrow]:
                del self._alive[name]
                continue
            if all(_equal(a, b) for a, b in zip(outputs, expected.narrow, strict=True)):
                continue
            if check(outputs, expected, blocks) is not None:
                del self._alive[name]
            else:
                self._alive[name] = False

    def uncaught(self) -> list[str]:
        """Impostors that every check has passed, other than those that are right by construction."""
        return [name for name, always_equal in self._alive.items() if not always_equal]

    @property
    def undecided(self) -> list[str]:
        """Impostors that were not caught yet, so that harder inputs are worth drawing."""
        return list(self._alive)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether all values are equal, NaN to NaN."""
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _zeros(inputs: Sequence[torch.Tensor], expected: Expected) -> list[torch.Tensor]:
    return [torch.zeros_like(e) for e in expected.narrow]


def _passthrough(inputs: Sequence[torch.Tensor], expected: Expected) -> list[torch.Tensor] | None:
    outputs: list[torch.Tensor] = []
    for number, e in enumerate(expected.narrow):
        alike = [t for t in inputs if t.numel() == e.numel() and t.is_complex() == e.is_complex()]
        if not alike:
            return None
        outputs.append(alike[min(number, len(alike) - 1)].reshape(e.shape).to(e.dtype))
    return outputs


def _constant_mean(inputs: Sequence[torch.Tensor], expected: Expected) -> list[torch.Tensor] | None:
    if any(e.numel() == 0 for e in expected.narrow):
        return None
    outputs: list[torch.Tensor] = []
    for e in expected.narrow:
        wide = e.to(torch.complex128 if e.is_complex() else torch.float64)
        mean = torch.nan_to_num(wide, nan=0.0, posinf=0.0, neginf=0.0).mean()
        outputs.append(torch.full_like(e, mean.to(e.dtype).item()))
    return outputs


def _first_row(inputs: Sequence[torch.Tensor], expected: Expected) -> list[torch.Tensor] | None:
    if any(e.ndim == 0 or e.numel() == 0 for e in expected.narrow):
        return None
    outputs: list[torch.Tensor] = []
    for e in expected.narrow:
        rows = e.reshape(-1, e.shape[-1]) if e.ndim > 1 else e.reshape(-1, 1)
        outputs.append(rows[:1].expand_as(rows).reshape(e.shape))
    return outputs


def _half(inputs: Sequence[torch.Tensor], expected: Expected) -> list[torch.Tensor]:
    outputs: list[torch.Tensor] = []
    for e in expected.narrow:
        half = e.clone().reshape(-1)
        half[half.numel() // 2 :] = 0
        outputs.append(half.reshape(e.shape))
    return outputs


_IMPOSTORS: dict[str, Impostor] = {
    "zeros": _zeros,
    "an input passed through": _passthrough,
    "the mean everywhere": _constant_mean,
    "the first row copied": _first_row,
    "half computed": _half,
}
