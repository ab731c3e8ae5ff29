"""Is an output right? Tolerances against the float64 oracle, relative to what eager itself gets wrong.

With eps of the output's dtype, c the candidate, e eager and o the oracle:
`rmse(c, o) <= m rmse(e, o) + f eps rms(o)`, and at every position
`|c - o| <= 4 max|e - o| + f eps max(|o|, rms of o's row)`, both per block of rows drawn in one style.
m = 2, or 3 under 1,000 elements; f = 0.5 for types of 16 bits and fewer, else 4 + min(k / 16, 256), k the longest
reduction, times what the style forgives, and four times that for float64. A row is the last dimension, and those before
it while it has fewer than 64 elements. Integers and booleans are exact, NaN and infinities stand where eager's stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from .inputs import FORGIVEN, Blocks
from .oracle import Expected
from .tensors import position

SMALL = 1000
_PROBLEM_LIMIT = 600
_ROW = 64
"""The rms of fewer elements says little of the magnitudes that went into them."""


@dataclass(frozen=True)
class Finding:
    """Why a candidate is not accepted. `reason` is of the closed list of reasons; `message` is for its author."""

    reason: str
    message: str

    def during(self, circumstance: str) -> Finding:
        """The same finding, saying where it happened."""
        return replace(self, message=f"{circumstance}: {self.message}"[:_PROBLEM_LIMIT])


@dataclass
class Errors:
    """Eager's own errors in one style: what timed outputs are held against. `rms` is the oracle's."""

    largest: float = 0.0
    rmse: float = 0.0
    rms: float = 0.0
    nonfinite: bool = False

    def merge(self, other: Errors) -> None:
        """Keep the larger of two trials' errors."""
        self.largest = max(self.largest, other.largest)
        self.rmse = max(self.rmse, other.rmse)
        self.rms = max(self.rms, other.rms)
        self.nonfinite = self.nonfinite or other.nonfinite


_ALIKE = 4
"""Eager in float64 is its own oracle: its error, the first part of every tolerance, reads zero, and the oracle's own is
not known. f is that many times as large there."""


def slack(dtype: torch.dtype, longest: int) -> float:
    """f eps: the part of the tolerance relative to the output's magnitude."""
    eps = torch.finfo(dtype).eps
    if dtype.itemsize <= 2:
        return 0.5 * eps
    return (_ALIKE if dtype is torch.float64 else 1) * (4 + min(longest / 16, 256)) * eps


def multiple(numel: int) -> float:
    """m: how much larger than eager's error a candidate's may be."""
    return 2.0 if numel >= SMALL else 3.0


def check(outputs: Sequence[torch.Tensor], expected: Expected, blocks: Blocks) -> Finding | None:
    """The first thing wrong with a candidate's outputs, or None."""
    for index, output in enumerate(outputs):
        label = f"out{index}" if len(outputs) > 1 else "out"
        narrow, wide = expected.narrow[index], expected.wide[index]
        if not (output.is_floating_point() or output.is_complex()):
            finding = _check_exact(output, narrow, label)
        else:
            finding = None
            for style, part in blocks.result_parts(output.shape):
                finding = None
                learnt: Errors | None = None
                for rows in _inside_and_outside(output.shape, blocks, part, expected):
                    c, e, o = (_part(t, blocks, rows) for t in (output, narrow, wide))
                    finding = finding or _check_block(c, e, o, expected.longest, FORGIVEN.get(style, 1.0), learnt)
                    learnt = _errors(e, o)
                if finding:
                    where = "" if style == "captured values" else f", rows of style `{style}`"
                    finding = finding.during(f"{label}{where}")
                    break
        if finding:
            return finding
    return None


