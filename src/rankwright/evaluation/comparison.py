"""Systems against a baseline, query by query: means, differences, intervals, significance; curves by depth."""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.display import Displayed, drawn, look, new_figure, shown, write_figure
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import JUDGED, Evaluation, check_alike, shared_notes
from rankwright.evaluation.significance import (
    CORRECTIONS,
    TESTS,
    all_pairs,
    bootstrap_intervals,
    corrected,
    effect_size,
    interval_level,
    p_value,
    queries_needed,
)
from rankwright.measures import Measure, parse_measure

__all__ = ["Comparison", "QueryCurves", "compare", "curve_measures", "query_curves"]

_TIE = 1e-12  # values closer than rounding are a tie
ALPHA = 0.05  # of the test whose number of queries is computed
_ROW = 0.3  # inches of a row of a plot
_CLEARLY = 0.05  # shares of judged documents that differ by more favour one side


@dataclass(frozen=True)
class Difference:
    """One system against the baseline on one measure.

    `system`, `measure`: what is compared. `queries`: queries that both have. `mean`, `baseline_mean`, `difference`:
    means over these queries, and the mean difference. `wins`, `ties`, `losses`: number of queries on which the system
    is better, equal, worse. `interval`: confidence interval of the mean difference, as wide as the correction makes it.
    `p`, `p_corrected`: by test: the
    p-value, raw and corrected for the number of systems compared on this measure. `queries_needed`: queries with which
    a paired t-test would find this difference with the probability asked for, if it is the true one. None: not asked,
    no difference, or a million queries would not do. `effect_size`: the mean difference over the standard deviation of
    the differences; nan if that is 0.
    """

    system: str
    measure: str
    queries: int
    mean: float
    baseline_mean: float
    difference: float
    wins: int
    ties: int
    losses: int
    interval: tuple[float, float]
    p: dict[str, float]
    p_corrected: dict[str, float]
    queries_needed: int | None = None
    effect_size: float = float("nan")


@dataclass(frozen=True)
class Pair:
    """Two systems on one measure, among all pairs: the mean difference of the first, its effect size, and p.

    `queries`: those that all systems have. `p`: by Tukey's test by randomisation, which is for all pairs at once.
    """

    measure: str
    system: str
    other: str
    queries: int
    difference: float
    effect_size: float
    p: float


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """All systems against the baseline on all measures, and the methods used; ``pairs`` if all pairs were asked for."""

    baseline: str
    baseline_means: dict[str, float]
    differences: tuple[Difference, ...]
    definitions: tuple[str, ...]
    notes: tuple[str, ...]
    tests: tuple[str, ...]
    correction: str
    confidence: float
    n_resamples: int
    random_state: int
    power: float | None = None
    alpha: float = ALPHA
    pairs: tuple[Pair, ...] = ()

    @property
    def method(self) -> tuple[str, ...]:
        """How the figures were computed, in words."""
        tests = ", ".join(TESTS[test][0] for test in self.tests)
        needed = []
        if self.power is not None:
            condition = f"for {self.power:.0%} power of a two-tailed paired t-test at p < {self.alpha:.3g}"
            needed = [f"queries needed: {condition}, if the true difference is the one seen"]
        name = CORRECTIONS[self.correction]
        is_corrected = self.correction != "none"
        family = f"{name}-corrected for the systems compared on a measure" if is_corrected else "not corrected"
        kinds = {"none": "", "fdr": ", corrected for the false coverage rate"}
        together = kinds.get(self.correction, ", for all systems compared on a measure together (Bonferroni's)")
        pairs = f"all pairs: Tukey's test by randomisation, which needs no correction; {self.n_resamples} resamples"
        return (
            f"p-values: two-tailed {tests}; {family}",
            f"intervals: {self.confidence:.0%} bootstrap (BCa) of the mean difference{together}; "
            f"{self.n_resamples} resamples, seed {self.random_state}",
            "effect: mean difference / standard deviation of the differences",
            *([pairs] if self.pairs else []),
            *needed,
        )

    @property
    def disagreements(self) -> tuple[str, ...]:
        """A sentence for every difference of which interval and first test do not say the same."""
        settings = (self.tests[0] if self.tests else "", self.correction, self.confidence)
        found = ((row, disagreement(row, *settings)) for row in self.differences)
        return tuple(f"{row.system} on {row.measure}: {text}" for row, text in found if text)

    def _shown_table(self) -> Any:
        return importlib.import_module("rankwright.evaluation.render").comparison_table(self)

    def to_frame(self) -> Any:
        """A row per measure and system, with all digits, as a pandas data frame."""
        return importlib.import_module("pandas").DataFrame(comparison_rows(self))

    def _drawing(self) -> Callable[[], Any]:
        return lambda: _intervals(self)

    def __repr__(self) -> str:
        return self.to_text()


