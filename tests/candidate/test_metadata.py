from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforge_mcp.candidate.metadata import Metadata, read_metadata
from kforge_mcp.candidate.positions import positions
from kforge_mcp.candidate.rejection import Rejected
from tests.candidate.cards import candidate_text

BLOCK = """entry = "k"
args = ["x", 'out',
    "x.numel"]  # a comment
[tunables]
A = [1, 2.5]
[workspace]
h = { dtype = "fp32", shape = ["x.numel"] }"""


def test_every_value_has_its_place_in_the_file() -> None:
    source = "// a comment first\n" + candidate_text(BLOCK)
    metadata = read_metadata(source)
    assert isinstance(metadata, Metadata)
    assert metadata.values == tomllib.loads(BLOCK)
    assert (metadata.first_line, metadata.last_line) == (2, 10)
    lines = source.splitlines()
    for path, text in {
        ("entry",): "k",
        ("args", 1): "out",
        ("args", 2): "x.numel",
        ("tunables", "A", 1): "2.5",
        ("workspace", "h", "shape", 0): "x.numel",
        ("workspace", "h", "="): "h =",
    }.items():
        line, column = metadata.place(path)
        assert lines[line - 1][column - 1 :].startswith(text), path


def test_an_indented_block_with_windows_line_ends_is_read() -> None:
    metadata = read_metadata('  // /// kforge\r\n  //entry = "k"\r\n  //\r\n  // ///\r\nint f;\r\n')
    assert isinstance(metadata, Metadata)
    assert metadata.values == {"entry": "k"}
    assert metadata.place(("entry",)) == (2, 14)


@pytest.mark.parametrize(
    ("source", "reason", "line", "part"),
    [
        ("int main;", "contract_error", 0, "no metadata block"),
        ("// kforge\n// ///\n", "contract_error", 1, "does not open"),
        ("// /// kforge\n// entry = 'k'", "contract_error", 1, "never closed"),
        ("// /// kforge\nint f;\n// ///\n", "contract_error", 2, "no comment"),
        (candidate_text("a = 1") + candidate_text("b = 2"), "contract_error", 4, "second"),
        (candidate_text("entry = kernel"), "syntax_error", 2, "not TOML"),
        (candidate_text('entry = "k"\nentry = "k"'), "syntax_error", 3, "not TOML"),
        (candidate_text("args = ['x', \"y]\nb = 1"), "syntax_error", 2, "not TOML"),
        (candidate_text("args = ['x'\nb = 1"), "syntax_error", 3, "not TOML"),
    ],
)
def test_a_malformed_block_is_named_with_its_line(source: str, reason: str, line: int, part: str) -> None:
    rejected = read_metadata(source)
    assert isinstance(rejected, Rejected)
    assert rejected.reason == reason
    assert rejected.diagnostics[0].line == line
    assert part in rejected.message


def test_text_without_quotes_gets_the_advice_to_quote_it() -> None:
    rejected = read_metadata(candidate_text("entry = kernel"))
    assert isinstance(rejected, Rejected)
    assert '"kernel"' in rejected.diagnostics[0].hint


_toml_pieces = st.sampled_from(
    [
        'a = "x"',
        "b = [1, [2, 'y'], {c = 1}]",
        "[t]",
        "[[s]]",
        "[s.u]",
        "d.e = 1979-05-27 07:32:00",
        '"q r" = """m\nn"""',
        "# note",
        "",
        "f = { g = { h = 1.5e3 } }",
        "i = [\n 1, # one\n 2,\n]",
        "j = '''\n'k'\n'''",
        "l = inf",
        "m = true",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_toml_pieces, max_size=8))
def test_places_exist_for_whatever_tomllib_accepts(pieces: list[str]) -> None:
    text = "\n".join(pieces) + "\n"
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = positions(text)
    for key in values:
        if key != "d":
            assert any(path[0] == key for path in found), key
    assert all(0 <= offset < len(text) for offset in found.values())