def eager_errors(expected: Expected, blocks: Blocks) -> list[dict[str, Errors]]:
    """Per output: eager's errors by style."""
    result: list[dict[str, Errors]] = []
    for e, o in zip(expected.narrow, expected.wide, strict=True):
        styles: dict[str, Errors] = {}
        if e.is_floating_point() or e.is_complex():
            for style, part in blocks.parts(e.shape):
                inside = _inside_and_outside(e.shape, blocks, part, expected)[0]
                styles[style] = _errors(_part(e, blocks, inside), _part(o, blocks, inside))
        result.append(styles)
    return result


def row_rms(values: torch.Tensor, calls: int = 0) -> torch.Tensor:
    """The root mean square of the row that each element is in, for broadcasting. The first `calls` dimensions number
    calls, which have no row in common."""
    kept, size = values.ndim, 1
    while kept > calls and size < _ROW:
        kept -= 1
        size *= values.shape[kept]
    if kept == values.ndim:
        return values.abs()
    return values.pow(2).mean(tuple(range(kept, values.ndim)), keepdim=True).sqrt()


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one layout hold the same bits."""
    return torch.equal(as_bytes(one), as_bytes(other))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor as bytes, in logical order."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def plain_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Booleans as the bytes that they are: only 0 and 1 are booleans, but torch makes 1 of others when it copies."""
    return tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor


def describe_position(tensor: torch.Tensor, flat: int) -> str:
    """`[i, j]` of the element at this place in logical order."""
    return str(list(position(flat, tensor.shape)))


def _inside_and_outside(
    shape: Sequence[int], blocks: Blocks, part: torch.Tensor | None, expected: Expected
) -> list[torch.Tensor | None]:
    """The rows of a block: those with a float64 oracle, then those without, if there are any."""
    slicing = expected.slicing
    if slicing is None or not slicing.divides(shape):
        return [part]
    assert blocks.where.axis is not None
    rows = torch.arange(shape[blocks.where.axis]) if part is None else part
    inside = torch.isin(rows, slicing.rows)
    return [found for found in (rows[inside], rows[~inside]) if len(found)]


def _part(tensor: torch.Tensor, blocks: Blocks, part: torch.Tensor | None) -> torch.Tensor:
    if part is None:
        return tensor
    assert blocks.where.axis is not None
    if len(part) and int(part[-1]) - int(part[0]) + 1 == len(part):
        return tensor.narrow(blocks.where.axis, int(part[0]), len(part))
    return tensor.index_select(blocks.where.axis, part.to(tensor.device))


