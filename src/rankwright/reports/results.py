"""The plain files of a results folder, read into tables.

``manifest.json``: what was run. ``per_query.csv``: data, split, method, query, measure, value. ``runs.csv``: one row
per data, split and method. Optional: ``queries.csv`` (texts), ``paths.csv`` (points tried on validation data),
``rounds.csv`` (validation data after every round of boosting) and ``health.csv`` (how training fared along C). Columns
that are not needed may be missing, and others may be there.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwright.errors import InputError

__all__ = ["HEALTH_COLUMNS", "Health", "PathPoint", "Query", "Results", "Round", "Run", "Score", "read_results"]

HEALTH_COLUMNS = {
    "slack_ratio": "average slack / that at weights of 0",
    "slack": "average slack",
    "objective_ratio": "objective / that at weights of 0",
    "objective_per_C": "objective / C",
    "norm": "length of the weights ‖w‖",
    "passes": "passes over the data",
    "gap": "gap that was proved",
}
"""Columns of ``health.csv`` that are drawn, with their names in words."""

_FIGURES = ("validation", "training", "seconds_train", "seconds_tune", "n_train_queries")


@dataclass(frozen=True)
class Score:
    """The value of one measure on one query."""

    data: str
    split: str
    method: str
    query: str
    measure: str
    value: float


@dataclass(frozen=True)
class Run:
    """One training: what was chosen, how it fared on validation and training data, and how long it took."""

    data: str
    split: str
    method: str
    parameters: dict[str, Any]
    validation: float
    training: float
    seconds_train: float
    seconds_tune: float
    n_train_queries: float
    note: str


@dataclass(frozen=True)
class Query:
    """What a query asks, and of which kind it is."""

    text: str
    kind: str


@dataclass(frozen=True)
class PathPoint:
    """One point of a grid, and its value on validation data."""

    data: str
    split: str
    method: str
    point: dict[str, Any]
    validation: float


@dataclass(frozen=True)
class Round:
    """The value on validation data after one round."""

    data: str
    method: str
    number: int
    validation: float


@dataclass(frozen=True)
class Health:
    """One fit of a path of C values; figures by the names of ``HEALTH_COLUMNS``."""

    data: str
    method: str
    C: float
    figures: dict[str, float]


@dataclass(frozen=True)
class Results:
    """All that the files of a folder say."""

    folder: Path
    manifest: dict[str, Any]
    scores: tuple[Score, ...]
    runs: tuple[Run, ...] = ()
    queries: dict[tuple[str, str], Query] | None = None
    paths: tuple[PathPoint, ...] = ()
    rounds: tuple[Round, ...] = ()
    health: tuple[Health, ...] = ()


def read_results(folder: str | Path) -> Results:
    """Read a results folder.

    Raises
    ------
    InputError
        Where the folder, ``per_query.csv`` or one of its columns is missing, or a file cannot be understood.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError("is no folder; expected the results of an experiment", folder)
    if not (folder / "per_query.csv").is_file():
        raise InputError("has no per_query.csv; expected the results of an experiment", folder)
    scores = tuple(_scores(folder / "per_query.csv"))
    if not any(math.isfinite(score.value) for score in scores):
        raise InputError("has no values; expected at least one query", folder / "per_query.csv")
    queries = {(one, query): Query(text, kind) for one, query, text, kind in _queries(folder / "queries.csv")}
    return Results(
        folder,
        _manifest(folder / "manifest.json"),
        scores,
        tuple(_runs(folder / "runs.csv")),
        queries,
        tuple(_paths(folder / "paths.csv")),
        tuple(_rounds(folder / "rounds.csv")),
        tuple(_health(folder / "health.csv")),
    )


def _manifest(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None
    except ValueError as error:
        raise InputError(f"is no JSON ({error}); expected the manifest of an experiment", path) from None
    if not isinstance(found, dict):
        raise InputError(f"is a {type(found).__name__}; expected a JSON object", path)
    return found


def _scores(path: Path) -> Iterator[Score]:
    for line, row in _rows(path, ("method", "query", "measure", "value")):
        value = _number(row["value"], "value", path, line)
        yield Score(row.get("data", ""), row.get("split", ""), row["method"], row["query"], row["measure"], value)


def _runs(path: Path) -> Iterator[Run]:
    for line, row in _rows(path, ("method",), optional=True):
        figure = {name: _number(row.get(name, ""), name, path, line) for name in _FIGURES}
        yield Run(
            row.get("data", ""),
            row.get("split", ""),
            row["method"],
            _object(row.get("parameters", ""), "parameters", path, line),
            **figure,
            note=row.get("note", "").strip(),
        )


def _queries(path: Path) -> Iterator[tuple[str, str, str, str]]:
    for _, row in _rows(path, ("query",), optional=True):
        yield row.get("data", ""), row["query"], row.get("text", ""), row.get("kind", "")


def _paths(path: Path) -> Iterator[PathPoint]:
    for line, row in _rows(path, ("method",), optional=True):
        point = _object(row.get("parameters", ""), "parameters", path, line)
        value = _number(row.get("validation", ""), "validation", path, line)
        yield PathPoint(row.get("data", ""), row.get("split", ""), row["method"], point, value)


def _rounds(path: Path) -> Iterator[Round]:
    for line, row in _rows(path, ("method", "round", "validation"), optional=True):
        number, value = (_number(row[name], name, path, line) for name in ("round", "validation"))
        if math.isfinite(number) and math.isfinite(value):
            yield Round(row.get("data", ""), row["method"], int(number), value)


def _health(path: Path) -> Iterator[Health]:
    for line, row in _rows(path, ("C",), optional=True):
        figures = {name: _number(row.get(name, ""), name, path, line) for name in (*HEALTH_COLUMNS, "objective")}
        C = _number(row["C"], "C", path, line)
        if C > 0 and "objective_ratio" not in row:  # at weights of 0 it is C times the mean loss, which is 1 or near it
            figures["objective_per_C"] = figures["objective"] / C
        del figures["objective"]
        yield Health(
            row.get("data", ""),
            row.get("method", row.get("loss", "")),
            C,
            {name: value for name, value in figures.items() if math.isfinite(value)},
        )


def _rows(path: Path, needed: Sequence[str], *, optional: bool = False) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows by the names of their columns, with the line on which they end."""
    if optional and not path.is_file():
        return
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            missing = [name for name in needed if name not in header]
            if missing:
                raise InputError(f"has no column {missing[0]!r}; expected {', '.join(needed)}", path, 1)
            for fields in reader:
                if not fields:
                    continue
                if len(fields) != len(header):
                    raise InputError(f"{len(fields)} fields; expected {len(header)}", path, reader.line_num)
                yield reader.line_num, dict(zip(header, fields, strict=True))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None
    except UnicodeDecodeError:
        raise InputError("is no UTF-8 text; expected a CSV file", path) from None
    except csv.Error as error:
        raise InputError(f"is no CSV ({error})", path) from None


def _number(text: str, name: str, path: Path, line: int) -> float:
    """A number; nan for an empty field."""
    if not text.strip():
        return math.nan
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} is {text!r}; expected a number", path, line) from None


def _object(text: str, name: str, path: Path, line: int) -> dict[str, Any]:
    """A JSON object; an empty one for an empty field."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{name} is {text!r}; expected a JSON object", path, line)
    return found
