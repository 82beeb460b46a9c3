"""What to train for (KDD'08): every loss of StructuredSVM, tested on MAP, MRR@10, NDCG@10 and AUC.

OHSUMED and MQ2008 in LETOR's folds, TREC-COVID rounds 1 to 3 (submitted runs as features) in five random folds, one of
them for validation. C is the decade from 1e-4 to 1e3 that is best on validation data by the row's own measure
(SVMcombo: nDCG@10), each C starting from the previous solution (`C="auto"`). Means and tests are over all test queries;
a query without a relevant document counts 0, and ties stay in input order. Needs `ohsumed_letor2`, `mq2008` and
`trec_covid_runs` in the given folder or in RANKWRIGHT_DATA. Prints Markdown; `--markdown FILE` also writes a file.

Where the best weights are 0: let P*(C) be the optimal objective. P*(C)/C falls as C grows, and weights of 0 have
P(0)/C = H(0) for every C. So if the certificate puts P*(C)/C within 0.001 % of H(0) at the largest C, weights of 0 are
within 0.001 % of the optimum for every C. Training from 0 then returns 0, and the main tables use these weights. The
weights that `C="auto"` returns, others within the gap, have a separate table.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
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
from study_data import Fold, all_folds, marked, p_text, pooled, run_study, short, signed, table
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
N_DOCS, FASTER = 1000, 10
TRAINED_C = 1.0


@dataclass(frozen=True, eq=False)
class Row:
    """One loss on one data set: test tables, each fold's C, whether its optimum is 0, and the time."""

    best: Evaluation  # with weights of 0 where no others are better
    returned: Evaluation
    costs: tuple[float, ...]
    zero: tuple[bool, ...]
    uncertified: int
    passes: int
    seconds: float

    @property
    def mark(self) -> str:
        """°: the best weights are 0 in all or some folds."""
        return "" if not any(self.zero) else " °" if all(self.zero) else f" °{sum(self.zero)}/{len(self.zero)}"


Reading = Callable[[Row], Evaluation]
Study = dict[str, dict[str, Row]]
BEST: Reading = lambda row: row.best  # noqa: E731
RETURNED: Reading = lambda row: row.returned  # noqa: E731


