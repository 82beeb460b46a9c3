"""The results of an experiment as plain files: tidy CSV tables and one JSON manifest, written from its cells."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import rankwright
from rankwright.data.files import replace_file
from rankwright.experiments.cells import Cell, Failure, read_cell
from rankwright.experiments.config import Experiment
from rankwright.experiments.preparing import Prepared
from rankwright.experiments.results import COLUMNS, EXPERIMENT, MANIFEST, read_manifest

__all__ = ["write_results"]

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")
_HEALTH = COLUMNS["health"][4:]


def write_results(
    experiment: Experiment,
    prepared: Sequence[Prepared],
    cells: Sequence[Cell],
    failures: Sequence[Failure],
    session: dict[str, Any],
) -> None:
    """Write the tables and the manifest of all cells that are there.

    Parameters
    ----------
    experiment, prepared, cells
        What was run.
    failures : sequence of Failure
        The cells that could not be computed.
    session : dict
        When and how.
    """
    folder = experiment.output
    reasons = {(failure.data, failure.split, failure.method): failure.reason for failure in failures}
    tested: dict[str, dict[str, None]] = {one.name: {} for one in prepared}
    definitions: dict[str, list[str]] = {}
    done = 0
    names = ("per_query", "runs", "paths", "rounds", "health")
    with _tables(folder, names) as rows:
        for cell in cells:
            place = [cell.data, cell.split, cell.spec.name]
            failure = reasons.get((cell.data, cell.split, cell.spec.name))
            if failure is not None:
                rows["runs"]([*place, "", "", "", "", "", "", f"failed: {failure}", ""])
            if failure is not None or not cell.file.is_file():
                continue
            record = read_cell(cell)
            done += 1
            tested[cell.data].update(dict.fromkeys(record["queries"]))
            definitions.setdefault(cell.data, record["definitions"])
            _write_cell(cell, record, place, rows)
    with _tables(folder, ("queries",)) as rows:
        for one in prepared:
            for query in tested[one.name]:
                rows["queries"]([one.name, query, *one.queries.get(query, ("", ""))])
    with replace_file(folder / EXPERIMENT) as out:
        out.write(experiment.text.encode())
    counts = {"total": len(cells), "done": done, "failed": len(failures), "missing": len(cells) - done - len(failures)}
    manifest = _manifest(experiment, prepared, failures) | {"cells": counts, "definitions": definitions}
    sessions = read_manifest(folder).get("sessions", []) if (folder / MANIFEST).is_file() else []
    if not sessions or session["cells"] or failures:
        sessions = [*sessions, session]
    manifest |= {"complete": done == len(cells), "sessions": sessions}
    manifest |= {"command": sessions[-1]["command"], "started": sessions[0]["started"]}
    manifest["finished"] = sessions[-1]["finished"]
    manifest["seconds"] = sum(one["seconds"] for one in sessions)
    with replace_file(folder / MANIFEST) as out:
        out.write((json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())


def _write_cell(cell: Cell, record: dict[str, Any], place: list[Any], rows: dict[str, Any]) -> None:
    for query, values in zip(record["queries"], record["values"], strict=True):
        for measure, value in zip(record["measures"], values, strict=True):
            rows["per_query"]([*place, query, measure, value])
    figures = [record[key] for key in COLUMNS["runs"][4:9]]
    model = "" if cell.model is None else f"models/{cell.model.name}"
    rows["runs"]([*place, _json(record["chosen"]), *figures, "; ".join(record["notes"]), model])
    for point in record["path"]:
        if record["validation"] is not None:
            rows["paths"]([*place, _json(point["parameters"]), point["validation"]])
        if "gap" in point:  # cells of older versions have fewer figures
            C = point["C"] if "C" in point else point["parameters"]["C"]
            rows["health"]([*place, C, *(point.get(key) for key in _HEALTH)])
    for number, value in enumerate(record["rounds"], 1):
        rows["rounds"]([*place, number, value])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@contextmanager
def _tables(folder: Path, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """A function for every table that writes a row; the files appear when all are complete."""
    with ExitStack() as stack:
        rows = {}
        for name in names:
            raw = stack.enter_context(replace_file(folder / f"{name}.csv"))
            text = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=True)
            stack.callback(text.detach)
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(COLUMNS[name])
            rows[name] = writer.writerow
        yield rows


def _manifest(experiment: Experiment, prepared: Sequence[Prepared], failures: Sequence[Failure]) -> dict[str, Any]:
    """What was run, on what, with what."""
    return {
        "format": 1,
        "name": experiment.name,
        "seed": experiment.seed,
        "measures": list(experiment.measures),
        "baseline": experiment.baseline,
        "tests": list(experiment.tests),
        "correction": experiment.correction,
        "protocol": None if experiment.protocol is None else experiment.protocol.as_dict(),
        "methods": [spec.as_dict() for spec in experiment.methods],
        "data": [one.as_dict() for one in prepared],
        "versions": {
            "rankwright": rankwright.__version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _LIBRARIES},
        },
        "platform": {"system": platform.platform(), "machine": platform.machine(), "cores": os.cpu_count()},
        "failures": [vars(failure) for failure in failures],
    }
