"""The results folder of an experiment: written from its cells as plain files, and opened again.

The columns of its tables, and how a table is read, are those of :mod:`rankwright.reports.results`.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import numpy as np

import rankwright
from rankwright.data.display import Tabled
from rankwright.errors import InputError
from rankwright.evaluation.comparison import Comparison, Difference, compare
from rankwright.evaluation.evaluate import Evaluation
from rankwright.evaluation.render import csv_text, draw, figure, group_starts
from rankwright.evaluation.significance import CORRECTIONS, TESTS
from rankwright.experiments.cells import Cell, Failure
from rankwright.experiments.config import Experiment
from rankwright.experiments.preparing import Prepared, code_version
from rankwright.experiments.testing import Tested, evaluate_cells, relevant_counts, top_documents
from rankwright.io.files import replace_file
from rankwright.measures import Measure, parse_measure
from rankwright.reports.results import (
    COLUMNS,
    FIGURES,
    HEALTH,
    MANIFEST,
    Score,
    columns_of,
    read_manifest,
    read_rows,
    read_scores,
)
from rankwright.reports.statistics import averaged

UNFINISHED = "unfinished"
"""The folder inside a results folder with the results so far, while those of more cells are kept."""
_FORMAT = 2  # of results folders; 1 had no seeds and no CPU seconds, and can be read
_EXPERIMENT = "experiment.toml"
_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")
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
        return [parse_measure(name) for name in self.manifest["measures"]]

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
    def _scores(self) -> dict[tuple[str, str], list[Score]]:
        scores: dict[tuple[str, str], list[Score]] = {}
        for score in read_scores(self.folder):
            scores.setdefault((score.data, score.method), []).append(score)
        return scores

    def evaluations(self, data: str) -> list[Evaluation]:
        """The methods on a data set, given by name, one row per query: the mean over the splits that test it."""
        if data not in self.data:
            raise InputError(f"no data set {data!r}; expected one of {', '.join(self.data)}")
        definitions = tuple(self.manifest["definitions"].get(data, ()))
        names = [str(measure) for measure in self.measures]
        evaluations = []
        for method in self.methods:
            scores = [score for score in self._scores.get((data, method), []) if score.measure in names]
            if scores:
                queries = list(dict.fromkeys(score.query for score in scores))
                values = averaged(scores, [method], names, queries)[0].T
                ids = np.array(queries, dtype=object)
                evaluations.append(Evaluation(ids, tuple(self.measures), values, definitions, method))
        return evaluations

    def compare(self, data: str, **options: Any) -> Comparison:
        """The methods on a data set against the baseline, with the tests and the correction of the experiment.

        ``options`` are those of :func:`rankwright.compare`.
        """
        settings = {key: self.manifest[key] for key in ("baseline", "tests", "correction")}
        return compare(self.evaluations(data), **{**settings, "random_state": self.manifest["seed"], **options})

    def seconds(self, data: str) -> dict[str, tuple[float, float]]:
        """By method: mean seconds of a split, to train the chosen model, and to train everything that was tried."""
        seconds: dict[str, list[tuple[float, float]]] = {}
        for row in read_rows(self.folder / "runs.csv", COLUMNS["runs"]):
            if row["data"] == data and not math.isnan(row["seconds_tune"]):  # failed cells have no times
                seconds.setdefault(row["method"], []).append((row["seconds_train"], row["seconds_tune"]))
        means = {method: np.mean(seconds[method], axis=0).tolist() for method in self.methods if method in seconds}
        return {method: (train, tune) for method, (train, tune) in means.items()}

    def tables(self) -> dict[str, Tabled]:
        """The tables by kind; ``criterion`` is there if a method says what it was trained for."""
        has_criteria = any(entry.get("trained_for") for entry in self.manifest["methods"])
        return {kind: make(self) for kind, make in _TABLES.items() if kind != "criterion" or has_criteria}

    def table(self, kind: str = "means", format: str = "text") -> str:
        """One of the tables as text.

        Parameters
        ----------
        kind : {"means", "criterion", "times"}
            Means with significance against the baseline; measures trained for against measures tested on; or times.
        format : {"text", "markdown", "latex", "csv"}
            LaTeX needs booktabs. CSV has all digits, one row per data set, method and, except for times, measure.
        """
        if format not in FORMATS:
            raise InputError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
        if kind not in _TABLES:
            raise InputError(f"unknown kind of table {kind!r}; expected one of {', '.join(_TABLES)}")
        if format == "csv":
            return csv_text(*(_times_records(self) if kind == "times" else _records(self, kind)))
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
            parse_measure(measure)
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
        return [_json(value) for value in values]
    if name in _INTEGERS and all(str(value) not in ("", "nan") for value in values):
        return [int(value) for value in values]
    return values


def write_results(
    experiment: Experiment,
    prepared: Sequence[Prepared],
    cells: Sequence[Cell],
    failures: Sequence[Failure],
    session: dict[str, Any],
    advance: Callable[[int], None],
) -> Path:
    """Write the tables of all finished cells, and the manifest; returns their folder.

    They are written to a folder inside the results folder, and moved up unless they are fewer than those there.
    `session`: when and how the experiment was run. `advance`: called with the number of cells evaluated.
    """
    folder = experiment.output / UNFINISHED
    folder.mkdir(exist_ok=True)
    sessions = _sessions(folder) or _sessions(experiment.output)
    (folder / MANIFEST).unlink(missing_ok=True)  # written last: it marks the tables as complete
    definitions, failures, done = _write_tables(experiment, prepared, cells, failures, folder, advance)
    with replace_file(folder / _EXPERIMENT) as out:
        out.write(experiment.text.encode())
    counts = {"total": len(cells), "done": done, "failed": len(failures), "missing": len(cells) - done - len(failures)}
    conventions = {cell.data: cell.evaluated["convention"] for cell in cells}
    manifest = _manifest(experiment, prepared, failures) | {"cells": counts, "definitions": definitions}
    manifest |= {"conventions": conventions}
    if not sessions or session["cells"] or failures:
        sessions = [*sessions, session]
    manifest |= {"complete": done == len(cells), "sessions": sessions}
    manifest |= {"command": sessions[-1]["command"], "started": sessions[0]["started"]}
    manifest["finished"] = sessions[-1]["finished"]
    manifest["seconds"] = sum(session["seconds"] for session in sessions)
    with replace_file(folder / MANIFEST) as out:
        out.write((json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
    if not manifest["complete"] and _has_more(experiment.output, done):
        return folder
    for name in (*(f"{table}.csv" for table in COLUMNS), _EXPERIMENT, MANIFEST):
        (folder / name).replace(experiment.output / name)
    with suppress(OSError):  # reports of what was unfinished stay
        folder.rmdir()
    return experiment.output


def _has_more(folder: Path, done: int) -> bool:
    """Whether a folder has the results of a whole experiment, or of more cells."""
    try:
        manifest = read_manifest(folder)
    except InputError:
        return False
    cells = manifest.get("cells")
    before = cells.get("done") if isinstance(cells, dict) else 0
    return manifest.get("complete") is True or (isinstance(before, int) and before > done)


def _write_tables(
    experiment: Experiment,
    prepared: Sequence[Prepared],
    cells: Sequence[Cell],
    failed: Sequence[Failure],
    folder: Path,
    advance: Callable[[int], None],
) -> tuple[dict[str, list[str]], list[Failure], int]:
    """Write the tables; returns the definitions of the measures by data set, all failures, and the finished cells."""
    failures = {(failure.data, failure.split, failure.method, failure.seed): failure for failure in failed}
    relevant: dict[str, dict[str, int]] = {data.name: {} for data in prepared}  # by data set and query tested
    definitions: dict[str, list[str]] = {}
    shown: dict[tuple[str, str], tuple[int, int]] = {}  # by data set and query, the first split and seed that test it
    done = 0
    has_seeds = bool(experiment.seeds)
    with _tables(folder, ("per_query", "runs", "paths", "rounds", "health", "rankings"), has_seeds) as rows:
        for cell, found in evaluate_cells(cells, advance):
            key = (cell.data, cell.split, cell.spec.name, cell.seed)
            place = [cell.data, cell.split, *([cell.seed] if has_seeds else ()), cell.spec.name]
            if isinstance(found, Failure):
                failures[key] = found
            if key in failures:
                rows["runs"]([*place, *[""] * 6, f"failed: {failures[key].reason}", "", ""])
            if found is None or key in failures:
                continue
            assert isinstance(found, Tested)
            done += 1
            relevant[cell.data] |= relevant_counts(found.test, found.judged)
            definitions.setdefault(cell.data, list(found.evaluation.definitions))
            _write_cell(found, place, rows)
            for query, documents in top_documents(found.test, found.scores, found.judged).items():
                if shown.setdefault((cell.data, query), (cell.split, cell.seed)) == (cell.split, cell.seed):
                    for rank, (document, grade) in enumerate(documents, 1):
                        rows["rankings"]([*place, query, rank, document, "" if grade is None else grade])
    with _tables(folder, ("queries",), has_seeds) as rows:
        for data in prepared:
            for query, number in relevant[data.name].items():
                rows["queries"]([data.name, query, *data.queries.get(query, ("", "")), number])
    return definitions, list(failures.values()), done


def _sessions(folder: Path) -> list[dict[str, Any]]:
    """The earlier sessions of a results folder; none if its manifest is damaged, which is written anew."""
    kinds = {"command": str | None, "started": str, "finished": str, "seconds": int | float}
    try:
        sessions = read_manifest(folder).get("sessions", [])
    except InputError:
        return []
    if not isinstance(sessions, list) or not all(isinstance(session, dict) for session in sessions):
        return []
    is_whole = all(isinstance(session.get(key), kind) for session in sessions for key, kind in kinds.items())
    return sessions if is_whole else []


def _write_cell(found: Tested, place: list[Any], rows: dict[str, Any]) -> None:
    cell, record, evaluation = found.cell, found.record, found.evaluation
    measures = [str(measure) for measure in evaluation.measures]
    for query, values in zip(evaluation.query_ids.tolist(), evaluation.values.tolist(), strict=True):
        for measure, value in zip(measures, values, strict=True):
            rows["per_query"]([*place, query, measure, "" if math.isnan(value) else value])
    figures = [record[key] for key in FIGURES]
    model = "" if cell.model is None else f"models/{cell.model.name}"
    rows["runs"]([*place, _json(record["chosen"]), *figures, "; ".join(record["notes"]), model, record["cpu_tune"]])
    for point in record["path"]:
        if record["validation"] is not None:
            rows["paths"]([*place, _json(point["parameters"]), point["validation"]])
        if "gap" in point:
            rows["health"]([*place, *(point[key] for key in HEALTH)])
    for number, value in enumerate(record["rounds"], 1):
        rows["rounds"]([*place, number, value])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@contextmanager
def _tables(folder: Path, names: Iterable[str], has_seeds: bool) -> Iterator[dict[str, Any]]:
    """A row writer for every table; the files appear when all are complete."""
    with ExitStack() as stack:
        rows = {}
        for name in names:
            raw = stack.enter_context(replace_file(folder / f"{name}.csv"))
            text = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=True)
            stack.callback(text.detach)
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(columns_of(name, has_seeds))
            rows[name] = writer.writerow
        yield rows


def _manifest(experiment: Experiment, prepared: Sequence[Prepared], failures: Sequence[Failure]) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "name": experiment.name,
        "seed": experiment.seed,
        **({"seeds": list(experiment.seeds)} if experiment.seeds else {}),
        "measures": [str(measure) for measure in experiment.measures],
        "baseline": experiment.baseline,
        "tests": list(experiment.tests),
        "correction": experiment.correction,
        "protocol": None if experiment.protocol is None else experiment.protocol.as_dict(),
        "methods": [spec.as_dict() for spec in experiment.methods],
        "data": [data.as_dict() for data in prepared],
        "versions": {
            "rankwright": rankwright.__version__,
            "code": code_version().partition(" ")[2],
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _LIBRARIES},
        },
        "platform": hardware(),
        "failures": [
            {key: value for key, value in vars(failure).items() if key != "seed" or experiment.seeds}
            for failure in failures
        ],
    }


def hardware() -> dict[str, Any]:
    """The system, processor, cores and memory, as far as it says."""
    facts: dict[str, Any] = {"system": platform.platform(), "machine": platform.machine(), "cores": os.cpu_count()}
    with suppress(OSError):
        named = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        facts |= {"cpu": named[0].partition(":")[2].strip()} if named else {}
    with suppress(AttributeError, OSError, ValueError):  # not on every system
        facts["memory_gib"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return facts


def _means(results: Results) -> Tabled:
    """Rows are methods, columns are measures, each with wins and losses against the baseline."""
    rows: list[tuple[str, ...]] = []
    best: set[tuple[int, int]] = set()
    notes: list[str] = []
    for data in results.data:
        evaluations = results.evaluations(data)
        comparison = _compared(results, data, evaluations)
        best |= {(len(rows) + at, column) for at, column in _best_means(results, evaluations)}
        for evaluation in evaluations:
            cells = []
            for measure, mean in evaluation.means.items():
                row = _difference(comparison, evaluation.name, measure)
                marks = "" if row is None else _significance(row, results.manifest["tests"])
                cells += [figure(mean) + marks, "" if row is None else f"{row.wins}/{row.losses}"]
            rows.append((data, _named(results, evaluation.name), *cells))
        notes += [f"{data}: {len(evaluation.query_ids)} queries" for evaluation in evaluations[:1]]
    header = ("data", "method", *(name for measure in results.measures for name in (str(measure), "w/l")))
    notes += [*_method(results), *_notes(results)]
    return Tabled(header, tuple(rows), tuple(notes), 2, group_starts(rows), frozenset(best))


def _best_means(results: Results, evaluations: Sequence[Evaluation]) -> list[tuple[int, int]]:
    """The cells of a data set with the highest mean of their measure, as displayed; none if there is one method."""
    best = []
    for at, measure in enumerate(map(str, results.measures)):
        means = [_shown(evaluation.means[measure]) for evaluation in evaluations]
        if len(means) > 1 and max(means) > -math.inf:
            best += [(row, 2 + 2 * at) for row, mean in enumerate(means) if mean == max(means)]
    return best


def _named(results: Results, method: str) -> str:
    return f"{method} (baseline)" if method == results.manifest["baseline"] else method


def _compared(results: Results, data: str, evaluations: Sequence[Evaluation]) -> Comparison | None:
    names = [evaluation.name for evaluation in evaluations]
    return results.compare(data) if len(names) > 1 and results.manifest["baseline"] in names else None


def _difference(comparison: Comparison | None, method: str, measure: str) -> Difference | None:
    rows = () if comparison is None else comparison.differences
    return next((row for row in rows if (row.system, row.measure) == (method, measure)), None)


def _significance(row: Difference, tests: Sequence[str]) -> str:
    """A star for a single test; a letter for each of several, a space for those that are not significant."""
    marks = ["*" if len(tests) == 1 else _LETTERS[test] for test in tests]
    return "".join(mark if row.p_corrected[test] < _ALPHA else " " for test, mark in zip(tests, marks, strict=True))


def _method(results: Results) -> list[str]:
    tests, correction = results.manifest["tests"], results.manifest["correction"]
    after = "" if correction == "none" else f" after {correction.capitalize()}'s correction for the methods compared"
    if len(tests) == 1:
        marks = f"* p < {_ALPHA:g} by the two-tailed {TESTS[tests[0]][0]}{after}"
    else:
        listed = ", ".join(f"{_LETTERS[test]} {TESTS[test][0]}" for test in tests)
        marks = f"p < {_ALPHA:g}{after}, two-tailed: {listed}"
    return [
        "means: each query averaged over the splits that test it, then over queries",
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
    total, done = results.manifest["cells"]["total"], results.manifest["cells"]["done"]
    return notes if done == total else [*notes, f"{total - done} of {total} cells are missing"]


def _criterion(results: Results) -> Tabled:
    """Rows are the measures trained for, columns the measures tested on."""
    goals = {entry["name"]: entry.get("trained_for") for entry in results.manifest["methods"]}
    if not any(goals.values()):
        raise InputError("no method has trained_for; expected it in the experiment file")
    rows: list[tuple[str, ...]] = []
    for data in results.data:
        evaluations = [evaluation for evaluation in results.evaluations(data) if goals[evaluation.name]]
        best = {
            measure: max((_shown(e.means[measure]) for e in evaluations), default=math.nan)
            for measure in map(str, results.measures)
        }
        for evaluation in evaluations:
            means = [(figure(mean), _shown(mean) == best[measure]) for measure, mean in evaluation.means.items()]
            cells = [f"{_OPEN}{text}{_CLOSE}" if is_best and text != "–" else text for text, is_best in means]
            rows.append((data, str(goals[evaluation.name]), evaluation.name, *cells))
    header = ("data", "trained for", "method", *map(str, results.measures))
    notes = (f"{_OPEN}best{_CLOSE} of each column", *_method(results)[:1], *_notes(results))
    return Tabled(header, tuple(rows), notes, 3, group_starts(rows))


def _times(results: Results) -> Tabled:
    """Rows are methods, columns are seconds: to train the chosen model, and to train everything that was tried."""
    _, records = _times_records(results)
    rows = [(data, _named(results, method), *map(_time, times)) for data, method, *times in records]
    header = ("data", "method", "train", "ratio", "choose and train", "ratio")
    notes = (
        "seconds per split, mean over the splits: to train the chosen model, and to train everything that was tried",
        "ratio: to the baseline; compile time is not counted; parallel processes slow each other down",
    )
    return Tabled(header, tuple(rows), notes, 2, group_starts(rows))


_TABLES = {"means": _means, "criterion": _criterion, "times": _times}


def _times_records(results: Results) -> tuple[list[str], list[list[Any]]]:
    """A header, and by data set and method the seconds of :meth:`Results.seconds`, each with its ratio."""
    records: list[list[Any]] = []
    for data in results.data:
        seconds = results.seconds(data)
        base = seconds.get(results.manifest["baseline"], (math.nan, math.nan))
        for method, both in seconds.items():
            ratios = [value / other if other > 0 else math.nan for value, other in zip(both, base, strict=True)]
            records.append([data, method, both[0], ratios[0], both[1], ratios[1]])
    return ["data", "method", "seconds_train", "ratio_train", "seconds_tune", "ratio_tune"], records


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
    header = ["data", "method", "trained_for", "measure", "queries", "mean"]
    if kind == "means":
        header += ["difference", "low", "high", "wins", "ties", "losses"]
        header += [f"{name}_{test}" for name in ("p", "p_corrected") for test in tests]
    records: list[list[Any]] = []
    for data in results.data:
        evaluations = results.evaluations(data)
        comparison = _compared(results, data, evaluations) if kind == "means" else None
        for evaluation in evaluations:
            goal = goals[evaluation.name]
            for measure, mean in evaluation.means.items() if kind == "means" or goal else ():
                record: list[Any] = [data, evaluation.name, goal, measure, len(evaluation.query_ids), mean]
                row = _difference(comparison, evaluation.name, measure)
                if row is not None:
                    record += [row.difference, *row.interval, row.wins, row.ties, row.losses]
                    record += [p[test] for p in (row.p, row.p_corrected) for test in tests]
                records.append(record + [""] * (len(header) - len(record)))
    return header, records
