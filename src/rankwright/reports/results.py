"""A results folder: its plain files and their columns, and the one reader of them.

``manifest.json``: what was run. ``per_query.csv``: the value of every measure on every query. ``runs.csv``: one row per
data set, split and method. ``queries.csv``: texts of the queries. ``paths.csv``: points tried on validation data.
``rounds.csv``: validation data after every round of boosting. ``health.csv``: the state of training along C.
``rankings.csv``: the first documents of a query by every method. A report needs only ``per_query.csv`` with method,
query, measure and value, from any program; other columns may be there.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from rankwright.errors import InputError, shown
from rankwright.io.tables import parse_json
from rankwright.measures import parse_measure

MANIFEST = "manifest.json"
FORMAT = 2
"""The version of results folders; those of version 1 have no seeds and no CPU seconds."""
EXPERIMENT = "experiment.toml"
UNFINISHED = "unfinished"
"""The folder inside a results folder with the results so far, while those of more cells are kept."""
FIGURES = ("validation", "training", "seconds_train", "seconds_tune", "n_train_queries")
HEALTH = ("C", "objective", "gap", "passes", "norm", "slack", "slack_ratio", "objective_ratio")
_PLACE = ("data", "split", "method")
COLUMNS: dict[str, tuple[str, ...]] = {
    "per_query": (*_PLACE, "query", "measure", "value"),
    "runs": (*_PLACE, "parameters", *FIGURES, "note", "model", "cpu_tune"),
    "queries": ("data", "query", "text", "kind", "relevant"),
    "paths": (*_PLACE, "parameters", "validation"),
    "rounds": (*_PLACE, "round", "validation"),
    "health": (*_PLACE, *HEALTH),
    "rankings": (*_PLACE, "query", "rank", "document", "grade"),
}
"""The tables that an experiment writes, and their columns; one with several seeds adds ``seed`` after ``split``."""

HEALTH_COLUMNS = {
    "slack_ratio": "loss on training queries (untrained = 1)",
    "slack": "loss on training queries",
    "objective_ratio": "loss and penalty (untrained = 1)",
    "objective_per_C": "loss and penalty / C",
    "norm": "size of the weights",
    "passes": "passes over the training queries",
    "gap": "proven gap",
}
"""The columns of ``health.csv`` that are plotted, and their labels."""

_NUMBERS = frozenset(("value", "round", "objective_per_C", "relevant", "rank", "grade", "cpu_tune", *FIGURES, *HEALTH))
_OBJECTS = ("parameters",)
Rankings = dict[tuple[str, str], dict[str, dict[str, list[tuple[str, float]]]]]
"""By data set and query, then by split, then by method: documents with their grades, the first one first."""
_LARGEST = 1e150  # sums of squares of larger ones could be infinite


@dataclass(frozen=True)
class TableRow:
    """What rows of most tables begin with; ``split`` has the seed in it if there are several."""

    data: str
    split: str
    method: str


@dataclass(frozen=True)
class Score(TableRow):
    """The value of one measure on one query."""

    query: str
    measure: str
    value: float
    seed: str = ""


def columns_of(table: str, has_seeds: bool) -> tuple[str, ...]:
    """The columns of a table that an experiment writes, with one seed or with several."""
    columns = COLUMNS[table]
    return ("data", "split", "seed", *columns[2:]) if has_seeds and columns[:2] == _PLACE[:2] else columns


@dataclass(frozen=True)
class RunRow(TableRow):
    """One training: the chosen parameters, its value on validation and training data, and its time."""

    parameters: dict[str, Any]
    validation: float
    training: float
    seconds_train: float
    seconds_tune: float
    n_train_queries: float
    note: str


@dataclass(frozen=True)
class PathPoint(TableRow):
    """One point of a grid, and its value on validation data."""

    parameters: dict[str, Any]
    validation: float


@dataclass(frozen=True)
class RoundRow(TableRow):
    """The value on validation data after one round."""

    round: int
    validation: float


@dataclass(frozen=True)
class Health(TableRow):
    """One fit of a path of C values; its figures by the names of ``HEALTH_COLUMNS``."""

    C: float
    figures: dict[str, float]


@dataclass(frozen=True)
class Query:
    """The text of a query, its kind, and its number of relevant documents; nan if unknown."""

    text: str
    kind: str
    relevant: float = math.nan


@dataclass(frozen=True)
class ResultsFolder:
    """The content of a results folder."""

    folder: Path
    manifest: dict[str, Any]
    scores: tuple[Score, ...]
    runs: tuple[RunRow, ...] = ()
    queries: dict[tuple[str, str], Query] = field(default_factory=dict)
    paths: tuple[PathPoint, ...] = ()
    rounds: tuple[RoundRow, ...] = ()
    health: tuple[Health, ...] = ()
    rankings: Rankings = field(default_factory=dict)

    def query(self, data: str, query_id: str) -> Query:
        """The facts of a query; texts without a data set belong to all of them."""
        return self.queries.get((data, query_id)) or self.queries.get(("", query_id)) or Query("", "")

    def entries(self, key: str) -> dict[str, dict[str, Any]]:
        """The tables that the manifest has under a key, such as methods or data, by their names."""
        tables = self.manifest.get(key)
        if isinstance(tables, list):
            named = [table for table in tables if isinstance(table, dict) and isinstance(table.get("name"), str)]
            return {table["name"]: table for table in named}
        if isinstance(tables, dict):
            return {name: table for name, table in tables.items() if isinstance(table, dict)}
        return {}


def read_results(folder: str | Path) -> ResultsFolder:
    """Read a results folder.

    Raises `InputError`: if the folder, ``per_query.csv`` or one of its columns is missing, or a file is malformed.
    """
    folder = Path(folder)
    check_folder(folder)
    scores = tuple(read_scores(folder))
    if not any(math.isfinite(score.value) for score in scores):
        raise InputError("has no values; expected at least one query", folder / "per_query.csv")
    return ResultsFolder(
        folder,
        read_manifest(folder),
        scores,
        tuple(RunRow(**_picked(RunRow, row, note=row["note"].strip())) for row in _rows(folder, "runs", "method")),
        {
            (row["data"], row["query"]): Query(row["text"], row["kind"], row["relevant"])
            for row in _rows(folder, "queries", "query")
        },
        tuple(PathPoint(**_picked(PathPoint, row)) for row in _rows(folder, "paths", "method")),
        tuple(
            RoundRow(**_picked(RoundRow, row, round=int(row["round"])))
            for row in _rows(folder, "rounds", "method", "round", "validation")
            if math.isfinite(row["round"]) and math.isfinite(row["validation"])
        ),
        read_health(folder),
        _rankings(folder),
    )


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not a results folder."""
    if not folder.is_dir():
        raise InputError("not a folder; expected the results of an experiment", folder)
    if not (folder / "per_query.csv").is_file():
        raise InputError("has no per_query.csv; expected the results of an experiment", folder)


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of a results folder; empty if there is none."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        return {}
    try:
        manifest = parse_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None
    except ValueError as error:
        raise InputError(f"not valid JSON ({error}); expected the manifest of an experiment", path) from None
    if not isinstance(manifest, dict):
        raise InputError(f"contains a {type(manifest).__name__}; expected a JSON object", path)
    return manifest


