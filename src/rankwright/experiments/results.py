"""The results of an experiment, opened: its tables as columns or data frames, and what is made of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwright.errors import InputError
from rankwright.evaluation.comparison import Comparison, compare
from rankwright.evaluation.table import Evaluation
from rankwright.measures import parse_measure

if TYPE_CHECKING:
    from rankwright.evaluation.render import Table

__all__ = ["COLUMNS", "EXPERIMENT", "MANIFEST", "Results", "read_manifest"]

MANIFEST = "manifest.json"
EXPERIMENT = "experiment.toml"
_PLACE = ("data", "split", "method")
COLUMNS: dict[str, tuple[str, ...]] = {
    "per_query": (*_PLACE, "query", "measure", "value"),
    "runs": (
        *_PLACE,
        "parameters",
        "validation",
        "training",
        "seconds_train",
        "seconds_tune",
        "n_train_queries",
        "note",
        "model",
    ),
    "queries": ("data", "query", "text", "kind"),
    "paths": (*_PLACE, "parameters", "validation"),
    "rounds": (*_PLACE, "round", "validation"),
    "health": (
        *_PLACE,
        "C",
        "objective",
        "gap",
        "passes",
        "norm",
        "slack",
        "slack_ratio",
        "objective_ratio",
    ),
}
"""The columns of every table."""

_WHOLE = ("split", "n_train_queries", "round", "passes")
_NUMBERS = ("value", "validation", "training", "seconds_train", "seconds_tune", *COLUMNS["health"][3:])


@dataclass(frozen=True, eq=False)
class Results:
    """What came of an experiment; made by :meth:`open` or :func:`~rankwright.experiments.run_experiment`.

    Attributes
    ----------
    folder : Path
        Where the files are.
    manifest : dict
        What was run: versions, data and their hashes, seed, times, failures.

    Examples
    --------
    >>> results = Results.open("exp-results")  # doctest: +SKIP
    >>> results.per_query().groupby(["data", "method", "measure"])["value"].mean()  # doctest: +SKIP
    """

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open the folder of an experiment that was run, or is being run."""
        return cls(Path(folder), read_manifest(folder))

    @property
    def data(self) -> list[str]:
        """The names of the data sets."""
        return [one["name"] for one in self.manifest["data"]]

    @property
    def methods(self) -> list[str]:
        """The names of the methods, in the order of the experiment."""
        return [one["name"] for one in self.manifest["methods"]]

    @property
    def measures(self) -> list[str]:
        """The measures."""
        return list(self.manifest["measures"])

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Cells that could not be computed: data, split, method, reason and traceback."""
        return list(self.manifest["failures"])

    def per_query(self) -> Any:
        """The value of every measure on every test query: data, split, method, query, measure, value."""
        return self._frame("per_query")

    def runs(self) -> Any:
        """One row per cell: what was chosen, validation and training value, seconds, notes."""
        return self._frame("runs")

    def queries(self) -> Any:
        """Text and kind of the test queries, where they are known."""
        return self._frame("queries")

    def paths(self) -> Any:
        """Every point that was tried on validation queries, and its value."""
        return self._frame("paths")

    def rounds(self) -> Any:
        """Value on the validation queries after every round of boosting or epoch of a net that was chosen."""
        return self._frame("rounds")

    def health(self) -> Any:
        """Of every C that was tried: objective, gap, passes, ‖w‖, slack; slack and objective also against ‖w‖ = 0."""
        return self._frame("health")

    def _frame(self, table: str) -> Any:
        """A pandas data frame; without pandas a dictionary of lists."""
        columns = self._columns(table)
        try:
            import pandas as pd
        except ImportError:
            return columns
        return pd.DataFrame(columns)

    def _columns(self, table: str) -> dict[str, list[Any]]:
        path = self.folder / f"{table}.csv"
        try:
            with open(path, encoding="utf-8", newline="") as file:
                header, *rows = csv.reader(file)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path) from None
        except ValueError:
            raise InputError("is empty; expected a table", path) from None
        columns = {}
        for at, name in enumerate(header):
            convert: Callable[[str], Any] = str
            if name in _WHOLE and all(row[at] for row in rows):
                convert = int
            elif name in _WHOLE or name in _NUMBERS:
                convert = _number
            columns[name] = [convert(row[at]) for row in rows]
        return columns

    @cached_property
    def _means(self) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
        """By data and method, by query: the value of every measure, averaged over the splits that test the query."""
        columns = self._columns("per_query")
        sums: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = {}
        order = ("data", "method", "query", "measure", "value")
        for data, method, query, measure, value in zip(*(columns[name] for name in order), strict=True):
            sums.setdefault((data, method), {}).setdefault(query, {}).setdefault(measure, []).append(value)
        return {
            place: {query: {name: _mean(values) for name, values in found.items()} for query, found in of.items()}
            for place, of in sums.items()
        }

    def evaluations(self, data: str) -> list[Evaluation]:
        """The methods on a data set, one row per query: its mean over the splits that test it.

        Parameters
        ----------
        data : str
            Name of the data set.
        """
        if data not in self.data:
            raise InputError(f"there is no data set {data!r}; expected one of {', '.join(self.data)}")
        measures = tuple(parse_measure(name) for name in self.measures)
        definitions = tuple(self.manifest["definitions"].get(data, ()))
        found = []
        for method in self.methods:
            of = self._means.get((data, method))
            if of:
                values = np.array([[row[str(measure)] for measure in measures] for row in of.values()])
                found.append(Evaluation(np.array(list(of), dtype=object), measures, values, definitions, method))
        return found

    def compare(self, data: str, **options: Any) -> Comparison:
        """The methods on a data set against the baseline, with the tests and the correction of the experiment.

        Parameters
        ----------
        data : str
            Name of the data set.
        **options
            As for :func:`rankwright.compare`.
        """
        asked = {key: self.manifest[key] for key in ("baseline", "tests", "correction", "seed")}
        return compare(self.evaluations(data), **{**asked, **options})

    def tables(self) -> dict[str, Table]:
        """The tables by kind: ``means``, and ``criterion`` where a method says what it was trained for."""
        from rankwright.experiments.tables import KINDS, make_table

        return {kind: make_table(self, kind) for kind in KINDS if kind != "criterion" or self._has_criteria}

    @property
    def _has_criteria(self) -> bool:
        return any(one.get("trained_for") for one in self.manifest["methods"])

    def table(self, kind: str = "means", format: str = "text") -> str:
        """One of the tables as text.

        Parameters
        ----------
        kind : {"means", "criterion"}
            Means with significance against the baseline, or what was trained for against what it is tested on.
        format : {"text", "markdown", "latex", "csv"}
            LaTeX needs booktabs; CSV has all digits.
        """
        from rankwright.experiments.tables import render_table

        return render_table(self, kind, format)


def _number(text: str) -> float:
    return float(text) if text else float("nan")


def _mean(values: list[float]) -> float:
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else float("nan")


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of a folder of results."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise InputError(f"is no folder of results (no {MANIFEST} in it); expected one", folder)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", path) from None
    if not isinstance(found, dict) or not {"data", "methods", "measures"} <= set(found):
        raise InputError("is no manifest of an experiment", path)
    return found
