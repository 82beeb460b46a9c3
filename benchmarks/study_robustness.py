"""Robustness of the max-margin solver: every loss, every C from 1e-4 to 1e4, on very different real data sets.

Training with default settings has to reach the certificate, or to stop with one warning and finite weights; the gap is
never negative and the dual never decreases. Exits with 1 if a fit breaks one of these rules. Every fit minimises the
papers' convex problem from zero weights, on one thread; seconds are CPU time after compiling. Needs the folders
`ohsumed_letor2`, `mq2008`, `trec_covid_runs` and `svm_map_sample` in the given folder or in RANKWRIGHT_DATA.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from rankwright import RankingData
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM
from study_data import (
    ROUNDS,
    Shown,
    Table,
    joined_tests,
    mq2008_folds,
    mq2008_parts,
    ohsumed_folds,
    read,
    run_study,
    trec_covid,
)

LOSSES = ("map", "ndcg@10", "ndcg", "auc", "mrr@10", "pairs")
GRID = tuple(10.0**power for power in range(-4, 5))
RULES = (
    "gap below 0",
    "dual decreased",
    "weights not finite",
    "stopped without its one warning",
    "warned although the gap was reached",
)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one fit."""

    C: float
    passes: int
    gap: float
    reached: bool
    seconds: float
    zero: bool
    faults: tuple[str, ...]


def main() -> int:
    """Run all fits and print the tables."""
    faults: list[str] = []
    needed = ("ohsumed_letor2", "mq2008", "trec_covid_runs", "svm_map_sample")
    run_study(__doc__, needed, lambda root: _pages(root, faults))
    return int(bool(faults))


def _pages(root: Path, faults: list[str]) -> Iterable[Shown]:
    passes: list[list[Any]] = []
    sums: list[list[Any]] = []
    sizes: list[list[Any]] = []
    for name, data, standardize in _data_sets(root):
        sizes.append([name, data.n_queries, data.n_docs, data.n_features])
        for loss in LOSSES:
            fits = [_outcome(data, loss, C, standardize) for C in GRID]
            passes.append([name, loss, *(fit.passes for fit in fits)])
            left = max((fit.gap for fit in fits if not fit.reached), default=None)
            seconds = [fit.seconds for fit in fits]
            counts = len(fits), sum(fit.reached for fit in fits), sum(fit.zero for fit in fits)
            sums.append([name, loss, *counts, left, sum(seconds), max(seconds)])
            for fit in fits:
                faults += fit.faults
                print(name, loss, f"{fit.C:g}", fit.passes, *fit.faults, file=sys.stderr, flush=True)
    yield {"rules broken": {rule: faults.count(rule) for rule in RULES}}
    yield Table("data", ["data", "queries", "documents", "features"], sizes, ["", *["integer"] * 3])
    head = ["data", "loss", *(f"C = {C:g}" for C in GRID)]
    yield Table("passes", head, passes, ["", "", *["integer"] * len(GRID)])
    head = ["data", "loss", "fits", "certified", "all weights 0", "largest gap left", "seconds", "slowest"]
    formats = ["", "", *["integer"] * 3, "2 significant", "2 digits", "2 digits"]
    yield Table("sums", head, sums, formats)
    yield _picked(root)


def _data_sets(root: Path) -> Iterable[tuple[str, RankingData, bool]]:
    ohsumed = joined_tests(ohsumed_folds(root))
    yield "OHSUMED, raw", ohsumed, False
    yield "OHSUMED, standardised", ohsumed, True
    yield "MQ2008, standardised", RankingData.concatenate(mq2008_parts(root)), True
    for number in ROUNDS:
        yield f"TREC-COVID round {number}, standardised", trec_covid(root, number), True
    yield "SVMmap sample, standardised", read(root / "svm_map_sample" / "sample.data.gz", negative="zero"), True
    yield "SVMmap sample, raw", read(root / "svm_map_sample" / "sample.data.gz", negative="zero"), False


def _ranker(loss: str, **parameters: Any) -> StructuredSVM | RankingSVM:
    if loss == "pairs":
        return RankingSVM(**parameters)
    return StructuredSVM(loss, bound="hinge", feature_map="mrr" if loss.startswith("mrr") else None, **parameters)


def _outcome(data: RankingData, loss: str, C: float, standardize: bool) -> Outcome:
    ranker = _ranker(loss, C=C, standardize=standardize)
    ranker._tries_others = ranker._proves = False  # only training is timed
    if GRID[0] == C:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _ranker(loss, C=1.0, standardize=standardize, max_passes=3).fit(data)  # compile before timing
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.process_time()
        ranker.fit(data)
        seconds = time.process_time() - began
    reached, zero = ranker.gap_ <= ranker.tol, not ranker.coef_.any()
    faults = _faults(data, ranker, reached, sum(issubclass(one.category, ConvergenceWarning) for one in caught))
    return Outcome(C, len(ranker.path_), ranker.gap_, reached, seconds, zero, faults)


def _faults(data: RankingData, ranker: StructuredSVM | RankingSVM, reached: bool, warned: int) -> tuple[str, ...]:
    """Return the rules that a fit breaks."""
    duals, gaps = (np.array([getattr(check, name) for check in ranker.path_]) for name in ("dual", "gap"))
    finite = np.isfinite(ranker.coef_).all() and np.isfinite(ranker.predict(data)).all()
    below = not np.isfinite(gaps).all() or (gaps < 0).any() or (ranker.gap_ == 0 and _has_better(data, ranker))
    decreased = (np.diff(duals) < -1e-12 * np.abs(duals[1:])).any()
    broken = below, decreased, not finite, not reached and warned != 1, reached and warned > 0
    return tuple(rule for rule, is_so in zip(RULES, broken, strict=True) if is_so)


def _has_better(data: RankingData, ranker: StructuredSVM | RankingSVM) -> bool:
    """Whether the other solver finds weights below an objective reported as optimal.

    The solver reports a negative gap as 0; this check tells rounding from a wrong bound.
    """
    other = clone(ranker).set_params(solver="one-slack-cutting-plane", tol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return bool(other.fit(data).objective_ < ranker.objective_ * (1 - 1e-9))


def _picked(root: Path) -> Table:
    """Passes of a fit from scratch at the C that validation picks."""
    mq2008, ohsumed = mq2008_folds(root), ohsumed_folds(root)
    rows: list[list[Any]] = []
    for name, folds, standardize in (
        ("OHSUMED, standardised", ohsumed, True),
        ("OHSUMED, raw", ohsumed, False),
        ("MQ2008, standardised", mq2008, True),
    ):
        for loss in LOSSES:
            for number, (train, valid, _) in enumerate(folds, 1):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    C = _ranker(loss, C="auto", standardize=standardize).fit(train, eval_set=valid).C_
                    rows.append(
                        [name, loss, number, C, _ranker(loss, C=C, standardize=standardize).fit(train).n_passes_]
                    )
    return Table(
        "picked", ["data", "loss", "fold", "C", "passes"], rows, ["", "", "integer", "2 significant", "integer"]
    )


if __name__ == "__main__":
    sys.exit(main())
