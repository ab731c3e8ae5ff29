"""Names that a candidate may use: valid identifiers of C++, each once."""

from __future__ import annotations

import re

_KEYWORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t
    class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int
    long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
    volatile wchar_t while xor xor_eq"""
_RESERVED = frozenset(_KEYWORDS.split())
_OUTPUT = re.compile(r"out\d*")


def c_name(text: str, taken: set[str]) -> str:
    """`text` as an identifier that is no keyword, no output's name and not in `taken`, to which it is added."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII) or "_"
    if name[0].isdigit():
        name = "_" + name
    while name in taken or name in _RESERVED or _OUTPUT.fullmatch(name):
        name += "_"
    taken.add(name)
    return name
