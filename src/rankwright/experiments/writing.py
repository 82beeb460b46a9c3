"""Writes the results folder of an experiment from its cells, as plain files; its manifest says what was run.

A folder never has less than before: results of fewer cells are kept in a folder inside it until they are complete.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import rankwright
from rankwright.errors import InputError
from rankwright.experiments.cells import Cell, Failure, file_word
from rankwright.experiments.config import Experiment
from rankwright.experiments.preparing import Prepared, code_version
from rankwright.experiments.testing import Tested, evaluate_cells, relevant_counts, top_documents
from rankwright.io.files import replace_file
from rankwright.io.trec import write_run
from rankwright.reports.results import (
    COLUMNS,
    EXPERIMENT,
    FIGURES,
    FORMAT,
    HEALTH,
    MANIFEST,
    UNFINISHED,
    columns_of,
    read_manifest,
)

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")


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
    with replace_file(folder / EXPERIMENT) as out:
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
    for name in (*(f"{table}.csv" for table in COLUMNS), EXPERIMENT, MANIFEST):
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


def write_runs(
    experiment: Experiment,
    cells: Sequence[Cell],
    manifest: dict[str, Any],
    is_annotated: bool,
    advance: Callable[[int], None],
) -> None:
    """Write the ranking of every finished cell as a TREC run: ``runs/DATA/METHOD/split1.run`` in the results folder."""
    written: set[Path] = set()
    for cell, found in evaluate_cells(cells, advance):
        if isinstance(found, Tested):
            folder = experiment.output / "runs" / file_word(cell.data) / file_word(cell.spec.name)
            folder.mkdir(parents=True, exist_ok=True)
            name = f"split{cell.split}" + (f"-seed{cell.seed}" if experiment.seeds else "")
            tag = "_".join(cell.spec.name.split())
            head = ir_metadata(cell, tag, found.record, manifest) if is_annotated else ()
            if (folder / name) in written:  # by another method, whose name differs in signs that files cannot have
                name += f"-{cell.file.stem[:8]}"
            written.add(folder / name)
            write_run(found.run(), folder / f"{name}.run", tag, head)


def ir_metadata(cell: Cell, tag: str, record: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    """What a run is, in the lines of ir_metadata (Breuer, Keller and Schaer 2022): YAML, whose values are JSON."""
    platform, versions = manifest["platform"], manifest["versions"]
    libraries = [f"{name}=={version}" for name, version in versions.items() if name not in ("python", "code")]
    facts: dict[str, Any] = {
        "tag": tag,
        "platform": {
            "hardware": {key: platform[key] for key in ("cpu", "machine", "cores", "memory_gib") if key in platform},
            "operating system": {"platform": platform["system"]},
            "software": {"python": versions["python"], "libraries": {"python": libraries}},
        },
        "research goal": {
            "evaluation": {
                "reported measures": manifest["measures"],
                "baseline": [manifest["baseline"]],
                "significance test": [
                    {"name": test, "correction": manifest["correction"]} for test in manifest["tests"]
                ],
            }
        },
        "implementation": {"name": "rankwright", "version": versions["rankwright"], "code": versions["code"]},
        "method": {
            "automatic": True,
            "learning to rank": cell.spec.as_dict() | {"chosen": record["chosen"], "seed": cell.seed},
        },
        "data": {"test collection": {"name": cell.data, "split": cell.split}},
    }
    return ["ir_metadata.start", *(f"{key}: {json.dumps(facts[key])}" for key in facts), "ir_metadata.end"]


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
        "format": FORMAT,
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
