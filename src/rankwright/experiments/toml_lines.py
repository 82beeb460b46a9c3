"""On which line of a TOML text every key and every element of a list stands, which `tomllib` does not tell.

A place is a tuple of keys and numbers, as the parsed tables are indexed: ``("method", 0, "grid", "C")``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from rankwright.errors import InputError

__all__ = ["Place", "line_of", "parse_toml"]

Place = tuple[str | int, ...]
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\''  # texts
    r"|\#[^\n]*|[ \t\r]+"  # what says nothing
    r"|\n|[\[\]{}=,.]|[^\s\"'\#\[\]{}=,.]+",
    re.DOTALL,
)
_ERROR = re.compile(r" \(at line (\d+), column \d+\)$")
_ENDS = ("\n", ",", "]", "}")


def parse_toml(text: str, path: str | Path | None = None) -> tuple[dict[str, Any], dict[Place, int]]:
    """The tables of a TOML text, and the lines of their keys.

    Examples
    --------
    >>> tables, lines = parse_toml('[[data]]\\nname = "a"\\n[[data]]\\nname = "b"\\nlist = [1,\\n 2]')
    >>> lines["data", 1, "name"], lines["data", 1, "list", 1]
    (4, 6)
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _ERROR.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise InputError(f"is no TOML: {_ERROR.sub('', str(error))}", path, line) from None
    return tables, _Scanner(text).lines


def line_of(lines: dict[Place, int], place: Place) -> int | None:
    """The line of a place, or else of the nearest thing around it."""
    while place:
        if place in lines:
            return lines[place]
        place = place[:-1]
    return None


class _Scanner:
    """Walks through a text that is known to be TOML."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self._tokens: list[tuple[str, int]] = []
        self._at = 0
        self._lists: dict[Place, int] = {}  # how many tables each list of tables has so far
        line = 1
        for token in _TOKEN.findall(text):
            if token[0] not in "# \t\r":
                self._tokens.append((token, line))
            line += token.count("\n")
        self._document()

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _next(self) -> tuple[str, int]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _skip(self, *tokens: str) -> None:
        while self._peek() in tokens and self._peek():
            self._at += 1

    def _document(self) -> None:
        table: Place = ()
        self._skip("\n")
        while self._peek():
            if self._peek() == "[":
                table = self._header()
            else:
                self._entry(table)
            self._skip("\n")

    def _header(self) -> Place:
        """`[a.b]` or `[[a.b]]`; the names of lists stand for their last table."""
        _, line = self._next()
        several = self._peek() == "["
        self._skip("[")
        names = self._key("]")
        self._skip("]")
        place: Place = ()
        for name in names[:-1]:
            place = self._inside((*place, name))
        place = (*place, names[-1])
        if several:
            self._lists[place] = self._lists.get(place, 0) + 1
        place = self._inside(place)
        self.lines.setdefault(place, line)
        return place

    def _inside(self, place: Place) -> Place:
        return (*place, self._lists[place] - 1) if place in self._lists else place

    def _key(self, end: str) -> list[str]:
        names = []
        while self._peek() != end:
            token, _ = self._next()
            if token != ".":
                names.append(next(iter(tomllib.loads(f"{token} = 0"))))
        return names

    def _entry(self, table: Place) -> None:
        line = self._tokens[self._at][1]
        place = (*table, *self._key("="))
        self._next()
        self.lines.setdefault(place, line)
        self._value(place)

    def _value(self, place: Place) -> None:
        if self._peek() == "{":
            self._next()
            self._skip("\n", ",")
            while self._peek() != "}":
                self._entry(place)
                self._skip("\n", ",")
            self._next()
        elif self._peek() == "[":
            self._next()
            self._skip("\n", ",")
            number = 0
            while self._peek() != "]":
                self.lines.setdefault((*place, number), self._tokens[self._at][1])
                self._value((*place, number))
                number += 1
                self._skip("\n", ",")
            self._next()
        else:
            while self._peek() and self._peek() not in _ENDS:
                self._next()
