"""Means of per-query values, and comparisons with the baseline, for each data set.

The values of a query are averaged over the splits that test it and over seeds. Methods are compared on the queries and
splits that all of them have. If training sets differ in size, tables are about the
largest ones; the others appear in the learning curves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.evaluation.comparison import Comparison, Difference, Pair, differences_of, pairs_among
from rankwright.evaluation.evaluate import mean_of
from rankwright.evaluation.significance import CORRECTIONS, TESTS, p_value
from rankwright.reports.results import ResultsFolder, Score, canonical

ALPHA = 0.05
_GROWN = 1.5  # training sets whose sizes differ by a smaller factor count as one size
_SAME = 1.1  # sizes within this factor are the same size


@dataclass(frozen=True)
class ComparisonProtocol:
    """How the methods are compared: names in order, the baseline, and the tests."""

    methods: tuple[str, ...]
    measures: tuple[str, ...]
    baseline: str
    tests: tuple[str, ...]
    correction: str
    confidence: float
    n_resamples: int
    seed: int

    @property
    def description(self) -> tuple[str, ...]:
        """How figures are computed, in words."""
        settings = (self.tests, self.correction, self.confidence, self.n_resamples, self.seed)
        return Comparison(self.baseline, {}, (), (), (), *settings).method

    def differences(self, methods: Sequence[str], values: Array, references: Array, measure: str) -> list[Difference]:
        """A row per method that has queries in common with its reference, which has the same place."""
        both_known = ~(np.isnan(values) | np.isnan(references))
        pairs = {
            method: (ours[known], theirs[known])
            for method, ours, theirs, known in zip(methods, values, references, both_known, strict=True)
            if known.any()
        }
        if not pairs:
            return []
        return differences_of(
            pairs,
            measure,
            tests=self.tests,
            correction=self.correction,
            confidence=self.confidence,
            n_resamples=self.n_resamples,
            random_state=self.seed,
        )


@dataclass(frozen=True, eq=False)
class DataSummary:
    """One data set: the values of every method, measure and query, and the differences by measure.

    `name`: name of the data set, maybe empty. `title`: what readers call it. `methods`, `measures`, `query_ids`: the
    three axes of ``values``. `values`: means over splits and seeds; nan if there is no value. `differences`: from the
    baseline, by measure, if the baseline and another method have queries in common. `splits`: number of splits behind
    the values. `train_size`: training queries of these splits, if other splits have fewer. `protocol`: how methods are
    compared. `notes`: what was left out, because not every method has it. `seed_means`: with several seeds, the mean of
    every seed, method and measure.
    """

    name: str
    title: str
    methods: tuple[str, ...]
    measures: tuple[str, ...]
    query_ids: tuple[str, ...]
    values: Array
    differences: dict[str, list[Difference]]
    splits: int
    train_size: int | None
    protocol: ComparisonProtocol
    notes: tuple[str, ...] = ()
    seed_means: Array | None = None

    @property
    def first_measure(self) -> str | None:
        """The first measure of the experiment that the data set has."""
        return next(iter(self.measures), None)

    def mean(self, method: str, measure: str) -> float:
        """The mean over queries; nan if there is none."""
        return mean_of(self.values[self.methods.index(method), self.measures.index(measure)])

    def seeds(self, method: str, measure: str) -> Array:
        """The mean of every seed; empty if there is one."""
        if self.seed_means is None:
            return np.empty(0)
        means: Array = self.seed_means[:, self.methods.index(method), self.measures.index(measure)]
        return means

    def ranked(self, measure: str) -> list[str]:
        """Methods that have values, best first."""
        means = {method: self.mean(method, measure) for method in self.methods}
        return sorted((m for m in means if not math.isnan(means[m])), key=lambda method: -means[method])

    def pairs(self, measure: str) -> list[Pair]:
        """All pairs of methods that have values, best first, on the queries that all have."""
        methods = self.ranked(measure)
        values = self.values[[self.methods.index(method) for method in methods], self.measures.index(measure)].T
        draws = {"n_resamples": self.protocol.n_resamples, "random_state": self.protocol.seed}
        return pairs_among(methods, values[~np.isnan(values).any(axis=1)], measure, **draws)

    def difference(self, method: str, measure: str) -> Difference | None:
        """The comparison of a method with the baseline; None for the baseline itself."""
        return next((row for row in self.differences.get(measure, ()) if row.system == method), None)

    def verdict(self, method: str, measure: str) -> int:
        """The :func:`verdict` on a method by the deciding test."""
        return verdict(self.difference(method, measure), self.protocol.tests[0])


def verdict(row: Difference | None, test: str) -> int:
    """1 if a method is significantly better than the baseline by a test, −1 if worse, 0 if neither."""
    if row is None or not row.p_corrected.get(test, 1.0) < ALPHA or row.difference == 0:
        return 0
    return 1 if row.difference > 0 else -1


def protocol_of(results: ResultsFolder) -> ComparisonProtocol:
    """How the manifest says to compare, with defaults for what it does not say."""
    manifest = results.manifest
    with_scores = _unique(score.method for score in results.scores)
    methods = _listed(manifest.get("methods"), with_scores)
    measures = _listed(
        [canonical(name) for name in _names(manifest.get("measures"))],
        _unique(score.measure for score in results.scores),
    )
    baseline = manifest.get("baseline")
    tests = tuple(test for test in _names(manifest.get("tests", manifest.get("test"))) if test in TESTS)
    correction = manifest.get("correction")
    confidence = manifest.get("confidence")
    resamples, seed = manifest.get("n_resamples"), manifest.get("seed")
    return ComparisonProtocol(
        methods,
        measures,
        baseline if isinstance(baseline, str) and baseline in with_scores else methods[0],
        tests or ("wilcoxon", "t"),
        correction if correction in CORRECTIONS else "holm",
        confidence if isinstance(confidence, float) and 0 < confidence < 1 else 0.95,
        resamples if isinstance(resamples, int) and resamples > 0 else 9999,
        seed if isinstance(seed, int) and seed >= 0 else 0,
    )


def train_sizes(results: ResultsFolder, data: str) -> dict[str, float]:
    """Training queries by split, if the training sets of a data set clearly differ in size; otherwise empty."""
    sizes: dict[str, float] = {}
    for run in results.runs:
        if run.data == data and run.n_train_queries > 0:
            sizes[run.split] = max(run.n_train_queries, sizes.get(run.split, 0.0))
    return sizes if sizes and max(sizes.values()) >= _GROWN * min(sizes.values()) else {}


def summaries(
    results: ResultsFolder,
    protocol: ComparisonProtocol,
    progress: Callable[[int, int], None] | None = None,
    *,
    compared: bool = True,
) -> list[DataSummary]:
    """One summary per data set, in file order.

    `results`, `protocol`: the values, and how methods are compared. `progress`: called with the number of comparisons
    done and the total. `compared`: whether methods are compared with the baseline.
    """
    by_data: dict[str, list[Score]] = defaultdict(list)
    for score in results.scores:
        by_data[score.data].append(score)
    data: list[DataSummary] = []
    n_measures = len(protocol.measures)
    for name, scores in by_data.items():
        summary = _summary(name, scores, results, protocol, compared)
        for column, measure in enumerate(summary.measures if compared else ()):
            if rows := _from_baseline(summary, column):
                summary.differences[measure] = rows
            if progress is not None:
                progress(len(data) * n_measures + column + 1, len(by_data) * n_measures)
        data.append(summary)
    return data


def _summary(
    name: str, scores: list[Score], results: ResultsFolder, protocol: ComparisonProtocol, compared: bool
) -> DataSummary:
    """A data set before its methods are compared."""
    sizes = train_sizes(results, name)
    largest = max(sizes.values(), default=math.nan)
    kept = [score for score in scores if sizes.get(score.split, largest) * _SAME >= largest] if sizes else scores
    kept, notes = common(kept, protocol.methods, protocol.baseline) if compared else (kept, [])
    names = {score.method for score in kept}
    methods = tuple(method for method in protocol.methods if method in names)
    used = {score.measure for score in kept}
    measures = tuple(measure for measure in protocol.measures if measure in used)
    queries = tuple(_unique(score.query for score in kept))
    values = averaged(kept, methods, measures, queries)
    seeds = list(dict.fromkeys(score.seed for score in kept))
    splits = len({score.split.removesuffix(f", seed {score.seed}") for score in kept})
    named = results.manifest.get("data")
    title = name or (named if isinstance(named, str) and named else "all queries")
    size = round(largest) if sizes else None
    seed_means = None
    if len(seeds) > 1:
        of_seeds = [averaged([s for s in kept if s.seed == seed], methods, measures, queries) for seed in seeds]
        seed_means = np.array([[[mean_of(column) for column in rows] for rows in of] for of in of_seeds])
    return DataSummary(
        name, title, methods, measures, queries, values, {}, splits, size, protocol, tuple(notes), seed_means
    )


def common(scores: Sequence[Score], methods: Sequence[str], baseline: str) -> tuple[list[Score], list[str]]:
    """The scores of the splits and queries that every method has, and in sentences what was left out.

    A method that has less than half of what the baseline, and those with more, have in common is left out instead.
    """
    places: dict[str, set[tuple[str, str]]] = {}
    for score in scores:
        places.setdefault(score.method, set()).add((score.split, score.query))
    if not places or all(of == next(iter(places.values())) for of in places.values()):
        return list(scores), []
    order = sorted((m for m in methods if m in places), key=lambda method: (method != baseline, -len(places[method])))
    shared, apart = places[order[0]], []
    for method in order[1:]:
        if 2 * len(shared & places[method]) >= len(shared):
            shared = shared & places[method]
        else:
            apart.append(method)
    every = set().union(*(places[method] for method in order if method not in apart))
    lacking = [method for method in order if method not in apart and len(places[method]) < len(every)]
    notes = []
    if lacking:
        counts = [len({place[at] for place in of}) for of in (shared, every) for at in (1, 0)]
        some = f"{counts[0]:,} of {counts[2]:,} queries"
        some += f", in {counts[1]:,} of {counts[3]:,} splits" if counts[1] < counts[3] else ""
        notes.append(f"compared on {some}: those that every method has (incomplete: {', '.join(lacking)})")
    if apart:
        few = [f"{method} ({len({query for _, query in places[method] & shared}):,})" for method in apart]
        total = f"{len({query for _, query in shared}):,}"
        notes.append(f"left out, as they have too few of the queries that the others have ({total}): {', '.join(few)}")
    return [s for s in scores if s.method not in apart and (s.split, s.query) in shared], notes


def about_seeds(gains: Array, method: str, measure: str, baseline: str) -> str:
    """What the seeds say of a difference that is significant over queries; empty if they agree.

    `gains`: the mean difference by seed. What a seed does to all queries alike is no matter of queries, so a t-test
    over seeds asks again.
    """
    p = p_value("t", gains)
    if p < ALPHA:
        return ""
    spread = f"{gains.min():+.4f} to {gains.max():+.4f}".replace("-", "−")
    seeds = f"not over the {len(gains)} seeds ({spread}, p = {p:.2g} by a t-test over seeds)"
    return (
        f"{method} against {baseline} in {measure}: significant over queries, {seeds}; with other seeds it may not hold"
    )


def averaged(scores: Sequence[Score], methods: Sequence[str], measures: Sequence[str], queries: Sequence[str]) -> Array:
    """Means over splits, as an array of methods × measures × queries; nan where there is no value."""
    places = [{name: at for at, name in enumerate(names)} for names in (methods, measures, queries)]
    at = np.array([(places[0][s.method], places[1][s.measure], places[2][s.query]) for s in scores], np.int64)
    at = at.reshape(-1, 3)
    value = np.array([score.value for score in scores])
    at, value = at[~np.isnan(value)], value[~np.isnan(value)]
    shape = (len(methods), len(measures), len(queries))
    flat = np.ravel_multi_index(tuple(at.T), shape)
    count = np.bincount(flat, minlength=math.prod(shape))
    total = np.bincount(flat, weights=value, minlength=math.prod(shape))
    with np.errstate(invalid="ignore"):
        return (total / count).reshape(shape)


def _from_baseline(summary: DataSummary, column: int) -> list[Difference]:
    """All methods that share a query with the baseline, against it, in one measure."""
    baseline, values = summary.protocol.baseline, summary.values[:, column]
    if baseline not in summary.methods:
        return []
    others = [method for method in summary.methods if method != baseline]
    places = [summary.methods.index(method) for method in others]
    references = np.broadcast_to(values[summary.methods.index(baseline)], (len(others), values.shape[1]))
    return summary.protocol.differences(others, values[places], references, summary.measures[column])


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _names(listed: Any) -> list[str]:
    """Names in a manifest: a list of names or of tables with a name, a table by name, or a single name."""
    if isinstance(listed, str):
        return [listed]
    if isinstance(listed, dict):
        return [str(name) for name in listed]
    if isinstance(listed, list):
        return [str(entry.get("name", "")) if isinstance(entry, dict) else str(entry) for entry in listed]
    return []


def _listed(wanted: Any, names: Sequence[str]) -> tuple[str, ...]:
    """The names found: first those listed, in that order, then the rest."""
    return tuple(_unique([*(name for name in _names(wanted) if name in names), *names]))
