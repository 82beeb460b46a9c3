"""What to train for (KDD'08): every loss of StructuredSVM, tested on MAP, MRR@10, NDCG@10 and AUC.

The papers' convex problems, on OHSUMED and MQ2008 in LETOR's folds and TREC-COVID rounds 1 to 3 (submitted runs as
features) in five random folds, one of them for validation. C is the decade from 1e-4 to 1e3 that is best on validation
data by the row's own measure (SVMcombo: nDCG@10), each C starting from the previous solution (`C="auto"`). Means and
tests are over all test queries; a query without a relevant document counts 0, and ties stay in input order. Times are
CPU seconds, validation included. Needs `ohsumed_letor2`, `mq2008` and `trec_covid_runs` in the given folder or in
RANKWRIGHT_DATA.

Where the best weights are 0: let P*(C) be the optimal objective. P*(C)/C falls as C grows, and weights of 0 have
P(0)/C = H(0) for every C. So if the certificate puts P*(C)/C within 0.001 % of H(0) at the largest C, weights of 0 are
within 0.001 % of the optimum for every C. Training from 0 then returns 0, which is what "best" weights are. Those that
`C="auto"` returns, others within the gap, are "returned".
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from rankwright import Evaluation, RankingData, StructuredSVM, evaluate, parse_measure
from rankwright.evaluation.significance import corrected, p_value
from rankwright.maxmargin.cost import DEFAULT_GRID
from rankwright.maxmargin.losses import Target
from rankwright.measures.base import Oracle
from rankwright.measures.oracles.common import BINS, WORK, sort_descending
from rankwright.measures.oracles.positions import assignment
from study_data import Fold, Shown, Table, all_folds, pooled, run_study
from timing import best_cpu_seconds

Array = npt.NDArray[Any]
SINGLE = ("map", "ndcg@10", "mrr@10")
AUC, MAP, MRR, MRR_PO, NDCG, NDCG_NC = "AUC", "MAP", "MRR@10 (mrr)", "MRR@10 (po)", "NDCG@10", "NDCG, no clip"
DORMS = {decay: f"DORM@10, {decay}" for decay in ("log2", "sqrt", "sqrt@30")}
SEPARATE, SHARED = "combo, separate", "combo, shared"
PO_SEPARATE, PO_SHARED = "combo (po), separate", "combo (po), shared"
ROWS: dict[str, tuple[dict[str, Any], str]] = {
    AUC: ({"loss": "auc"}, "AUC"),
    MAP: ({"loss": "map"}, "AP"),
    MRR: ({"loss": "mrr@10", "feature_map": "mrr"}, "RR@10"),
    MRR_PO: ({"loss": "mrr@10", "feature_map": "po"}, "RR@10"),
    NDCG: ({"loss": "ndcg@10"}, "nDCG@10"),
    NDCG_NC: ({"loss": "ndcg"}, "nDCG"),
    **{name: ({"loss": "dorm@10", "feature_map": f"dorm:{decay}"}, "nDCG@10") for decay, name in DORMS.items()},
    SEPARATE: ({"loss": list(SINGLE), "feature_map": [None, None, "mrr"]}, "nDCG@10"),
    SHARED: ({"loss": list(SINGLE), "feature_map": [None, None, "mrr"], "slack": "shared"}, "nDCG@10"),
    PO_SEPARATE: ({"loss": list(SINGLE), "feature_map": [None, None, "po"]}, "nDCG@10"),
    PO_SHARED: ({"loss": list(SINGLE), "feature_map": [None, None, "po"], "slack": "shared"}, "nDCG@10"),
}
COLUMNS = {"MAP": "AP", "MRR@10": "RR@10", "NDCG@10": "nDCG@10", "AUC": "AUC"}
DIAGONAL = {"MAP": MAP, "MRR@10": MRR, "NDCG@10": NDCG, "AUC": AUC}
VERSUS = (
    *((MRR, MRR_PO, "MRR@10"), (NDCG_NC, NDCG, "NDCG@10")),
    *((NDCG_NC, name, "NDCG@10") for name in DORMS.values()),
    *((PO_SEPARATE, PO_SHARED, column) for column in ("MAP", "MRR@10", "NDCG@10")),
)
NEAR, TIGHT = 1e-5, 1e-6
N_DOCS = 1000
TRAINED_C = 1.0


@dataclass(frozen=True, eq=False)
class Row:
    """One loss on one data set: test values, each fold's C, whether its optimum is 0, and the time.

    `values`: with the best weights, which are 0 where no others are better, and with those returned.
    """

    values: dict[str, Evaluation]
    costs: tuple[float, ...]
    zero: tuple[bool, ...]
    uncertified: int
    passes: int
    seconds: float


Study = dict[str, dict[str, Row]]


def main() -> int:
    """Run the study and print its tables."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # a table counts them
    run_study(__doc__, ("ohsumed_letor2", "mq2008", "trec_covid_runs"), _pages)
    return 0


