"""The results folder of an experiment, opened: its values, comparisons of its methods, and tables.

The columns of its files, and how a file is read, are those of :mod:`rankwright.reports.results`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from rankwright._types import Array
from rankwright.data.display import Tabled
from rankwright.errors import InputError
from rankwright.evaluation.comparison import Comparison, Difference, Pair, compare, pairs_of
from rankwright.evaluation.evaluate import Evaluation
from rankwright.evaluation.render import csv_text, draw, figure, group_starts, pairs_records, pairs_table
from rankwright.evaluation.significance import CORRECTIONS, TESTS, p_value
from rankwright.measures import Measure, parse_recorded
from rankwright.reports.results import (
    COLUMNS,
    FORMAT,
    MANIFEST,
    Score,
    columns_of,
    read_manifest,
    read_rows,
    read_scores,
)
from rankwright.reports.statistics import about_seeds, averaged, common

_INTEGERS = ("split", "seed", "n_train_queries", "round", "passes", "rank", "relevant")
_LATER = ("relevant", "cpu_tune")  # columns that folders of earlier versions lack

FORMATS = ("text", "markdown", "latex", "csv")
_ALPHA = 0.05
_LETTERS = {"t": "ᵗ", "wilcoxon": "ʷ", "sign": "ˢ", "randomization": "ʳ"}
_BEST = "•"
# Delimiters of a best value in a table, and what each format replaces them by.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARKS = {"text": ("", _BEST), "markdown": ("**", "**"), "latex": (r"\textbf{", "}")}


@dataclass(frozen=True, eq=False)
class Results:
    """The results of an experiment; made by :meth:`open` or :func:`~rankwright.experiments.run_experiment`.

    Attributes
    ----------
    folder : Path
        The results folder.
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
        """Open the folder of an experiment that has run, or is running."""
        manifest = read_manifest(folder)
        if not (Path(folder) / MANIFEST).is_file():
            raise InputError(f"not a results folder (no {MANIFEST} in it); expected one", folder)
        _check_manifest(manifest, Path(folder) / MANIFEST)
        return cls(Path(folder), manifest)

    @property
    def data(self) -> list[str]:
        """The names of the data sets."""
        return [entry["name"] for entry in self.manifest["data"]]

    @property
    def methods(self) -> list[str]:
        """The names of the methods, in the order of the experiment."""
        return [entry["name"] for entry in self.manifest["methods"]]

    @cached_property
    def measures(self) -> list[Measure]:
        """The measures."""
        return [parse_recorded(name) for name in self.manifest["measures"]]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Failed cells: data, split, method, reason and traceback."""
        return list(self.manifest["failures"])

    def per_query(self) -> Any:
        """The value of every measure on every test query: data, split, method, query, measure, value."""
        return self._frame("per_query")

    def runs(self) -> Any:
        """One row per cell: chosen parameters, validation and training value, seconds, notes."""
        return self._frame("runs")

    def queries(self) -> Any:
        """Text and kind of the test queries, where known, and their number of relevant documents."""
        return self._frame("queries")

    def rankings(self) -> Any:
        """The first 10 documents of test queries by every method, with their grades, in one split of each query."""
        return self._frame("rankings")

    def paths(self) -> Any:
        """Every point that was tried on validation queries, and its value."""
        return self._frame("paths")

    def rounds(self) -> Any:
        """Value on the validation queries after every round of boosting or epoch of a net, for the chosen model."""
        return self._frame("rounds")

    def health(self) -> Any:
        """For every C tried: objective, gap, passes, ‖w‖, slack; slack and objective also relative to ‖w‖ = 0."""
        return self._frame("health")

    def _frame(self, table: str) -> Any:
        """A pandas data frame; a dictionary of lists if pandas is not installed."""
        names = columns_of(table, "seeds" in self.manifest)
        needed = [name for name in names if name not in _LATER]
        rows = list(read_rows(self.folder / f"{table}.csv", needed, optional=table == "rankings"))
        columns = {name: _column(name, [row.get(name, math.nan) for row in rows]) for name in names}
        try:
            import pandas as pd
        except ImportError:
            return columns
        return pd.DataFrame(columns)

    @cached_property
    def _scores(self) -> dict[str, tuple[list[Score], list[str]]]:
        """By data set, the scores of the splits and queries that every method has, and notes on what was left out."""
        names, methods = {str(measure) for measure in self.measures}, set(self.methods)
        scores: dict[str, list[Score]] = {data: [] for data in self.data}
        for score in read_scores(self.folder):
            if score.data in scores and score.measure in names and score.method in methods:
                scores[score.data].append(score)
        return {data: common(of, self.methods, self.manifest["baseline"]) for data, of in scores.items()}

    def evaluations(self, data: str) -> list[Evaluation]:
        """The methods on a data set, given by name, one row per query: the mean over splits and seeds.

        The queries are those that every method has.
        """
        if data not in self._averaged:
            self._averaged[data] = self._evaluations(data, *self._of(data))
        return list(self._averaged[data])

    @cached_property
    def _averaged(self) -> dict[str, list[Evaluation]]:
        """The evaluations by data set, as far as they were asked for."""
        return {}

    def by_seed(self, data: str) -> dict[str, list[Evaluation]]:
        """The same for each seed alone; empty without ``seeds`` in the experiment file."""
        return {seed: of for seed, of in self._by("seed", data).items() if seed}

    def by_split(self, data: str) -> dict[str, list[Evaluation]]:
        """The same for each split alone, and each seed if there are several, by what the split is called."""
        return self._by("split", data)

    def _by(self, key: str, data: str) -> dict[str, list[Evaluation]]:
        scores, notes = self._of(data)
        groups: dict[str, list[Score]] = {}
        for score in scores:
            groups.setdefault(getattr(score, key), []).append(score)
        return {name: self._evaluations(data, of, notes) for name, of in groups.items()}

    def _of(self, data: str) -> tuple[list[Score], list[str]]:
        if data not in self.data:
            raise InputError(f"no data set {data!r}; expected one of {', '.join(self.data)}")
        return self._scores[data]

    def _evaluations(self, data: str, scores: Sequence[Score], notes: Sequence[str]) -> list[Evaluation]:
        definitions = tuple(self.manifest["definitions"].get(data, ()))
        names = [str(measure) for measure in self.measures]
        used = {score.method for score in scores}
        methods = [method for method in self.methods if method in used]
        queries = list(dict.fromkeys(score.query for score in scores))
        ids = np.array(queries, dtype=object)
        return [
            Evaluation(ids, tuple(self.measures), values.T, definitions, method, tuple(notes))
            for method, values in zip(methods, averaged(scores, methods, names, queries), strict=True)
        ]

    def compare(self, data: str, **options: Any) -> Comparison:
        """The methods on a data set against the baseline, with the tests and the correction of the experiment.

        ``options`` are those of :func:`rankwright.compare`.
        """
        settings = {key: self.manifest[key] for key in ("baseline", "tests", "correction")}
        return compare(self.evaluations(data), **{**settings, "random_state": self.manifest["seed"], **options})

    def seconds(self, data: str) -> dict[str, tuple[float, float]]:
        """By method: mean seconds of a split, to train the chosen model, and to train everything that was tried."""
        return {m: (train, tune) for m, (train, tune, _) in self._times(data).items()}

    def cpu_seconds(self, data: str) -> dict[str, float]:
        """By method: mean CPU seconds of a split, to train everything that was tried; nan if not known."""
        return {method: cpu for method, (_, _, cpu) in self._times(data).items()}

    def _times(self, data: str) -> dict[str, list[float]]:
        seconds: dict[str, list[tuple[float, ...]]] = {}
        for row in read_rows(self.folder / "runs.csv", [name for name in COLUMNS["runs"] if name not in _LATER]):
            if row["data"] == data and not math.isnan(row["seconds_tune"]):  # failed cells have no times
                times = row["seconds_train"], row["seconds_tune"], row.get("cpu_tune", math.nan)
                seconds.setdefault(row["method"], []).append(times)
        return {m: np.mean(seconds[m], axis=0).tolist() for m in self.methods if m in seconds}

    def tables(self) -> dict[str, Tabled]:
        """The tables by kind, but those of splits, pairs and ablation; ``criterion`` if there is what it needs."""
        has_criteria = any(entry.get("trained_for") for entry in self.manifest["methods"])
        kinds = ("means", *(["criterion"] if has_criteria else []), "times")
        return {kind: _TABLES[kind](self) for kind in kinds}

    def table(self, kind: str = "means", format: str = "text") -> str:
        """One of the tables as text.

        Parameters
        ----------
        kind : {"means", "criterion", "times", "pairs", "splits", "ablation"}
            Means with significance against the baseline; measures trained for against measures tested on; times; all
            pairs of methods by Tukey's test; every split; or what each method changes of the baseline.
        format : {"text", "markdown", "latex", "csv"}
            LaTeX needs booktabs. CSV has all digits, one row per data set, method and, except for times, measure.
        """
        if format not in FORMATS:
            raise InputError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
        if kind not in _TABLES:
            raise InputError(f"unknown kind of table {kind!r}; expected one of {', '.join(_TABLES)}")
        if format == "csv":
            return csv_text(*(_RECORDS[kind](self) if kind in _RECORDS else _records(self, kind)))
        table = _TABLES[kind](self)
        if format == "text":  # marked before drawing, so that columns align
            rows = [tuple(cell.replace(_OPEN, "").replace(_CLOSE, _BEST) for cell in row) for row in table.rows]
            return draw(dataclasses.replace(table, rows=tuple(rows)), "text")
        drawn = draw(table, format)
        for mark, shown in zip((_OPEN, _CLOSE), _MARKS[format], strict=True):
            drawn = drawn.replace(mark, shown)
        if format == "latex":
            for letter, plain in zip(_LETTERS.values(), "twsr", strict=True):
                drawn = drawn.replace(letter, f"$^{{{plain}}}$")
        return drawn


def _check_manifest(manifest: dict[str, Any], path: Path) -> None:
    """Refuse a manifest that lacks something the tables need."""
    if isinstance(manifest.get("format"), int) and manifest["format"] > FORMAT:
        raise InputError(f"written by a newer Rankwright: version {manifest['format']}, this one reads {FORMAT}", path)
    seed, cells = manifest.get("seed"), manifest.get("cells")
    definitions = manifest.get("definitions")
    sound = {
        "data": _are_named(manifest.get("data")),
        "methods": _are_named(manifest.get("methods")),
        "measures": _are_texts(manifest.get("measures"), 1),
        "baseline": isinstance(manifest.get("baseline"), str),
        "tests": _are_texts(manifest.get("tests"), 1) and all(test in TESTS for test in manifest["tests"]),
        "correction": _are_texts([manifest.get("correction")]) and manifest["correction"] in CORRECTIONS,
        "seed": isinstance(seed, int) and seed >= 0,
        "definitions": isinstance(definitions, dict) and all(map(_are_texts, definitions.values())),
        "cells": isinstance(cells, dict) and all(isinstance(cells.get(key), int) for key in ("total", "done")),
        "failures": isinstance(manifest.get("failures"), list),
    }
    wrong = [key for key, is_sound in sound.items() if not is_sound]
    if wrong:
        raise InputError(f"not the manifest of an experiment: {wrong[0]} is missing or damaged", path)
    try:
        for measure in manifest["measures"]:
            parse_recorded(measure)
    except InputError as error:
        raise InputError(error.message, path) from None


def _are_texts(value: Any, minimum: int = 0) -> bool:
    return isinstance(value, list) and len(value) >= minimum and all(isinstance(item, str) for item in value)


def _are_named(value: Any) -> bool:
    """Whether this is a list of tables, each with a name of its own, and what it was trained for if anything."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        return False
    names = [entry.get("name") for entry in value]
    goals = [entry.get("trained_for") for entry in value]
    return _are_texts(names) and len(set(names)) == len(names) and all(isinstance(goal, str | None) for goal in goals)


