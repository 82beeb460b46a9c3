"""Systems against a baseline, query by query: means, differences, wins, intervals and significance."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.display import Displayed, look, new_figure, shown
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import JUDGED, Evaluation, check_alike, shared_notes
from rankwright.evaluation.significance import (
    CORRECTIONS,
    TESTS,
    bootstrap_intervals,
    corrected,
    p_value,
    queries_needed,
)
from rankwright.measures import Measure

__all__ = ["Comparison", "compare"]

_TIE = 1e-12  # values closer than rounding are a tie
ALPHA = 0.05  # of the test whose number of queries is computed
_ROW = 0.3  # inches of a row of a plot
_CLEARLY = 0.05  # shares of judged documents that differ by more favour one side


@dataclass(frozen=True)
class Difference:
    """One system against the baseline on one measure.

    `system`, `measure`: what is compared. `queries`: queries that both have. `mean`, `baseline_mean`, `difference`:
    means over these queries, and the mean difference. `wins`, `ties`, `losses`: number of queries on which the system
    is better, equal, worse. `interval`: confidence interval of the mean difference. `p`, `p_corrected`: by test: the
    p-value, raw and corrected for the number of systems compared on this measure. `queries_needed`: queries with which
    a paired t-test would find this difference with the probability asked for, if it is the true one. None: not asked,
    no difference, or a million queries would not do.
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


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """All systems against the baseline on all measures, and the methods used."""

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

    @property
    def method(self) -> tuple[str, ...]:
        """How the figures were computed, in words."""
        tests = ", ".join(TESTS[test][0] for test in self.tests)
        name = self.correction.capitalize()
        family = "not corrected" if name == "None" else f"{name}-corrected for the systems compared on a measure"
        return (
            f"p-values: two-tailed {tests}; {family}",
            f"intervals: {self.confidence:.0%} bootstrap (BCa) of the mean difference; "
            f"{self.n_resamples} resamples, seed {self.random_state}",
            *(() if self.power is None else (self._needed(),)),
        )

    def _needed(self) -> str:
        condition = f"for {self.power:.0%} power of a two-tailed paired t-test at p < {self.alpha:.3g}"
        return f"queries needed: {condition}, if the true difference is the one seen"

    def _shown_table(self) -> Any:
        return importlib.import_module("rankwright.evaluation.render").comparison_table(self)

    def to_frame(self) -> Any:
        """A row per measure and system, with all digits, as a pandas data frame."""
        rows = []
        for difference in self.differences:
            row: dict[str, Any] = {
                "measure": difference.measure,
                "system": difference.system,
                "baseline": self.baseline,
            }
            row |= {name: getattr(difference, name) for name in ("queries", "mean", "baseline_mean", "difference")}
            row["low"], row["high"] = difference.interval
            for kind, of in (("p", difference.p), ("p_corrected", difference.p_corrected)):
                row |= {f"{kind}_{test}": value for test, value in of.items()}
            rows.append(
                row | {name: getattr(difference, name) for name in ("wins", "ties", "losses", "queries_needed")}
            )
        return importlib.import_module("pandas").DataFrame(rows)

    def _drawing(self) -> Callable[[], Any]:
        return lambda: _intervals(self)

    def __repr__(self) -> str:
        return self.to_text()


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
    correction : {"holm", "bonferroni", "none"}
        Correction for the number of systems compared on a measure.
    confidence : float
        Level of the bootstrap intervals of the mean difference.
    n_resamples, random_state : int
        Number of resamples and random seed, for the randomisation test and the bootstrap.
    power : float, optional
        Compute how many queries would be needed to find each difference with this probability, such as 0.8.

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
    )


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
    intervals = bootstrap_intervals(gains, confidence=confidence, **draws)
    for (system, (ours, theirs)), gain, interval in zip(pairs.items(), gains, intervals, strict=True):
        wins, losses = int((gain > _TIE).sum()), int((gain < -_TIE).sum())
        ties = int((np.abs(gain) <= _TIE).sum())
        p = {test: p_value(test, gain, **draws) for test in tests}
        needed = None if power is None else queries_needed(gain, power=power, alpha=alpha)
        means = float(ours.mean()), float(theirs.mean()), float(gain.mean())
        rows.append(Difference(system, measure, len(gain), *means, wins, ties, losses, interval, p, {}, needed))
        if progress is not None:
            progress(len(rows))
    for test in tests:
        adjusted = corrected([row.p[test] for row in rows], correction)
        for row, p_adjusted in zip(rows, adjusted, strict=True):
            row.p_corrected[test] = p_adjusted
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