_ABOUT = {"wilcoxon": "the ranks of the differences", "sign": "how many queries are better"}


def disagreement(row: Difference, test: str, correction: str, confidence: float = 1 - ALPHA) -> str:
    """What it means if the interval excludes 0 and the test is not significant, or the reverse; empty if they agree."""
    low, high = row.interval
    excludes, p = low > 0 or high < 0, row.p_corrected.get(test, float("nan"))
    if not math.isclose(confidence, 1 - ALPHA) or math.isnan(low + high + p) or excludes == (p < ALPHA):
        return ""
    seen = f"the interval {'excludes' if excludes else 'includes'} 0, but p = {p:.2g} by the {TESTS[test][0]}"
    if test in _ABOUT:
        return (
            f"{seen}: the interval is about the mean difference, the test about {_ABOUT[test]}, so they need not agree"
        )
    wider = " and Bonferroni's intervals are wider than Holm's steps," if correction == "holm" else ""
    return f"{seen}: they are computed in different ways,{wider} so take this difference as borderline"


def comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row per measure and system, with all digits."""
    rows = []
    for difference in comparison.differences:
        row: dict[str, Any] = {
            "measure": difference.measure,
            "system": difference.system,
            "baseline": comparison.baseline,
        }
        row |= {name: getattr(difference, name) for name in ("queries", "mean", "baseline_mean", "difference")}
        row["low"], row["high"] = difference.interval
        row["effect_size"] = difference.effect_size
        for kind, p_values in (("p", difference.p), ("p_corrected", difference.p_corrected)):
            row |= {f"{kind}_{test}": value for test, value in p_values.items()}
        rows.append(row | {name: getattr(difference, name) for name in ("wins", "ties", "losses", "queries_needed")})
    return rows


def _intervals(comparison: Comparison) -> Any:
    """The mean difference from the baseline with its interval, for every measure and system."""
    measures = list(comparison.baseline_means)
    rows = {
        measure: [difference for difference in comparison.differences if difference.measure == measure]
        for measure in measures
    }
    max_rows = max((len(of) for of in rows.values()), default=1)
    figure = new_figure(0.6 + (0.25 + _ROW * max(1, max_rows)) * len(measures))
    axes = figure.subplots(len(measures), 1, sharex=True, squeeze=False)[:, 0]
    for axis, measure in zip(axes, measures, strict=True):
        for at, difference in enumerate(rows[measure]):
            low, high = difference.interval
            ends = [[difference.difference - low], [high - difference.difference]]
            axis.errorbar([difference.difference], [at], xerr=ends, capsize=3, **look(0) | {"linestyle": "none"})
        axis.axvline(0, color="0.4", linewidth=0.8)
        axis.set_yticks(range(len(rows[measure])), [shown(difference.system) for difference in rows[measure]])
        axis.set_ylim(len(rows[measure]) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_title(f"{shown(measure)}: {shown(comparison.baseline)} has {comparison.baseline_means[measure]:.4f}")
    axes[-1].set_xlabel(f"mean difference from {shown(comparison.baseline)}, {comparison.confidence:.0%} interval")
    return figure


def compare(
    evaluations: Sequence[Evaluation],
    *,
    baseline: str | int = 0,
    tests: Sequence[str] = tuple(TESTS),
    correction: str = "holm",
    confidence: float = 0.95,
    n_resamples: int = 9999,
    random_state: int = 0,
    power: float | None = None,
    pairs: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare systems with a baseline.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        From :func:`evaluate` or :func:`evaluate_run`, of the same measures with the same definitions.
    baseline : str or int
        Name or position of the baseline.
    tests : sequence of {"t", "wilcoxon", "sign", "randomization"}
        Paired tests, two-tailed.
    correction : {"holm", "bonferroni", "fdr", "none"}
        Correction for the number of systems compared on a measure: ``fdr`` bounds the false discovery rate (Benjamini
        and Hochberg), the others the probability of one false finding or more.
    confidence : float
        Level of the bootstrap intervals of the mean difference; for several systems all intervals of a measure hold
        together with this confidence, as p-values are corrected together.
    n_resamples, random_state : int
        Number of resamples and random seed, for the randomisation test and the bootstrap.
    power : float, optional
        Compute how many queries would be needed to find each difference with this probability, such as 0.8.
    pairs : bool
        Compare all pairs of systems too, by Tukey's test by randomisation, on the queries that all have.

    Examples
    --------
    >>> from rankwright import evaluate
    >>> labels, qid = [1, 0, 0, 1, 1, 0], [1, 1, 2, 2, 3, 3]
    >>> old = evaluate(labels, [0, 1, 1, 0, 0, 1], qid, measures=["AP"], name="old")
    >>> new = evaluate(labels, [1, 0, 0, 1, 1, 0], qid, measures=["AP"], name="new")
    >>> result = compare([old, new])
    >>> result.differences[0].difference, result.differences[0].wins
    (0.5, 3)
    """
    base = _baseline(evaluations, baseline)
    _check(evaluations, base, tests, correction, confidence, n_resamples)
    others = [evaluation for evaluation in evaluations if evaluation is not base]
    measures = base.measures
    notes = shared_notes(evaluations)
    alpha = ALPHA if correction == "none" else ALPHA / len(others)
    differences: list[Difference] = []
    total = len(measures) * len(others)
    for m, measure in enumerate(measures):
        differences += differences_of(
            {system.name: _matched(system, base, measure, m) for system in others},
            str(measure),
            tests=tests,
            correction=correction,
            confidence=confidence,
            n_resamples=n_resamples,
            random_state=random_state,
            power=power,
            alpha=alpha,
            progress=None if progress is None else partial(_report, progress, m * len(others), total),
        )
    for system in others:
        notes.extend(_unmatched(system, base))
        notes.extend(_favoured(system, base))
    return Comparison(
        base.name,
        base.means,
        tuple(differences),
        base.definitions,
        tuple(notes),
        tuple(tests),
        correction,
        confidence,
        n_resamples,
        random_state,
        power,
        alpha,
        pairs_of(evaluations, n_resamples=n_resamples, random_state=random_state) if pairs else (),
    )


