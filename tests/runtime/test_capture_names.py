"""Names for candidates."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforge_mcp.runtime.capture_names import c_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("weight", "weight"),
        ("net.0.weight", "net_0_weight"),
        ("float", "float_"),
        ("out", "out_"),
        ("out12", "out12_"),
        ("output", "output"),
        ("0", "_0"),
        ("größe", "gr__e"),
    ],
)
def test_names_become_identifiers(text, name):
    assert c_name(text, set()) == name


def test_a_name_already_taken_gets_an_underscore():
    taken: set[str] = set()
    assert [c_name(text, taken) for text in ("a.b", "a_b", "a-b")] == ["a_b", "a_b_", "a_b__"]


@given(st.lists(st.text(max_size=8), max_size=8))
def test_names_are_valid_and_distinct(texts):
    taken: set[str] = set()
    names = [c_name(text, taken) for text in texts]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in names)
