"""Two results folders, compared: every method with itself, on the queries that both folders have.

The values of a query are averaged over splits, as in a report. A family of tests, which the correction is for, is the
methods of one data set in one measure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError
from rankwright.evaluation.comparison import Difference, difference_of
from rankwright.evaluation.significance import bootstrap_intervals, corrected, p_value
from rankwright.reports.results import Results, canonical, read_results
from rankwright.reports.statistics import DataSummary, Protocol, protocol_of, summaries

__all__ = ["Both", "Versus", "compare_folders"]

Array = npt.NDArray[Any]
_COMPARED = ("seed", "protocol", "baseline", "tests", "correction", "versions")
_FACTS = ("kind", "queries", "documents", "features", "train_queries", "valid_queries", "content")


@dataclass(frozen=True, eq=False)
class Both:
    """One data set in two folders.

    Attributes
    ----------
    name : str
        Name of the data set.
    methods, measures, query_ids : tuple of str
        What both folders have.
    before, after : ndarray of shape (methods, measures, queries)
        The values; nan if there is none.
    differences : dict of str to list of Difference
        By measure, a row per method: after minus before.
    only_before, only_after : int
        Queries that one of the folders lacks.
    summaries : tuple of DataSummary
        The data set in either folder.
    """

    name: str
    methods: tuple[str, ...]
    measures: tuple[str, ...]
    query_ids: tuple[str, ...]
    before: Array
    after: Array
    differences: dict[str, list[Difference]]
    only_before: int
    only_after: int
    summaries: tuple[DataSummary, DataSummary]


@dataclass(frozen=True, eq=False)
class Versus:
    """Two results folders.

    Attributes
    ----------
    labels : tuple of str
        What the folders are called.
    results : tuple of Results
        Their content.
    protocol : Protocol
        The tests, which are those of the second folder; methods and measures of both.
    data : list of Both
        The data sets that both have.
    only : list of str
        What one of them lacks, in sentences.
    changed : list of (str, str, str)
        What differs in what was run: name, before, after.
    warnings : list of str
        Why values may not be comparable.
    """

    labels: tuple[str, str]
    results: tuple[Results, Results]
    protocol: Protocol
    data: list[Both]
    only: list[str]
    changed: list[tuple[str, str, str]]
    warnings: list[str]


def compare_folders(
    before: str | Path, after: str | Path, progress: Callable[[int, int], None] | None = None
) -> Versus:
    """Compare two results folders.

    Raises
    ------
    InputError
        If a folder cannot be read, is given twice, or shares no method, measure and query with the other.
    """
    labels = _labels(Path(before), Path(after))
    results = read_results(before), read_results(after)
    protocols = protocol_of(results[0]), protocol_of(results[1])
    alone = [summaries(one, of, compared=False) for one, of in zip(results, protocols, strict=True)]
    pairs = [(a, b) for a in alone[0] for b in alone[1] if a.name == b.name]
    data: list[Both] = []
    for a, b in pairs:
        both = _both(a, b, protocols[1])
        if both is not None:
            data.append(both)
        if progress is not None:
            progress(len(data), len(pairs))
    if not data:
        what = "has no data set, method and query in common with"
        raise InputError(f"{what} {before}; expected results of the same methods on data of the same names", after)
    only = [*_only(labels, protocols, alone), *(line for both in data for line in _fewer(labels, both))]
    return Versus(labels, results, protocols[1], data, only, _changed(*results), _warnings(results, data))


def _labels(before: Path, after: Path) -> tuple[str, str]:
    """The names of the folders, with as many folders above them as it takes to tell them apart."""
    a, b = before.resolve().parts, after.resolve().parts
    if a == b:
        raise InputError("is given twice; expected two different results folders", after)
    for kept in range(1, max(len(a), len(b)) + 1):
        if a[-kept:] != b[-kept:]:
            return "/".join(a[-kept:]), "/".join(b[-kept:])
    return str(before), str(after)


def _both(a: DataSummary, b: DataSummary, protocol: Protocol) -> Both | None:
    methods = tuple(method for method in b.methods if method in a.methods)
    measures = tuple(measure for measure in b.measures if measure in a.measures)
    known = set(a.query_ids)
    queries = tuple(query for query in b.query_ids if query in known)
    if not (methods and measures and queries):
        return None
    before, after = (_chosen(one, methods, measures, queries) for one in (a, b))
    differences = {
        measure: _differences(methods, before[:, at], after[:, at], measure, protocol)
        for at, measure in enumerate(measures)
    }
    if not any(differences.values()):
        return None
    lost, gained = len(a.query_ids) - len(queries), len(b.query_ids) - len(queries)
    return Both(b.name, methods, measures, queries, before, after, differences, lost, gained, (a, b))


def _chosen(one: DataSummary, methods: Sequence[str], measures: Sequence[str], queries: Sequence[str]) -> Array:
    place = {query: at for at, query in enumerate(one.query_ids)}
    chosen: Array = one.values[
        np.ix_(
            [one.methods.index(method) for method in methods],
            [one.measures.index(measure) for measure in measures],
            [place[query] for query in queries],
        )
    ]
    return chosen


def _differences(
    methods: Sequence[str], before: Array, after: Array, measure: str, protocol: Protocol
) -> list[Difference]:
    """A row per method that has queries in both folders."""
    known = ~(np.isnan(before) | np.isnan(after))
    rows = [at for at in range(len(methods)) if known[at].any()]
    gains = [(after[at] - before[at])[known[at]] for at in rows]
    draws = {"n_resamples": protocol.n_resamples, "random_state": protocol.seed}
    intervals = bootstrap_intervals(gains, confidence=protocol.confidence, **draws) if rows else []
    found = []
    for at, gain, interval in zip(rows, gains, intervals, strict=True):
        p = {test: p_value(test, gain, **draws) for test in protocol.tests}
        found.append(difference_of(methods[at], measure, after[at][known[at]], before[at][known[at]], interval, p))
    for test in protocol.tests:
        raised = corrected([row.p[test] for row in found], protocol.correction) if found else []
        for row, p_raised in zip(found, raised, strict=True):
            row.p_corrected[test] = p_raised
    return found


def _only(
    labels: tuple[str, str], protocols: tuple[Protocol, Protocol], alone: Sequence[Sequence[DataSummary]]
) -> list[str]:
    lines = []
    lists = {
        "data sets": [[one.name for one in some] for some in alone],
        "methods": [list(one.methods) for one in protocols],
        "measures": [list(one.measures) for one in protocols],
    }
    for what, (a, b) in lists.items():
        for label, own, other in ((labels[0], a, b), (labels[1], b, a)):
            names = [name or "all queries" for name in own if name not in other]
            if names:
                lines.append(f"{what} only in {label}: {', '.join(names)}")
    return lines


def _fewer(labels: tuple[str, str], both: Both) -> list[str]:
    counts = ((labels[0], both.only_before), (labels[1], both.only_after))
    where = f"{both.name}: " if both.name else ""
    return [f"{where}queries only in {label}: {count:,}, left out" for label, count in counts if count]


def _changed(before: Results, after: Results) -> list[tuple[str, str, str]]:
    """What differs between two manifests: the protocol, versions, and the settings of methods and data of both."""
    a, b = _facts(before.manifest), _facts(after.manifest)
    keys = [key for key in dict.fromkeys([*a, *b]) if a.get(key) != b.get(key)]
    whole = [
        key for key in keys if not key.startswith(("method ", "data ")) or _entry(key) in _entries(a) & _entries(b)
    ]
    return [(key, _text(a.get(key)), _text(b.get(key))) for key in whole]


def _facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a manifest by name, tables in it taken apart."""
    found: dict[str, Any] = {}
    for key in _COMPARED:
        _put(found, key.replace("_", " "), manifest.get(key))
    for kind, listed in (("method", manifest.get("methods")), ("data", manifest.get("data"))):
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict) and isinstance(one.get("name"), str):
                kept = {k: v for k, v in one.items() if k != "name" and (kind == "method" or k in _FACTS)}
                found[f"{kind} {one['name']}"] = ""
                _put(found, f"{kind} {one['name']}:", kept)
    return found


