"""Robustness of the max-margin solver: every loss, every C from 1e-4 to 1e4, on very different real data sets.

Claims: training reaches the certificate, or stops at max_passes with one warning and finite weights; the gap is never
negative and the dual never decreases; at the C that validation picks, 15 passes are enough; up to C = 1000, work on
planes takes less than 30 % of the time on standardised OHSUMED and MQ2008. Needs the folders `ohsumed_letor2`,
`mq2008`, `trec_covid_runs` and `svm_map_sample` in the given folder or in RANKWRIGHT_DATA. Every fit starts from zero
weights, on one thread. Prints Markdown tables; `--markdown FILE` also writes them to a file. Exits with 1 if a fit
breaks a rule (not if it is slow).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from rankwright import RankingData
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM
from study_data import joined_tests, mq2008_folds, mq2008_parts, ohsumed_folds, read, run_study, table, trec_covid

LOSSES = ("map", "ndcg@10", "ndcg", "auc", "mrr@10", "pairs")
GRID = tuple(10.0**power for power in range(-4, 5))
MOST_PASSES, MOST_SHARE, SHARE_UP_TO = 15, 0.3, 1000.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of one fit."""

    data: str
    loss: str
    C: float
    passes: int
    gap: float
    reached: bool
    seconds: float
    planes: float
    zero: bool
    faults: tuple[str, ...]

    @property
    def share(self) -> float:
        """Share of the time spent on the cached planes."""
        return self.planes / self.seconds

    def cell(self) -> str:
        """Format the passes, and the gap if the fit stopped without a certificate."""
        text = f"{self.passes}" if self.reached else f"**{self.passes}** ({self.gap:.1g})"
        return text + "°" * self.zero + "!" * len(self.faults)


def main() -> int:
    """Run all fits and print the tables."""
    outcomes: list[Outcome] = []
    needed = ("ohsumed_letor2", "mq2008", "trec_covid_runs", "svm_map_sample")
    run_study(__doc__, needed, lambda root: _pages(root, outcomes))
    return int(any(outcome.faults for outcome in outcomes))


def _pages(root: Path, outcomes: list[Outcome]) -> Iterable[str]:
    yield (
        "## Every loss, every C\n\nCells: passes to a relative gap of 1e-3. **200** (gap): stopped at max_passes. "
        "°: all weights are 0. !: a rule was broken.\n"
    )
    for name, data, standardize in _data_sets(root):
        rows = [[_outcome(name, data, loss, C, standardize) for C in GRID] for loss in LOSSES]
        outcomes += [outcome for row in rows for outcome in row]
        head = ["loss", *(f"C = {C:g}" for C in GRID), "seconds, all C", "slowest", "planes' share"]
        cells = [
            [row[0].loss, *(outcome.cell() for outcome in row), f"{sum(o.seconds for o in row):.2f}",
             f"{max(o.seconds for o in row):.2f}", f"{sum(o.planes for o in row) / sum(o.seconds for o in row):.0%}"]
            for row in rows
        ]  # fmt: skip
        size = f"{data.n_queries} queries, {data.n_docs} documents, {data.n_features} features"
        yield f"### {name}: {size}\n\n{table(head, cells)}"
    yield _summary(outcomes)
    yield _picked(root)
    yield _shares(outcomes)


def _data_sets(root: Path) -> Iterable[tuple[str, RankingData, bool]]:
    ohsumed = joined_tests(ohsumed_folds(root))
    yield "OHSUMED, raw", ohsumed, False
    yield "OHSUMED, standardised", ohsumed, True
    yield "MQ2008, standardised", RankingData.concatenate(mq2008_parts(root)), True
    for number in (1, 2, 3):
        yield f"TREC-COVID round {number}, standardised", trec_covid(root, number), True
    yield "SVMmap sample, standardised", read(root / "svm_map_sample" / "sample.data.gz", negative="zero"), True
    yield "SVMmap sample, raw", read(root / "svm_map_sample" / "sample.data.gz", negative="zero"), False


def _ranker(loss: str, **parameters: Any) -> StructuredSVM | RankingSVM:
    if loss == "pairs":
        return RankingSVM(**parameters)
    return StructuredSVM(loss, bound="hinge", feature_map="mrr" if loss.startswith("mrr") else None, **parameters)


def _outcome(name: str, data: RankingData, loss: str, C: float, standardize: bool) -> Outcome:
    ranker = _ranker(loss, C=C, standardize=standardize)
    if GRID[0] == C:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _ranker(loss, C=1.0, standardize=standardize, max_passes=3).fit(data)  # compile before timing
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ranker.fit(data)
    return _judged(name, loss, C, data, ranker, [warning.category for warning in caught])


def _judged(
    name: str, loss: str, C: float, data: RankingData, ranker: StructuredSVM | RankingSVM, warned: list[Any]
) -> Outcome:
    path = ranker.path_
    duals, gaps = np.array([check.dual for check in path]), np.array([check.gap for check in path])
    reached = ranker.gap_ <= ranker.tol
    faults = []
    if not np.isfinite(gaps).all() or (gaps < 0).any() or (ranker.gap_ == 0 and _has_better(data, ranker)):
        faults.append("gap below 0")
    if (np.diff(duals) < -1e-12 * np.abs(duals[1:])).any():
        faults.append("dual decreased")
    if not np.isfinite(ranker.coef_).all() or not np.isfinite(ranker.predict(data)).all():
        faults.append("weights not finite")
    if not reached and warned != [ConvergenceWarning]:
        faults.append("stopped without its one warning")
    if reached and warned:
        faults.append("warned although the gap was reached")
    last = path[-1]
    zero = not ranker.coef_.any()
    return Outcome(
        name, loss, C, len(path), ranker.gap_, reached, last.seconds, last.seconds_planes, zero, tuple(faults)
    )


