"""Figures as data: tables of raw numbers, how they are shown, and one JSON file for all figures of a study.

``results/NAME.json`` says what was run, with which version, on which code and data (hashes), in how much CPU time, and
has the tables and single values. Pages are made from these files (`page_templates.py`).
"""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from code_hash import ROOT, code_of
from rankwright import __version__
from rankwright.errors import InputError
from rankwright.io.files import replace_file

__all__ = [
    "RESULTS",
    "Results",
    "Table",
    "file_hash",
    "fixed",
    "markdown",
    "marked",
    "p_text",
    "percent",
    "read_results",
    "result_files",
    "short",
    "signed",
    "table",
    "times",
    "write_results",
]

RESULTS = ROOT / "results"
SCHEMA = 1
DIGITS = 6  # that are kept of a number
_NUMBER = re.compile(r"\**[+−-]?\.?\d")  # what a cell begins with that stands on the right


# How numbers are shown


def short(value: float, digits: int = 4) -> str:
    """Format a value of a measure: .4527."""
    return f"{value:.{digits}f}".removeprefix("0")


def signed(value: float, digits: int = 4) -> str:
    """Format a difference: +.0045, −.0262."""
    return ("−" if value <= -0.5 * 10**-digits else "+") + short(abs(value), digits)


def marked(value: float, best: float) -> str:
    """Format a value, in bold if it equals the best of its column to the digits shown."""
    return f"**{short(value)}**" if short(value) == short(best) else short(value)


def p_text(p: float) -> str:
    """Format a p-value: 1, .043, 2e-5."""
    if p >= 0.995:
        return "1"
    return f"{p:.2g}".removeprefix("0") if p >= 1e-3 else f"{p:.0e}".replace("e-0", "e-")


def times(value: float) -> str:
    """Format a ratio of times: 1.7×."""
    return f"{value:.1f}×"


def percent(value: float) -> str:
    """Format a share: 45.5 %."""
    return f"{100 * value:.1f} %"


def fixed(digits: int) -> Callable[[float], str]:
    """Format a number with so many digits after the point, and a comma for thousands."""
    return lambda value: f"{value:,.{digits}f}"


