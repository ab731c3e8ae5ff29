"""The text of a CUDA program: headers, injected names, the author's source with its line numbers, contract checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforge_mcp.candidate.c_types import scalar_type_name, tensor_type
from kforge_mcp.candidate.declaration import Config, Plan, Scalar
from kforge_mcp.candidate.signature import Group, LaunchDeclaration, launch_declarations
from kforge_mcp.compile.cuda.headers import prelude
from kforge_mcp.compile.source import CONTRACT_FILE, PREAMBLE_FILE
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.tensor import FLOATING

CANDIDATE_FILE = "candidate.cu"

_TRAITS = """\
namespace kforge_contract {
template <class T> struct kforge_kind { static constexpr char value = __is_enum(T) ? 'i' : 'o'; };
template <class T> struct kforge_kind<const T> : kforge_kind<T> {};
template <class T> struct kforge_kind<T*> { static constexpr char value = 'p'; };
#define KFORGE_KIND(type, letter) template <> struct kforge_kind<type> { static constexpr char value = letter; };
KFORGE_KIND(float, 'f') KFORGE_KIND(double, 'f') KFORGE_KIND(bool, 'i') KFORGE_KIND(char, 'i')
KFORGE_KIND(signed char, 'i') KFORGE_KIND(unsigned char, 'i') KFORGE_KIND(short, 'i') KFORGE_KIND(unsigned short, 'i')
KFORGE_KIND(int, 'i') KFORGE_KIND(unsigned, 'i') KFORGE_KIND(long, 'i') KFORGE_KIND(unsigned long, 'i')
KFORGE_KIND(long long, 'i') KFORGE_KIND(unsigned long long, 'i')
#undef KFORGE_KIND
template <int N, class... P> struct kforge_nth { static constexpr char value = '?'; };
template <class A, class... P> struct kforge_nth<0, A, P...> : kforge_kind<A> {};
template <int N, class A, class... P> struct kforge_nth<N, A, P...> : kforge_nth<N - 1, P...> {};
template <class F> struct kforge_kernel;
template <class... P> struct kforge_kernel<void (*)(P...)> {
    static constexpr int kforge_count = sizeof...(P);
    template <int N> static constexpr char kforge_passed = kforge_nth<N, P...>::value;
};
}"""
_CLOSED = "namespace kforge_contract {}"
CLOSED_LINE = 1
"""The first line of the contract's file: an error there says that something in the source before it is still open."""


@dataclass(frozen=True)
class Program:
    """What NVRTC is given. `prelude` holds headers only and can be precompiled."""

    prelude: str
    text: str
    names: tuple[str, ...]
    """NVRTC name expressions: the kernels that the plan launches."""
    launches: tuple[LaunchDeclaration, ...]

    @property
    def whole(self) -> str:
        """The complete source."""
        return self.prelude + self.text


def cuda_program(plan: Plan, card: OperatorCard, group: Group, config: Config) -> Program:
    """The program of a plan for one group of variants and one configuration."""
    launches = launch_declarations(plan, card, group, config)
    spaces = [space.dtype for space in plan.workspace]
    text = "\n".join(
        [
            f'#line 1 "{PREAMBLE_FILE}"',
            *_preamble(plan, group, config),
            f'#line 1 "{CANDIDATE_FILE}"',
            plan.source.removeprefix("\ufeff"),
            f'#line 1 "{CONTRACT_FILE}"',
            _CLOSED,
            *(line for number, launch in enumerate(launches) for line in _checks(number, launch)),
            "",
        ]
    )
    names = tuple(dict.fromkeys(launch.kernel for launch in launches))
    return Program(prelude(plan.source, [*group.dtypes.values(), *spaces]), text, names, tuple(launches))


def _preamble(plan: Plan, group: Group, config: Config) -> Iterator[str]:
    yield "#include <cstdint>"
    yield _TRAITS
    if plan.tensor_maps:
        yield "#include <cuda.h>"
    wide = "fp64" in group.dtypes.values()
    named = {**group.dtypes, **{space.name: space.dtype for space in plan.workspace}}
    for name, dtype in named.items():
        c_type = tensor_type(dtype, "cuda")
        if c_type is None:
            continue
        yield f"using {name}_t = {c_type};"
        if dtype not in FLOATING:
            continue
        accumulator = "double" if dtype == "fp64" else "float"
        load = {"fp16": "__half2float(value)", "bf16": "__bfloat162float(value)"}.get(dtype, f"{accumulator}(value)")
        store = {"fp16": "__float2half_rn(value)", "bf16": "__float2bfloat16_rn(value)"}.get(dtype, f"{c_type}(value)")
        yield f"using {name}_acc = {accumulator};"
        yield f"__device__ __forceinline__ {accumulator} {name}_load({c_type} value) {{ return {load}; }}"
        yield f"__device__ __forceinline__ {c_type} {name}_store({accumulator} value) {{ return {store}; }}"
    for name, scalar in group.scalars.items():
        yield f"using {name}_t = {scalar_type_name(scalar, 'cuda')};"
    for name, value in config.items():
        yield _tunable(name, value, wide)


def _tunable(name: str, value: Scalar, wide: bool) -> str:
    if isinstance(value, bool):
        return f"constexpr bool {name} = {'true' if value else 'false'};"
    if isinstance(value, int):
        if value == -(2**63):
            return f"constexpr long long {name} = -0x7fffffffffffffffLL - 1;"
        kind, suffix = ("int", "") if -(2**31) <= value < 2**31 else ("long long", "LL")
        return f"constexpr {kind} {name} = {value}{suffix};"
    if isinstance(value, float):
        # In fp32 kernels a double constant would turn the arithmetic around it into fp64.
        return f"constexpr double {name} = {value!r};" if wide else f"constexpr float {name} = float({value!r});"
    return f"#define {name} {value}"


def _checks(number: int, launch: LaunchDeclaration) -> Iterator[str]:
    """One assertion for every parameter: a pointer, a floating-point number, an integer or a structure is passed.

    NVRTC names the assertion's text, `kforge <launch> <parameter>`. Counts and sizes are checked in the cubin, where
    they are certain.
    """
    kernel = f"kforge_contract::kforge_kernel<decltype(&{launch.kernel})>"
    for index, parameter in enumerate(launch.parameters):
        letter = _letter(parameter.type)
        right = f"{kernel}::kforge_count != {len(launch.parameters)} || {kernel}::kforge_passed<{index}> == '{letter}'"
        yield f'static_assert({right}, "kforge {number} {index}");'


def _letter(c_type: str) -> str:
    if c_type.endswith("*"):
        return "p"
    if c_type in ("float", "double"):
        return "f"
    return "o" if "CUtensorMap" in c_type else "i"


LETTERS = {"p": "a pointer", "f": "a floating-point number", "i": "an integer", "o": "a tensor map"}


def passed(launch: LaunchDeclaration, index: int) -> str:
    """What a launch passes as one argument, in words."""
    parameter = launch.parameters[index]
    return f"{LETTERS[_letter(parameter.type)]} (`{parameter.type}`)"
