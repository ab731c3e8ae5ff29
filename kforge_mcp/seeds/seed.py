"""A seed, and the templates that seeds are made from."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

_TEMPLATES = Environment(
    loader=PackageLoader("kforge_mcp.seeds"),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
    autoescape=False,  # C++ source, not markup
)


@dataclass(frozen=True)
class Seed:
    """A candidate to begin a search with."""

    name: str
    family: str
    """`rms_norm`, `layer_norm`, `rotary`, `softmax`, ...: the operator family that the card was recognised as."""
    source: str
    note: str
    """What it does and what its tunables change, in a sentence."""


def render(template: str, values: dict[str, object]) -> str:
    """The source that a template of this package makes with these values."""
    return _TEMPLATES.get_template(template).render(values)