def _pages(root: Path) -> Iterable[Shown]:
    study: Study = {}
    data = all_folds(root)
    for name, folds in data.items():
        study[name] = {}
        for row in ROWS:
            study[name][row] = _row(row, folds)
            print(name, row, study[name][row].zero, file=sys.stderr, flush=True)
    yield _means(study)
    yield _trained(study)
    yield _diagonal(study)
    yield _versus(study)
    yield _oracles()
    yield _times(data)


# Training


def _row(name: str, folds: Sequence[Fold]) -> Row:
    parameters, measure = ROWS[name]
    measures = list(COLUMNS.values())
    best, returned, costs, zero, uncertified, passes, seconds = [], [], [], [], 0, 0, 0.0
    StructuredSVM(C=1.0, max_passes=3, bound="hinge", **parameters).fit(folds[0][0])  # compile before timing
    for train, valid, test in folds:
        ranker = _only_training(StructuredSVM(C="auto", eval_measure=measure, bound="hinge", **parameters))
        began = time.process_time()
        ranker.fit(train, eval_set=valid)
        seconds += time.process_time() - began
        zero.append(_best_is_zero(ranker, train, valid))
        uncertified += sum(step["gap"] > ranker.tol for step in ranker.C_path_)
        passes += ranker.n_passes_total_
        costs.append(ranker.C_)
        scores = ranker.predict(test)
        returned.append(evaluate(test, scores, measures=measures))
        best.append(evaluate(test, 0 * scores, measures=measures) if zero[-1] else returned[-1])
    values = {"best": pooled(name, best, measures), "returned": pooled(name, returned, measures)}
    return Row(values, tuple(costs), tuple(zero), uncertified, passes, seconds)


def _only_training(ranker: StructuredSVM) -> StructuredSVM:
    """Leave out what follows training and is not to be timed: the proof for the measure, and trials of other losses."""
    ranker._tries_others = ranker._proves = False
    return ranker


def _best_is_zero(ranker: StructuredSVM, train: RankingData, valid: RankingData) -> bool:
    """Whether weights of 0 are within 0.001 % of the optimum for every C, by the bound at the largest C."""
    hinge = clone(ranker).set_params(C=1.0, max_passes=1).fit(train).path_[0].primal  # at weights of 0
    for tol in (None, TIGHT):  # the second only if the first bound is inconclusive
        last = (ranker if tol is None else clone(ranker).set_params(tol=tol).fit(train, eval_set=valid)).C_path_[-1]
        below = 1 - last["objective"] * (1 - last["gap"]) / (last["C"] * hinge)
        if below <= NEAR or below > ranker.tol:
            return bool(below <= NEAR)
    return False


# Tables


def _means(study: Study) -> Table:
    """Means over the test queries."""
    rows: list[list[Any]] = [
        [name, trained, weights, *found.means.values()]
        for name, row_of in study.items()
        for trained, row in row_of.items()
        for weights, found in row.values.items()
    ]
    return Table("means", ["data", "trained for", "weights", *COLUMNS], rows, ["", "", "", *["short"] * len(COLUMNS)])


def _trained(study: Study) -> Table:
    """Folds whose best weights are 0, fits that are certified, and the time for all values of C and five folds."""
    rows: list[list[Any]] = []
    for name, row_of in study.items():
        for trained, row in row_of.items():
            fits = len(row.costs) * len(DEFAULT_GRID)
            costs = ", ".join(f"{C:g}" for C in row.costs)
            rows.append([name, trained, sum(row.zero), fits, fits - row.uncertified, row.passes, row.seconds, costs])
    head = ["data", "trained for", "folds at 0", "fits", "certified", "passes", "seconds", "C of folds 1–5"]
    return Table("training", head, rows, ["", "", *["integer"] * 4, "2 digits", ""])


def _diagonal(study: Study) -> Table:
    """Training for a measure beside the best row of its column; p is that of the difference, Holm over all others."""
    rows: list[list[Any]] = []
    for name, row_of in study.items():
        for column, own in DIAGONAL.items():
            for weights in ("best", "returned"):
                top, p = _against_best({trained: row.values[weights] for trained, row in row_of.items()}, own, column)
                values = [row_of[trained].values[weights].means[COLUMNS[column]] for trained in (own, top)]
                rows.append([name, column, weights, *values, top, None if top == own else p])
    head = ["data", "tested on", "weights", "trained for it", "best", "best row", "p"]
    return Table("diagonal", head, rows, ["", "", "", "short", "short", "", "p"])


