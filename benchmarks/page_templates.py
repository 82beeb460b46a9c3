"""Makes pages of the documentation from templates and figures, so that a page cannot say what was not run.

``results/pages/papers/kdd08.md`` becomes ``docs/papers/kdd08.md``. In a template ``{{ short(means["OHSUMED", "SVMmap",
"AP"]) }}`` is a Python expression, which makes text, a whole number or a table, and ``{% kdd = results("kdd08") %}`` is
Python that names something for later. Both know the names that `names` lists. What a sentence says about figures is
computed as well: ``{{ number(grid.count_best("McRank")) }}``, ``{{ holds(low > 0) }}``.
"""

from __future__ import annotations

import re
import statistics
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import figures
from code_hash import ROOT
from figures import RESULTS, Results, Table, read_results, short
from rankwright.errors import InputError

__all__ = ["PAGES", "Grid", "page_of", "rendered"]

PAGES = RESULTS / "pages"
_PLACE = re.compile(r"\{%(?P<code>.*?)%\}\n?|\{\{(?P<expression>.*?)\}\}", re.DOTALL)
_NOT_FINITE = re.compile(r"(?<!\w)(nan|inf)(?!\w)")
_WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_BUILTINS: tuple[Any, ...] = (
    *(abs, all, any, dict, enumerate, float, int, len, list, map, max, min, range, round, set, sorted, str, sum, zip),
)