def _column(name: str, values: list[Any]) -> list[Any]:
    """A column of a data frame: integers and JSON text as the file has them."""
    if name == "parameters":
        return [json.dumps(value, ensure_ascii=False) for value in values]
    if name in _INTEGERS and all(str(value) not in ("", "nan") for value in values):
        return [int(value) for value in values]
    return values


@dataclass(frozen=True)
class _Column:
    """A measure as a column of a table: its name there, and the data sets for which it is defined so."""

    name: str
    measure: str
    data: tuple[str, ...]


def _columns(results: Results) -> list[_Column]:
    """The measures; one that is not defined alike for all data sets has a column for each definition, named by it."""
    conventions = results.manifest.get("conventions")
    columns = []
    for measure in results.measures:
        named: dict[str, list[str]] = {}
        for data in results.data:
            convention = conventions.get(data) if isinstance(conventions, dict) else None
            named.setdefault(str(measure.resolve(convention) if convention else measure), []).append(data)
        columns += [
            _Column(name if len(named) > 1 else str(measure), str(measure), tuple(of)) for name, of in named.items()
        ]
    return columns


def _means(results: Results, *, is_ablation: bool = False) -> Tabled:
    """Rows are methods, columns are measures, each with wins and losses against the baseline.

    For an ablation, with what a method changes of the baseline, and the difference that it makes.
    """
    rows: list[tuple[str, ...]] = []
    best: set[tuple[int, int]] = set()
    notes: list[str] = []
    columns, base, tests = _columns(results), results.manifest["baseline"], results.manifest["tests"]
    n_names = 3 if is_ablation else 2
    for data in results.data:
        evaluations = results.evaluations(data)
        comparison, spread = _compared(results, data, evaluations), _seed_means(results, data)
        best |= {(len(rows) + at, n_names + 2 * column) for at, column in _best_means(columns, data, evaluations)}
        unsure = []
        for evaluation in evaluations:
            cells = [_changed(results, evaluation.name)] if is_ablation else []
            for column in columns:
                row = _difference(comparison, evaluation.name, column.measure) if data in column.data else None
                mean = evaluation.means[column.measure] if data in column.data else math.nan
                of_seeds = spread.get((evaluation.name, column.measure), np.empty(0))
                text = figure(mean) + (f" ±{of_seeds.std(ddof=1):.4f}" if len(of_seeds) and mean == mean else "")
                if row is None:
                    cells += [text, ""]
                    continue
                marks, wins = _significance(row, tests), f"{row.wins}/{row.losses}"
                cells += [text, f"{row.difference:+.4f}{marks}"] if is_ablation else [text + marks, wins]
                if len(of_seeds) and row.p_corrected[tests[0]] < _ALPHA:
                    gains = of_seeds - spread[base, column.measure]
                    unsure.append(about_seeds(gains, evaluation.name, column.measure, base))
            rows.append((data, _named(results, evaluation.name), *cells))
        notes += [f"{data}: {len(evaluation.query_ids)} queries" for evaluation in evaluations[:1]]
        notes += [f"{data}: {text}" for text in unsure if text]
    second = "diff" if is_ablation else "w/l"
    names = ("data", "method", "changed")[:n_names]
    header = (*names, *(name for column in columns for name in (column.name, second)))
    seeds = results.manifest.get("seeds", [])
    notes += [f"±: standard deviation of the mean over the {len(seeds)} seeds"] if len(seeds) > 1 else []
    first, wins, *how = _method(results)
    changed = "changed: what differs from the baseline in the experiment file"
    notes += [first, changed if is_ablation else wins, *how, *_notes(results)]
    return Tabled(header, tuple(rows), tuple(notes), n_names, group_starts(rows), frozenset(best))


