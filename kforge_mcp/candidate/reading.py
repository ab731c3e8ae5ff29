"""Checks the keys and values of a metadata block and builds the plan from them; every fault becomes a diagnostic."""

from __future__ import annotations

import functools
import keyword
import math
import re
from collections.abc import Iterable
from typing import Any

from kforge_mcp.candidate.c_types import CPP_WORDS
from kforge_mcp.candidate.declaration import Scalar
from kforge_mcp.candidate.expressions import Expression, ExpressionError, parse_expression
from kforge_mcp.candidate.metadata import Metadata, source_lines
from kforge_mcp.candidate.options import conflict, refusal
from kforge_mcp.candidate.positions import Path
from kforge_mcp.candidate.rejection import Rejected, located, nearest, suggestion
from kforge_mcp.candidate.scope import card_names, output_names
from kforge_mcp.candidate.tokens import tokens
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Target
from kforge_mcp.records.result import Diagnostic, Reason

TOP_LEVEL = ("where", "options", "inplace", "nondeterministic", "entry", "args")
LAUNCH_KEYS = ("kernel", "grid", "block", "shared_bytes", "cluster", "cooperative", "repeat", "args")
CALL_KEYS = ("call", "args", "out")
WORKSPACE_KEYS = ("dtype", "shape", "init")
MAP_KEYS = (
    "tensor", "box", "shape", "stride", "element_strides", "swizzle", "interleave", "l2_promotion", "out_of_bounds",
)  # fmt: skip
TABLES = ("step", "workspace", "tunables", "tensor_maps")
_KEYS = frozenset({*TOP_LEVEL, *LAUNCH_KEYS, *CALL_KEYS, *WORKSPACE_KEYS, *MAP_KEYS, *TABLES})
MAX_CONFIGURATIONS = 64
MAX_ARGUMENTS = 64

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN_TEXT = re.compile(r"[A-Za-z_][\w:<>, ]{0,99}")
_DERIVED = ("_t", "_acc", "_load", "_store")
"""Suffixes of what is injected for the name of a tensor."""
_EXPRESSION_WORDS = frozenset({*keyword.kwlist, "min", "max", "ceil_div"})
_RESERVED: dict[Target, frozenset[str]] = {
    "cpu": frozenset({"main", "std"}),
    "cuda": frozenset({
        "main", "std", "step", "sm_count", "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "CUtensorMap",
    }),
}  # fmt: skip