def pairs_of(evaluations: Sequence[Evaluation], *, n_resamples: int = 9999, random_state: int = 0) -> tuple[Pair, ...]:
    """All pairs of systems on all measures, on the queries for which every system has a value."""
    names, pairs = [evaluation.name for evaluation in evaluations], []
    for column, measure in enumerate(map(str, evaluations[0].measures)):
        by_query = [dict(zip(e.query_ids.tolist(), e.values[:, column].tolist(), strict=True)) for e in evaluations]
        rows = [[of.get(query, math.nan) for of in by_query] for query in by_query[0]]
        values = np.array(rows).reshape(-1, len(names))
        values = values[~np.isnan(values).any(axis=1)]
        pairs += pairs_among(names, values, measure, n_resamples=n_resamples, random_state=random_state)
    return tuple(pairs)


def pairs_among(
    names: Sequence[str], values: Array, measure: str, *, n_resamples: int, random_state: int
) -> list[Pair]:
    """All pairs on one measure; ``values`` has a row per query and a column per system."""
    if not len(values):
        raise InputError(f"the systems have no query in common on {measure}; all pairs need some")
    p = all_pairs(values, n_resamples=n_resamples, random_state=random_state)
    pairs = []
    for (i, one), (j, other) in itertools.combinations(enumerate(names), 2):
        gain = values[:, i] - values[:, j]
        figures = len(values), float(gain.mean()), effect_size(gain), float(p[i, j])
        pairs.append(Pair(measure, one, other, *figures))
    return pairs


def _baseline(evaluations: Sequence[Evaluation], baseline: str | int) -> Evaluation:
    if len(evaluations) < 2:
        raise InputError("nothing to compare; expected a baseline and at least one other system")
    names = [evaluation.name for evaluation in evaluations]
    if len(set(names)) < len(names):
        raise InputError(f"duplicate names of systems: {', '.join(map(repr, names))}; expected different ones")
    if isinstance(baseline, int):
        return evaluations[baseline]
    if baseline not in names:
        raise InputError(f"unknown baseline {baseline!r}; expected one of {', '.join(names)}")
    return evaluations[names.index(baseline)]


