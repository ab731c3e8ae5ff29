"""Trees for tests of the search."""

from __future__ import annotations

from hypothesis import strategies as st

from kforge_mcp.search.tree import ROOT, Node


def chain(*values: float | None) -> list[Node]:
    """A path from the root, each node the child of the one before, each visited once."""
    count = len(values)
    return [
        Node(f"n{index}", f"n{index - 1}" if index else ROOT, value, count - index)
        for index, value in enumerate(values)
    ]


@st.composite
def trees(draw: st.DrawFn) -> list[Node]:
    """Nodes n0, n1, ... of any shape, each after its parent, with visits that add up."""
    count = draw(st.integers(0, 25))
    parents = [draw(st.integers(-1, index - 1)) for index in range(count)]
    values = [draw(st.none() | st.floats(-2, 2)) for _ in range(count)]
    visits = [1] * count
    for index in reversed(range(count)):
        if parents[index] >= 0:
            visits[parents[index]] += visits[index]
    return [
        Node(f"n{index}", f"n{parents[index]}" if parents[index] >= 0 else ROOT, values[index], visits[index])
        for index in range(count)
    ]
