"""Softmax candidates that fail while they run, each in a way that costs its process only."""

from __future__ import annotations

from dataclasses import dataclass

_HEAD = """// /// kforge
// [[step]]
// kernel = "faulty"
// grid = ["input.numel // input.shape[-1]"]
// block = ["128"]
// args = ["input", "input.shape[-1]", "out"]
{more}// ///
__global__ void faulty(const input_t* x, long long n, out_t* y) {{
{body}
}}
"""


@dataclass(frozen=True)
class Fault:
    """`reasons`: any of these is right."""

    name: str
    source: str
    reasons: tuple[str, ...]


def _fault(name: str, body: str, *reasons: str, more: str = "") -> Fault:
    return Fault(name, _HEAD.format(body=body, more=more), reasons)


FAULTS = [
    _fault("illegal address", "    y[(1LL << 44) + threadIdx.x] = x[0];", "crashed"),
    _fault("hang", "    volatile const input_t* p = x; while (p[0] == p[0] || n > 0) { }", "timed_out"),
    _fault("trap", '    asm volatile("trap;");', "crashed"),
    _fault(
        "out of memory",
        "    y[threadIdx.x] = x[threadIdx.x];",
        "out_of_memory",
        more='// [workspace]\n// room = { dtype = "fp32", shape = ["1 << 36"] }\n'.replace("1 << 36", "68719476736"),
    ),
    _fault("misaligned", "    *reinterpret_cast<volatile double*>(reinterpret_cast<char*>(y) + 1) = x[0];", "crashed"),
]