def _check(
    evaluations: Sequence[Evaluation],
    base: Evaluation,
    tests: Sequence[str],
    correction: str,
    confidence: float,
    n_resamples: int,
) -> None:
    check_alike(evaluations, base)
    for measure in base.measures:
        if not getattr(measure, "is_mean", True):  # measures of other programs are only a name
            raise InputError(f"{measure} cannot be compared query by query: {measure.evaluates_only}")
    for test in tests:
        if test not in TESTS:
            raise InputError(f"unknown test {test!r}; expected one of {', '.join(TESTS)}")
    if correction not in CORRECTIONS:
        raise InputError(f"unknown correction {correction!r}; expected one of {', '.join(CORRECTIONS)}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence}; expected a number between 0 and 1")
    if n_resamples < 1:
        raise InputError(f"n_resamples is {n_resamples}; expected at least 1")


def _report(progress: Callable[[int, int], None], before: int, total: int, done: int) -> None:
    progress(before + done, total)


def differences_of(
    pairs: Mapping[str, tuple[Array, Array]],
    measure: str,
    *,
    tests: Sequence[str],
    correction: str,
    confidence: float,
    n_resamples: int,
    random_state: int,
    power: float | None = None,
    alpha: float = ALPHA,
    progress: Callable[[int], None] | None = None,
) -> list[Difference]:
    """A row per system, from its values and those of what it is compared with, on the queries that both have."""
    draws = {"n_resamples": n_resamples, "random_state": random_state}
    gains = [ours - theirs for ours, theirs in pairs.values()]
    rows: list[Difference] = []
    found: dict[str, list[float]] = {test: [] for test in tests}
    for done, gain in enumerate(gains, 1):
        for test in tests:
            found[test].append(p_value(test, gain, **draws))
        if progress is not None:
            progress(done)
    level = interval_level(confidence, found[tests[0]] if tests else [1.0] * len(gains), correction)
    intervals = bootstrap_intervals(gains, confidence=level, **draws)
    adjusted = {test: corrected(values, correction) for test, values in found.items()}
    for at, ((system, (ours, theirs)), gain) in enumerate(zip(pairs.items(), gains, strict=True)):
        wins, losses = int((gain > _TIE).sum()), int((gain < -_TIE).sum())
        ties = int((np.abs(gain) <= _TIE).sum())
        p, p_corrected = ({test: values[at] for test, values in of.items()} for of in (found, adjusted))
        needed = None if power is None else queries_needed(gain, power=power, alpha=alpha)
        means = float(ours.mean()), float(theirs.mean()), float(gain.mean())
        counts, more = (wins, ties, losses), (needed, effect_size(gain))
        rows.append(Difference(system, measure, len(gain), *means, *counts, intervals[at], p, p_corrected, *more))
    return rows


def _matched(system: Evaluation, base: Evaluation, measure: Measure, column: int) -> tuple[Array, Array]:
    """Values of the queries that both have, in the order of the baseline."""
    place = {query: i for i, query in enumerate(system.query_ids.tolist())}
    pairs = [(place[query], i) for i, query in enumerate(base.query_ids.tolist()) if query in place]
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    ours, theirs = system.values[rows[:, 0], column], base.values[rows[:, 1], column]
    both = ~(np.isnan(ours) | np.isnan(theirs))
    if not both.any():
        raise InputError(f"{system.name} and {base.name} have no query in common on {measure}")
    return ours[both], theirs[both]


def _unmatched(system: Evaluation, base: Evaluation) -> list[str]:
    ours, theirs = set(system.query_ids.tolist()), set(base.query_ids.tolist())
    pairs = ((system.name, base.name, len(ours - theirs)), (base.name, system.name, len(theirs - ours)))
    return [f"queries of {name} not in {other}: {n}, left out" for name, other, n in pairs if n]


def _favoured(system: Evaluation, base: Evaluation) -> list[str]:
    """A warning if the judgements know one side's documents better: those without a judgement count as not relevant."""
    shares = {
        evaluation.name: float(evaluation.facts[JUDGED]) for evaluation in (base, system) if JUDGED in evaluation.facts
    }
    if len(shares) < 2 or abs(shares[base.name] - shares[system.name]) <= _CLEARLY:
        return []
    more, less = sorted(shares, key=shares.__getitem__, reverse=True)
    figures = f"{JUDGED} is {shares[more]:.2f} for {more} and {shares[less]:.2f} for {less}"
    return [f"warning: {figures}: the judgements favour {more}; judge more of the top of {less}"]


# Systems query by query, for plots: a measure by depth of the ranking, and its differences from the baseline.
#
# The curves are those of SIGIR'06, Figure 6: nDCG@N by N, for single queries or as a mean over all of them.

