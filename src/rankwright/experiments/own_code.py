"""What users bring to an experiment file: code that it names, which must be allowed, and scores of other systems.

An experiment file runs no code by itself: plugins and ``python:FILE.py:CLASS`` are refused, with their line, unless
whoever runs it allows them. The hash of a cell covers the files of such code, versions of libraries, and score files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.experiments.config import SCORES, DataSource, MethodSpec, Protocol
from rankwright.experiments.data_checks import find
from rankwright.experiments.toml import Place, Problems
from rankwright.experiments.tuning import MethodOutcome
from rankwright.importing.libraries import LIBRARIES, version_of
from rankwright.io.detect import detect
from rankwright.io.tables import read_fields
from rankwright.io.trec import read_run
from rankwright.measures import parse_measure
from rankwright.plugins import PYTHON, code_of, load_plugin, python_class, ranker_named
from rankwright.training.methods import parse_method

_ALLOW = "Python code, which is not run unless you allow it: --plugins, in Python plugins=True"


def allowed_code(
    problems: Problems, tables: dict[str, Any], folders: Sequence[Path], allowed: bool
) -> tuple[Path, ...] | None:
    """Load the plugins of a file, and find the files of ``python:`` names, which get their whole path.

    None, with the mistakes recorded, if code is named and not allowed, or cannot be loaded.
    """
    before = len(problems)
    common = tables.get("experiment")
    listed = common.get("plugins", []) if isinstance(common, dict) else []
    named: list[tuple[Any, Place]] = [(listed, ("experiment", "plugins", at)) for at in range(len(listed))]
    named = [*(named if isinstance(listed, list) else []), *_texts(tables, ())]
    named = [(holder, place) for holder, place in named if isinstance(holder[place[-1]], str)]
    if named and not allowed:
        files = dict.fromkeys(_file_and_class(holder[place[-1]])[0] for holder, place in named)
        problems.at(*named[0][1]).add(f"names {', '.join(files)}: {_ALLOW}")
        return None
    plugins: list[Path] = []
    for holder, place in named:
        here, text = problems.at(*place), holder[place[-1]]
        file, kind = _file_and_class(text)
        path = find(file, folders)
        if path is None or (kind is not None and not kind.isidentifier()):
            what = "a Python file" if kind is None else f"{PYTHON}FILE.py:CLASS"
            here.add(f"no {file} in {' or '.join(map(str, folders))}; expected {what}")
        elif kind is None:
            plugins.append(path)
            try:
                load_plugin(path)
            except InputError as error:
                here.add(str(error))
        else:
            if place[-1] == "method":
                holder.setdefault("name", text)
            holder[place[-1]] = f"{PYTHON}{path.resolve()}:{kind}"
    return None if len(problems) > before else tuple(plugins)


def _file_and_class(text: str) -> tuple[str, str | None]:
    """The file that a text names, and the class in it; None for a plugin."""
    if not text.startswith(PYTHON):
        return text, None
    file, _, kind = text.removeprefix(PYTHON).rpartition(":")
    return file or text, kind


def _texts(value: Any, place: Place) -> Iterator[tuple[Any, Place]]:
    """Where a text that names a class is: the table or list that holds it, and its place."""
    for key, entry in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(entry, dict | list):
            yield from _texts(entry, (*place, key))
        elif isinstance(entry, str) and entry.startswith(PYTHON):
            yield value, (*place, key)


def code_of_method(spec: MethodSpec) -> dict[str, str]:
    """By name, hashes of the user's code that a method uses, and versions of libraries."""
    codes = {str(spec.choose_by): code_of(type(spec.choose_by))}
    if spec.method.startswith(SCORES):
        codes |= {"scores": hashlib.sha256(Path(spec.method.removeprefix(SCORES)).read_bytes()).hexdigest()}
    elif not spec.is_feature:
        texts = _strings([spec.method, spec.parameters, spec.grid])
        codes |= {portable(text): _code(text) for text in texts}
    return {name: code for name, code in codes.items() if code}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _strings(entry)


def _code(text: str) -> str:
    """The hash of the code that a text in an experiment file stands for; empty if it is the package's."""
    if text in LIBRARIES:
        return version_of(text)
    kind = python_class(text) if text.startswith(PYTHON) else ranker_named(text)
    if kind is not None:
        return code_of(kind)
    try:
        loss = parse_method(text).loss if text.startswith("svm-") else text
        return "" if loss is None else code_of(type(parse_measure(loss)))
    except InputError:  # a text of another kind
        return ""


