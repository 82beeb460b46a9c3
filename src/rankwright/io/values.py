"""What the text of a cell stands for: a number, yes or no, a date; and what a whole column of them holds.

One rule for text, JSON, sheets, Parquet and data frames: a column whose values are all ``yes``, ``no``, ``true`` or
``false`` holds 1 and 0, and one of dates holds days since 1970-01-01 (UTC), which is said. Dates are written as in ISO
8601, also with ``/``, or as 31.05.2024; others, such as 5/31/2024, could be read in two ways and stay texts.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from rankwright.errors import InputError, InputWarning
from rankwright.io.roles import MISSING

Reader = Callable[[str], float | None]
"""Gives the number that a cell stands for; None if it is not of its kind."""

_TRUTHS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_ISO = re.compile(r"([0-9]{4})([-/])([0-9]{2})\2([0-9]{2})((?:[T ].+)?)")
_DAY_FIRST = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
_OTHER_DATE = re.compile(r"[0-9]{1,2}[/-][0-9]{1,2}[/-][0-9]{2,4}(?: .*)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")
_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)
_REMEMBERED = 1 << 14


def is_missing(value: object) -> bool:
    """Whether a value is missing: None, NaN, or a text such as an empty cell, ``NA`` and ``null``.

    Examples
    --------
    >>> is_missing(" NA "), is_missing(None), is_missing(float("nan")), is_missing(0)
    (True, True, True, False)
    """
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return value is None or bool(isinstance(value, float) and value != value)


def number_in(cell: str) -> float | None:
    """A number as programs write it (Python's own ``1_000`` is none), or ``true`` or ``false`` as 1 or 0."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(cell.lower())


def number_or_comma_in(cell: str) -> float | None:
    """A number, also with a decimal comma, as in tables with semicolons.

    Examples
    --------
    >>> number_or_comma_in("-1,5"), number_or_comma_in("2.5"), number_or_comma_in("1.000,5")
    (-1.5, 2.5, None)
    """
    return float(cell.replace(",", ".")) if has_decimal_comma(cell) else number_in(cell)


def has_decimal_comma(cell: str) -> bool:
    return "," in cell and _DECIMAL_COMMA.fullmatch(cell) is not None


def truth_in(cell: str) -> float | None:
    return _TRUTHS.get(cell.lower())


@lru_cache(_REMEMBERED)
def days_in(cell: str) -> float | None:
    """The days since 1970 of a date, with or without a time.

    Examples
    --------
    >>> days_in("1970-01-03"), days_in("1970-01-03T12:00Z"), days_in("3.1.1970"), days_in("3/1/1970")
    (2.0, 2.5, 2.0, None)
    """
    iso, day_first = _ISO.fullmatch(cell), _DAY_FIRST.fullmatch(cell)
    try:
        if iso is not None:
            return days_of(datetime.fromisoformat(f"{iso[1]}-{iso[3]}-{iso[4]}{iso[5]}"))
        if day_first is not None:
            return days_of(datetime(int(day_first[3]), int(day_first[2]), int(day_first[1])))
    except ValueError:
        pass
    return None


def days_of(moment: datetime) -> float:
    """Days since 1970; a time without a zone is UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) / _DAY


READERS: dict[str, Reader] = {"number": number_in, "truth": truth_in, "date": days_in}
"""How the cells of a column are read, by what it holds; the first that fits all of them counts."""

SPECIAL = {kind: READERS[kind] for kind in ("truth", "date")}
"""Those of texts that are no categories."""


def special_in(text: str) -> float | str:
    """The number of a date, or of yes and no; another text unchanged."""
    numbers = (read(text.strip()) for read in SPECIAL.values())
    return next((number for number in numbers if number is not None), text)


def kinds_of_cells(
    names: Iterable[str], cells: Iterable[tuple[str, str]], readers: Mapping[str, Reader] = READERS
) -> dict[str, str]:
    """What columns hold: a key of ``READERS`` if all cells with a value are of that kind, else ``text``.

    A column without any value is left out. ``cells`` come with the names of their columns, and no more of them are
    taken than it needs.

    Examples
    --------
    >>> kinds_of_cells(["title", "name"], [("title", "7.5"), ("name", "12"), ("name", "Ann"), ("name", "13")])
    {'title': 'number', 'name': 'text'}
    """
    fitting = {name: list(readers) for name in names}
    filled: set[str] = set()
    for name, cell in cells:
        if fitting[name] and not is_missing(cell):
            filled.add(name)
            fitting[name] = [kind for kind in fitting[name] if readers[kind](cell.strip()) is not None]
            if not any(fitting.values()):
                break
    return {name: kinds[0] if kinds else "text" for name, kinds in fitting.items() if name in filled}


def warn_of_dates(values: Mapping[str, str], path: str | Path) -> None:
    """Say which columns hold dates, and what they became; ``values``: what columns hold."""
    for name, kind in values.items():
        if kind == "date":
            note = f"the column {name!r} holds dates and became days since 1970-01-01"
            warnings.warn(f"{path}: {note}; --columns skip={name} leaves it out", InputWarning, stacklevel=3)


def warn_of_other_dates(name: str, texts: Iterable[str], path: str | Path) -> None:
    """Say of a column of categories that it probably holds dates, in a form that can be read in two ways."""
    first = next(iter(texts), "")
    if _OTHER_DATE.fullmatch(first):
        note = f"the column {name!r} seems to hold dates, such as {first!r}, and became categories"
        remedy = f"write them as 2024-05-31 to have days, or leave it out: --columns skip={name}"
        warnings.warn(f"{path}: {note}; {remedy}", InputWarning, stacklevel=3)


def grade_of(value: object, grades: Mapping[str, float]) -> float | None:
    """The number of a grade that is a word."""
    return grades.get(value.strip().lower()) if grades and isinstance(value, str) else None


def bad_grade(name: str, seen: Iterable[object], grades: Mapping[str, float]) -> InputError:
    """The error of labels that are words: what they are, and the option that gives them numbers."""
    words = list(dict.fromkeys(str(word).strip() for word in seen))
    listed = ", ".join(map(repr, words[:8])) + (", …" if len(words) > 8 else "")
    if grades:
        return InputError(f"{name} is {listed}; expected a number, or a word that --grades has: {', '.join(grades)}")
    example = ",".join(f"{word.lower()}=NUMBER" for word in words[:3])
    remedy = f"name their numbers: --grades {example}{',…' if len(words) > 3 else ''}"
    return InputError(f"{name} has words ({listed}); expected labels that are numbers, such as 0 to 4, or {remedy}")