def _has_better(data: RankingData, ranker: StructuredSVM | RankingSVM) -> bool:
    """Whether the other solver finds weights below an objective reported as optimal.

    The solver reports a negative gap as 0; this check tells rounding from a wrong bound.
    """
    other = clone(ranker).set_params(solver="one-slack-cutting-plane", tol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return bool(other.fit(data).objective_ < ranker.objective_ * (1 - 1e-9))


def _summary(outcomes: Sequence[Outcome]) -> str:
    stopped = [outcome for outcome in outcomes if not outcome.reached]
    faulty = [outcome for outcome in outcomes if outcome.faults]
    lines = [f"- fits: {len(outcomes)}; certificate reached: {len(outcomes) - len(stopped)}"]
    by_loss = ", ".join(f"{loss} {sum(o.loss == loss for o in stopped)}" for loss in LOSSES)
    lines.append(f"- stopped at max_passes: {len(stopped)} ({by_loss})")
    if stopped:
        worst = max(stopped, key=lambda outcome: outcome.gap)
        lines.append(f"- largest gap left: {worst.gap:.2g} ({worst.data}, {worst.loss}, C = {worst.C:g})")
    longest = max((o for o in outcomes if o.reached), key=lambda outcome: outcome.passes)
    lines.append(f"- most passes to the gap: {longest.passes} ({longest.data}, {longest.loss}, C = {longest.C:g})")
    slowest = max(outcomes, key=lambda outcome: outcome.seconds)
    lines.append(f"- slowest fit: {slowest.seconds:.2f} s ({slowest.data}, {slowest.loss}, C = {slowest.C:g})")
    lines.append(f"- all weights 0: {sum(outcome.zero for outcome in outcomes)} fits")
    for kind in ("gap below 0", "dual decreased", "weights not finite", "stopped without its one warning",
                 "warned although the gap was reached"):  # fmt: skip
        where = [f"{o.data}, {o.loss}, C = {o.C:g}" for o in faulty if kind in o.faults]
        lines.append(f"- {kind}: {len(where)}{': ' + '; '.join(where[:5]) if where else ''}")
    return "### Summary\n\n" + "\n".join(lines) + "\n"


def _picked(root: Path) -> str:
    """Table of the passes at the C that validation picks."""
    mq2008 = [(train, valid) for train, valid, _ in mq2008_folds(root)]
    ohsumed = [(train, valid) for train, valid, _ in ohsumed_folds(root)]
    rows, worst = [], 0
    for name, folds, standardize in (
        ("OHSUMED, standardised", ohsumed, True),
        ("OHSUMED, raw", ohsumed, False),
        ("MQ2008, standardised", mq2008, True),
    ):
        for loss in LOSSES:
            picked, passes = [], []
            for train, valid in folds:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    C = _ranker(loss, C="auto", standardize=standardize).fit(train, eval_set=valid).C_
                    passes.append(_ranker(loss, C=C, standardize=standardize).fit(train).n_passes_)
                picked.append(f"{C:g}")
            worst = max(worst, *passes)
            verdict = "yes" if max(passes) <= MOST_PASSES else "no"
            rows.append([name, loss, ", ".join(picked), ", ".join(map(str, passes)), verdict])
    head = ["data", "loss", "C of folds 1–5 (C='auto')", "passes of a fit from scratch", f"at most {MOST_PASSES}"]
    return f"## Passes at the C that validation picks\n\nMost: {worst}.\n\n{table(head, rows)}"


def _shares(outcomes: Sequence[Outcome]) -> str:
    """Table of the planes' share of the time by loss, up to the C of the claim."""
    rows = []
    for name in ("OHSUMED, standardised", "MQ2008, standardised"):
        counted = [o for o in outcomes if o.data == name and o.C <= SHARE_UP_TO]
        for loss in (*LOSSES, "all"):
            fits = [o for o in counted if loss in (o.loss, "all")]
            seconds, planes, passes = (sum(getattr(o, what) for o in fits) for what in ("seconds", "planes", "passes"))
            largest = max(fits, key=lambda o: o.share)
            rows.append(
                [name, loss, f"{seconds:.2f}", f"{1e3 * (seconds - planes) / passes:.2f} + {1e3 * planes / passes:.2f}",
                 f"{planes / seconds:.0%}", f"{largest.share:.0%} (C = {largest.C:g})",
                 "yes" if planes / seconds < MOST_SHARE else "no"]
            )  # fmt: skip
    head = ["data", "loss", "seconds", "ms per pass, data + planes", "planes' share", "largest share of a fit",
            f"below {MOST_SHARE:.0%}"]  # fmt: skip
    return f"## Time on cached planes, C up to {SHARE_UP_TO:g}\n\n{table(head, rows)}"


if __name__ == "__main__":
    sys.exit(main())