def portable(value: Any) -> Any:
    """Settings with files of code by their names: their content counts, and not where they are."""
    if isinstance(value, str):
        if not value.startswith((PYTHON, SCORES)):
            return value
        start, file = value.partition(":")[0], value.partition(":")[2]
        return f"{start}:{file.replace(chr(92), '/').rpartition('/')[2]}"
    if isinstance(value, dict):
        return {key: portable(entry) for key, entry in value.items()}
    return [portable(entry) for entry in value] if isinstance(value, list | tuple) else value


# Scores of other systems: TREC runs, or files with a score per line, for every split.


def check_scores(
    problems: Problems,
    spec: MethodSpec,
    sources: Sequence[DataSource | None],
    protocol: Protocol | None,
    folders: Sequence[Path],
) -> MethodSpec:
    """The method with the folder of its files, which must all be there."""
    pattern = spec.method.removeprefix(SCORES)
    names = [
        _filled(pattern, source.name, k)
        for source in sources
        if source is not None
        for k in range(1, _n_splits(source, protocol) + 1)
    ]
    for folder in folders:
        if all((folder / name).is_file() for name in names):
            return dataclasses.replace(spec, method=f"{SCORES}{folder / pattern}")
    missing = next((name for name in names if not any((folder / name).is_file() for folder in folders)), names[0])
    expected = "expected a file for every split {k} and data set {data}"
    problems.add(f"no {missing} in {' or '.join(map(str, folders))}; {expected}", "scores")
    return spec


def _filled(pattern: str, data: str, k: int) -> str:
    return pattern.replace("{k}", str(k)).replace("{data}", data)


def _n_splits(source: DataSource, protocol: Protocol | None) -> int:
    roles = [role for role in source.files if role.partition("/")[0].isdecimal()]
    if source.kind in ("folds", "parts"):
        return len({role.partition("/")[0] for role in roles})
    if source.kind == "fixed" or protocol is None:
        return 1
    return {"folds": protocol.folds, "trials": protocol.trials}.get(protocol.kind, 1)


def with_scores_of(spec: MethodSpec, data: str, k: int) -> MethodSpec:
    """The method with the file of a split, if its scores are in files."""
    is_filled = spec.method.startswith(SCORES)
    return dataclasses.replace(spec, method=_filled(spec.method, data, k)) if is_filled else spec


def read_scores(spec: MethodSpec, test: RankingData) -> tuple[MethodOutcome, Array]:
    """The scores of the test documents, in the caller's order; NaN for those that a run lacks."""
    path = Path(spec.method.removeprefix(SCORES))
    kind = detect(path)
    if kind not in ("run", "scores"):
        raise InputError(f"contains {kind}; expected a TREC run, or one score per line", path)
    notes: list[str] = []
    if kind == "run":
        scores, notes = _of_run(path, test)
    else:
        scores = np.concatenate([chunk.numbers("score") for chunk in read_fields(path, ("score",), ("score",))])
        if len(scores) != test.n_docs:
            message = f"{len(scores):,} scores for {test.n_docs:,} test documents"
            raise InputError(f"{message}; expected one for each, or a TREC run", path)
    return MethodOutcome(spec, None, {}, math.nan, math.nan, notes=notes), scores


def _of_run(path: Path, test: RankingData) -> tuple[Array, list[str]]:
    """The scores of a run, and what it lacks."""
    if test.doc_ids is None:
        raise InputError("is a run, but the data has no document ids; expected one score per line", path)
    run = read_run(path).select(test.query_ids)
    queries = np.repeat(np.asarray(run.query_ids).astype(str), np.diff(run.indptr)).tolist()
    score_of = dict(zip(zip(queries, run.documents, strict=True), np.asarray(run.values).tolist(), strict=True))
    ids = [str(document).encode() for document in test.doc_ids.tolist()]
    keys = list(zip(np.repeat(np.asarray(test.query_ids).astype(str), test.sizes).tolist(), ids, strict=True))
    scores = np.array([score_of.get(key, math.nan) for key in keys])
    here = {query for query, _ in score_of}
    asked = [str(query) for query in test.query_ids.tolist()]
    absent = sum(query not in here for query in asked)
    lacking = sum(math.isnan(score) and key[0] in here for key, score in zip(keys, scores.tolist(), strict=True))
    other = len(score_of) - int((~np.isnan(scores)).sum())
    counts = (
        (absent, f"of {len(asked):,} test queries are not in {path.name} and count as without results"),
        (lacking, f"test documents of the other queries are not in {path.name} and count as not retrieved"),
        (other, f"documents of {path.name} are not in the data and are left out"),
    )
    if absent == len(asked):
        raise InputError(f"has none of the {len(asked):,} test queries; expected a run of them", path)
    return test.to_caller_order(scores), [f"{number:,} {text}" for number, text in counts if number]
