"""A TOML text with the line number of every key and list element, which `tomllib` does not give, and its mistakes.

A place is the path to a value in the parsed tables: ``("method", 0, "grid", "C")``.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rankwright.errors import InputError, shown
from rankwright.rankers.parameters import Rule

Place = tuple[str | int, ...]
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\''  # strings
    r"|\#[^\n]*|[ \t\r]+"  # comments and spaces
    r"|\n|[\[\]{}=,.]|[^\s\"'\#\[\]{}=,.]+",
    re.DOTALL,
)
_ERROR = re.compile(r" \(at line (\d+), column \d+\)$")
_ENDS = ("\n", ",", "]", "}")
_DEEPEST = 50
_MOST = 2**31 - 1


def parse_toml(text: str, path: str | Path | None = None) -> tuple[dict[str, Any], dict[Place, int]]:
    """Parse a TOML text into its tables and the line number of every place.

    Examples
    --------
    >>> tables, lines = parse_toml('[[data]]\\nname = "a"\\n[[data]]\\nname = "b"\\nlist = [1,\\n 2]')
    >>> lines["data", 1, "name"], lines["data", 1, "list", 1]
    (4, 6)
    """
    tokens = _tokens(text)
    _check_depth(tokens, path)
    try:
        tables = tomllib.loads(text)
    except ValueError as error:  # also an integer of thousands of digits
        position = _ERROR.search(str(error))
        line = int(position[1]) if position else text.count("\n") + 1
        raise InputError(f"not valid TOML: {_ERROR.sub('', str(error))}", path, line) from None
    return tables, _Scanner(tokens).lines


def _tokens(text: str) -> list[tuple[str, int]]:
    """The tokens of a text except comments and spaces, with their lines."""
    tokens = []
    line = 1
    for token in _TOKEN.findall(text):
        if token[0] not in "# \t\r":
            tokens.append((token, line))
        line += token.count("\n")
    return tokens


def _check_depth(tokens: list[tuple[str, int]], path: str | Path | None) -> None:
    """Refuse values nested deeper than `tomllib` can follow, and keys of so many parts that it takes forever."""
    depth = parts = 0
    for token, line in tokens:
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        parts = parts + 1 if token == "." else 0 if token in ("=", *_ENDS) else parts
        if max(depth, parts) > _DEEPEST:
            raise InputError(f"nested more than {_DEEPEST} levels deep; expected an experiment", path, line)


def line_of(lines: dict[Place, int], place: Place) -> int | None:
    """The line of a place, or of the innermost enclosing place that has one."""
    while place:
        if place in lines:
            return lines[place]
        place = place[:-1]
    return None


def _is_number(value: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: str) -> bool:
    return isinstance(value, str) and "\0" not in value  # no file has such a name


def _is_list(value: Any, kind: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(kind, value))


def integer(expected: str, minimum: int, maximum: float = _MOST) -> Rule:
    """Integers of a range."""
    return Rule(expected, lambda value: _is_integer(value) and minimum <= value <= maximum)


def choice(names: Iterable[str]) -> Rule:
    """One of some names; the message of another text says which one was probably meant."""
    return Rule("a string", _is_text, names=tuple(names))


def choices(names: Iterable[str]) -> Rule:
    """A list of some names."""
    return Rule("a list of strings", lambda value: _is_list(value, _is_text), names=tuple(names))


TEXT = choice(())
TEXTS = choices(())
PATHS = Rule("a string or a list of strings", lambda value: _is_text(value) or _is_list(value, _is_text))
COUNT = integer("a positive integer", 1)
SPLITS = integer("an integer from 1 to 100000", 1, 100_000)
NOT_NEGATIVE = integer("an integer of at least 0", 0, float("inf"))
SEEDS = Rule(
    "a list of different integers of at least 0",
    lambda value: _is_list(value, NOT_NEGATIVE.accepts) and len(set(value)) == len(value) > 0,
)
NUMBER = Rule("a number", _is_number)
ABOVE_0 = Rule("a number above 0", lambda value: _is_number(value) and 0 < value < float("inf"))
TRUTH = Rule("true or false", lambda value: isinstance(value, bool))
TABLE = Rule("a table", lambda value: isinstance(value, dict))
TRUTH_OR_TABLE = Rule("true, false or a table", lambda value: isinstance(value, bool | dict))
TABLES = Rule("a table or a list of tables", lambda value: TABLE.accepts(value) or _is_list(value, TABLE.accepts))
COLUMNS = Rule(
    "a list of names and numbers of features",
    lambda value: _is_list(value, lambda column: _is_text(column) or (_is_integer(column) and column > 0)),
)
SIZE = Rule(
    "a number of queries, or a fraction such as 0.5",
    lambda value: _is_integer(value) or (_is_number(value) and 0 <= value < 1),
)
EMPTY = Rule('0, 1 or "skip"', lambda value: value in (0, 1, "skip") and not isinstance(value, bool | float))
"""What the values of keys may be: rules as those of the parameters of methods."""


class Problems:
    """Collects the mistakes in a file, each with its line, instead of stopping at the first.

    They are recorded for a place in the file, or for keys below it.
    """

    def __init__(
        self, lines: dict[Place, int], path: str | Path, place: Place = (), found: list[InputError] | None = None
    ) -> None:
        self._lines, self._path, self._place = lines, path, place
        self._found: list[InputError] = [] if found is None else found

    def __len__(self) -> int:
        """The number of all mistakes, at every place."""
        return len(self._found)

    @property
    def found(self) -> list[InputError]:
        """All mistakes, in the order of their lines."""
        return sorted(self._found, key=lambda problem: problem.line or 0)

    def at(self, *keys: str | int) -> Problems:
        """The same collection, for a place below this one."""
        return Problems(self._lines, self._path, (*self._place, *keys), self._found)

    def add(self, message: str, *keys: str | int) -> None:
        self._found.append(InputError(message, self._path, line_of(self._lines, (*self._place, *keys))))

    def table(
        self, value: Any, rules: Mapping[str, Rule], title: str, nouns: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The entries of a table that have a known key and a value of the right kind; records the others.

        A value that should be one of some names is kept whatever it is; ``nouns`` says what these are, if not the key.
        """
        if not isinstance(value, dict):
            self.add(f"{title} is {shown(value)}; expected a table")
            return {}
        kept = {}
        for key, entry in value.items():
            rule = rules.get(key)
            if rule is None:
                self.add(f"unknown key {shown(key)} in {title}; {nearest(key[:100], rules)}", key)
            elif not rule.accepts(entry):
                self.add(f"{key} is {shown(entry)}; expected {rule.expected}", key)
            else:
                kept[key] = entry
                entries = entry if isinstance(entry, list) else [entry]
                for number, name in enumerate(entries if rule.names else ()):
                    self.choice(name, rule.names, (nouns or {}).get(key, key), key, number)
        return kept

    def choice(self, value: str, names: Iterable[str], noun: str, *keys: str | int) -> bool:
        """Whether a value is one of the known ones; records a mistake if not."""
        names = list(names)
        if value in names:
            return True
        self.add(f"unknown {noun} {shown(value)}; {nearest(str(value)[:100], names)}", *keys)
        return False


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint: the closest known name, or all of them."""
    names = list(names)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"expected one of {', '.join(names)}"


class _Scanner:
    """Records line numbers while walking through valid TOML."""

    def __init__(self, tokens: list[tuple[str, int]]) -> None:
        self.lines: dict[Place, int] = {}
        self._tokens = tokens
        self._at = 0
        self._lists: dict[Place, int] = {}  # tables seen so far in each list of tables
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
        """`[a.b]` or `[[a.b]]`; the name of a list refers to its last table."""
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
        opening = self._peek()
        if opening not in ("{", "["):
            while self._peek() and self._peek() not in _ENDS:
                self._next()
            return
        self._next()
        self._skip("\n", ",")
        number = 0
        while self._peek() not in ("}", "]"):
            if opening == "{":
                self._entry(place)
            else:
                self.lines.setdefault((*place, number), self._tokens[self._at][1])
                self._value((*place, number))
                number += 1
            self._skip("\n", ",")
        self._next()