def real_parts(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs along the last dimension, so that a row stays one row; a real tensor as it is."""
    return torch.view_as_real(tensor.resolve_conj()).flatten(max(tensor.ndim - 1, 0)) if tensor.is_complex() else tensor


def consistent(parts: torch.Tensor) -> torch.Tensor:
    """Complex numbers with a part that is not finite are NaN as a whole: which part it is differs between products
    that are equally right."""
    pairs = parts.reshape(*parts.shape[:-1], -1, 2)
    broken = ~torch.isfinite(pairs).all(-1, keepdim=True)
    return torch.where(broken, torch.nan, pairs).reshape(parts.shape)


def _errors(e: torch.Tensor, o: torch.Tensor) -> Errors:
    wide, exact = real_parts(e).double(), real_parts(o).double()
    known = torch.isfinite(wide) & torch.isfinite(exact)
    if not bool(known.any()):
        return Errors(nonfinite=True)
    difference = (wide - exact)[known]
    return Errors(
        float(difference.abs().max()),
        float(difference.pow(2).mean().sqrt()),
        float(exact[known].pow(2).mean().sqrt()),
        not bool(known.all()),
    )


def _check_exact(output: torch.Tensor, narrow: torch.Tensor, label: str) -> Finding | None:
    output, narrow = plain_bytes(output), plain_bytes(narrow)
    wrong = output != narrow
    if not bool(wrong.any()):
        return None
    count, first = int(wrong.sum()), int(torch.nonzero(wrong.reshape(-1))[0])
    got, want = (str(t.reshape(-1)[first].item()) for t in (output, narrow))
    return Finding(
        "wrong_result",
        f"{label}{describe_position(output, first)} is {got}, expected exactly {want}; "
        f"{count} of {output.numel()} elements differ",
    )


def _check_block(
    c: torch.Tensor, e: torch.Tensor, o: torch.Tensor, longest: int, forgiven: float, learnt: Errors | None = None
) -> Finding | None:
    """What is wrong with a block. With `learnt`, eager's errors in other rows of the style, `o` is eager itself: then
    the candidate may be off by its own error and eager's, as in timed calls."""
    if c.numel() == 0:
        return None
    tolerance = slack(c.dtype.to_real(), longest)
    if c.dtype.itemsize > 2:
        tolerance *= forgiven
    wide_c, wide_e, wide_o = (real_parts(t).double() for t in (c, e, o))
    if c.is_complex():
        wide_c, wide_e, wide_o = (consistent(t) for t in (wide_c, wide_e, wide_o))
    # Where eager's fast path and its float64 path disagree on what an infinity becomes, either is right.
    as_oracle = ~torch.isfinite(wide_o) & ((wide_c == wide_o) | (torch.isnan(wide_c) & torch.isnan(wide_o)))
    misplaced = check_nonfinite(wide_c, torch.where(as_oracle, wide_c, wide_e))
    if misplaced:
        return misplaced
    known = torch.isfinite(wide_e) & torch.isfinite(wide_o)
    if not bool(known.any()):
        return None
    if not bool(known.all()):
        wide_c, wide_e, wide_o = (torch.where(known, t, 0.0) for t in (wide_c, wide_e, wide_o))
    error, eager_error = (wide_c - wide_o).abs(), (wide_e - wide_o).abs()
    count = int(known.sum())
    rms = float(wide_o.pow(2).sum().div(count).sqrt())
    rmse_c = float(error.pow(2).sum().div(count).sqrt())
    rmse_e = float(eager_error.pow(2).sum().div(count).sqrt())
    largest = 5 * learnt.largest if learnt else 4 * float(eager_error.max())
    allowed = largest + tolerance * torch.maximum(wide_o.abs(), row_rms(wide_o))
    excess = error - allowed
    worst = int(excess.argmax())
    if float(excess.reshape(-1)[worst]) > 0:
        wrong = int((excess > 0).sum())
        return Finding(
            "wrong_result",
            f"{describe_position(wide_c, worst)} is {_number(wide_c, worst)}, expected {_number(wide_o, worst)} "
            f"(eager {_number(wide_e, worst)}); error {_number(error, worst)}, allowed {_number(allowed, worst)}; "
            f"{wrong} of {count} elements beyond tolerance",
        )
    limit = (1 + multiple(count)) * learnt.rmse if learnt else multiple(count) * rmse_e
    limit += tolerance * rms
    if rmse_c > limit:
        return Finding(
            "wrong_result",
            f"root mean square error {rmse_c:.3g} against the float64 result, allowed {limit:.3g} (eager {rmse_e:.3g}, "
            f"values of {rms:.3g}); worst at {describe_position(wide_c, int(error.argmax()))}: "
            f"{_number(wide_c, int(error.argmax()))}, expected {_number(wide_o, int(error.argmax()))}",
        )
    return None


def check_nonfinite(c: torch.Tensor, e: torch.Tensor) -> Finding | None:
    """NaN, infinity and negative infinity must stand where eager's stand."""
    differ = (torch.isnan(c) != torch.isnan(e)) | ((torch.isinf(c) | torch.isinf(e)) & (c != e) & ~torch.isnan(e))
    if not bool(differ.any()):
        return None
    first = int(torch.nonzero(differ.reshape(-1))[0])
    return Finding(
        "nan_mismatch",
        f"{describe_position(c, first)} is {_number(c, first)}, eager gives {_number(e, first)}; "
        f"{int(differ.sum())} of {c.numel()} elements differ in NaN or infinity",
    )


def _number(tensor: torch.Tensor, flat: int) -> str:
    return f"{float(tensor.reshape(-1)[flat]):.6g}"