FORMATS: dict[str, Callable[[Any], str]] = {
    "": str,
    "short": short,
    "signed": signed,
    "p": p_text,
    "times": times,
    "percent": percent,
    "integer": fixed(0),
    **{f"{digits} digits": fixed(digits) for digits in range(1, 5)},
    "2 significant": lambda value: f"{value:.2g}",
}
"""Formats of columns, by the names that the files use."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], rule: Sequence[str] | None = None) -> str:
    """Format a Markdown table."""
    lines = [head, rule or ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


# Tables of numbers


@dataclass(frozen=True)
class Table:
    """A table of raw numbers.

    `name`: in the file. `head`: names of the columns. `rows`: text, numbers, or None for what is missing; the first
    columns identify a row. `formats`: how numbers are shown, by name (see `FORMATS`); one for all, or one a column.
    """

    name: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    formats: str | Sequence[str] = ""

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.head)]
        if wrong:
            raise ValueError(f"table {self.name!r}: {len(wrong[0])} cells in a row; expected {len(self.head)}")
        formats = self.column_formats
        unknown = [form for form in formats if form not in FORMATS]
        if unknown or len(formats) != len(self.head):
            raise ValueError(f"table {self.name!r}: formats {formats}; expected one a column, of {', '.join(FORMATS)}")

    @property
    def column_formats(self) -> list[str]:
        """The format of every column; none for text."""
        return [self.formats] * len(self.head) if isinstance(self.formats, str) else list(self.formats)

    def __getitem__(self, place: tuple[str, ...]) -> Any:
        """Return a cell: ``table["OHSUMED", "SVMmap", "AP"]``, the first columns of its row and the name of its own."""
        *keys, column = place
        found = self.select(*keys).column(column)
        if len(found) != 1:
            raise KeyError(f"table {self.name!r}: {len(found)} rows begin with {', '.join(keys)}; expected one")
        return found[0]

    def column(self, name: str, *keys: str) -> list[Any]:
        """Return a column, of the rows that begin with the keys."""
        if name not in self.head:
            raise KeyError(f"table {self.name!r}: no column {name!r}; expected one of {', '.join(self.head)}")
        at = list(self.head).index(name)
        return [row[at] for row in self.select(*keys).rows]

    def select(self, *keys: str) -> Table:
        """Return the rows that begin with the keys."""
        return self.of([row for row in self.rows if tuple(row[: len(keys)]) == keys])

    def where(self, keep: Callable[[dict[str, Any]], bool]) -> Table:
        """Return the rows for which a condition on their cells by column holds."""
        return self.of([row for row in self.rows if keep(dict(zip(self.head, row, strict=True)))])

    def of(self, rows: Sequence[Sequence[Any]]) -> Table:
        """Return a table with other rows."""
        return Table(self.name, self.head, rows, self.formats)

    def columns(self, *names: str, formats: str | Sequence[str] | None = None) -> Table:
        """Return some columns, in this order, perhaps with other formats."""
        places = [list(self.head).index(name) for name in names]
        own = [self.column_formats[at] for at in places]
        return Table(self.name, names, [[row[at] for at in places] for row in self.rows], formats or own)

    def renamed(self, **names: str) -> Table:
        """Return the table with other names for some columns."""
        return Table(self.name, [names.get(name, name) for name in self.head], self.rows, self.formats)

    def spread(self, rows: str, columns: str, value: str, form: str | None = None) -> Table:
        """Return a table with a row for every value of one column and a column for every value of another."""
        across = list(dict.fromkeys(map(str, self.column(columns))))
        cells: dict[str, dict[str, Any]] = {}
        for row, column, cell in zip(self.column(rows), self.column(columns), self.column(value), strict=True):
            cells.setdefault(str(row), {})[str(column)] = cell
        kept = form or self.column_formats[list(self.head).index(value)]
        spread = [[name, *(found.get(column) for column in across)] for name, found in cells.items()]
        return Table(self.name, [rows, *across], spread, ["", *[kept] * len(across)])

    def texts(self) -> list[list[str]]:
        """Return the cells as they are shown."""
        return [[shown(cell, form) for cell, form in zip(row, self.column_formats, strict=True)] for row in self.rows]

    def __str__(self) -> str:
        return markdown(self)


def shown(cell: Any, form: str) -> str:
    """Format a cell; text and what is missing have no format."""
    return "" if cell is None else FORMATS[form](cell) if isinstance(cell, Real) else str(cell)


def markdown(shown_table: Table, bold: Sequence[str] = (), by: str | None = None) -> str:
    """Format a table as Markdown, the highest value of some columns in bold, for every value of the column ``by``."""
    texts, head = shown_table.texts(), list(shown_table.head)
    groups = [None] * len(texts) if by is None else shown_table.column(by)
    for at in (head.index(name) for name in bold):
        for group in dict.fromkeys(groups):
            rows = [row for row, own in enumerate(groups) if own == group and shown_table.rows[row][at] is not None]
            best = texts[max(rows, key=lambda row: shown_table.rows[row][at])][at] if rows else ""
            for row in rows:
                texts[row][at] = f"**{best}**" if texts[row][at] == best else texts[row][at]
    columns = list(zip(*texts, strict=True)) or [()] * len(head)
    numbers = [at > 0 and all(map(_NUMBER.match, filter(None, column))) for at, column in enumerate(columns)]
    return table(head, texts, ["---:" if is_number else "---" for is_number in numbers])


# Files


@dataclass(frozen=True)
class Results:
    """The figures of a study or an experiment, and where they come from.

    `name`: of the script or experiment. `command`: what was run. `versions`: of Rankwright and what it computes with.
    `code`, `data`: hashes of the files that can move the figures, by path. `cpu_seconds`: CPU time. `tables`, `values`:
    the figures.
    """

    name: str
    command: str
    versions: Mapping[str, str]
    code: Mapping[str, str]
    data: Mapping[str, str]
    cpu_seconds: float
    tables: Mapping[str, Table] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Table:
        """Return a table by name."""
        if name not in self.tables:
            raise KeyError(f"{self.name} has no table {name!r}; expected one of {', '.join(self.tables)}")
        return self.tables[name]

    def changed(self) -> list[str]:
        """Return the files that can move the figures and are not what they were when these were computed."""
        now = code_of(self.name)
        return sorted(path for path in {*now, *self.code} if now.get(path) != self.code.get(path))

    def changed_data(self, root: Path) -> list[str]:
        """Return the data files in a folder that are not what they were."""
        return [path for path, digest in self.data.items() if file_hash(root / path) != digest]


def result_files() -> list[Path]:
    """Return all files of figures."""
    return sorted(RESULTS.glob("*.json"))


def read_results(name: str) -> Results:
    """Read ``results/NAME.json``."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise InputError(f"no such file; expected figures, made by: python benchmarks/results.py run {name}", path)
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        if read.pop("schema") != SCHEMA:
            raise ValueError(f"schema is not {SCHEMA}")
        tables = {key: Table(key, **entry) for key, entry in read.pop("tables").items()}
        return Results(name, tables=tables, **read)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"not a file of figures ({error})", path) from None


