"""What a program's PTX tells: device variables that kernels write, and inline assembly that is not for a candidate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_VARIABLE = re.compile(
    r"^\s*(?P<linkage>(?:\.(?:visible|weak|extern|common)\s+)*)\.global\s+(?P<managed>\.attribute\(\.managed\)\s*)?"
    r"[^;={]*?(?P<name>[\w$%.]+)\s*(?:\[[^\]]*\]\s*)*(?:;|=)"
)
_INSTRUCTION = re.compile(
    r"[\s{}]*(?:[$%\w]+:[\s{}]*)*(?:@!?%?[\w$]+\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>.*)", re.DOTALL
)
"""One statement of PTX: blocks and labels may stand before it, and it may go over several lines."""
_PREFIX = re.compile(r"^\s*(?:[$%\w]+:\s*)*(?:@!?%?[\w$]+\s+)?")
_WORD = re.compile(r"%?[A-Za-z_$][\w$.]*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LINE_DIRECTIVE = re.compile(r"^[ \t]*\.(?:loc|file|pragma)\b[^\n]*", re.MULTILINE)
"""Directives that a compiler puts between statements; some end with their line rather than with a semicolon."""
_READS = ("ld.", "ldu.", "prefetch", "tex.", "setp.", "set.", "discard.", "isspacep.")
_WRITES = ("st.", "atom.", "red.", "multimem.", "call", "stmatrix.", "wmma.store", "cp.reduce", "bar", "mbarrier")
_COPIES = ("cp.async",)
_ROUNDS = 30
_LITERAL = re.compile(r"L[a-z]n?\d+E")
_LENGTH = re.compile(r"\d+")

REFUSED_DIRECTIVES = (
    ".alias", ".branchtargets", ".calltargets", ".common", ".const", ".entry", ".extern", ".file", ".func", ".global",
    ".section", ".target", ".version", ".visible", ".weak",
)  # fmt: skip
"""Directives that inline assembly may not have: they declare memory or code outside the kernel."""

REFUSED_OPCODES = {
    "brkpt": "it stops the machine for a debugger",
    "pmevent": "it triggers performance monitor events",
    "call": "it calls code outside the kernel (device runtime, heap)",
    "alloca": "it takes memory that kforge cannot account for",
}
"""Instructions that inline assembly may not have, and why."""

REFUSED_REGISTERS = re.compile(r"%(?:pm\d+(?:_64)?|envreg\d+|(?P<phase>gridid|globaltimer(?:_lo|_hi)?))\b")
"""Performance counters, the driver's own registers, and what tells one launch from another: the number of the grid
and the time of day."""

GRID_SYNC_REGISTERS = frozenset({"%envreg1", "%envreg2"})
"""The address of the grid's barrier, which `cooperative_groups::this_grid()` reads."""


@dataclass(frozen=True)
class Finding:
    """Something that is not allowed: what to say, and the name or instruction to look for in the author's source."""

    message: str
    name: str
    hint: str = ""


def mutable_variables(ptx: str, source: str) -> list[Finding]:
    """Device variables in global memory that could remember something from one call to the next.

    A table that kernels only read is no such variable. One whose address is written to, passed on or stored is;
    flow is not followed, so that whatever cannot be proved read-only counts as written. Managed ones always count.
    """
    variables = {match["name"]: match for line in ptx.splitlines() if (match := _VARIABLE.match(line))}
    own = {
        name: match
        for name, match in variables.items()
        if not (name.startswith(("$", "__unnamed_")) and name not in source)
    }
    if not own:
        return []
    written = _written(ptx, set(own))
    findings = []
    for name, match in own.items():
        plain = plain_name(name)
        if match["managed"]:
            hint = "a candidate has no host side: allocate scratch memory with [workspace]"
            findings.append(Finding(f"`{plain}` is a managed variable", plain, hint))
        elif name in written:
            message = f"`{plain}` is a device variable that kernels write: it would remember one call in the next"
            findings.append(Finding(message, plain, "use [workspace] for scratch memory, init = 'zero' where needed"))
    return findings


