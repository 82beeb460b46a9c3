"""Runs an experiment of ``experiments/`` and makes figures of its results folder: `results/NAME.json`.

Tables: ``means`` (data set, method, number of queries, a column a measure), ``differences`` from the baseline with the
p-values of every test, raw and corrected, ``p of pairs`` (methods against each other, raw, by the first test, for the
measure that chooses), ``times`` (mean seconds of a split), ``chosen`` (how many splits chose which parameters),
``fits`` (mean value on validation and training queries), ``health`` (at the largest C) and ``notes``. The results
folder stays, so that an interrupted experiment resumes; its CPU time is counted over all sessions.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from code_hash import EXPERIMENTS, code_of
from figures import RESULTS, Table, write_results
from rankwright.evaluation.significance import p_value
from rankwright.experiments import Results, load_experiment, run_experiment
from rankwright.experiments.preparing import code_version
from rankwright.experiments.running import Status
from rankwright.reports.results import ResultsFolder, read_results

__all__ = ["figures", "run"]

Line = tuple[str, str]  # of a table: data set and method


def run(name: str, root: Path, jobs: int) -> None:
    """Run an experiment, or resume it, and write its figures."""
    file, code = EXPERIMENTS / f"{name}.toml", code_of(name)
    experiment = load_experiment(file, data=root)
    with cpu_time(experiment.output / "cpu.json") as spent:
        results = run_experiment(experiment, n_jobs=jobs, progress=show)
    if results.failures:
        failure = results.failures[0]
        raise SystemExit(f"{name}: {failure['method']} on {failure['data']} failed: {failure['reason']}")
    write_results(
        RESULTS / f"{name}.json",
        command=f"rankwright experiment run experiments/{name}.toml --data DATA",
        code=code,
        data=checksums(results.manifest["data"], root),
        cpu_seconds=spent(),
        tables=figures(results),
    )


def show(status: Status) -> None:
    """Show the progress, a line for every cell."""
    print(f"{status.done} of {status.total}: {status.doing}", file=sys.stderr, flush=True)


@contextmanager
def cpu_time(file: Path) -> Iterator[Callable[[], float]]:
    """Yield what returns the CPU seconds of this session and of those that a file has, with the same code."""
    began, code = sum(os.times()[:4]), code_version()
    earlier = json.loads(file.read_text()) if file.is_file() else {}
    before: float = earlier["cpu_seconds"] if earlier.get("code") == code else 0.0

    def spent() -> float:
        return before + sum(os.times()[:4]) - began

    try:
        yield spent
    finally:
        if file.parent.is_dir():
            file.write_text(json.dumps({"cpu_seconds": spent(), "code": code}))


def checksums(entries: Any, root: Path) -> dict[str, str]:
    """The start of the SHA-256 of every file in a list of the manifest, by its path in the data folder."""
    files: dict[str, str] = {}
    for entry in entries:
        for about in entry.get("files", {}).values():
            path = Path(about["path"]).resolve()
            inside = path.relative_to(root.resolve()) if path.is_relative_to(root.resolve()) else Path(path.name)
            files[inside.as_posix()] = about["sha256"][:16]
        files |= checksums(entry.get("backgrounds", ()), root)
    return files


# Tables


def figures(results: Results) -> list[Table]:
    """All tables of a results folder."""
    folder = read_results(results.folder)
    return [
        means(results),
        differences(results),
        pairs(results),
        seconds(results),
        chosen(folder),
        fits(folder),
        health(folder),
        notes(folder),
    ]


def means(results: Results) -> Table:
    """Each query averaged over the splits that test it, then over queries."""
    goals = {entry["name"]: entry.get("trained_for") for entry in results.manifest["methods"]}
    rows = [
        [data, one.name, goals[one.name], len(one.query_ids), *one.means.values()]
        for data in results.data
        for one in results.evaluations(data)
    ]
    measures = [str(measure) for measure in results.measures]
    head = ["data", "method", "trained for", "queries", *measures]
    return Table("means", head, rows, ["", "", "", "integer", *["short"] * len(measures)])


def differences(results: Results) -> Table:
    """Every method against the baseline, with the tests and the correction of the experiment."""
    tests = results.manifest["tests"]
    rows = [
        [data, one.system, one.measure, one.difference, one.wins, one.losses]
        + [p for test in tests for p in (one.p[test], one.p_corrected[test])]
        for data in results.data
        for one in results.compare(data).differences
    ]
    columns = [column for test in tests for column in (f"p {test}", f"corrected {test}")]
    head = ["data", "method", "measure", "difference", "wins", "losses", *columns]
    return Table("differences", head, rows, ["", "", "", "signed", "integer", "integer", *["p"] * len(columns)])


def pairs(results: Results) -> Table:
    """The p-values of all pairs of methods for the measure that most of them choose by, or for the first."""
    names = [str(measure) for measure in results.measures]
    ((chooses, _),) = Counter(entry["choose_by"] for entry in results.manifest["methods"]).most_common(1)
    at = names.index(chooses) if chooses in names else 0
    test, seed = results.manifest["tests"][0], results.manifest["seed"]
    rows: list[list[Any]] = []
    for data in results.data:
        values = {one.name: one.values[np.argsort(one.query_ids), at] for one in results.evaluations(data)}
        for method, own in values.items():
            p = {other: p_value(test, own - theirs, random_state=seed) for other, theirs in values.items()}
            rows.append([data, method, *(p.get(other) for other in results.methods)])
    return Table("p of pairs", ["data", "method", *results.methods], rows, "p")


def seconds(results: Results) -> Table:
    """Mean seconds of a split: to train the chosen model, and to train everything that was tried."""
    rows = [[data, method, *both] for data in results.data for method, both in results.seconds(data).items()]
    return Table("times", ["data", "method", "train", "choose and train"], rows, "2 significant")


def chosen(folder: ResultsFolder) -> Table:
    """How many splits chose which parameters."""
    counts: dict[Line, Counter[str]] = {}
    for row in folder.runs:
        text = ", ".join(f"{key} = {value}" for key, value in row.parameters.items())
        counts.setdefault((row.data, row.method), Counter())[text] += 1
    rows = [[*line, text, n] for line, counted in counts.items() for text, n in sorted(counted.items()) if text]
    return Table("chosen", ["data", "method", "parameters", "splits"], rows)


def fits(folder: ResultsFolder) -> Table:
    """Mean value on validation and on training queries, of the measure that chooses."""
    values: dict[Line, list[tuple[float, float]]] = {}
    for row in folder.runs:
        values.setdefault((row.data, row.method), []).append((row.validation, row.training))
    rows = [[*line, *np.mean(both, axis=0).tolist()] for line, both in values.items()]
    return Table("fits", ["data", "method", "validation", "training"], rows, "short")


def health(folder: ResultsFolder) -> Table:
    """The state of training at the largest C, mean over splits; slack and objective relative to weights of 0."""
    columns = ("slack_ratio", "objective_ratio", "norm", "gap", "passes")
    points: dict[Line, dict[float, list[list[float]]]] = {}
    for row in folder.health:
        found = [row.figures.get(name, float("nan")) for name in columns]
        points.setdefault((row.data, row.method), {}).setdefault(row.C, []).append(found)
    rows = [[*line, max(at), *np.mean(at[max(at)], axis=0).tolist()] for line, at in points.items()]
    forms = ["", "", "", "3 digits", "3 digits", "2 digits", "2 significant", "integer"]
    return Table("health", ["data", "method", "C", *columns], rows, forms)


def notes(folder: ResultsFolder) -> Table:
    """What training had to say, and in how many splits."""
    counts = Counter((row.data, row.method, note) for row in folder.runs for note in row.note.split("; ") if note)
    return Table("notes", ["data", "method", "note", "splits"], [[*line, n] for line, n in counts.items()])