def write_results(
    path: Path,
    *,
    command: str,
    code: Mapping[str, str],
    data: Mapping[str, str],
    cpu_seconds: float,
    tables: Iterable[Table],
    values: Mapping[str, Any] | None = None,
) -> None:
    """Write the figures of a study or an experiment, whole or not at all."""
    listed: dict[str, Any] = {}
    for one in tables:
        if one.name in listed:
            raise ValueError(f"two tables are called {one.name!r}; expected a name of its own for each")
        formats = one.formats if isinstance(one.formats, str) else list(one.formats)
        listed[one.name] = {
            "head": list(one.head),
            "formats": formats,
            "rows": [list(map(kept, row)) for row in one.rows],
        }
    content = {
        "schema": SCHEMA,
        "command": command,
        "versions": versions(),
        "cpu_seconds": kept(round(cpu_seconds, 1)),
        "code": dict(sorted(code.items())),
        "data": dict(sorted(data.items())),
        "values": {key: kept(value) for key, value in (values or {}).items()},
        "tables": listed,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as out:
        out.write(("".join(_json(content)) + "\n").encode())


def versions() -> dict[str, str]:
    """Return the versions of what computes."""
    import numba
    import numpy as np

    python = platform.python_version()
    return {"rankwright": __version__, "python": python, "numpy": np.__version__, "numba": numba.__version__}


def kept(value: Any) -> Any:
    """Return a value as the file has it: numbers rounded, None for those that are not finite."""
    if isinstance(value, list | tuple):
        return [kept(item) for item in value]
    if isinstance(value, dict):
        return {str(key): kept(item) for key, item in value.items()}
    if value is None or isinstance(value, str | bool | int):
        return value
    number = float(value)  # numpy's as well
    if not math.isfinite(number):
        return None
    rounded = float(f"{number:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 10**DIGITS else rounded


def _json(value: Any, indent: str = "") -> Iterator[str]:
    """JSON with one line for a row of numbers, and one for every hash."""
    nested = isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
    if not value or not (nested or isinstance(value, dict)):
        yield json.dumps(value, ensure_ascii=False)
        return
    start, end = "{}" if isinstance(value, dict) else "[]"
    items = value.items() if isinstance(value, dict) else [(None, item) for item in value]
    for number, (key, item) in enumerate(items):
        yield (",\n" if number else f"{start}\n") + indent + " "
        yield "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
        yield from _json(item, indent + " ")
    yield f"\n{indent}{end}"


def file_hash(path: Path) -> str | None:
    """Return the start of the SHA-256 of a file, or of all files of a folder; None if there is none."""
    from rankwright.experiments.preparing import file_hashes

    found: str | None = file_hashes({"": path})[""]["sha256"][:16] if path.exists() else None
    return found
