"""Marks of timed outputs: what is kept, on the host, of an output that must not stay on the device.

Where eager goes first, its output is marked and overwritten before the candidate starts. Marks are taken alike of both
sides: seeded positions and 64 random-sign projections (see `fingerprint.py` for the formulas), in double precision for
outputs of 32 bits and more, so that the difference of two projections is that of the outputs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..checks import Errors, Finding, describe_position, multiple, slack
from ..fingerprint import POSITIONS, PROJECTIONS
from ..inputs import Blocks

_CHUNK_ELEMENTS = 1 << 24
_CHUNK_ROWS = 1 << 15


@dataclass
class Question:
    """What is asked of the outputs of one pair: the same of both sides, drawn anew for every pair."""

    blocks: Blocks
    picks: list[torch.Tensor]
    """Of each output: places in logical order, on the device."""
    signs: int
    rows: int
    hashed: int
    """Offsets into the pools of random signs and odd multipliers."""


@dataclass
class Mark:
    """The answers of one output, on the host."""

    values: torch.Tensor
    """At the positions; exact outputs as int64."""
    row_rms: torch.Tensor
    sums: torch.Tensor
    """Projections by style, [styles, 64]."""
    hashed: int = 0
    """Of exact outputs a hash of all values; of others of where NaN and infinities are."""


@dataclass(frozen=True)
class _Styles:
    """The rows of an output by style: `rows` numbers them, on the host; `present` are those there, and `members` has
    ones where a row is of each of them, [present, rows] on the device, None where there is one only."""

    rows: torch.Tensor
    present: list[int]
    members: torch.Tensor | None


@dataclass
class _Layout:
    shape: tuple[int, ...]
    exact: bool
    names: list[str]
    width: int
    rows: int
    styles: dict[tuple[int, ...], _Styles] = field(default_factory=dict)
    """By order of the blocks."""


class Marker:
    """Draws questions, takes marks and compares them, for all timed pairs of a variant."""

    def __init__(
        self,
        outputs: Sequence[torch.Tensor],
        errors: Sequence[dict[str, Errors]],
        longest: int,
        seed: int,
    ) -> None:
        self._device = outputs[0].device
        self._errors = errors
        self._longest = longest
        self._dice = random.Random(seed)
        self._generator = torch.Generator(self._device).manual_seed(seed & (2**63 - 1))
        self._layouts = [_layout(tensor, list(known)) for tensor, known in zip(outputs, errors, strict=True)]
        self._dtypes = [tensor.dtype for tensor in outputs]
        width = max((layout.width for layout in self._layouts), default=1)
        self._signs = self._draw_signs(2 * width + 64)
        most_rows = min(max((layout.rows for layout in self._layouts), default=1), _CHUNK_ROWS)
        self._row_signs = self._draw_signs(2 * most_rows + 64)
        self._chunk_signs = self._draw_signs(4096)
        self._odd = torch.randint(
            -(2**62), 2**62, (2 * min(_most(outputs), _CHUNK_ELEMENTS) + 64,), generator=self._generator,
            device=self._device,
        ) * 2 + 1  # fmt: skip
        self._converted: dict[tuple[torch.dtype, int], torch.Tensor] = {}

    def ask(self, blocks: Blocks) -> Question:
        """Draw what is asked of one pair."""
        picks: list[torch.Tensor] = []
        for layout in self._layouts:
            size = layout.rows * layout.width
            if size <= POSITIONS:
                picks.append(torch.arange(size, device=self._device))
            else:
                picks.append(torch.randint(0, size, (POSITIONS,), generator=self._generator, device=self._device))
        spare = [len(pool) for pool in (self._signs, self._row_signs, self._odd)]
        return Question(
            blocks,
            picks,
            self._dice.randrange(spare[0] - max((o.width for o in self._layouts), default=1)),
            self._dice.randrange(spare[1] // 2),
            self._dice.randrange(spare[2] // 2),
        )

    def take(self, outputs: Sequence[torch.Tensor], question: Question) -> list[Mark]:
        """The marks of a side's outputs; waits for them."""
        packed: list[torch.Tensor] = []
        for index, output in enumerate(outputs):
            layout = self._layouts[index]
            if output.numel() == 0:
                packed.append(torch.empty(0, dtype=torch.float64, device=self._device))
            elif layout.exact:
                flat = output.reshape(-1)
                values = flat[question.picks[index]].to(torch.int64)
                packed.append(torch.cat([values, self._hash(flat, question).reshape(1)]))
            else:
                packed.append(self._answers(output, layout, question, index))
        marks: list[Mark] = []
        for index, answers in enumerate(packed):
            marks.append(self._mark(outputs[index], answers.cpu(), self._layouts[index], question, index))
        return marks

    def compare(self, candidate: Sequence[Mark], eager: Sequence[Mark], question: Question) -> Finding | None:
        """The first output that differs beyond tolerance, or None."""
        for index, (c, e) in enumerate(zip(candidate, eager, strict=True)):
            layout = self._layouts[index]
            finding = (
                self._compare_exact(c, e, layout, question.picks[index])
                if layout.exact
                else self._compare(c, e, layout, question, index)
            )
            if finding:
                return finding.during(f"out{index}" if len(candidate) > 1 else "out")
        return None

    def _answers(self, output: torch.Tensor, layout: _Layout, question: Question, index: int) -> torch.Tensor:
        matrix = _matrix(output, layout)
        picks = question.picks[index]
        values = matrix.reshape(-1)[picks].double()
        wide = torch.float64 if matrix.dtype is torch.float64 else torch.float32
        if matrix.dtype.itemsize == 1:
            matrix = matrix.to(wide)
        norms = torch.linalg.vector_norm(matrix, dim=-1, dtype=wide)[picks // layout.width].double()
        sums = self._project(matrix, layout, question)
        return torch.cat([values, norms / math.sqrt(layout.width), sums.reshape(-1)])

    def _mark(
        self, output: torch.Tensor, answers: torch.Tensor, layout: _Layout, question: Question, index: int
    ) -> Mark:
        count = len(question.picks[index])
        nothing = torch.empty(0, dtype=torch.float64)
        if output.numel() == 0:
            return Mark(nothing, nothing, nothing)
        if layout.exact:
            return Mark(answers[:count], nothing, nothing, int(answers[count]))
        sums = answers[2 * count :].view(-1, PROJECTIONS)
        hashed = 0
        if not bool(torch.isfinite(sums).all()):
            matrix = _matrix(output, layout)
            matrix = matrix.float() if matrix.dtype.itemsize < 4 else matrix
            kinds = torch.isnan(matrix) * 1 + torch.isposinf(matrix) * 2 + torch.isneginf(matrix) * 3
            hashed = int(self._hash(kinds.reshape(-1), question))
            finite = torch.nan_to_num(matrix, nan=0.0, posinf=0.0, neginf=0.0)
            sums = self._project(finite, layout, question).cpu()
        return Mark(answers[:count], answers[count : 2 * count], sums, hashed)

    def _project(self, matrix: torch.Tensor, layout: _Layout, question: Question) -> torch.Tensor:
        """Projections on random signs, [styles, 64], in double precision; the matrix product is exact for 16 bits."""
        exactly = matrix.dtype if matrix.dtype in (torch.bfloat16, torch.float16) else torch.float64
        start = question.signs
        signs = self._as(self._signs, exactly)[start : start + layout.width]
        styles = self._styles(layout, question.blocks)
        found = torch.zeros(len(styles.present), PROJECTIONS, dtype=torch.float64, device=self._device)
        step = max(1, min(_CHUNK_ROWS, _CHUNK_ELEMENTS // max(layout.width, PROJECTIONS)))
        row_signs = self._as(self._row_signs, torch.float64)
        chunk_signs = self._as(self._chunk_signs, torch.float64)
        for number, first in enumerate(range(0, layout.rows, step)):
            part = matrix[first : first + step]
            projected = _product(part, signs, exactly)
            projected = projected * row_signs[question.rows % (len(row_signs) - len(part) + 1) :][: len(part)]
            projected = projected * chunk_signs[(question.rows + number) % len(chunk_signs)]
            if styles.members is None:
                found += projected.sum(0)
            else:
                found += styles.members[:, first : first + step] @ projected
        sums = torch.zeros(len(layout.names), PROJECTIONS, dtype=torch.float64, device=self._device)
        for style, row in zip(styles.present, found, strict=True):
            sums[style] = row
        return sums

    def _hash(self, flat: torch.Tensor, question: Question) -> torch.Tensor:
        """A number that any one changed value changes: products with odd numbers, summed modulo 2^64."""
        total = torch.zeros((), dtype=torch.int64, device=self._device)
        span = len(self._odd) // 2
        for number, first in enumerate(range(0, len(flat), span)):
            part = flat[first : first + span].to(torch.int64)
            total = total + (part * self._odd[question.hashed : question.hashed + len(part)]).sum() * (2 * number + 1)
        return total

    def _compare_exact(self, c: Mark, e: Mark, layout: _Layout, picks: torch.Tensor) -> Finding | None:
        wrong = torch.nonzero(c.values != e.values).flatten()
        if len(wrong):
            first = int(wrong[0])
            place = _describe(layout, int(picks[first]))
            return Finding(
                "wrong_result",
                f"{place} is {int(c.values[first])}, eager gives exactly {int(e.values[first])}; {len(wrong)} of "
                f"{len(c.values)} elements looked at differ",
            )
        return None if c.hashed == e.hashed else Finding("wrong_result", "some elements differ from eager's")

    def _compare(self, c: Mark, e: Mark, layout: _Layout, question: Question, index: int) -> Finding | None:
        picks = question.picks[index]
        differ = (torch.isnan(c.values) != torch.isnan(e.values)) | (
            (torch.isinf(c.values) | torch.isinf(e.values)) & (c.values != e.values) & ~torch.isnan(e.values)
        )
        if bool(differ.any()) or c.hashed != e.hashed:
            where = "somewhere"
            if bool(differ.any()):
                first = int(torch.nonzero(differ).flatten()[0])
                got, want = float(c.values[first]), float(e.values[first])
                where = f"{_describe(layout, int(picks[first]))} is {got:.6g}, eager gives {want:.6g}"
            return Finding("nan_mismatch", f"{where}: NaN or infinities stand elsewhere than eager's")
        return self._compare_positions(c, e, layout, question, index) or self._compare_sums(
            c, e, layout, question, index
        )

    def _compare_positions(self, c: Mark, e: Mark, layout: _Layout, question: Question, index: int) -> Finding | None:
        errors = self._errors[index]
        picks = question.picks[index].cpu()
        styles = self._styles(layout, question.blocks).rows[picks // layout.width]
        largest = torch.tensor([5 * errors[name].largest for name in layout.names], dtype=torch.float64)[styles]
        tolerance = slack(_real_dtype(self._dtypes[index]), self._longest)
        allowed = torch.nan_to_num(largest + tolerance * torch.maximum(e.values.abs(), e.row_rms))
        gap = torch.nan_to_num(c.values - e.values, nan=0.0, posinf=0.0, neginf=0.0).abs()
        wrong = gap > allowed
        if not bool(wrong.any()):
            return None
        worst = int((gap - allowed).argmax())
        return Finding(
            "wrong_result",
            f"{_describe(layout, int(picks[worst]))} is {float(c.values[worst]):.6g}, eager gives "
            f"{float(e.values[worst]):.6g}; difference {float(gap[worst]):.3g}, allowed {float(allowed[worst]):.3g}; "
            f"{int(wrong.sum())} of {len(gap)} elements looked at are beyond tolerance",
        )

    def _compare_sums(self, c: Mark, e: Mark, layout: _Layout, question: Question, index: int) -> Finding | None:
        errors = self._errors[index]
        tolerance = slack(_real_dtype(self._dtypes[index]), self._longest)
        host = self._styles(layout, question.blocks).rows
        sizes = torch.bincount(host, minlength=len(layout.names)) * layout.width
        measured = ((c.sums - e.sums).pow(2).mean(1) / sizes.clamp(min=1)).sqrt()
        for style, name in enumerate(layout.names):
            known = errors[name]
            limit = 1.5 * ((1 + multiple(int(sizes[style]))) * known.rmse + tolerance * known.rms)
            if not float(measured[style]) <= limit:
                return Finding(
                    "wrong_result",
                    f"rows of style `{name}` differ from eager's by {float(measured[style]):.3g} (root mean square, by "
                    f"{PROJECTIONS} random projections), allowed {limit:.3g}",
                )
        return None

    def _styles(self, layout: _Layout, blocks: Blocks) -> _Styles:
        if blocks.order not in layout.styles:
            parts = blocks.parts(layout.shape)
            if parts[0][1] is None:
                rows = torch.full((layout.rows,), layout.names.index(parts[0][0]))
            else:
                axis = blocks.where.axis
                assert axis is not None
                along = torch.empty(layout.shape[axis], dtype=torch.int64)
                for name, part in parts:
                    along[part] = layout.names.index(name)
                view = [1] * (len(layout.shape) - 1)
                view[axis] = -1
                rows = along.view(view).expand(layout.shape[:-1]).reshape(-1)
            present = torch.unique(rows).tolist()
            members = None
            if len(present) > 1:
                members = (rows == torch.tensor(present)[:, None]).to(self._device, torch.float64)
            layout.styles[blocks.order] = _Styles(rows, present, members)
        return layout.styles[blocks.order]

    def _draw_signs(self, length: int) -> torch.Tensor:
        bits = torch.randint(0, 2, (length, PROJECTIONS), dtype=torch.int8, generator=self._generator,
                             device=self._device)  # fmt: skip
        return bits * 2 - 1

    def _as(self, signs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        key = (dtype, id(signs))
        if key not in self._converted:
            self._converted[key] = signs.to(dtype)
        return self._converted[key]


def _product(part: torch.Tensor, signs: torch.Tensor, exactly: torch.dtype) -> torch.Tensor:
    """A chunk times signs, in double precision: for 16-bit values products are exact and sums in single precision."""
    if exactly is torch.float64:
        return part.double() @ signs
    if part.device.type == "cuda":
        return torch.mm(part, signs, out_dtype=torch.float32).double()
    return part.double() @ signs.double()


def _layout(tensor: torch.Tensor, names: list[str]) -> _Layout:
    exact = not (tensor.is_floating_point() or tensor.is_complex())
    width = tensor.shape[-1] if tensor.ndim else 1
    rows = tensor.numel() // width if width else 0
    return _Layout(tuple(tensor.shape), exact, names, width * (2 if tensor.is_complex() else 1), rows)


def _matrix(output: torch.Tensor, layout: _Layout) -> torch.Tensor:
    real = torch.view_as_real(output.resolve_conj()) if output.is_complex() else output
    return real.reshape(layout.rows, layout.width)


def _describe(layout: _Layout, flat: int) -> str:
    complex_parts = layout.width // max(layout.shape[-1] if layout.shape else 1, 1)
    return describe_position(torch.empty(layout.shape, device="meta"), flat // max(complex_parts, 1))


def _real_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.is_complex else dtype


def _most(outputs: Sequence[torch.Tensor]) -> int:
    return max((tensor.numel() for tensor in outputs), default=1)
