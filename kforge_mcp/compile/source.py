"""The translation unit of a CPU candidate: preamble, the author's text with its line numbers, the contract check."""

from __future__ import annotations

from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.signature import Group, declaration
from kforge_mcp.compile.preamble import preamble

CANDIDATE_FILE = "candidate.cpp"
"""The file that compilers name in diagnostics about the author's own text."""
PREAMBLE_FILE = "kforge_preamble"
CONTRACT_FILE = "kforge_contract"
REFERENCE = "kforge_entry_reference"


def translation_unit(plan: Plan, variant_group: Group, config: Config) -> str:
    """Complete C++17 source that exports `plan.entry` and needs nothing but a compiler with OpenMP.

    The declaration before the author's text makes a definition with other parameters an error there; the reference
    after it makes a missing definition a warning of the linker.
    """
    types = ", ".join(parameter.type for parameter in variant_group.parameters)
    exported = declaration(plan.entry, variant_group.parameters)
    exported = exported.replace('extern "C" void', 'extern "C" __attribute__((visibility("default"))) void', 1)
    return "\n".join(
        [
            f'#line 1 "{PREAMBLE_FILE}"',
            preamble(plan, variant_group, config),
            f"{exported};",
            f'#line 1 "{CANDIDATE_FILE}"',
            plan.source.removeprefix("\ufeff"),
            f'#line 1 "{CONTRACT_FILE}"',
            f"namespace {{ [[gnu::used]] void (*const {REFERENCE})({types}) = &::{plan.entry}; }}",
            "",
        ]
    )