_MARKED = (1, 5, 10, 15, 20, 25, 30)  # depths with a marker
_A_ROW = 3  # queries
_MAX_QUERIES = 12
_LEGEND_SIGNS = 120  # that fit in a row of the legend


@dataclass(frozen=True, eq=False)
class QueryCurves:
    """A measure by query and by depth; made by :func:`query_curves`.

    Attributes
    ----------
    measure : Measure
        The measure of ``values``.
    systems : tuple of str
        Names of the systems, the baseline first.
    query_ids : ndarray
        The queries that all systems have and that count for all of them.
    values : ndarray of shape (systems, queries)
        The measure.
    depths : tuple of int
        Cutoffs of the curves.
    curves : ndarray of shape (systems, queries, depths)
        The measure at each of these cutoffs.
    """

    measure: Measure
    systems: tuple[str, ...]
    query_ids: Array
    values: Array
    depths: tuple[int, ...]
    curves: Array

    @property
    def means(self) -> Array:
        """Mean over the queries, of shape (systems, depths)."""
        means: Array = self.curves.mean(axis=1)
        return means

    def figure(self, queries: Sequence[Any] = ()) -> Any:
        """The plot as a matplotlib figure: mean curves, differences by query, and the curves of some queries."""
        places = self.places(queries)
        return drawn(lambda: _draw(self, places))

    def plot(self, path: str | Path, queries: Sequence[Any] = ()) -> None:
        """Write the plot into a ``.png`` or ``.svg`` file."""
        places = self.places(queries)
        write_figure(path, lambda: _draw(self, places))

    def places(self, queries: Sequence[Any]) -> list[int]:
        """The places of some queries among ``query_ids``; at most 12 are drawn."""
        if len(queries) > _MAX_QUERIES:
            raise InputError(f"{len(queries)} queries to draw; expected at most {_MAX_QUERIES}")
        positions = {str(query): at for at, query in enumerate(self.query_ids.tolist())}
        for query in queries:
            if str(query) not in positions:
                raise InputError(
                    f"query {str(query)!r} is not among the {len(positions):,} queries that all systems have"
                )
        return [positions[str(query)] for query in queries]


def curve_measures(measure: str | Measure = "nDCG@10", deepest: int = 30) -> list[Measure]:
    """The measures to evaluate for curves: one measure, and the same at every cutoff from 1 on."""
    parsed = parse_measure(measure)
    if not parsed.takes_cutoff:
        raise InputError(f"{parsed} has no cutoff, so no curve; expected a measure such as nDCG@10")
    return list(dict.fromkeys([parsed, *(replace(parsed, cutoff=k) for k in range(1, deepest + 1))]))


def query_curves(evaluations: Sequence[Evaluation], measure: str | Measure = "nDCG@10") -> QueryCurves:
    """A measure of several systems by query and by depth.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        Of the measures that :func:`curve_measures` gives, the baseline first.
    measure : str or Measure
        The measure to compare single queries by.

    Examples
    --------
    >>> from rankwright import evaluate
    >>> measures = curve_measures("nDCG@2", deepest=3)
    >>> table = evaluate([1, 0, 1], [3, 2, 1], [7, 7, 7], measures=measures, name="mine")
    >>> query_curves([table], "nDCG@2").curves.round(2).tolist()
    [[[1.0, 0.61, 0.92]]]
    """
    wanted = parse_measure(measure)
    if not evaluations:
        raise InputError("nothing to plot; expected at least one evaluation")
    first = evaluations[0]
    check_alike(evaluations, first)
    columns = [m for m in first.measures if m.cutoff is not None and replace(wanted, cutoff=m.cutoff) == m]
    columns.sort(key=lambda column: column.cutoff or 0)
    if len(columns) < 2:
        raise InputError(f"{wanted} was evaluated at fewer than two cutoffs; expected the measures of curve_measures")
    position_of = [{query: at for at, query in enumerate(e.query_ids.tolist())} for e in evaluations]
    queries = [query for query in first.query_ids.tolist() if all(query in positions for positions in position_of)]
    rows = [[positions[query] for query in queries] for positions in position_of]
    values = np.array([e.column(wanted)[at] for e, at in zip(evaluations, rows, strict=True)])
    curves = np.array(
        [[e.column(column)[at] for column in columns] for e, at in zip(evaluations, rows, strict=True)]
    ).transpose(0, 2, 1)
    counted = ~(np.isnan(values).any(axis=0) | np.isnan(curves).any(axis=(0, 2)))
    if not counted.any():
        raise InputError(f"the systems have no query in common on {wanted}")
    return QueryCurves(
        wanted,
        tuple(e.name or f"system {number + 1}" for number, e in enumerate(evaluations)),
        np.array(queries, dtype=object)[counted],
        values[:, counted],
        tuple(column.cutoff or 0 for column in columns),
        curves[:, counted],
    )


