"""The `kernel` of a launch: a name or template instance, and whether the code has such a function."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kforge_mcp.candidate.rejection import suggestion
from kforge_mcp.candidate.tokens import tokens

MAX_KERNEL_CHARACTERS = 300

_HEAD = re.compile(r"\s*((?:::)?[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)\s*")
_FOREIGN = re.compile(r"[^\w\s:<>,()+\-*/%&|!=.'~^?]")
_SIZE = re.compile(r"\.\s*(?:shape|stride|numel|ndim|itemsize|dtype)\b")
_ATTRIBUTES = frozenset({"__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__", "alignas"})


@dataclass(frozen=True)
class KernelFault:
    """What is wrong with the text of `kernel`; `offset` counts from its first character."""

    message: str
    offset: int = 0
    hint: str = ""


def spelled(kernel: str) -> str:
    """The kernel in one spelling: equal instances have equal text, and no words run together."""
    return re.sub(r" ?(::|[<>,()]) ?", r"\1", " ".join(tokens(kernel)))


def base_name(kernel: str) -> str:
    """The function's own name, without namespaces and template arguments; empty if there is none."""
    match = _HEAD.match(kernel)
    return re.split(r"\s*::\s*", match[1])[-1] if match else ""


def kernel_fault(kernel: str, code: list[str]) -> KernelFault | None:
    """What is wrong with a kernel's text, given the tokens of the code; None if nothing is.

    Where macros paste names together, a missing function is left to the compiler.
    """
    if len(kernel) > MAX_KERNEL_CHARACTERS:
        return KernelFault(f"`kernel` has {len(kernel)} characters; at most {MAX_KERNEL_CHARACTERS} are read")
    match = _HEAD.match(kernel)
    if not match:
        return KernelFault(f"`{kernel[:60]}` is not the name of a kernel", hint='for example "my_kernel<BLOCK>"')
    size = _SIZE.search(kernel)
    if size:
        hint = "pass sizes in `args`, or make the value a tunable"
        return KernelFault("a template argument is a constant or a type, not a size expression", size.start(), hint)
    foreign = _FOREIGN.search(kernel)
    if foreign:
        return KernelFault(f"the character {foreign.group()!r} does not belong in a kernel's name", foreign.start())
    rest = kernel[match.end() :]
    if rest and not _is_template(rest):
        hint = 'template arguments stand in "<...>", each bracket closed, with nothing after them'
        return KernelFault(f"`{kernel[:80]}` is not a template instance", match.end(), hint)
    base = base_name(kernel)
    if base not in code and "##" not in code:
        offset = match.start(1) + match[1].rindex(base)
        known = kernels_of(code)
        hint = suggestion(base, known) if known else "declare it with __global__ below the metadata block"
        return KernelFault(f"the code has no kernel `{base}`", offset, hint)
    return None


def kernels_of(code: list[str]) -> list[str]:
    """The names of the functions that tokens declare as `__global__`, in order; macros are not looked into."""
    found: dict[str, None] = {}
    for start, token in enumerate(code):
        if token != "__global__":
            continue
        at = start + 1
        while at + 1 < len(code) and code[at] not in (";", "{"):
            if code[at] in _ATTRIBUTES:
                at = _closing(code, at + 1)
            elif code[at + 1] == "(" and re.fullmatch(r"[A-Za-z_]\w*", code[at]):
                found[code[at]] = None
                break
            at += 1
    return list(found)


def _closing(code: list[str], opening: int) -> int:
    """The index of the bracket that closes the one at `opening`, or the last index."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth <= 0:
            return at
    return len(code) - 1


def _is_template(text: str) -> bool:
    """Whether text is one pair of angle brackets around something balanced, with nothing behind it."""
    stack: list[str] = []
    stripped = text.strip()
    if not stripped.startswith("<") or not stripped[1:-1].strip():
        return False
    for at, character in enumerate(stripped):
        if character in "<(":
            stack.append(character)
        elif character == ")" or (character == ">" and (not stack or stack[-1] == "<")):
            if not stack or stack.pop() != {")": "(", ">": "<"}[character]:
                return False
            if not stack and at != len(stripped) - 1:
                return False
    return not stack
