"""The tokens of C++ source, for telling equal candidates from different ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<comment> //(?:\\\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?P<raw> (?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?(?:\)(?P=fence)"|\Z) )
  | (?P<text> (?:u8|[uUL])?"(?:\\.|[^"\\\n])*"? | (?:u8|[uUL])?'(?:\\.|[^'\\\n])*'? )
  | (?P<directive> ^[ \t]*\#(?:\\\n|[^\n])* )
  | (?P<number> \.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])* )
  | (?P<name> [^\W\d]\w* )
  | (?P<space> [^\S\n]+ | \n | \\\n )
  | (?P<operator> <<=|>>=|<=>|\.\.\.|->\*|::|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|->|\.\*|\#\#|. )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


def tokens(source: str) -> Iterator[str]:
    """The tokens of C++ source without comments and white space. Never fails: any text has tokens.

    A preprocessor directive is one token, since its line ends matter; spaces within it count as one.
    """
    for match in _TOKEN.finditer(source.replace("\r\n", "\n")):
        kind = match.lastgroup
        if match["directive"] is not None:
            joined = match["directive"].replace("\\\n", " ")
            yield " ".join(_COMMENT.sub(lambda found: found[1] or " ", joined).split())
        elif kind not in ("comment", "space"):
            yield match.group()