def _seed_means(results: Results, data: str) -> dict[tuple[str, str], Array]:
    """By method and measure, the mean of each seed; empty without several seeds."""
    by_seed = [{e.name: e.means for e in evaluations} for evaluations in results.by_seed(data).values()]
    first = by_seed[0] if len(by_seed) > 1 else {}
    return {
        (method, measure): np.array([means[method][measure] for means in by_seed])
        for method, of in first.items()
        for measure in of
    }


def _best_means(columns: Sequence[_Column], data: str, evaluations: Sequence[Evaluation]) -> list[tuple[int, int]]:
    """Row and column of the highest mean of each measure, as displayed; none if there is one method."""
    best = []
    for at, column in enumerate(columns):
        means = [_shown(evaluation.means[column.measure]) for evaluation in evaluations if data in column.data]
        if len(means) > 1 and max(means) > -math.inf:
            best += [(row, at) for row, mean in enumerate(means) if mean == max(means)]
    return best


def _named(results: Results, method: str) -> str:
    return f"{method} (baseline)" if method == results.manifest["baseline"] else method


def _compared(
    results: Results, data: str, evaluations: Sequence[Evaluation], *, intervals: bool = False
) -> Comparison | None:
    """The methods against the baseline, if there are both; intervals take most of the time, and tables do without."""
    names = [evaluation.name for evaluation in evaluations]
    if len(names) < 2 or results.manifest["baseline"] not in names:
        return None
    needs_draws = intervals or "randomization" in results.manifest["tests"]
    return results.compare(data, **({} if needs_draws else {"n_resamples": 1}))


