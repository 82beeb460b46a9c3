"""What is wrong with an experiment file: collected, each with its line, instead of ending at the first."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rankwright.errors import InputError
from rankwright.experiments.toml_lines import Place, line_of

__all__ = ["KINDS", "Problems", "nearest"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


KINDS: dict[str, Callable[[Any], bool]] = {
    "a text": lambda value: isinstance(value, str),
    "a whole number": _is_whole,
    "a whole number from 1": lambda value: _is_whole(value) and value >= 1,
    "a whole number from 2": lambda value: _is_whole(value) and value >= 2,
    "a whole number from 0": lambda value: _is_whole(value) and value >= 0,
    "a number": _is_number,
    "true or false": lambda value: isinstance(value, bool),
    "a list of texts": _is_texts,
    "a text or a list of texts": lambda value: isinstance(value, str) or _is_texts(value),
    "a table": lambda value: isinstance(value, dict),
    "a number of queries, or a share such as 0.5": lambda value: (
        _is_whole(value) or (_is_number(value) and 0 <= value < 1)
    ),
    '0, 1 or "skip"': lambda value: value in (0, 1, "skip") and not isinstance(value, bool | float),
}
"""What a key can be asked to hold, in words."""


class Problems:
    """Mistakes of one file."""

    def __init__(self, lines: dict[Place, int], path: str | Path) -> None:
        self._lines, self._path = lines, path
        self._found: list[InputError] = []

    @property
    def found(self) -> list[InputError]:
        """All of them, from the top of the file to its end."""
        return sorted(self._found, key=lambda problem: problem.line or 0)

    def add(self, place: Place, message: str) -> None:
        """Note a mistake."""
        self._found.append(InputError(message, self._path, line_of(self._lines, place)))

    def table(self, value: Any, place: Place, kinds: Mapping[str, str], title: str) -> dict[str, Any]:
        """The entries of a table that are known and of the right kind; all others are noted."""
        if not isinstance(value, dict):
            self.add(place, f"{title} is {value!r}; expected a table")
            return {}
        kept = {}
        for key, entry in value.items():
            if key not in kinds:
                self.add((*place, key), f"unknown key {key!r} in {title}; {nearest(key, kinds)}")
            elif not KINDS[kinds[key]](entry):
                self.add((*place, key), f"{key} is {entry!r}; expected {kinds[key]}")
            else:
                kept[key] = entry
        return kept

    def choice(self, value: Any, place: Place, known: Iterable[str], what: str) -> bool:
        """Whether a value is one of some; noted if it is not."""
        known = list(known)
        if value in known:
            return True
        self.add(place, f"unknown {what} {value!r}; {nearest(str(value), known)}")
        return False


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was meant, or else all that there are."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
