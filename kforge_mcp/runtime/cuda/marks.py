"""Marks of timed outputs: what is kept, on the host, of an output that must not stay on the device.

Where eager goes first, its output is marked and overwritten before the candidate starts. Marks are taken alike of both
sides: seeded positions and 64 random-sign projections (see `fingerprint.py` for the formulas), in double precision for
outputs of 32 bits and more, so that the difference of two projections is that of the outputs. Marks of many pairs are
compared at once: a pair alone is too small for that.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..checks import Errors, Finding, multiple, slack
from ..fingerprint import POSITIONS, PROJECTIONS
from ..inputs import Blocks
from ..tensors import position

_CHUNK_ELEMENTS = 1 << 24
_CHUNK_ROWS = 1 << 18


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
    styles: torch.Tensor
    """Of each position's row: its number, and its style among the names of eager's errors."""
    sums: torch.Tensor
    """Projections, [present styles, 64]."""
    hashed: int = 0
    """Of exact outputs a hash of all values; of others of where NaN and infinities are."""


@dataclass(frozen=True)
class _Styles:
    """The rows of an output by style: `rows` numbers them, on the device; `present` are the styles that are there with
    their numbers of elements; `members`, [present, rows], has ones where a row is of each, None if there is one."""

    rows: torch.Tensor
    present: list[tuple[int, int]]
    members: torch.Tensor | None


@dataclass
class _Layout:
    shape: tuple[int, ...]
    exact: bool
    names: list[str]
    width: int
    rows: int
    parts: int
    """Numbers of an element: 2 of a complex one."""
    styles: dict[tuple[int, ...], _Styles] = field(default_factory=dict)
    """By order of the blocks."""


class Marker:
    """Draws questions, takes marks and compares them, for all timed pairs of a variant."""

    def __init__(
        self, outputs: Sequence[torch.Tensor], errors: Sequence[dict[str, Errors]], longest: int, seed: int
    ) -> None:
        self._device = outputs[0].device
        self._errors = errors
        self._dice = random.Random(seed)
        self._generator = torch.Generator(self._device).manual_seed(seed & (2**63 - 1))
        self._layouts = [_layout(tensor, list(known)) for tensor, known in zip(outputs, errors, strict=True)]
        self._tolerance = [
            0.0 if layout.exact else slack(tensor.dtype.to_real(), longest)
            for layout, tensor in zip(self._layouts, outputs, strict=True)
        ]
        self._widest = max((layout.width for layout in self._layouts), default=1)
        most_rows = min(max((layout.rows for layout in self._layouts), default=1), _CHUNK_ROWS)
        self._signs = self._draw_signs(2 * self._widest + 64)
        self._row_signs = self._draw_signs(2 * most_rows + 64).double()
        exact = [tensor for tensor, layout in zip(outputs, self._layouts, strict=True) if layout.exact]
        self._odd = self._draw_odd(min(max((t.numel() for t in exact), default=0), _CHUNK_ELEMENTS))
        self._converted: dict[torch.dtype, torch.Tensor] = {}
        self._pending: list[tuple[list[Mark], list[Mark], Question]] = []

    def ask(self, blocks: Blocks) -> Question:
        """Draw what is asked of one pair."""
        picks: list[torch.Tensor] = []
        for layout in self._layouts:
            size = layout.rows * layout.width
            if size <= POSITIONS:
                picks.append(torch.arange(size, device=self._device))
            else:
                picks.append(torch.randint(0, size, (POSITIONS,), generator=self._generator, device=self._device))
        return Question(
            blocks,
            picks,
            self._dice.randrange(len(self._signs) - self._widest),
            self._dice.randrange(len(self._row_signs) // 2),
            self._dice.randrange(len(self._odd) // 2),
        )

    def take(self, outputs: Sequence[torch.Tensor], question: Question) -> list[Mark]:
        """The marks of a side's outputs; waits for them."""
        packed: list[torch.Tensor] = []
        for index, output in enumerate(outputs):
            layout = self._layouts[index]
            if output.numel() == 0:
                packed.append(torch.empty(0, dtype=torch.float64, device=self._device))
            elif layout.exact:
                flat = (output.view(torch.uint8) if output.dtype is torch.bool else output).reshape(-1)
                values = flat[question.picks[index]].to(torch.int64)
                packed.append(torch.cat([values, question.picks[index], self._hash(flat, question).reshape(1)]))
            else:
                packed.append(self._answers(output, layout, question, index))
        return [
            self._mark(outputs[index], answers.cpu(), self._layouts[index], question, index)
            for index, answers in enumerate(packed)
        ]

    def add(self, candidate: list[Mark], eager: list[Mark], question: Question) -> None:
        """Note the marks of one pair, to be compared by `compare`."""
        self._pending.append((candidate, eager, question))

    def compare(self) -> Finding | None:
        """The first output of the pairs added since the last call that differs beyond tolerance, or None."""
        pending, self._pending = self._pending, []
        if not pending:
            return None
        for index, layout in enumerate(self._layouts):
            if layout.rows * layout.width == 0:
                continue
            marks = [(candidate[index], eager[index]) for candidate, eager, _ in pending]
            questions = [question for _, _, question in pending]
            if layout.exact:
                finding = _compare_exact(marks, layout)
            else:
                finding = _compare_nonfinite(marks, layout) or self._compare_positions(marks, layout, index)
                finding = finding or self._compare_sums(marks, questions, layout, index)
            if finding:
                return finding.during(f"out{index}" if len(self._layouts) > 1 else "out")
        return None

    def _answers(self, output: torch.Tensor, layout: _Layout, question: Question, index: int) -> torch.Tensor:
        matrix = _matrix(output, layout)
        picks = question.picks[index]
        values = matrix.reshape(-1)[picks].double()
        wide = torch.float64 if matrix.dtype is torch.float64 else torch.float32
        if matrix.dtype.itemsize == 1:
            matrix = matrix.to(wide)
        rows = picks // layout.width
        norms = torch.linalg.vector_norm(matrix, dim=-1, dtype=wide)[rows].double()
        styles = self._styles(layout, question.blocks).rows[rows].double()
        return torch.cat([values, norms, picks.double(), styles, self._project(matrix, layout, question).reshape(-1)])

    def _mark(
        self, output: torch.Tensor, answers: torch.Tensor, layout: _Layout, question: Question, index: int
    ) -> Mark:
        count = len(question.picks[index])
        nothing = torch.empty(0, dtype=torch.float64)
        if output.numel() == 0:
            return Mark(nothing, nothing, nothing, nothing)
        if layout.exact:
            return Mark(answers[:count], nothing, answers[count : 2 * count].view(1, -1), nothing, int(answers[-1]))
        sums = answers[4 * count :].view(-1, PROJECTIONS)
        hashed = 0
        if not math.isfinite(float(sums.sum())):
            matrix = _matrix(output, layout).double()
            kinds = torch.isnan(matrix) * 1 + torch.isposinf(matrix) * 2 + torch.isneginf(matrix) * 3
            hashed = int(self._hash(kinds.reshape(-1), question))
            finite = torch.nan_to_num(matrix, nan=0.0, posinf=0.0, neginf=0.0)
            sums = self._project(finite, layout, question).cpu()
        norms = answers[count : 2 * count] / math.sqrt(layout.width)
        return Mark(answers[:count], norms, answers[2 * count : 4 * count].view(2, -1), sums, hashed)

    def _project(self, matrix: torch.Tensor, layout: _Layout, question: Question) -> torch.Tensor:
        """Projections on random signs, [present styles, 64], in double precision; exact products for 16 bits."""
        exactly = matrix.dtype if matrix.dtype in (torch.bfloat16, torch.float16) else torch.float64
        if exactly not in self._converted:
            self._converted[exactly] = self._signs.to(exactly)
        signs = self._converted[exactly][question.signs : question.signs + layout.width]
        styles = self._styles(layout, question.blocks)
        widest = PROJECTIONS if exactly is not torch.float64 else max(layout.width, PROJECTIONS)
        step = max(1, min(_CHUNK_ROWS, len(self._row_signs) // 2, _CHUNK_ELEMENTS // widest))
        found: torch.Tensor | None = None
        for number, first in enumerate(range(0, layout.rows, step)):
            part = matrix[first : first + step]
            projected = _product(part, signs, exactly)
            # Other signs in every chunk: equal errors of two chunks must not cancel.
            start = (question.rows + 97 * number) % (len(self._row_signs) - len(part) + 1)
            projected = projected * self._row_signs[start : start + len(part)]
            if styles.members is None:
                sums = projected.sum(0, keepdim=True)
            else:
                sums = styles.members[:, first : first + step] @ projected
            found = sums if found is None else found + sums
        assert found is not None
        return found

    def _hash(self, flat: torch.Tensor, question: Question) -> torch.Tensor:
        """A number that any one changed value changes: products with odd numbers, summed modulo 2^64."""
        if len(self._odd) < 2 * min(len(flat), _CHUNK_ELEMENTS):
            self._odd = self._draw_odd(min(len(flat), _CHUNK_ELEMENTS))
        total = torch.zeros((), dtype=torch.int64, device=self._device)
        span = len(self._odd) // 2
        start = question.hashed % span
        for number, first in enumerate(range(0, len(flat), span)):
            part = flat[first : first + span].to(torch.int64)
            total = total + (part * self._odd[start : start + len(part)]).sum() * (2 * number + 1)
        return total

    def _compare_positions(self, marks: Sequence[tuple[Mark, Mark]], layout: _Layout, index: int) -> Finding | None:
        c, e = (torch.stack([pair[side].values for pair in marks]) for side in (0, 1))
        rms = torch.stack([eager.row_rms for _, eager in marks])
        styles = torch.stack([eager.styles[1] for _, eager in marks]).long()
        errors = self._errors[index]
        largest = torch.tensor([5 * errors[name].largest for name in layout.names], dtype=torch.float64)[styles]
        allowed = torch.nan_to_num(largest + self._tolerance[index] * torch.maximum(e.abs(), rms))
        gap = torch.nan_to_num(c - e, nan=0.0, posinf=0.0, neginf=0.0).abs()
        wrong = gap > allowed
        if not bool(wrong.any()):
            return None
        pair, worst = position(int((gap - allowed).argmax()), gap.shape)
        place = _describe(layout, int(marks[pair][1].styles[0, worst]))
        return Finding(
            "wrong_result",
            f"{place} is {float(c[pair, worst]):.6g}, eager gives {float(e[pair, worst]):.6g}; difference "
            f"{float(gap[pair, worst]):.3g}, allowed {float(allowed[pair, worst]):.3g}; {int(wrong[pair].sum())} of "
            f"{gap.shape[1]} elements looked at are beyond tolerance",
        )

    def _compare_sums(
        self, marks: Sequence[tuple[Mark, Mark]], questions: Sequence[Question], layout: _Layout, index: int
    ) -> Finding | None:
        errors = self._errors[index]
        for (c, e), question in zip(marks, questions, strict=True):
            present = self._styles(layout, question.blocks).present
            squares = (c.sums - e.sums).pow(2).mean(1).tolist()
            for (style, size), square in zip(present, squares, strict=True):
                known = errors[layout.names[style]]
                measured = math.sqrt(square / size) if size else 0.0
                limit = 1.5 * ((1 + multiple(size)) * known.rmse + self._tolerance[index] * known.rms)
                if not measured <= limit:
                    return Finding(
                        "wrong_result",
                        f"rows of style `{layout.names[style]}` differ from eager's by {measured:.3g} (root mean "
                        f"square, by {PROJECTIONS} random projections), allowed {limit:.3g}",
                    )
        return None

    def _styles(self, layout: _Layout, blocks: Blocks) -> _Styles:
        if blocks.order not in layout.styles:
            parts = blocks.parts(layout.shape)
            if parts[0][1] is None:
                style = layout.names.index(parts[0][0])
                rows = torch.full((layout.rows,), style, device=self._device)
                layout.styles[blocks.order] = _Styles(rows, [(style, layout.rows * layout.width)], None)
                return layout.styles[blocks.order]
            axis = blocks.where.axis
            assert axis is not None
            along = torch.empty(layout.shape[axis], dtype=torch.int64)
            present: list[tuple[int, int]] = []
            for name, part in parts:
                along[part] = layout.names.index(name)
                size = layout.rows * layout.width // layout.shape[axis] * len(part)
                present.append((layout.names.index(name), size))
            view = [1] * (len(layout.shape) - 1)
            view[axis] = -1
            rows = along.to(self._device).view(view).expand(layout.shape[:-1]).reshape(-1)
            members = torch.stack([rows == style for style, _ in present]).double() if len(present) > 1 else None
            layout.styles[blocks.order] = _Styles(rows, present, members)
        return layout.styles[blocks.order]

    def _draw_signs(self, length: int) -> torch.Tensor:
        bits = torch.randint(
            0, 2, (length, PROJECTIONS), dtype=torch.int8, generator=self._generator, device=self._device
        )
        return bits * 2 - 1

    def _draw_odd(self, length: int) -> torch.Tensor:
        size = (2 * max(length, 1) + 64,)
        return torch.randint(-(2**62), 2**62, size, generator=self._generator, device=self._device) * 2 + 1


def _compare_exact(marks: Sequence[tuple[Mark, Mark]], layout: _Layout) -> Finding | None:
    for c, e in marks:
        wrong = torch.nonzero(c.values != e.values).flatten()
        if len(wrong):
            first = int(wrong[0])
            place = _describe(layout, int(e.styles[0, first]))
            return Finding(
                "wrong_result",
                f"{place} is {int(c.values[first])}, eager gives exactly {int(e.values[first])}; {len(wrong)} of "
                f"{len(c.values)} elements looked at differ",
            )
        if c.hashed != e.hashed:
            return Finding("wrong_result", "some elements differ from eager's")
    return None


def _compare_nonfinite(marks: Sequence[tuple[Mark, Mark]], layout: _Layout) -> Finding | None:
    """NaN and infinities must stand where eager's stand; almost always there are none."""
    for c, e in marks:
        if not (c.hashed or e.hashed):
            continue
        got, want = c.values, e.values
        differ = torch.isnan(got) != torch.isnan(want)
        differ |= (torch.isinf(got) | torch.isinf(want)) & (got != want) & ~torch.isnan(want)
        if bool(differ.any()) or c.hashed != e.hashed:
            where = "somewhere"
            if bool(differ.any()):
                first = int(torch.nonzero(differ).flatten()[0])
                place = _describe(layout, int(e.styles[0, first]))
                where = f"{place} is {float(got[first]):.6g}, eager gives {float(want[first]):.6g}"
            return Finding("nan_mismatch", f"{where}: NaN or infinities stand elsewhere than eager's")
    return None


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
    parts = 2 if tensor.is_complex() else 1
    return _Layout(tuple(tensor.shape), exact, names, width * parts, rows, parts)


def _matrix(output: torch.Tensor, layout: _Layout) -> torch.Tensor:
    real = torch.view_as_real(output.resolve_conj()) if output.is_complex() else output
    return real.reshape(layout.rows, layout.width)


def _describe(layout: _Layout, flat: int) -> str:
    return str(list(position(flat // layout.parts, layout.shape)))