def _put(found: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _put(found, f"{name} {key}".replace("_", " "), inner)
    elif value is not None:
        found[name] = value


def _entry(key: str) -> str:
    return key.partition(":")[0]


def _entries(facts: Mapping[str, Any]) -> set[str]:
    return {key for key in facts if key.startswith(("method ", "data ")) and ":" not in key}


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _warnings(results: tuple[Results, Results], data: Sequence[Both]) -> list[str]:
    """Other definitions of a measure, or other data under the same name."""
    lines = []
    contents = [_contents(one.manifest) for one in results]
    defined = [_definitions(one.manifest) for one in results]
    for both in data:
        for measure in both.measures:
            a, b = (of.get((both.name, measure)) for of in defined)
            if a and b and a != b:
                lines.append(f"{both.name}: {measure} is defined differently ({a}; {b}): its values are not comparable")
        a, b = (of.get(both.name) for of in contents)
        if a and b and a != b:
            lines.append(f"{both.name}: the data differ, so differences need not come from the methods")
    return lines


def _contents(manifest: Mapping[str, Any]) -> dict[str, Any]:
    listed = manifest.get("data")
    entries = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return {str(one.get("name")): one.get("content") for one in entries}


def _definitions(manifest: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """By data set and measure."""
    listed = manifest.get("definitions")
    found = {}
    for data, lines in listed.items() if isinstance(listed, dict) else ():
        for line in lines if isinstance(lines, list) else ():
            measure, _, text = str(line).partition(": ")
            found[str(data), canonical(measure)] = text
    return found
