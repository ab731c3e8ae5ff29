"""What the assembler's report and the cubin say that a kernel uses, and whether it takes what it is passed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kforge_mcp.candidate.metadata import source_lines
from kforge_mcp.candidate.signature import LaunchDeclaration
from kforge_mcp.compile.cuda.cubin import CubinFacts, KernelParameter
from kforge_mcp.compile.outcome import KernelResources
from kforge_mcp.records.result import Diagnostic

_KERNEL = re.compile(r"Compiling entry function '(?P<symbol>[^']+)'")
_PROPERTIES = re.compile(r"Function properties for (?P<symbol>\S+)")
_MEMORY = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers(?P<rest>.*)")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")

ALLOWED_UNDEFINED = frozenset({"vprintf", "__assertfail"})
"""Functions of the driver that a kernel may call: they print."""


def kernel_resources(log: str, facts: CubinFacts, lowered: Mapping[str, str]) -> list[KernelResources]:
    """The resources of each kernel that the plan launches, in the order of `lowered` (name expression to symbol)."""
    usage: dict[str, dict[str, int]] = {}
    kernel = function = ""
    for line in log.splitlines():
        if match := _KERNEL.search(line):
            kernel = function = match["symbol"]
            usage.setdefault(kernel, {})
        elif match := _PROPERTIES.search(line):
            function = match["symbol"]
        elif (match := _MEMORY.search(line)) and function == kernel and kernel:
            usage[kernel] |= {
                "stack_bytes": int(match["stack"]),
                "spill_store_bytes": int(match["stores"]),
                "spill_load_bytes": int(match["loads"]),
            }
        elif (match := _USED.search(line)) and kernel:
            usage[kernel]["registers"] = int(match["registers"])
            for name, pattern in (("barriers", _BARRIERS), ("static_shared_bytes", _SHARED)):
                if count := pattern.search(match["rest"]):
                    usage[kernel][name] = int(count[1])
    return [
        KernelResources(
            kernel=name,
            symbol=symbol,
            parameters=[(one.offset, one.size) for one in facts.parameters.get(symbol, ())],
            **usage.get(symbol, {}),
        )
        for name, symbol in lowered.items()
    ]


def parameter_faults(
    launches: Sequence[LaunchDeclaration], facts: CubinFacts, lowered: Mapping[str, str], source: str
) -> list[Diagnostic]:
    """Kernels whose parameters in the cubin are not what their launch passes: an `int n` where 64 bits are passed."""
    lines = source_lines(source)
    found = []
    for launch in launches:
        takes = facts.parameters.get(lowered.get(launch.kernel, ""))
        said = _fault(launch, takes) if takes is not None else ""
        if said:
            line = lines[launch.line - 1] if 0 < launch.line <= len(lines) else ""
            found.append(
                Diagnostic(
                    severity="error",
                    message=said,
                    line=launch.line,
                    column=launch.column,
                    source_line=line[:200],
                    hint=f"write {launch}"[:300],
                )
            )
    return found


def _fault(launch: LaunchDeclaration, takes: Sequence[KernelParameter]) -> str:
    if len(takes) != len(launch.parameters):
        return f"`{launch.kernel}` takes {len(takes)} parameters, but `args` passes {len(launch.parameters)}"
    for number, (parameter, taken) in enumerate(zip(launch.parameters, takes, strict=True), 1):
        if parameter.size_bytes != taken.size:
            return (
                f"parameter {number} of `{launch.kernel}` has {taken.size} bytes, but `{parameter.name}` is passed as "
                f"{parameter.type}, {parameter.size_bytes} bytes"
            )
    return ""


def undefined_faults(facts: CubinFacts) -> list[str]:
    """What to say of functions that are outside the cubin: the device heap keeps what one call leaves in it."""
    said = []
    for name in facts.undefined:
        if name in ("malloc", "free"):
            said.append(f"`{name}` in device code takes memory from a heap that outlives the call: use [workspace]")
        elif name not in ALLOWED_UNDEFINED:
            said.append(f"`{name}` is used but nothing in the candidate defines it")
    return said
