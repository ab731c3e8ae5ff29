"""Random programs as Python source: functions and modules of operators, views, in-place calls and containers.

Variables have a kind that says their shape: `m` (4, 6), `t` (6, 4), `q` (4, 4), `v` (6,), `s` (), all float32;
`b` (4, 6) bool; `i` (4,) int64 below 4. A kind in braces in a template stands for any variable of the kind; a kind in
capitals for one that may be written to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hypothesis import strategies as st

PURE = (
    ("m", "{m} + {m}"),
    ("m", "{m} - 0.5 * {m}"),
    ("m", "2.0 / ({m}.abs() + 1.0)"),
    ("m", "{m} * {v}"),
    ("m", "{q} @ {m}"),
    ("q", "{m} @ {t}"),
    ("q", "torch.matmul({m}, {t})"),
    ("m", "F.softmax({m}, dim=-1)"),
    ("m", "{m}.softmax(0)"),
    ("m", "torch.softmax({m}, -1)"),
    ("m", "F.layer_norm({m}, (6,), weight={v})"),
    ("m", "F.rms_norm({m}, [6], eps=1e-5)"),
    ("m", "F.gelu({m}, approximate='tanh')"),
    ("m", "torch.relu({m})"),
    ("m", "F.silu({m})"),
    ("m", "torch.sigmoid({m}) * torch.tanh({m})"),
    ("m", "F.linear({m}, {t}.repeat(1, 2)[:, :6])"),
    ("m", "torch.addmm({v}, {q}, {m})"),
    ("m", "torch.where({b}, {m}, {m})"),
    ("m", "{m}.masked_fill({b}, 0.25)"),
    ("m", "{m}[{i}]"),
    ("m", "torch.index_select({m}, 0, {i})"),
    ("m", "torch.cat([{m}, {m}], 0)[2:6]"),
    ("m", "torch.stack([{m}, {m}, {m}]).sum(0)"),
    ("m", "torch.einsum('rc,c->rc', {m}, {v})"),
    ("m", "{m}.clamp(min=-1.0, max=1.5)"),
    ("m", "{m}.cumsum(-1)"),
    ("m", "{m}.to(torch.bfloat16).float()"),
    ("m", "torch.sort({m}, dim=-1).values"),
    ("m", "F.dropout({m}, 0.5, training=False)"),
    ("m", "F.pad({m}, (1, 1))[:, 1:-1]"),
    ("v", "{m}.mean(0)"),
    ("v", "{m}.amax(dim=0)"),
    ("v", "{m}.var(dim=0, keepdim=True)[0]"),
    ("s", "{m}.sum()"),
    ("s", "torch.linalg.vector_norm({v})"),
    ("m", "{m} * {s}"),
    ("b", "{m} > {m}"),
    ("b", "~{b}"),
    ("b", "{m}.isfinite() & {b}"),
    ("i", "{q}.argmax(-1)"),
    ("i", "({i} + 1) % 4"),
)
VIEWS = (
    ("t", "{m}.T"),
    ("t", "{m}.reshape(6, 4)"),
    ("m", "{t}.transpose(0, 1)"),
    ("v", "{m}[1]"),
    ("v", "{t}[:, 2]"),
    ("m", "{m}.unsqueeze(0).squeeze(0)"),
    ("m", "{m}.flip(0)"),
    ("m", "{m}.contiguous()"),
    ("v", "{m}.flatten()[3:9]"),
    ("s", "{v}[2]"),
)
EXPANDED = (("m", "{v}.expand(4, 6)"), ("q", "{s}.expand(4, 4)"))
RANDOM = (("m", "{m} + torch.rand_like({m})"), ("m", "F.dropout({m}, 0.5)"))
WRITES = (
    "{M}.add_({m})",
    "{M}.mul_(0.5)",
    "{M} += {v}",
    "{M}[1] = {v}",
    "{M}[:, ::2] *= 1.5",
    "{V}.neg_()",
    "F.relu({M}, inplace=True)",
    "torch.clamp_({M}, -2.0, 2.0)",
    "torch.add({m}, {m}, out={M})",
    "{M}.copy_({m})",
    "{M}.index_add_(0, {i}, {m})",
    "{M}[{b}] = 0.75",
)
PREFACE = """
import dataclasses
import typing

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Record:
    first: torch.Tensor
    second: torch.Tensor
    nothing: None = None