class Reader:
    """Reads one block. Faults are collected, so that one answer names them all."""

    def __init__(self, metadata: Metadata, source: str, card: OperatorCard, target: Target) -> None:
        self.metadata = metadata
        self.values = metadata.values
        self.source = source
        self.lines = source_lines(source)
        self.card = card
        self.target: Target = target
        self.faults: list[tuple[Diagnostic, Reason]] = []
        self.output_names = list(dict.fromkeys(name for variant in card.variants for name in output_names(variant)))
        self.names = card_names(card)
        if self.values.get("inplace") is True and card.mutates:
            self.names = [name for name in self.names if name not in self.output_names]
            self.output_names = []

    @functools.cached_property
    def code(self) -> list[str]:
        """The tokens of the code around the block; those of a directive, such as a macro's text, one by one."""
        first, last = self.metadata.first_line, self.metadata.last_line
        found: list[str] = []
        for token in tokens("\n".join(self.lines[: first - 1] + self.lines[last:])):
            found += re.findall(r"\w+|##|[^\w\s]", token) if token.startswith("#") else [token]
        return found

    def fault(
        self, path: Path, message: str, *, hint: str = "", offset: int = 0, reason: Reason = "contract_error"
    ) -> None:
        """Note that something is wrong at a path of the block."""
        line, column = self.metadata.place(path)
        text = self.lines[line - 1][:200] if line <= len(self.lines) else ""
        diagnostic = Diagnostic(
            severity="error", message=message, line=line, column=column + offset, source_line=text, hint=hint
        )
        self.faults.append((diagnostic, reason))

    def rejected(self) -> Rejected | None:
        """What is wrong in the order of the file; the first fault decides the reason. None if nothing is wrong."""
        if not self.faults:
            return None
        ordered = sorted(self.faults, key=lambda fault: (fault[0].line, fault[0].column))
        return located(ordered[0][1], [diagnostic for diagnostic, _ in ordered])

    def missing(self, path: Path, key: str, message: str) -> None:
        """Note that a table lacks a key, unless a misspelt key of the table is noted as such."""
        others = [other for other in self.value(path) if other not in _KEYS]
        if not any(nearest(other, (key,)) for other in others):
            self.fault(path, message)

    def key_fault(self, path: Path, message: str, *, hint: str = "") -> None:
        """A fault of a key rather than of its value."""
        keyed = (*path, "=")
        self.fault(keyed if keyed in self.metadata.places else path, message, hint=hint)

    def value(self, path: Path) -> Any:
        """The value at a path, which must exist."""
        found: Any = self.values
        for part in path:
            found = found[part]
        return found

    def expression(self, path: Path, known: Iterable[str]) -> Expression | None:
        """The expression at a path, or None after noting what is wrong with it."""
        text = self.value(path)
        if isinstance(text, int) and not isinstance(text, bool):
            text = str(text)
        if not isinstance(text, str):
            self.fault(path, f"an expression stands in quotes; this is {toml_kind(text)}")
            return None
        line, column = self.metadata.place(path)
        try:
            expression = parse_expression(text, line=line, column=column)
        except ExpressionError as error:
            reason: Reason = "syntax_error" if error.malformed else "contract_error"
            self.fault(path, f"`{_short(text)}`: {error.message}", hint=error.hint, offset=error.offset, reason=reason)
            return None
        names = set(known)
        for name, offset in expression.names:
            if name not in names:
                self.fault(path, f"unknown name `{name}`", hint=self._name_hint(name, names), offset=offset)
                return None
        return expression

    def _name_hint(self, name: str, names: set[str]) -> str:
        if self.values.get("inplace") is True and re.fullmatch(r"out\d*", name):
            return f"with `inplace` there is no `{name}`: the result is written into `{self.card.mutates}`"
        if name == "step" and self.target == "cuda":
            return "`step` is the loop index of a launch with `repeat`"
        if name == "sm_count" and self.target == "cuda":
            return "`where` holds for every device, so it cannot ask for `sm_count`; sizes and arguments can"
        return suggestion(name, names)

    def array(self, path: Path, what: str, *, most: int) -> list[Any]:
        """The array at a path; empty if the key is missing or wrong, which is then noted."""
        key = path[-1]
        if isinstance(key, str) and key not in self.value(path[:-1]):
            self.missing(path[:-1], key, f"`{key}` is missing: an array of {what.partition(',')[0]}")
            return []
        items = self.value(path)
        if not isinstance(items, list):
            self.fault(path, f"`{key}` is an array of {what}, not {toml_kind(items)}")
            return []
        if len(items) > most:
            self.fault(path, f"`{key}` has {len(items)} elements; at most {most} are allowed")
            return []
        return items

    def expressions(self, path: Path, known: Iterable[str], *, most: int) -> tuple[Expression, ...]:
        """The array of expressions at a path; empty if the key is missing or wrong, which is then noted."""
        items = self.array(path, 'expressions, ["x", "x.numel"]', most=most)
        names = set(known)
        found = [self.expression((*path, index), names) for index in range(len(items))]
        return tuple(one for one in found if one is not None)

    def new_name(self, path: Path, taken: Iterable[str], what: str) -> bool:
        """Whether the last part of a path can name something new; notes what is wrong otherwise."""
        return self.check_name(path, str(path[-1]), taken, what, of_key=True)

    def check_name(self, path: Path, name: str, taken: Iterable[str], what: str, *, of_key: bool = False) -> bool:
        """Whether a name is a C identifier that nothing else has; notes what is wrong otherwise."""
        note = self.key_fault if of_key else self.fault
        if not _NAME.fullmatch(name) or name in CPP_WORDS:
            why = "a word of C++" if name in CPP_WORDS else "no C identifier"
            note(path, f"`{_short(name)}` cannot name {what}: it is {why}")
        elif name.startswith(("kforge", "__")) or name in _RESERVED[self.target] or name in _EXPRESSION_WORDS:
            note(path, f"`{name}` cannot name {what}: the name is reserved")
        elif name in set(taken):
            note(path, f"`{name}` cannot name {what}: something else of this candidate has that name")
        elif (tensor := self._derived_from(name)) is not None:
            note(path, f"`{name}` cannot name {what}: it collides with the type or the helpers of `{tensor}`")
        else:
            return True
        return False

    def _derived_from(self, name: str) -> str | None:
        """The tensor whose injected names (`x_t`, `x_load`, ...) a name collides with, in either direction."""
        bases = {*self.names, *self.table("workspace")}
        for suffix in _DERIVED:
            if name.endswith(suffix) and name.removesuffix(suffix) in bases:
                return name.removesuffix(suffix)
            if name + suffix in self.names:
                return name + suffix
        return None

    def check_table(
        self, path: Path, table: dict[str, Any], allowed: tuple[str, ...], elsewhere: tuple[str, ...] = ()
    ) -> None:
        """Note keys of a table that are not allowed; `elsewhere` are those of the other kind of step."""
        for key in table:
            if key in elsewhere and key not in allowed:
                self.key_fault((*path, key), f"`{key}` belongs to another kind of step: a launch or a call, not both")
            elif key not in allowed:
                self.unknown_key((*path, key), allowed)

    def unknown_key(self, path: Path, allowed: Iterable[str]) -> None:
        """Note a key that does not belong here, and where it would."""
        name = str(path[-1])
        if name in TOP_LEVEL:
            message = f"`{name}` is a top-level key but stands in the table [{_table_name(path)}]"
            self.key_fault(path, message, hint=f"move `{name}` above the first table of the block")
        else:
            self.key_fault(path, f"unknown key `{_short(name)}`", hint=suggestion(name, allowed))

    def check_keys(self) -> None:
        """Note top-level keys that are unknown, of the wrong kind or of the other target."""
        for key, value in self.values.items():
            if key not in TOP_LEVEL and key not in TABLES:
                hint = suggestion(key, (*TOP_LEVEL, *TABLES))
                if key in (*LAUNCH_KEYS, *CALL_KEYS):
                    hint = f"`{key}` belongs under [[step]]"
                self.key_fault((key,), f"unknown key `{_short(key)}`", hint=hint)
            elif key in ("workspace", "tunables", "tensor_maps") and not isinstance(value, dict):
                self.fault((key,), f"`{key}` is a table, [{key}], not {toml_kind(value)}")
            elif key in ("entry", "args") and self.target == "cuda":
                self.key_fault(
                    (key,), f"`{key}` belongs to candidates for the CPU", hint="describe launches in [[step]]"
                )

    def table(self, name: str) -> dict[str, Any]:
        """A top-level table, empty if it is missing or none."""
        value = self.values.get(name, {})
        return value if isinstance(value, dict) else {}

    def entry(self, known: Iterable[str]) -> str:
        """The name of a CPU candidate's function."""
        if self.target == "cuda":
            return ""
        if "entry" not in self.values:
            self.missing((), "entry", '`entry` is missing: the name of the candidate\'s extern "C" function')
            return ""
        entry = self.values["entry"]
        if not isinstance(entry, str):
            self.fault(("entry",), f"`entry` is the name of a function in quotes, not {toml_kind(entry)}")
            return ""
        self.check_name(("entry",), entry, known, "the entry function")
        return entry

    def flag(self, key: str) -> bool:
        """A top-level key that is true or false, false where it is missing."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.fault((key,), f"`{key}` is true or false, not {toml_kind(value)}")
            return False
        return value

    def inplace(self) -> bool:
        """Whether the candidate writes into the input that eager writes into."""
        value = self.flag("inplace")
        if value and not self.card.mutates:
            self.fault(
                ("inplace",),
                f"`inplace` needs an operator that writes one of its inputs; {self.card.name} returns new tensors",
            )
        elif value and any(len(variant.outputs) != 1 for variant in self.card.variants):
            self.fault(("inplace",), f"`inplace` is for operators with one result; {self.card.name} has several")
        return value

    def options(self) -> tuple[str, ...]:
        """The compiler options, each once."""
        options = self.values.get("options", [])
        if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
            self.fault(("options",), '`options` is an array of compiler options in quotes: ["-funroll-loops"]')
            return ()
        for index, option in enumerate(options):
            refused = refusal(option, self.target) or conflict(option, options[:index])
            if refused:
                self.fault(("options", index), refused[0], hint=refused[1])
        return tuple(dict.fromkeys(options))

    def tunables(self) -> dict[str, tuple[Scalar, ...]]:
        """The tunables with their values."""
        found: dict[str, tuple[Scalar, ...]] = {}
        for name, values in self.table("tunables").items():
            path = ("tunables", name)
            if name in TOP_LEVEL:
                self.unknown_key(path, ())
            elif self.new_name(path, (*self.names, *self.table("workspace")), "a tunable"):
                found[name] = self._tunable(path, values)
        total = math.prod(len(values) for values in found.values())
        if total > MAX_CONFIGURATIONS:
            counts = " * ".join(str(len(values)) for values in found.values())
            message = f"the tunables have {counts} = {total} combinations; at most {MAX_CONFIGURATIONS} are compiled"
            self.fault(("tunables",), message, reason="limit_exceeded")
        return found

    def _tunable(self, path: Path, values: Any) -> tuple[Scalar, ...]:
        if not isinstance(values, list) or not values:
            self.fault(path, f"a tunable is an array of its values, {path[-1]} = [1, 2, 4], not {toml_kind(values)}")
            return (0,)
        for index, value in enumerate(values):
            place = (*path, index)
            if not isinstance(value, (bool, int, float, str)):
                self.fault(place, f"a tunable's value is a number, a boolean or a name, not {toml_kind(value)}")
            elif type(value) is not type(values[0]):
                self.fault(place, "all values of a tunable have the same type")
            elif isinstance(value, int) and not -(2**63) <= value < 2**63:
                self.fault(place, f"{value} does not fit 64 bits")
            elif isinstance(value, float) and not math.isfinite(value):
                self.fault(place, "a tunable's value is finite")
            elif isinstance(value, str) and not _TOKEN_TEXT.fullmatch(value):
                self.fault(place, "text as a tunable's value is the name of a type or function")
            elif value in values[:index]:
                self.fault(place, f"the value {value!r} is given twice")
        return tuple(values)


def _table_name(path: Path) -> str:
    return ".".join(str(part) for part in path[:-1] if isinstance(part, str))


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def toml_kind(value: Any) -> str:
    """What a TOML value is, in words."""
    names = {
        str: "text",
        bool: "a boolean",
        int: "an integer",
        float: "a floating-point number",
        list: "an array",
        dict: "a table",
    }
    return "an empty array" if value == [] else names.get(type(value), f"a {type(value).__name__}")
