"""Inputs that the judge has never seen: drawn by code of its own, wider and nastier than the judge's. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

Values = Callable[[tuple[int, ...], torch.Generator], torch.Tensor]


def _normal(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=g, dtype=torch.float64)


def _times(scale: float, mean: float = 0.0) -> Values:
    return lambda shape, g: _normal(shape, g) * scale + mean


def _row_means(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return _normal(shape, g) + 100 * _normal((*shape[:-1], 1), g)


def _wide(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return _normal(shape, g) * torch.exp(4 * _normal(shape, g))


def _one_hot(value: float, rest: float) -> Values:
    def values(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
        flat = torch.full(shape, rest, dtype=torch.float64)
        place = torch.randint(0, shape[-1], (*shape[:-1], 1), generator=g)
        return flat.scatter(-1, place, value)

    return values


def _at(column: int) -> Values:
    def values(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
        made = _normal(shape, g)
        made[..., column] = 50.0
        return made

    return values


def _sorted(descending: bool) -> Values:
    return lambda shape, g: (3 * _normal(shape, g)).sort(-1, descending=descending).values


def _alternating(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return (1 - 2 * (torch.arange(shape[-1]) % 2)) * (1 + _normal(shape, g).abs())


def _equal_rows(scale: float) -> Values:
    return lambda shape, g: (scale * _normal((*shape[:-1], 1), g)).expand(shape).clone()


def _integers(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.randint(-3, 4, shape, generator=g).double()


def _uniform(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=g, dtype=torch.float64)


def _with(*specials: float, everywhere: bool = False) -> Values:
    """A few special values in ordinary ones, or a whole row of the first."""

    def values(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
        made = _normal(shape, g)
        rows = made.view(-1, shape[-1]) if shape else made.view(1, 1)
        if everywhere:
            rows[int(torch.randint(0, len(rows), (), generator=g))] = specials[0]
            return made
        for special in specials:
            for column in (0, rows.shape[1] - 1, int(torch.randint(0, rows.shape[1], (), generator=g))):
                rows[int(torch.randint(0, len(rows), (), generator=g)), column] = special
        return made

    return values


def _mixed_row(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    made = _normal(shape, g)
    rows = made.view(-1, shape[-1]) if shape else made.view(1, 1)
    rows[0, 0], rows[0, -1] = float("inf"), float("-inf")
    rows[-1, 0], rows[-1, -1] = float("nan"), float("inf")
    return made


NAN, INF = float("nan"), float("inf")
STYLES: dict[str, Values] = {
    "ordinary": _times(1.0),
    "ordinary again": _times(1.7, 0.3),
    "scale 1e-30": _times(1e-30),
    "scale 1e-6": _times(1e-6),
    "scale 1e-2": _times(1e-2),
    "scale 30": _times(30.0),
    "scale 1e4": _times(1e4),
    "scale 1e8": _times(1e8),
    "scale 1e17": _times(1e17),
    "mean -1000": _times(10.0, -1000.0),
    "mean 1000": _times(10.0, 1000.0),
    "mean -30": _times(1.0, -30.0),
    "all positive": lambda shape, g: _normal(shape, g).abs() + 0.1,
    "all negative": lambda shape, g: -(_normal(shape, g).abs() + 0.1),
    "in 0 to 1": _uniform,
    "means by row": _row_means,
    "magnitudes by element": _wide,
    "one large in a row": _one_hot(100.0, 0.0),
    "one small in a row": _one_hot(-100.0, 1.0),
    "large in the first place": _at(0),
    "large in the last place": _at(-1),
    "ascending": _sorted(False),
    "descending": _sorted(True),
    "alternating": _alternating,
    "equal in a row": _equal_rows(3.0),
    "equal in a row, large": _equal_rows(1e3),
    "integers": _integers,
    "zeros": lambda shape, g: torch.zeros(shape, dtype=torch.float64),
    "negative zeros": lambda shape, g: -torch.zeros(shape, dtype=torch.float64),
    "some NaN": _with(NAN),
    "a row of NaN": _with(NAN, everywhere=True),
    "some infinities": _with(INF),
    "some negative infinities": _with(-INF),
    "a row of infinities": _with(INF, everywhere=True),
    "a row of negative infinities": _with(-INF, everywhere=True),
    "infinities and NaN in one row": _mixed_row,
}


def draws(variant: dict[str, Any], dtypes: list[torch.dtype], seed: int) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Named values for every tensor of a variant, contiguous."""
    g = torch.Generator().manual_seed(seed)
    parameters = {i for a in variant["arguments"] if a["role"] == "parameter" for i in a["tensors"]}
    inputs = [i for i, dtype in enumerate(dtypes) if dtype.is_floating_point and i not in parameters]
    for name, style in STYLES.items():
        for chosen in [inputs, *([one] for one in inputs)] if len(inputs) > 1 else [inputs]:
            tensors = []
            for index, (spec, dtype) in enumerate(zip(variant["tensors"], dtypes, strict=True)):
                shape = tuple(spec["shape"])
                if index in chosen:
                    tensors.append(style(shape, g).to(dtype))
                elif dtype.is_floating_point:
                    tensors.append((_normal(shape, g) * 1.5).to(dtype))
                else:
                    tensors.append(_discrete(spec, shape, dtype, g))
            yield name, tensors


def _discrete(spec: dict[str, Any], shape: tuple[int, ...], dtype: torch.dtype, g: torch.Generator) -> torch.Tensor:
    if dtype is torch.bool:
        share = float(torch.randint(0, 5, (), generator=g)) / 4
        return torch.rand(shape, generator=g) < share
    low, high = spec["recipe"]["low"], spec["recipe"]["high"]
    kind = int(torch.randint(0, 4, (), generator=g))
    if kind == 0:
        return torch.full(shape, (low, high)[int(torch.randint(0, 2, (), generator=g))], dtype=dtype)
    return torch.randint(low, high + 1, shape, generator=g, dtype=dtype)
