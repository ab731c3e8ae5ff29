"""Messages of NVRTC and its assembler that mean more than they say."""

from __future__ import annotations

import re

_LIMITS = (
    (
        r"out of memory|unable to obtain mapped memory|Loop in catastrophic error|NVRTC_ERROR_OUT_OF_MEMORY|bad_alloc",
        "the compilation needed too much memory",
    ),
    (r"excessive recursion at instantiation", "templates are nested too deeply"),
    (
        r"excessive constexpr"
        r"|constexpr (?:evaluation|call|loop)[^\n]*(?:exceed|limit)|expression evaluation (?:exceeded|takes)"
        r"|cannot call[^\n]*depth|exceeded[^\n]*constexpr|constant[- ]evaluation[^\n]*(?:limit|depth)",
        "a constant expression takes too long to evaluate",
    ),
    (r"too many (?:errors|nested)|nesting (?:depth|level)", "the source is nested too deeply"),
)

_HINTS = (
    (r"without execution space annotations", "mark it __device__, or static constexpr for a constant"),
    (r"cannot open source file", "one file, device headers only: cuda_fp16.h, mma.h, cooperative_groups.h, cub/..."),
    (
        r'identifier "(?:__half\w*|half2?|__nv_bfloat16\w*|__nv_fp8\w*)" is undefined',
        "add #include <cuda_fp16.h>, <cuda_bf16.h> or <cuda_fp8.h>",
    ),
    (
        r'identifier "(?:cg|cooperative_groups)" is undefined|name followed by "::" must be a class or namespace',
        "add #include <cooperative_groups.h>",
    ),
    (r'identifier "\w+_t" is undefined', "kforge declares `<name>_t` for every tensor and constant on the card"),
    (r'identifier "[A-Z][A-Z0-9_]*" is undefined', "make it a tunable (kforge declares it) or a constexpr of your own"),
    (r"calling a (?:constexpr )?__host__ function", "mark the function __device__"),
    (
        r"invalid redeclaration of type name|has already been (?:declared|defined)|redefinition of",
        "kforge declares the types `name_t`, their `_load` and `_store`, and the tunables itself",
    ),
    (
        r"no suitable (?:conversion function|constructor)|more than one (?:conversion function|instance of overloaded)"
        r"|ambiguous",
        "convert 16-bit types by hand: name_load(x), name_store(x), or __half2float(x), __float2half(x)",
    ),
    (
        r"modifiable lvalue|discards qualifiers|\"const [^\"]*\\*\" cannot be used to initialize",
        "inputs are pointers to const",
    ),
    (r"argument of type \"const [^\"]*\" is incompatible", "inputs are pointers to const"),
    (
        r"expression must have a constant value",
        "sizes of arrays are constants: use a tunable, or shared_bytes with extern",
    ),
    (
        r"separate compilation mode|<<<|kernel launch (?:from|could not)",
        "a candidate has no host code: every launch is a [[step]] of its metadata",
    ),
    (r"dynamic initialization is not supported", "initialise __shared__ and __device__ variables inside the kernel"),
    (
        r"uses too much shared (?:data|memory)",
        "static shared memory ends at 48 KiB: declare extern __shared__ and give `shared_bytes` in the step",
    ),
    (
        r"[Uu]nresolved extern function|undefined reference",
        "nothing defines it: a candidate is one file without linking",
    ),
    (
        r"(?:requires|not supported (?:on|for)) \.?target|requires PTX ISA|Feature '.*' requires",
        "only newer GPUs have it: guard it by __CUDA_ARCH__, or leave this architecture out",
    ),
    (r"too few arguments in function call|too many arguments in function call", ""),
    (r"expected a \";\"", "the statement before it is not finished"),
    (r"exception handling|typeid|RTTI", "device code has no exceptions and no run-time types"),
)


def exceeded_limit(text: str) -> str:
    """What to say if NVRTC's log tells of a limit, else an empty string."""
    return next((message for pattern, message in _LIMITS if re.search(pattern, text)), "")


def hint_for(message: str) -> str:
    """Advice on a message; empty without any."""
    return next((advice for pattern, advice in _HINTS if re.search(pattern, message)), "")