def main() -> int:
    """Run the study and print its tables."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # the tables count them
    run_study(__doc__, ("ohsumed_letor2", "mq2008", "trec_covid_runs"), _pages)
    return 0


def _pages(root: Path) -> Iterable[str]:
    study: Study = {}
    data = all_folds(root)
    for name, folds in data.items():
        study[name] = {row: _row(row, folds) for row in ROWS}
        yield _criteria(name, study[name])
    yield _returned(study)
    yield _diagonal(study)
    yield _shortfalls(study)
    yield _versus(study)
    yield _times(study)
    yield _oracles()
    yield _trainings(data)


# Training


def _row(name: str, folds: Sequence[Fold]) -> Row:
    parameters, measure = ROWS[name]
    best, returned, costs, zero, uncertified, passes, seconds = [], [], [], [], 0, 0, 0.0
    for train, valid, test in folds:
        began = time.process_time()
        ranker = StructuredSVM(C="auto", eval_measure=measure, bound="hinge", **parameters).fit(train, eval_set=valid)
        seconds += time.process_time() - began
        zero.append(_best_is_zero(ranker, train, valid))
        uncertified += sum(step["gap"] > ranker.tol for step in ranker.C_path_)
        passes += ranker.n_passes_total_
        costs.append(ranker.C_)
        scores = ranker.predict(test)
        returned.append(evaluate(test, scores, measures=list(COLUMNS.values())))
        best.append(evaluate(test, 0 * scores, measures=list(COLUMNS.values())) if zero[-1] else returned[-1])
    tables = [pooled(name, part, list(COLUMNS.values())) for part in (best, returned)]
    return Row(tables[0], tables[1], tuple(costs), tuple(zero), uncertified, passes, seconds)


def _best_is_zero(ranker: StructuredSVM, train: RankingData, valid: RankingData) -> bool:
    """Whether weights of 0 are within 0.001 % of the optimum for every C, by the bound at the largest C."""
    hinge = clone(ranker).set_params(C=1.0, max_passes=1).fit(train).path_[0].primal  # at weights of 0
    for tol in (None, TIGHT):  # the second only if the first bound is inconclusive
        last = (ranker if tol is None else clone(ranker).set_params(tol=tol).fit(train, eval_set=valid)).C_path_[-1]
        below = 1 - last["objective"] * (1 - last["gap"]) / (last["C"] * hinge)
        if below <= NEAR or below > ranker.tol:
            return bool(below <= NEAR)
    return False


# The criterion table


def _criteria(name: str, rows: dict[str, Row]) -> str:
    best = {measure: max(row.best.means[measure] for row in rows.values()) for measure in COLUMNS.values()}
    lines = []
    for trained, row in rows.items():
        cells = [marked(row.best.means[measure], best[measure]) for measure in COLUMNS.values()]
        costs = "" if all(row.zero) else ", ".join(
            "–" if zero else f"{C:g}" for C, zero in zip(row.costs, row.zero, strict=True)
        )  # fmt: skip
        lines.append([trained + row.mark, *cells, costs])
    fits = len(rows) * 5 * len(DEFAULT_GRID)
    queries = len(next(iter(rows.values())).best.query_ids)
    return (
        f"## {name}: {queries} queries\n\n°: the best weights are 0 (proved to 0.001 %), so the ranking is the input "
        f"order. Bold: best of the column. Fits certified: {fits - sum(row.uncertified for row in rows.values())} "
        f"of {fits}.\n\n{table(['trained for', *COLUMNS, 'C of folds 1–5'], lines)}"
    )


def _returned(study: Study) -> str:
    lines = [
        [name, trained + row.mark, *(short(row.returned.means[measure]) for measure in COLUMNS.values()),
         ", ".join(f"{C:g}" for C in row.costs)]
        for name, rows in study.items()
        for trained, row in rows.items()
        if any(row.zero)
    ]  # fmt: skip
    return (
        '## Best weights 0: what `C="auto"` returns\n\nWeights within the gap of an optimum at 0. Which ones depends '
        f"on the solver.\n\n{table(['data', 'trained for', *COLUMNS, 'C of folds 1–5'], lines)}"
    )


def _diagonal(study: Study) -> str:
    lines, counts = [], {"best": 0, "worse": 0, "of weights not 0": 0}
    for name, rows in study.items():
        for column, diagonal in DIAGONAL.items():
            line = [name, column, diagonal + rows[diagonal].mark]
            for reading in (BEST, RETURNED):
                top, p = _against_best(rows, reading, diagonal, COLUMNS[column])
                means = {trained: reading(rows[trained]).means[COLUMNS[column]] for trained in (diagonal, top)}
                line += [short(means[diagonal]), top, short(means[top]), "" if top == diagonal else p_text(p)]
                if reading is BEST:
                    counts["best"] += top == diagonal
                    counts["worse"] += p < 0.05
                    counts["of weights not 0"] += p < 0.05 and not any(rows[diagonal].zero)
            lines.append(line)
    head = ["data", "tested on", "trained for it", "value", "best of the column", "value", "p",
            "as returned: value", "best of the column", "value", "p"]  # fmt: skip
    return (
        "## Is training for a measure the best way to optimise it?\n\nWith the best weights, training for a measure is "
        f"best in {counts['best']} of {len(lines)} columns and significantly worse than the best (p < .05) in "
        f"{counts['worse']}, {counts['of weights not 0']} of them with weights other than 0 in all folds. p: "
        f"two-tailed Wilcoxon, Holm over the {len(ROWS) - 1} other rows, since the best is picked in hindsight.\n\n"
        f"{table(head, lines)}"
    )


def _against_best(rows: dict[str, Row], reading: Reading, own: str, measure: str) -> tuple[str, float]:
    """Return the best row for a measure (``own`` wins ties) and the corrected p of its difference from ``own``."""
    means = {trained: reading(row).means[measure] for trained, row in rows.items()}
    others = [trained for trained in rows if trained != own]
    top = max([own, *others], key=lambda trained: means[trained])
    ours = reading(rows[own]).column(measure)
    p = corrected([p_value("wilcoxon", reading(rows[other]).column(measure) - ours) for other in others])
    return top, dict(zip(others, p, strict=True)).get(top, 1.0)


def _shortfalls(study: Study) -> str:
    lines = []
    for trained in ROWS:
        line = [trained]
        for reading in (BEST, RETURNED):
            short_by = []
            for rows in study.values():
                for measure in COLUMNS.values():
                    top = max(reading(row).means[measure] for row in rows.values())
                    short_by.append(top - reading(rows[trained]).means[measure])
            line += [short(float(np.mean(short_by))), short(max(short_by)), str(sum(gap < 5e-5 for gap in short_by))]
        lines.append(line)
    cells = len(study) * len(COLUMNS)
    head = ["trained for", "best weights: mean", "largest", "best", "as returned: mean", "largest", "best"]
    return (
        f"## How far below the best of the column\n\nOver {cells} columns (four measures, {len(study)} data sets): "
        "mean and largest shortfall, and how often a row is best, with the best weights and with those that "
        f'`C="auto"` returns.\n\n{table(head, lines)}'
    )


def _versus(study: Study) -> str:
    lines = []
    for first, second, column in VERSUS:
        for name, rows in study.items():
            line = [f"{first} − {second}", column, name]
            for reading in (BEST, RETURNED):
                measure = COLUMNS[column]
                apart = reading(rows[first]).column(measure) - reading(rows[second]).column(measure)
                wins, losses = int((apart > 1e-12).sum()), int((apart < -1e-12).sum())
                line += [signed(float(apart.mean())), f"{wins}/{losses}", p_text(p_value("wilcoxon", apart))]
            lines.append(line)
    head = ["rows", "tested on", "data", "best weights", "wins/losses", "p", "as returned", "wins/losses", "p"]
    return f"## Pairs of rows\n\np: two-tailed Wilcoxon, not corrected.\n\n{table(head, lines)}"


# Time


def _times(study: Study) -> str:
    lines = [
        [trained, *(f"{rows[trained].seconds:.2f} ({1e3 * rows[trained].seconds / rows[trained].passes:.1f})"
                    for rows in study.values())]
        for trained in ROWS
    ]  # fmt: skip
    ratios: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "separate / its three losses": ((SEPARATE,), (MAP, NDCG, MRR)),
        "shared / its three losses": ((SHARED,), (MAP, NDCG, MRR)),
        "(po), separate / its three losses": ((PO_SEPARATE,), (MAP, NDCG, MRR_PO)),
        "(po), shared / its three losses": ((PO_SHARED,), (MAP, NDCG, MRR_PO)),
        "DORM@10, log2 / NDCG@10": ((DORMS["log2"],), (NDCG,)),
        "DORM@10, sqrt@30 / NDCG@10": ((DORMS["sqrt@30"],), (NDCG,)),
    }
    for name, (above, below) in ratios.items():
        sums = [[sum(rows[trained].seconds for trained in part) for part in (above, below)] for rows in study.values()]
        lines.append([name, *(f"{over / under:.2f}" for over, under in sums)])
    return (
        f"## CPU seconds\n\nAll {len(DEFAULT_GRID)} values of C and five folds, one thread, including validation (in "
        "brackets: ms per pass). A ratio of 1 means that a combination of k losses takes as long as training for each "
        f"loss in turn, k times their mean.\n\n{table(['trained for', *study], lines)}"
    )


def _oracles() -> str:
    """Time DORM's most violated ranking by dynamic programme and by SciPy's assignment, in the same run."""
    lines, least = [], np.inf
    for cutoff, decay in (("", "log2"), ("", "sqrt"), ("@10", "log2"), ("@10", "sqrt@30")):
        for relevant in (10, 100, 500):
            ours, theirs, equal = _both_ways(parse_measure(f"ndcg{cutoff}").oracle(f"dorm:{decay}"), relevant)
            least = min(least, theirs / ours)
            lines.append([
                f"dorm{cutoff}", decay, str(relevant), f"{1e3 * ours:.3f}", f"{1e3 * theirs:.2f}",
                f"{theirs / ours:.0f}", "yes" if equal else "NO",
            ])  # fmt: skip
    head = ["loss", "decay", "relevant", "dynamic programme, ms", "assignment, ms", "ratio", "same value"]
    verdict = "holds" if least >= FASTER else "DOES NOT HOLD"
    return (
        f"## DORM's most violated ranking: two ways\n\nOne query of {N_DOCS:,} documents, two grades, CPU time, best "
        f"of several. Claim: at least {FASTER} times as fast: {verdict} (lowest: {least:.1f}).\n\n{table(head, lines)}"
    )


class _Assigned(StructuredSVM):
    """DORM as in the paper: every most violated ranking is a linear assignment, solved by SciPy."""

    def _targets(self, data: RankingData, winning: Any = None) -> Sequence[Target]:
        return [replace(target, make_oracle=partial(_assigned, target)) for target in super()._targets(data)]


def _assigned(target: Target) -> Any:
    return replace(target.make_oracle(), library=assignment, cheap=lambda labels: False)


def _trainings(data: dict[str, list[Fold]]) -> str:
    """Time SVMndcg@10 and DORM@10 on the first fold, DORM in both ways."""
    dorm = {"loss": "dorm@10", "feature_map": "dorm:sqrt@30", "C": TRAINED_C, "bound": "hinge"}
    rankers = (StructuredSVM("ndcg@10", C=TRAINED_C, bound="hinge"), StructuredSVM(**dorm), _Assigned(**dorm))
    lines = []
    for name, folds in data.items():
        train = folds[0][0]
        seconds, passes = [], []
        for ranker in rankers:
            seconds.append(best_cpu_seconds(partial(ranker.fit, train), 2))
            passes.append(str(ranker.n_passes_))
        ratios = [f"{seconds[at] / seconds[0]:.1f}" for at in (1, 2)]
        lines.append([name, *(f"{1e3 * one:.1f}" for one in seconds), ", ".join(passes), *ratios])
    head = ["data", "SVMndcg@10", "DORM@10, programme", "DORM@10, assignment", "passes", "programme ×", "assignment ×"]
    return (
        f"## Training times of SVMndcg and DORM\n\nFirst fold, C = {TRAINED_C:g}, decay sqrt@30, one thread, CPU "
        f"milliseconds to the certificate, and their ratio to SVMndcg@10.\n\n{table(head, lines)}"
    )


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