def _difference(comparison: Comparison | None, method: str, measure: str) -> Difference | None:
    rows = () if comparison is None else comparison.differences
    return next((row for row in rows if (row.system, row.measure) == (method, measure)), None)


def _significance(row: Difference, tests: Sequence[str]) -> str:
    """A star for a single test; a letter for each of several, a space for those that are not significant."""
    marks = ["*" if len(tests) == 1 else _LETTERS[test] for test in tests]
    return "".join(mark if row.p_corrected[test] < _ALPHA else " " for test, mark in zip(tests, marks, strict=True))


def _method(results: Results) -> list[str]:
    tests, correction = results.manifest["tests"], results.manifest["correction"]
    has_seeds = "seeds" in results.manifest
    after = "" if correction == "none" else f" after {CORRECTIONS[correction]}'s correction for the methods compared"
    if len(tests) == 1:
        marks = f"* p < {_ALPHA:g} by the two-tailed {TESTS[tests[0]][0]}{after}"
    else:
        listed = ", ".join(f"{_LETTERS[test]} {TESTS[test][0]}" for test in tests)
        marks = f"p < {_ALPHA:g}{after}, two-tailed: {listed}"
    return [
        f"means: each query averaged over the splits that test it{' and over seeds' * has_seeds}, then over queries",
        f"w/l: number of queries on which a method is better and worse than {results.manifest['baseline']}",
        marks,
    ]