def _against_best(found: dict[str, Evaluation], own: str, column: str) -> tuple[str, float]:
    """Return the best row for a measure (``own`` wins ties) and the corrected p of its difference from ``own``."""
    measure = COLUMNS[column]
    others = [trained for trained in found if trained != own]
    top = max([own, *others], key=lambda trained: found[trained].means[measure])
    ours = found[own].column(measure)
    p = corrected([p_value("wilcoxon", found[other].column(measure) - ours) for other in others])
    return top, dict(zip(others, p, strict=True)).get(top, 1.0)


def _versus(study: Study) -> Table:
    """Pairs of rows: difference of the first from the second; p by two-tailed Wilcoxon, not corrected."""
    rows: list[list[Any]] = []
    for first, second, column in VERSUS:
        for name, row_of in study.items():
            for weights in ("best", "returned"):
                ours, theirs = (row_of[row].values[weights].column(COLUMNS[column]) for row in (first, second))
                difference = float((ours - theirs).mean())
                rows.append([first, second, column, name, weights, difference, p_value("wilcoxon", ours - theirs)])
    head = ["first", "second", "tested on", "data", "weights", "difference", "p"]
    return Table("pairs", head, rows, [*[""] * 5, "signed", "p"])


# Time


def _oracles() -> Table:
    """Time DORM's most violated ranking by dynamic programme and by SciPy's assignment, in the same run."""
    rows: list[list[Any]] = []
    for cutoff, decay in (("", "log2"), ("", "sqrt"), ("@10", "log2"), ("@10", "sqrt@30")):
        for relevant in (10, 100, 500):
            ours, theirs, equal = _both_ways(parse_measure(f"ndcg{cutoff}").oracle(f"dorm:{decay}"), relevant)
            rows.append([f"dorm{cutoff}", decay, relevant, 1e3 * ours, 1e3 * theirs, equal])
    head = ["loss", "decay", "relevant", "programme, ms", "assignment, ms", "same value"]
    return Table("most violated", head, rows, ["", "", "integer", "3 digits", "2 digits", ""])


class _Assigned(StructuredSVM):
    """DORM as in the paper: every most violated ranking is a linear assignment, solved by SciPy."""

    def _targets(self, data: RankingData, winning: Any = None) -> Sequence[Target]:
        return [replace(target, make_oracle=partial(_assigned, target)) for target in super()._targets(data)]


def _assigned(target: Target) -> Any:
    return replace(target.make_oracle(), library=assignment, cheap=lambda labels: False)


def _times(data: dict[str, list[Fold]]) -> Table:
    """CPU milliseconds of SVMndcg@10 and DORM@10 to the certificate on the first fold, DORM in both ways; passes."""
    dorm = {"loss": "dorm@10", "feature_map": "dorm:sqrt@30", "C": TRAINED_C, "bound": "hinge"}
    rankers = (StructuredSVM("ndcg@10", C=TRAINED_C, bound="hinge"), StructuredSVM(**dorm), _Assigned(**dorm))  # type: ignore[arg-type]
    rows: list[list[Any]] = []
    for name, folds in data.items():
        fits = [partial(_only_training(ranker).fit, folds[0][0]) for ranker in rankers]
        milliseconds = [1e3 * best_cpu_seconds(fit, 2) for fit in fits]
        rows.append([name, *milliseconds, *(ranker.n_passes_ for ranker in rankers)])
    names = ("SVMndcg@10", "DORM@10, programme", "DORM@10, assignment")
    head = ["data", *(f"{name}, ms" for name in names), *(f"{name}, passes" for name in names)]
    return Table("DORM's time", head, rows, ["", *["1 digits"] * 3, *["integer"] * 3])


def _both_ways(oracle: Oracle, relevant: int) -> tuple[float, float, bool]:
    """Return the seconds of both ways, and whether they find the same violation."""
    library, cheap, parameters, n = oracle.library, oracle.cheap, oracle.parameters(N_DOCS), N_DOCS
    assert library is not None
    assert cheap is not None
    rng = np.random.default_rng(relevant)
    labels = rng.permutation(np.arange(n) < relevant).astype(np.float64)
    scores = labels + rng.normal(size=n)
    labels.flags.writeable = False
    order, coef, work = np.empty(n, np.int64), np.empty(n), np.empty(WORK * n + BINS)

    def programme() -> tuple[float, Any]:
        if not cheap(labels):
            return library(scores, labels, parameters)
        sort_descending(scores, order, work)
        return oracle.kernel(scores, labels, order, parameters, coef, work), coef

    ours, our_coef = programme()
    violation = ours - our_coef @ scores
    loss, their_coef = assignment(scores, labels, parameters)
    seconds = best_cpu_seconds(programme), best_cpu_seconds(lambda: assignment(scores, labels, parameters), 3)
    return *seconds, bool(np.isclose(violation, loss - their_coef @ scores, rtol=0, atol=1e-9))


if __name__ == "__main__":
    sys.exit(main())
