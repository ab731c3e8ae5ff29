"""Facts that a cubin states of itself: the parameters of its kernels, and what it needs from outside."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB = 2
_FUNC = 2
_SIZED_VALUE = 4
"""Format of an attribute whose payload's length follows it; all others are four bytes altogether."""
_KPARAM_INFO = 0x17
_PARAMETER_BYTES = 0x19


@dataclass(frozen=True)
class KernelParameter:
    """Where a parameter lies in a kernel's parameter buffer, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class CubinFacts:
    """`parameters` by the kernel's symbol, in order, if stated; `undefined`: functions that the driver supplies."""

    parameters: dict[str, tuple[KernelParameter, ...]]
    undefined: tuple[str, ...]


def read_cubin(image: bytes) -> CubinFacts:
    """Read a 64-bit little-endian ELF image of NVIDIA. Raises ValueError if it is none."""
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit ELF image")
    (table,) = struct.unpack_from("<Q", image, 40)
    size, count, names_at = struct.unpack_from("<HHH", image, 58)
    sections = [_SECTION.unpack_from(image, table + index * size) for index in range(count)]
    names = sections[names_at]
    parameters: dict[str, tuple[KernelParameter, ...]] = {}
    undefined: list[str] = []
    for section in sections:
        name, kind, _, _, start, length, link = section[:7]
        title = _string(image, names[4] + name)
        if title.startswith(".nv.info."):
            found = _parameters(image[start : start + length])
            if found is not None:
                parameters[title.removeprefix(".nv.info.")] = found
        elif kind == _SYMTAB:
            for at in range(start, start + length, _SYMBOL.size):
                text, info, _, home, _, _ = _SYMBOL.unpack_from(image, at)
                if home == 0 and info & 15 == _FUNC:
                    undefined.append(_string(image, sections[link][4] + text))
    return CubinFacts(parameters, tuple(undefined))


def _string(image: bytes, start: int) -> str:
    return image[start : image.index(b"\0", start)].decode(errors="replace")


def _parameters(info: bytes) -> tuple[KernelParameter, ...] | None:
    """The parameters of one kernel; None if it has some that are not described in a way known here."""
    found: dict[int, KernelParameter] = {}
    buffer_bytes = 0
    at = 0
    while at + 4 <= len(info):
        form, attribute, length = struct.unpack_from("<BBH", info, at)
        at += 4
        if attribute == _PARAMETER_BYTES:
            buffer_bytes = length
        if form != _SIZED_VALUE:
            continue
        if attribute == _KPARAM_INFO:
            _, ordinal, offset, flags = struct.unpack_from("<IHHI", info, at)
            found[ordinal] = KernelParameter(offset, flags >> 18)
        at += length
    if buffer_bytes and not found:
        return None
    return tuple(found[ordinal] for ordinal in sorted(found))