def _notes(results: Results) -> list[str]:
    """The definitions of the measures, with the names of the data sets if they differ, and what is missing."""
    of_data: dict[str, list[str]] = {}
    for data, lines in results.manifest["definitions"].items():
        for line in lines:
            of_data.setdefault(line, []).append(data)
    n_data = len(results.manifest["definitions"])
    notes = [line if len(data) == n_data else f"{', '.join(data)}: {line}" for line, data in of_data.items()]
    for data in results.data:
        notes += [f"{data}: {note}" for evaluation in results.evaluations(data)[:1] for note in evaluation.notes]
    total, done = results.manifest["cells"]["total"], results.manifest["cells"]["done"]
    return notes if done == total else [*notes, f"{total - done} of {total} cells are missing"]


def _criterion(results: Results) -> Tabled:
    """Rows are the measures trained for, columns the measures tested on."""
    goals = {entry["name"]: entry.get("trained_for") for entry in results.manifest["methods"]}
    if not any(goals.values()):
        raise InputError("no method has trained_for; expected it in the experiment file")
    columns = _columns(results)
    rows: list[tuple[str, ...]] = []
    for data in results.data:
        evaluations = [evaluation for evaluation in results.evaluations(data) if goals[evaluation.name]]
        best = {
            measure: max((_shown(e.means[measure]) for e in evaluations), default=math.nan)
            for measure in map(str, results.measures)
        }
        for evaluation in evaluations:
            of = [(c.measure, evaluation.means[c.measure] if data in c.data else math.nan) for c in columns]
            means = [(figure(mean), _shown(mean) == best[measure]) for measure, mean in of]
            cells = [f"{_OPEN}{text}{_CLOSE}" if is_best and text != "–" else text for text, is_best in means]
            rows.append((data, str(goals[evaluation.name]), evaluation.name, *cells))
    header = ("data", "trained for", "method", *(column.name for column in columns))
    notes = (f"{_OPEN}best{_CLOSE} of each column", *_method(results)[:1], *_notes(results))
    return Tabled(header, tuple(rows), notes, 3, group_starts(rows))