def canonical(measure: str) -> str:
    """The name of a measure as the toolkit writes it; unknown names stay unchanged."""
    try:
        return str(parse_measure(measure))
    except InputError:
        return measure


def read_scores(folder: str | Path) -> Iterator[Score]:
    """The rows of ``per_query.csv``, with canonical names of measures."""
    names: dict[str, str] = {}
    for row in read_rows(Path(folder) / "per_query.csv", ("method", "query", "measure", "value")):
        measure = row["measure"]
        if measure not in names:
            names[measure] = canonical(measure)
        place = row.get("data", ""), _split(row), row["method"]
        yield Score(*place, row["query"], names[measure], row["value"], row.get("seed", ""))


def _split(row: dict[str, Any]) -> str:
    """The split of a row, and its seed if it has one: what is computed once for a method."""
    split: str = row.get("split", "")
    return f"{split}, seed {row['seed']}" if row.get("seed") else split


def read_health(folder: str | Path) -> tuple[Health, ...]:
    """The rows of ``health.csv``; none if there is no such file."""
    rows = []
    for row in read_rows(Path(folder) / "health.csv", ("C",), optional=True):
        if math.isnan(row["C"]):
            continue
        figures = {name: row.get(name, math.nan) for name in HEALTH_COLUMNS}
        if row["C"] > 0 and "objective_ratio" not in row:  # at zero weights it is C times the mean loss, about 1
            figures["objective_per_C"] = row.get("objective", math.nan) / row["C"]
        figures = {name: value for name, value in figures.items() if math.isfinite(value)}
        place = row.get("data", ""), _split(row), row.get("method", row.get("loss", ""))
        rows.append(Health(*place, row["C"], figures))
    return tuple(rows)


