"""Small faults put into the text of an honest kernel, as people and agents make them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

_NUMBER = r"\d+\.\d+(?:e-?\d+)?"
_LOWER = {"double": ("float", "_Float16", "low"), "float": ("_Float16", "low")}
_CALLS = ("exp", "sqrt", "erf", "log", "tanh", "fabs", "cbrt", "expm1", "floor")
_DECLARED = re.compile(r"\b(?:float|double|int64_t|uint16_t|bool)\s*(\*?)\s*(\w+)(?=\s*[=,)])")


@dataclass(frozen=True)
class Mutation:
    """Replaces `text[start:stop]` by `by`."""

    kind: str
    start: int
    stop: int
    by: str

    def apply(self, text: str) -> str:
        """The text with the fault in it."""
        return text[: self.start] + self.by + text[self.stop :]


def mutations(text: str, dice: random.Random) -> list[Mutation]:
    """Every fault of these kinds that the kernel's body can have; sizes of perturbations are drawn."""
    body = text.index("{")
    return [m for m in _all(text, dice) if m.start > body and m.by != text[m.start : m.stop]]


def mutants(text: str, count: int, dice: random.Random) -> Iterator[tuple[str, str]]:
    """Distinct mutants with what was done to each: one fault, or two or three at once in a third of them."""
    seen = {text}
    attempts = 0
    while count and attempts < 200 * (count + 10):
        attempts += 1
        changed, kinds = text, []
        for _ in range(dice.choices((1, 2, 3), (6, 2, 1))[0]):
            choices = mutations(changed, dice)
            kind = dice.choice(sorted({m.kind for m in choices}))
            mutation = dice.choice([m for m in choices if m.kind == kind])
            changed = mutation.apply(changed)
            kinds.append(kind)
        if changed not in seen:
            seen.add(changed)
            count -= 1
            yield changed, ", ".join(kinds)


def _all(text: str, dice: random.Random) -> Iterator[Mutation]:
    yield from _swapped(text, "operator swapped", r" ([+\-*/%]) ", "+-*/%")
    yield from _swapped(text, "assignment swapped", r" ([+\-*/]?=) (?!=)", ("=", "+=", "-=", "*="))
    yield from _swapped(text, "comparison swapped", r" (<=|>=|==|!=|<|>) ", ("<", "<=", ">", ">=", "==", "!="))
    yield from _swapped(text, "logic swapped", r" (&&|\|\|) ", ("&&", "||"))
    yield from _swapped(text, "function swapped", r"std::(\w+)\(", _CALLS)
    for found in re.finditer(rf"(?<![\w.])({_NUMBER})", text):
        value = float(found[1])
        for other in (0.0, -value, 2 * value, value + 1, value * (1 + 10 ** -dice.uniform(0.5, 5))):
            yield Mutation("constant changed", found.start(1), found.end(1), f"({other!r})")
    for found in re.finditer(r"(?<![\w.\-])(\d+)(?![\w.])", text):
        for other in {0, 1, int(found[1]) - 1, int(found[1]) + 1, 2 * int(found[1])}:
            yield Mutation("integer changed", found.start(1), found.end(1), f"({other})")
    for found in re.finditer(r"[<>]=? ([\w.]+(?: [*/+\-] \w+)*);", text):
        for change in ("- 1", "+ 1", "/ 2", "- 4", "* 2"):
            yield Mutation("bound moved", found.start(1), found.end(1), f"({found[1]}) {change}")
    for found in re.finditer(r"\+\+(\w+)\)", text):
        yield Mutation("loop shortened", found.start(), found.end() - 1, f"{found[1]} += 2")
    for found in re.finditer(r"int64_t \w+ = ([^;]+);", text):
        yield Mutation("start moved", found.start(1), found.end(1), f"({found[1]}) + 1")
    yield from _guards(text)
    for found in re.finditer(r"\(([^()?;]*(?:\[[^\]]*\])?[^()?;]*) \? ([^:;]+) : ([^;]+?)\)(?=[;\s])", text):
        for other in (found[2], found[3]):
            yield Mutation("condition dropped", found.start(), found.end(), f"({other})")
        swapped = f"({found[1]} ? {found[3]} : {found[2]})"
        yield Mutation("branches swapped", found.start(), found.end(), swapped)
    yield from _indices(text)
    for found in re.finditer(r"\b(double|float) (?=\w+ = )", text):
        for lower in _LOWER[found[1]]:
            yield Mutation("accumulator lowered", found.start(1), found.end(1), lower)
    for found in re.finditer(
        r"(?<=[;{}])(\s*)((?!const |float |double |int64_t |uint16_t |for|if)[\w\[][^;{}()]*(?:\([^;{}]*)?;)", text
    ):
        yield Mutation("statement dropped", found.start(2), found.end(2), ";")
    for found in re.finditer(r" [+\-] [\w.]+(?:\[[^\]]+\])?(?=[;)\s])", text):
        yield Mutation("term dropped", found.start(), found.end(), "")
    for found in re.finditer(r" [*/] [\w.]+(?:\[[^\]]+\])?(?=[;)\s])", text):
        yield Mutation("factor dropped", found.start(), found.end(), "")
    for found in re.finditer(r"(?<![<>=!]) [+\-*]?= ([^;=]+);", text):
        factor = 1 + dice.choice((-1, 1)) * 10 ** -dice.uniform(0.3, 5)
        for other in (f"-({found[1]})", f"({found[1]}) * {factor!r}f", f"(low)({found[1]})"):
            yield Mutation("value disturbed", found.start(1), found.end(1), other)
    yield from _variables(text)


def _swapped(text: str, kind: str, pattern: str, others: str | tuple[str, ...]) -> Iterator[Mutation]:
    for found in re.finditer(pattern, text):
        if found[1] in others:
            for other in others:
                yield Mutation(kind, found.start(1), found.end(1), other)


def _guards(text: str) -> Iterator[Mutation]:
    for found in re.finditer(r"if \(", text):
        depth, stop = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[stop], 0)
            stop += 1
        condition = text[found.end() : stop - 1]
        for other in ("true", "false", f"!({condition})"):
            yield Mutation("guard dropped", found.end(), stop - 1, other)
        parts = re.split(r" (?:&&|\|\|) ", condition)
        if len(parts) > 1 and "(" not in condition:
            start = found.end()
            for number, part in enumerate(parts):
                place = condition.index(part)
                by = "false" if "||" in condition else "true"
                yield Mutation(f"guard {number} dropped", start + place, start + place + len(part), by)


def _indices(text: str) -> Iterator[Mutation]:
    for found in re.finditer(r"\[([^\[\]]+)\]", text):
        names = re.findall(r"\b[a-z]\w*\b", found[1])
        changed = [f"{found[1]} + 1", f"{found[1]} - 1", "0"]
        if len(set(names)) > 1:
            first, second = sorted(set(names))[:2]
            swap = {first: second, second: first}
            changed.append(re.sub(r"\b[a-z]\w*\b", lambda m, swap=swap: swap.get(m[0], m[0]), found[1]))
        for other in changed:
            yield Mutation("index permuted", found.start(1), found.end(1), other)


def _variables(text: str) -> Iterator[Mutation]:
    declared = {m[2]: m[1] for m in _DECLARED.finditer(text)}
    body = text.index("{")
    for found in re.finditer(r"\b[a-z]\w*\b", text[body:]):
        name, start = found[0], body + found.start()
        if name not in declared or re.match(r"\s*=[^=]", text[start + len(name) :]):
            continue
        for other, pointer in declared.items():
            if other != name and pointer == declared[name]:
                yield Mutation("variable confused", start, start + len(name), other)