def _draw(curves: QueryCurves, places: Sequence[int]) -> Any:
    names = [f"{shown(name)}{counts}" for name, counts in zip(curves.systems, _wins(curves), strict=True)]
    n_fit = min(len(names), max(1, _LEGEND_SIGNS // (max(map(len, names)) + 10)))
    n_rows = -(-len(places) // _A_ROW)
    heights = [2.7 + 0.17 * -(-len(names) // n_fit), *([1.75 * n_rows] if n_rows else [])]
    figure = new_figure(sum(heights))
    parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights).ravel()
    left, right = parts[0].subplots(1, 2)
    n_queries = f"{len(curves.query_ids):,} {'query' if len(curves.query_ids) == 1 else 'queries'}"
    _draw_curves(left, curves, curves.means)
    left.set(title=f"Mean over {n_queries}", ylabel=f"{_family(curves)}@N", xlabel="N, ranks counted")
    _draw_queries(right, curves)
    lines, _ = left.get_legend_handles_labels()
    parts[0].legend(lines, names, loc="outside upper center", ncols=n_fit, frameon=False, handlelength=3.2)
    if n_rows:
        _draw_places(parts[1], curves, places, n_rows)
    return figure


def _draw_places(figure: Any, curves: QueryCurves, places: Sequence[int], n_rows: int) -> None:
    n_columns = max(2, min(_A_ROW, len(places)))
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for axis, place in zip(axes.ravel(), places, strict=False):
        axis.set_title(f"Query {shown(str(curves.query_ids[place]))}")
        _draw_curves(axis, curves, curves.curves[:, place])
    for axis in axes.ravel()[len(places) :]:
        axis.set_visible(False)
    axes[0, 0].set_ylim(-0.03, 1.03 * max(1.0, float(curves.curves.max())))
    for row in axes:
        row[0].set_ylabel(f"{_family(curves)}@N")
    for axis in axes.ravel()[max(0, len(places) - n_columns) : len(places)]:
        axis.xaxis.set_tick_params(labelbottom=True)
        axis.set_xlabel("N, ranks counted")


def _family(curves: QueryCurves) -> str:
    return str(curves.measure).partition("@")[0]


def _draw_curves(axis: Any, curves: QueryCurves, rows: Array) -> None:
    marked = [at for at, depth in enumerate(curves.depths) if depth in _MARKED]
    for number, (name, row) in enumerate(zip(curves.systems, rows, strict=True)):
        axis.plot(curves.depths, row, label=shown(name), markevery=marked, **look(number))
    axis.set_xticks([depth for depth in curves.depths if depth in _MARKED])


def _draw_queries(axis: Any, curves: QueryCurves) -> None:
    """Differences from the baseline, each system's largest gain first; the values themselves if there is but one."""
    from matplotlib.ticker import MaxNLocator

    n_queries = len(curves.query_ids)
    places = np.arange(1, n_queries + 1)
    alone = len(curves.systems) == 1
    rows = curves.values if alone else curves.values[1:] - curves.values[0]
    step = max(1, n_queries // 10)
    for number, row in enumerate(rows, start=0 if alone else 1):
        style = look(number) | {"markevery": (min(number, step - 1), step)}
        axis.plot(places, np.sort(row)[::-1], drawstyle="steps-mid", **style)
    if alone:
        axis.set_title(f"{curves.measure} of every query")
        axis.set_xlabel("queries, the best one first")
        axis.set_ylim(-0.03, 1.03 * max(1.0, float(rows.max())))
    else:
        axis.axhline(0.0, color="0.3", lw=0.8)
        axis.set_title(f"{curves.measure} of every query, minus {shown(curves.systems[0], 20)}")
        axis.set_xlabel("queries, the largest gain first")
    axis.set_xlim(0.5, n_queries + 0.5)
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def _wins(curves: QueryCurves) -> list[str]:
    """How many queries each system is better and worse on than the baseline, in words."""
    apart = curves.values[1:] - curves.values[0]
    counts = [f" (better {(row > _TIE).sum():,}, worse {(row < -_TIE).sum():,})" for row in apart]
    return [" (baseline)" if counts else "", *counts]