def _rankings(folder: Path) -> Rankings:
    """Documents in the order of their ranks."""
    rankings: dict[tuple[str, str], dict[str, dict[str, list[tuple[float, str, float]]]]] = {}
    for row in _rows(folder, "rankings", "method", "query", "rank", "document"):
        methods = rankings.setdefault((row["data"], row["query"]), {}).setdefault(row["split"], {})
        methods.setdefault(row["method"], []).append((row["rank"], row["document"], row["grade"]))
    return {
        query: {
            split: {
                method: [ranked[1:] for ranked in sorted(rows, key=itemgetter(0))] for method, rows in methods.items()
            }
            for split, methods in splits.items()
        }
        for query, splits in rankings.items()
    }


def _rows(folder: Path, table: str, *needed: str) -> Iterator[dict[str, Any]]:
    """The rows of a table, if there is one; columns that it lacks are empty, nan or {}, unless they are needed."""
    empty = {name: math.nan if name in _NUMBERS else {} if name in _OBJECTS else "" for name in COLUMNS[table]}
    for row in read_rows(folder / f"{table}.csv", needed, optional=True):
        yield empty | row | ({"split": _split(row)} if "split" in row else {})


def _picked(kind: type[TableRow], row: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The columns of a row that this kind has as fields."""
    return {field.name: row[field.name] for field in dataclasses.fields(kind)} | changed


def read_rows(path: Path, needed: Sequence[str], *, optional: bool = False) -> Iterator[dict[str, Any]]:
    """The rows of a table by column name, numbers and JSON objects parsed.

    `path`: the CSV file. `needed`: columns that must be there. `optional`: whether the file may be missing.
    """
    if optional and not path.is_file():
        return
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            missing = [name for name in needed if name not in header]
            if missing:
                raise InputError(f"has no column {missing[0]!r}; expected {', '.join(needed)}", path, 1)
            numbers = [name for name in header if name in _NUMBERS]
            objects = [name for name in header if name in _OBJECTS]
            for fields in reader:
                if not fields:
                    continue
                if len(fields) != len(header):
                    raise InputError(f"{len(fields)} fields; expected {len(header)}", path, reader.line_num)
                row: dict[str, Any] = dict(zip(header, fields, strict=True))
                for name in numbers:
                    row[name] = _number(row[name], name, path, reader.line_num)
                for name in objects:
                    row[name] = _object(row[name], name, path, reader.line_num)
                yield row
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text; expected a CSV file", path) from None
    except csv.Error as error:
        raise InputError(f"not valid CSV ({error})", path) from None


def _number(text: str, name: str, path: Path, line: int) -> float:
    """A number; nan for an empty field."""
    if not text.strip():
        return math.nan
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{name} is {shown(text)}; expected a number", path, line) from None
    if abs(value) > _LARGEST:
        raise InputError(f"{name} is {shown(text)}; expected a finite number", path, line)
    return value


def _object(text: str, name: str, path: Path, line: int) -> dict[str, Any]:
    """A JSON object; an empty one for an empty field."""
    if not text.strip():
        return {}
    try:
        value = parse_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError(f"{name} is {shown(text)}; expected a JSON object", path, line)
    return value