@dataclass(frozen=True)
class Grid:
    """Values of methods in columns, to say which is best.

    `values`: by method, then by column: a data set and a measure. Values are equal if they are to the digits shown.
    """

    values: dict[str, dict[tuple[str, str], float]]

    @classmethod
    def of(cls, table: Table) -> Grid:
        """Take a table with columns data and method, and one column a measure (those shown as ``short``)."""
        short_ones = [name for name, form in zip(table.head, table.column_formats, strict=True) if form == "short"]
        measures = [name for name in short_ones if isinstance(table.column(name)[0], Real)]
        values: dict[str, dict[tuple[str, str], float]] = {}
        for data, method in zip(table.column("data"), table.column("method"), strict=True):
            values.setdefault(method, {}).update({(data, name): table[data, method, name] for name in measures})
        return cls(values)

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The columns: data set and measure."""
        return list(next(iter(self.values.values())))

    def only(self, methods: Iterable[str] = (), data: str | None = None, measure: str | None = None) -> Grid:
        """Return some methods, or the columns of one data set or one measure."""
        methods = list(methods) or list(self.values)
        columns = [column for column in self.columns if data in (None, column[0]) and measure in (None, column[1])]
        return Grid({method: {column: self.values[method][column] for column in columns} for method in methods})

    def best(self, column: tuple[str, str]) -> set[str]:
        """Return the methods that are best in a column."""
        found = {method: float(short(values[column])) for method, values in self.values.items()}
        return {method for method, value in found.items() if value == max(found.values())}

    def best_in(self, *methods: str) -> list[tuple[str, str]]:
        """Return the columns in which one of the methods is best."""
        return [column for column in self.columns if self.best(column) & set(methods)]

    def count_best(self, *methods: str) -> int:
        """Return the number of columns in which one of the methods is best."""
        return len(self.best_in(*methods))

    def difference(self, method: str, other: str) -> list[float]:
        """Return by how much a method is above another, in every column."""
        return [value - self.values[other][column] for column, value in self.values[method].items()]

    def behind(self, *methods: str) -> list[float]:
        """Return by how much methods are below the best of a column, in every column."""
        best = {column: max(values[column] for values in self.values.values()) for column in self.columns}
        return [best[column] - self.values[method][column] for method in methods for column in self.columns]


# What templates may use


def number(count: int) -> str:
    """Return a number as in a sentence: a word up to twelve."""
    return _WORDS[count] if 0 <= count < len(_WORDS) else f"{count:,}"


def span(values: Iterable[float], form: Callable[[float], str] = short) -> str:
    """Return the lowest and the highest value: .0023 to .0026; one of them if they are equal to the digits shown."""
    values = list(values)
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def listed(words: Iterable[str], last: str = "and") -> str:
    """Return words as a list in a sentence: OHSUMED, MQ2008 and cran; none if there are none."""
    words = list(words)
    return f" {last} ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part) or "none"


def holds(is_so: bool, yes: str = "holds", no: str = "does not hold") -> str:
    """Return the verdict on a claim."""
    return yes if is_so else no


def spent(seconds: float) -> str:
    """Return a time in words: 83 s, 12 minutes."""
    return f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 60:,.0f} minutes"


def names(used: dict[str, Results | None]) -> dict[str, Any]:
    """Return what templates may use.

    ``results(NAME)`` reads figures, ``page("papers/kdd08.md").combo`` is what another template calls ``combo``.
    ``by_hand(NAME, …)`` says that figures of these studies still stand in the text as someone wrote them. What is read
    or by hand is noted in ``used``, for the last line of the page.
    """

    def results(name: str) -> Results:
        found = used[name] = used.get(name) or read_results(name)
        return found

    def page(path: str) -> SimpleNamespace:
        others: dict[str, Results | None] = {}
        found = filled(PAGES / path, others)[1]
        used.update({name: one for name, one in others.items() if one is not None})
        return SimpleNamespace(**found)

    def by_hand(*studies: str) -> None:
        used.update(dict.fromkeys(studies))

    shared: Sequence[Any] = (Table, Grid, number, span, listed, holds, spent)
    formats = (figures.short, figures.signed, figures.p_text, figures.times, figures.percent, figures.fixed)
    own = {thing.__name__: thing for thing in (*shared, *formats, figures.markdown)}
    builtins = {thing.__name__: thing for thing in _BUILTINS} | {"True": True, "False": False, "None": None}
    return {
        "__builtins__": builtins,
        "results": results,
        "page": page,
        "by_hand": by_hand,
        "mean": statistics.fmean,
        **own,
    }


# Pages


def page_of(template: Path) -> Path:
    """Return the page that a template becomes."""
    return ROOT / "docs" / template.relative_to(PAGES)


def rendered(template: Path) -> str:
    """Return the page that a template and the figures make now."""
    used: dict[str, Results | None] = {}
    body = filled(template, used)[0].strip("\n")
    made_from = template.relative_to(ROOT).as_posix()
    return f"<!-- made from {made_from}; edit that -->\n\n{body}\n\n{origin(used)}\n"


def filled(template: Path, used: dict[str, Results | None]) -> tuple[str, dict[str, Any]]:
    """Return the text of a template with figures, and all names that it knows in the end."""
    if not template.is_file():
        raise InputError("no such template; expected one", template)
    text = template.read_text(encoding="utf-8")
    known = names(used)

    def fill(place: re.Match[str]) -> str:
        line = text.count("\n", 0, place.start()) + 1
        code, expression = place["code"], place["expression"]
        try:
            if code is not None:
                exec(compile("\n" * (line - 1) + textwrap.dedent(code).strip("\n"), str(template), "exec"), known)
                return ""
            value = eval(expression.strip(), known)
            if not isinstance(value, str | int | Table):
                raise TypeError(f"{value!r} is not text, a whole number or a table; format it, as with short()")
        except InputError:
            raise
        except Exception as error:
            what = " ".join((code or expression).split())
            raise InputError(f"{what[:80]}: {type(error).__name__}: {error}", template, line) from error
        shown = str(value).rstrip("\n")
        if _NOT_FINITE.search(shown):
            raise InputError(f"{expression.strip()} shows nan or inf; expected numbers", template, line)
        return shown

    return _PLACE.sub(fill, text), known


def origin(used: Mapping[str, Results | None]) -> str:
    """Return the line that says which figures a page has, and whether the code that moves them has changed since."""
    groups: dict[str, list[str]] = {}
    for name, one in used.items():
        if one is not None:
            changed = one.changed()
            more = f" and {len(changed) - 1} more" * (len(changed) > 1)
            state = f"older than `{changed[0]}`{more}, run `make results`" if changed else "of the code as it is"
            file = f"`results/{name}.json` ({spent(one.cpu_seconds)})"
            groups.setdefault(f"version {one.versions['rankwright']}, {state}", []).append(file)
    says = [f"Figures of {group}; CPU time in brackets: {listed(files)}." for group, files in groups.items()]
    by_hand = [f"`benchmarks/{name}.py`" for name, one in used.items() if one is None]
    if by_hand:
        says.append(f"Written by hand, not checked: those of {listed(by_hand)}.")
    return f"*{' '.join(says)}*"