class Pair(typing.NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


TABLE = torch.linspace(0.5, 1.5, 6)

"""
RETURNS = {
    "one": ("return {0}", "{0} = {call}"),
    "tuple": ("return {0}, {1}", "{0}, {1} = {call}"),
    "list": ("return [{0}, {1}]", "{0}, {1} = {call}"),
    "dict": ("return {{'a': {0}, 'b': [None, {1}]}}", "{0}, {1} = (lambda d: (d['a'], d['b'][1]))({call})"),
    "record": ("return Record({0}, second={1})", "{0}, {1} = (lambda r: (r.first, r.second))({call})"),
    "named": ("return Pair({0}, {1})", "{0}, {1} = {call}"),
}
CALLS = (
    "{f}({m}, {v}, {i})",
    "{f}({m}, other={v}, index={i})",
    "{f}({m}, {v}, {i}, many=[{m}, {m}])",
    "{f}(x={m}, other={v}, index={i}, factor=0.5)",
    "{f}({m}, {v}, {i}, ({m}, {m}))",
    "{f}({m}, {v}, {i}, many={{'k': {m}, 'l': ({m}, 2)}})",
    "{f}({m}, {v}, {i}, many=Record({m}, {v}))",
    "{f}({m}, {v}, {i}, many=Pair({m}, {v}))",
)
_PARAMETERS = "x, other, index, many=None, *, factor=2.0"
_BODY = (
    "x = x * factor",
    "other = other + many[0].mean(0) if isinstance(many, list) else other",
    "x = x - many.first if isinstance(many, (Record, Pair)) else x",
    "other = other * TABLE",
    "x = x + 1.0 if x[0].tolist()[0] > 0.0 else x",
    "many = (many.append(x), many)[1] if isinstance(many, list) else many",
)


@dataclass
class Scope:
    """The variables of a body under construction."""

    names: dict[str, list[str]]
    given: set[str] = field(default_factory=lambda: {"x", "other", "index", "self.weight", "self.table"})
    """Names that writes mostly leave alone: a call that writes into its inputs is not eligible."""
    frozen: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self, kind: str, *, frozen: bool = False) -> str:
        """A new variable."""
        self.count += 1
        name = f"{kind}{self.count}"
        self.names.setdefault(kind, []).append(name)
        if frozen:
            self.frozen.add(name)
        return name


def _fill(draw: st.DrawFn, scope: Scope, template: str) -> str | None:
    """The template with variables in its braces; None if there is no variable of a kind."""

    def choose(match: re.Match[str]) -> str:
        kind = match[1].lower()
        names = scope.names.get(kind, [])
        if match[1] != kind:
            names = [name for name in names if name not in scope.frozen]
            own = [name for name in names if name not in scope.given]
            names = own if own and draw(st.integers(0, 3)) else names
        if not names:
            raise LookupError(kind)
        return draw(st.sampled_from(names))

    try:
        return re.sub(r"\{([mtqvsbiMV])\}", choose, template)
    except LookupError:
        return None


def _statement(draw: st.DrawFn, scope: Scope) -> None:
    group = draw(st.sampled_from(["pure"] * 16 + ["views"] * 5 + ["writes"] * 6 + ["expanded"] * 2 + ["random"]))
    if group == "writes":
        line = _fill(draw, scope, draw(st.sampled_from(WRITES)))
        if line:
            scope.lines.append(line)
        return
    table = {"pure": PURE, "views": VIEWS, "expanded": EXPANDED, "random": RANDOM}[group]
    kind, template = draw(st.sampled_from(table))
    expression = _fill(draw, scope, template)
    if expression:
        # A view of an expanded tensor is as unwritable as that.
        used = set(re.findall(r"[a-z]\w*", expression))
        scope.lines.append(
            f"{scope.fresh(kind, frozen=group == 'expanded' or bool(used & scope.frozen))} = {expression}"
        )


def _result(draw: st.DrawFn, scope: Scope, kind: str) -> str:
    """What a body returns: mostly a new tensor, at times any variable, which may be an input or a view of one."""
    if draw(st.integers(0, 5)) == 5:
        return draw(st.sampled_from(scope.names[kind]))
    expression = None
    while expression is None:
        template = draw(st.sampled_from([template for given, template in PURE if given == kind]))
        expression = _fill(draw, scope, template)
    name = scope.fresh(kind)
    scope.lines.append(f"{name} = {expression}")
    return name


def _body(draw: st.DrawFn, scope: Scope) -> str:
    """Statements, and which form the result has; the lines are in the scope."""
    for _ in range(draw(st.integers(2, 6))):
        _statement(draw, scope)
    form = draw(st.sampled_from(sorted(RETURNS)))
    results = [_result(draw, scope, kind) for kind in "mv"]
    scope.lines.append(RETURNS[form][0].format(*results))
    return form


def _callable(draw: st.DrawFn, name: str) -> tuple[str, str]:
    """The source of a function or module class called `name`, and the form of its result."""
    scope = Scope({"m": ["x"], "v": ["other"], "i": ["index"]})
    prepared = draw(st.lists(st.sampled_from(_BODY), max_size=2, unique=True))
    if not name.startswith("Part"):
        form = _body(draw, scope)
        return _definition(f"def {name}({_PARAMETERS}):", [*prepared, *scope.lines], ""), form
    scope.names["v"] += ["self.weight"]
    scope.names["m"] += ["self.table"]
    scope.frozen |= set() if draw(st.integers(0, 9)) == 9 else {"self.weight", "self.table"}
    form = _body(draw, scope)
    if draw(st.integers(0, 9)) == 9:
        prepared.append("self.count += 1")
    init = [
        "super().__init__()",
        "self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 6))",
        "self.register_buffer('table', torch.randn(4, 6))",
        "self.count = 0",
    ]
    parts = [f"class {name}(nn.Module):", _definition("def __init__(self):", init, "    ")]
    parts.append(_definition(f"def forward(self, {_PARAMETERS}):", [*prepared, *scope.lines], "    "))
    return "\n".join(parts), form


def _definition(head: str, lines: list[str], indent: str) -> str:
    return "\n".join([f"{indent}{head}", *(f"{indent}    {line}" for line in lines)])


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The source of a file whose `build()` is a workload."""
    names = draw(st.lists(st.sampled_from(["one", "two", "PartA", "PartB"]), min_size=1, max_size=3, unique=True))
    made = {name: _callable(draw, name) for name in names}
    scope = Scope({"m": ["x"], "v": ["other"], "i": ["index"]})
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            _statement(draw, scope)
        name = draw(st.sampled_from(names))
        call = _fill(draw, scope, draw(st.sampled_from(CALLS)))
        assert call is not None
        call = call.format(f=f"self.{name}" if name in ("PartA", "PartB") else name)
        form = made[name][1]
        # What a call returns may be a view of anything it was given.
        results = [scope.fresh("m", frozen=bool(scope.frozen))]
        results += [scope.fresh("v", frozen=bool(scope.frozen))] if form != "one" else []
        scope.lines.append(RETURNS[form][1].format(*results, call=call))
    scope.lines.append("return " + ", ".join([*scope.names["m"][-2:], *scope.names["v"][-2:]]))
    init = ["super().__init__()", *(f"self.{name} = {name}()" for name in names if name.startswith("Part"))]
    main = [
        "class Main(nn.Module):",
        _definition("def __init__(self):", init, "    "),
        _definition("def forward(self, x, other, index):", ["torch.manual_seed(3)", *scope.lines], "    "),
    ]
    build = [
        "torch.manual_seed(1)",
        "return Main().eval(), (torch.randn(4, 6), torch.randn(6), torch.tensor([2, 0, 3, 1]))",
    ]
    sources = [source for source, _ in made.values()]
    return (
        "\n\n\n".join([PREFACE.strip("\n"), *sources, "\n".join(main), _definition("def build():", build, "")]) + "\n"
    )