def _times(results: Results) -> Tabled:
    """Rows are methods, columns are seconds: to train the chosen model, and to train everything that was tried."""
    _, records = _times_records(results)
    rows = [(data, _named(results, method), *map(_time, times)) for data, method, *times in records]
    header = ("data", "method", "train", "ratio", "choose and train", "ratio", "CPU")
    notes = (
        "seconds per split, mean over the splits: to train the chosen model, and to train everything that was tried",
        "CPU: CPU seconds of all threads to train everything that was tried",
        "ratio: to the baseline; compile time is not counted; parallel processes slow each other down",
    )
    return Tabled(header, tuple(rows), notes, 2, group_starts(rows))


def _times_records(results: Results) -> tuple[list[str], list[list[Any]]]:
    """A header, and by data set and method the seconds of :meth:`Results.seconds`, each with its ratio, and of CPUs."""
    records: list[list[Any]] = []
    for data in results.data:
        seconds, cpu = results.seconds(data), results.cpu_seconds(data)
        base = seconds.get(results.manifest["baseline"], (math.nan, math.nan))
        for method, both in seconds.items():
            ratios = [value / other if other > 0 else math.nan for value, other in zip(both, base, strict=True)]
            records.append([data, method, both[0], ratios[0], both[1], ratios[1], cpu[method]])
    return ["data", "method", "seconds_train", "ratio_train", "seconds_tune", "ratio_tune", "cpu_tune"], records


def _pairs(results: Results) -> Tabled:
    """A row for every pair of methods on every measure."""
    tables = {data: pairs_table(pairs) for data, pairs in _all_pairs(results).items()}
    if not tables:
        raise InputError("no data set has two methods; all pairs need at least two")
    rows = tuple((data, *row) for data, table in tables.items() for row in table.rows)
    first = next(iter(tables.values()))
    return Tabled(("data", *first.header), rows, (*first.notes, *_notes(results)), 4, group_starts(rows))


def _all_pairs(results: Results) -> dict[str, tuple[Pair, ...]]:
    evaluations = {data: results.evaluations(data) for data in results.data}
    seed = results.manifest["seed"]
    return {data: pairs_of(of, random_state=seed) for data, of in evaluations.items() if len(of) > 1}


def _pairs_records(results: Results) -> tuple[list[str], list[list[Any]]]:
    records = {data: pairs_records(pairs)[1] for data, pairs in _all_pairs(results).items()}
    return ["data", *pairs_records(())[0]], [[data, *row] for data, of in records.items() for row in of]


def _splits(results: Results) -> Tabled:
    """A row for every measure and split, a column for every method."""
    header, records = _splits_records(results)
    rows = [(*map(str, record[:4]), *map(figure, record[4:])) for record in records]
    starts = frozenset(at for at in range(1, len(rows)) if rows[at][:2] != rows[at - 1][:2])
    notes = ("means over the test queries of each split, of those that every method has", *_notes(results))
    return Tabled(tuple(header), tuple(rows), notes, 3, starts)


def _splits_records(results: Results) -> tuple[list[str], list[list[Any]]]:
    """A header, and by data set, measure and split the number of queries, and the mean of every method."""
    records: list[list[Any]] = []
    for data in results.data:
        by_split = {split: {e.name: e for e in of} for split, of in results.by_split(data).items()}
        for measure in map(str, results.measures):
            for split, of in by_split.items():
                queries = len(next(iter(of.values())).query_ids)
                means = [of[m].means[measure] if m in of else math.nan for m in results.methods]
                records.append([data, measure, split, queries, *means])
    return ["data", "measure", "split", "queries", *results.methods], records