def _written(ptx: str, names: set[str]) -> set[str]:
    written: set[str] = set()
    for body in re.split(r"^(?=\.(?:visible|weak|func|entry))", _COMMENT.sub(" ", ptx), flags=re.MULTILINE):
        if "{" not in body:
            continue
        instructions = list(_instructions(body))
        holds: dict[str, frozenset[str]] = {name: frozenset((name,)) for name in names if name in body}
        for _ in range(_ROUNDS if holds else 0):
            before = dict(holds)
            for opcode, operands in instructions:
                _follow(opcode, operands, holds, written)
            if holds == before:
                break
        else:
            written |= set().union(*holds.values()) if holds else set()
    return written


def _instructions(body: str) -> Iterator[tuple[str, str]]:
    """Opcode and operands of every statement of a function without comments: a semicolon ends one, not a line."""
    text = _LINE_DIRECTIVE.sub(" ", body[body.index("{") :])
    for statement in text.split(";"):
        match = _INSTRUCTION.match(statement)
        if match:
            yield match["opcode"], match["operands"]


def _follow(opcode: str, operands: str, holds: dict[str, frozenset[str]], written: set[str]) -> None:
    """Note what an instruction does to the variables whose address it is given."""
    words = _WORD.findall(operands)
    reached = frozenset().union(*(holds[word] for word in words if word in holds))
    if not reached:
        return
    if opcode.startswith(_READS):
        return
    first = _first(operands)
    if opcode.startswith(_COPIES):
        written |= frozenset().union(*(holds[word] for word in _WORD.findall(first) if word in holds))
    elif opcode.startswith(_WRITES) or first.startswith("["):
        written |= reached
    else:
        for word in _WORD.findall(first):
            holds[word] = holds.get(word, frozenset()) | reached


def _first(operands: str) -> str:
    """The first operand: a register, a vector in braces, or an address in brackets."""
    operands = operands.strip()
    closing = {"{": "}", "[": "]"}.get(operands[:1])
    return operands[: operands.index(closing) + 1] if closing and closing in operands else operands.partition(",")[0]


def refused_assembly(ptx: str, source: str) -> list[Finding]:
    """Inline assembly with instructions, registers or directives that a candidate may not use.

    The grid's barrier is for the header of cooperative groups alone: a source that speaks of such a register, in one
    literal or in several, may not read it.
    """
    findings: dict[str, Finding] = {}
    own = frozenset() if "envreg" in re.sub(r'["\\\s]+', "", source) else GRID_SYNC_REGISTERS
    # Assembly can itself contain the comment that ends it: only what a compiler also writes is looked for by blocks.
    assembly = "".join(re.findall(r"// begin inline asm\n(.*?)// end inline asm", ptx, re.DOTALL))
    for text, inline in ((assembly, True), (ptx, False)):
        for statement in re.split(r"[;\n{}]", _COMMENT.sub(" ", text)):
            words = _PREFIX.sub("", statement).split()
            if not words:
                continue
            opcode = words[0].partition(".")[0]
            directive = inline and next((word for word in words if word in REFUSED_DIRECTIVES), "")
            register = REFUSED_REGISTERS.search(statement)
            if opcode == "call" and not inline:
                continue
            if opcode in REFUSED_OPCODES:
                why = REFUSED_OPCODES[opcode]
                findings[opcode] = Finding(f"inline assembly may not use `{opcode}`: {why}", opcode)
            elif directive:
                message = f"inline assembly may not use `{directive}`: it declares something outside the kernel"
                findings[directive] = Finding(message, directive)
            elif register and register[0] not in own:
                owner = "it belongs to the driver and the profiler"
                why = "it tells one call from another" if register["phase"] else owner
                message = f"inline assembly may not read `{register[0]}`: {why}"
                findings[register[0]] = Finding(message, register[0])
    return list(findings.values())


def plain_name(symbol: str) -> str:
    """The last identifier of a mangled name: `counter` of `_ZZ1kvE7counter`; other names as they are."""
    if not symbol.startswith("_Z"):
        return symbol
    name, at = symbol, 2
    while at < len(symbol):
        literal = _LITERAL.match(symbol, at)
        match = _LENGTH.match(symbol, at)
        if literal:
            at = literal.end()
        elif match:
            length = int(match[0])
            name = symbol[match.end() : match.end() + length] or name
            at = match.end() + length
        else:
            at += 1
    return name