def _changed(results: Results, method: str) -> str:
    """What a method changes of the settings of the baseline, in words."""
    entries = {entry["name"]: entry for entry in results.manifest["methods"]}
    ours, base = (_settings(entries.get(name, {})) for name in (method, results.manifest["baseline"]))
    changed = [f"{key} = {_plain(ours[key])}" for key in ours if ours[key] != base.get(key)]
    if ours.get("method") == base.get("method"):
        changed += [f"no {key} (was {_plain(base[key])})" for key in base if key not in ours]
    return ", ".join(changed) or ("" if method == results.manifest["baseline"] else "nothing")


def _settings(entry: dict[str, Any]) -> dict[str, Any]:
    """What a method's entry in the manifest sets, tables in it taken apart."""
    settings = {key: value for key, value in entry.items() if key not in ("name", "trained_for", "choose_by")}
    parameters, grid = (settings.pop(key, None) or {} for key in ("parameters", "grid"))
    settings |= parameters | {f"grid {key}": value for key, value in grid.items()}
    return {key: value for key, value in settings.items() if value not in (None, [], {})}


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_TABLES: dict[str, Callable[[Results], Tabled]] = {
    "means": _means,
    "criterion": _criterion,
    "times": _times,
    "pairs": _pairs,
    "splits": _splits,
    "ablation": partial(_means, is_ablation=True),
}
_RECORDS = {"times": _times_records, "pairs": _pairs_records, "splits": _splits_records}


def _time(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.01 else f"{value:.2g}"


def _shown(value: float) -> float:
    """As displayed, so that values that look equal are equal; nan is never the best."""
    return -math.inf if math.isnan(value) else round(value, 4)


def _records(results: Results, kind: str) -> tuple[list[str], list[list[Any]]]:
    """A header, and by data set, method and measure all digits."""
    tests = results.manifest["tests"]
    goals = {entry["name"]: entry.get("trained_for") or "" for entry in results.manifest["methods"]}
    has_seeds = "seeds" in results.manifest
    header = ["data", "method", "trained_for", "measure", "queries", "mean"]
    header += ["changed"] if kind == "ablation" else []
    if kind != "criterion":
        header += ["difference", "low", "high", "effect_size", "wins", "ties", "losses"]
        header += [f"{name}_{test}" for name in ("p", "p_corrected") for test in tests]
        header += ["sd_seeds", "difference_sd_seeds", "p_seeds"] if has_seeds else []
    records: list[list[Any]] = []
    for data in results.data:
        evaluations = results.evaluations(data)
        comparison = None if kind == "criterion" else _compared(results, data, evaluations, intervals=True)
        spread = _seed_means(results, data) if has_seeds else {}
        for evaluation in evaluations:
            goal = goals[evaluation.name]
            for measure, mean in evaluation.means.items() if kind != "criterion" or goal else ():
                record: list[Any] = [data, evaluation.name, goal, measure, len(evaluation.query_ids), mean]
                record += [_changed(results, evaluation.name)] if kind == "ablation" else []
                row = _difference(comparison, evaluation.name, measure)
                if row is not None:
                    record += [row.difference, *row.interval, row.effect_size, row.wins, row.ties, row.losses]
                    record += [p[test] for p in (row.p, row.p_corrected) for test in tests]
                elif kind != "criterion":
                    record += [""] * (7 + 2 * len(tests))
                if has_seeds and kind != "criterion":
                    of_seeds, base = (
                        spread.get((name, measure)) for name in (evaluation.name, results.manifest["baseline"])
                    )
                    apart = None if of_seeds is None or base is None else of_seeds - base
                    record += ["" if of is None else of.std(ddof=1) for of in (of_seeds, apart)]
                    record += ["" if apart is None or row is None else p_value("t", apart)]
                records.append(record)
    return header, records
