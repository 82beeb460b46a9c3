"""The worked examples of SIGIR'07 (Tables 1 to 4), and how many constraints its Algorithm 1 adds (Theorem 1).

Examples: two rankings each, of which one has the higher MAP and the other the higher ROC area or best accuracy.
Constraints: SVMmap by Algorithm 1 on the training queries of the first folds of OHSUMED, MQ2008 and TREC-COVID round 1
(submitted runs as features), with standardised features, for several C and ε; beside them Theorem 1's bound:

    max(2nΔ/ε, 8CΔR²/ε²)    n queries, Δ = 1: the largest loss of a ranking, R: the largest ‖Ψ(y*) − Ψ(y)‖

R is found from below: for every query the ranking against a direction, the direction of its Ψ(y*) − Ψ(y), and so on
until that grows no more. So the true bound is at least the one shown. The optimum is that of the default solver.

Needs `ohsumed_letor2`, `mq2008` and `trec_covid_runs` in the given folder or in RANKWRIGHT_DATA.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import RankingData, Standardizer, StructuredSVM, evaluate
from study_data import Shown, Table, all_folds, run_study

EXAMPLES = {  # labels of documents 1, 2, …, which h1 ranks as numbered and h2 the other way round
    "ROC area (Tables 1 and 2)": (1, 0, 0, 0, 0, 1, 1, 0),
    "accuracy (Tables 3 and 4)": (1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0),
}
MEASURES = ("AP", "AUC", "BestAccuracy")
SETS = ("OHSUMED", "MQ2008", "TREC-COVID 1")
COSTS = (0.1, 1.0, 10.0, 100.0)
EPSILONS = (0.1, 0.01, 0.001)
PASSES = 5000


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, ("ohsumed_letor2", "mq2008", "trec_covid_runs"), pages)
    return 0


def pages(root: Path) -> Iterable[Shown]:
    """The examples, then the constraints."""
    yield examples()
    folds = all_folds(root)
    yield from constraints({name: folds[name][0][0] for name in SETS})


def examples() -> Table:
    """Both rankings of every example by the three measures."""
    rows = []
    for name, labels in EXAMPLES.items():
        data = RankingData.from_arrays(np.zeros((len(labels), 1)), labels, group=[len(labels)])
        for hypothesis, ranked, sign in (("h1", labels, -1.0), ("h2", labels[::-1], 1.0)):
            means = evaluate(data, sign * np.arange(len(labels)), measures=MEASURES).means
            rows.append([name, hypothesis, " ".join(map(str, ranked)), *means.values()])
    return Table("examples", ["instead of MAP", "hypothesis", "labels as ranked", *MEASURES], rows, "short")


def constraints(data: dict[str, RankingData]) -> Iterable[Shown]:
    """Algorithm 1 for every C and ε."""
    rows: list[list[Any]] = []
    sizes, gaps = [], []
    for name, queries in data.items():
        standard = Standardizer.fit(queries).transform(queries)
        R = largest_difference(standard)
        for C in COSTS:
            best = fitted(standard, C, tol=1e-7)
            gaps.append(best.gap_)
            for epsilon in EPSILONS:
                ranker = fitted(standard, C, solver="n-slack-cutting-plane", epsilon=epsilon)
                certificate, n = ranker.training_.certificate, ranker.n_queries_
                bound = max(2 * n / epsilon, 8 * C * R**2 / epsilon**2)
                added, above = certificate.constraints, (ranker.objective_ - best.objective_) / C  # type: ignore[union-attr]
                rows.append([
                    name, f"{C:g}", f"{epsilon:g}", added, added / n, bound, added / bound, above, ranker.n_passes_,  # type: ignore[operator]
                    certificate.reached,  # type: ignore[union-attr]
                ])  # fmt: skip
        sizes.append([name, n, R])
    yield {"gap of the optimum": max(gaps)}
    yield Table("data", ["data", "queries", "R, at least"], sizes, ["", "integer", "2 digits"])
    head = [
        "data", "C", "ε", "constraints", "per query", "bound, at least", "share", "above the optimum / C", "sweeps",
        "ended by ε",
    ]  # fmt: skip
    forms = ["", "", "", "integer", "1 digits", "2 significant", *["2 significant"] * 2, "integer", ""]
    yield Table("constraints", head, rows, forms)


def fitted(data: RankingData, C: float, **settings: Any) -> StructuredSVM:
    """SVMmap on features as they are."""
    return StructuredSVM("map", C, standardize=False, max_passes=PASSES, **settings).fit(data)


def largest_difference(data: RankingData) -> float:
    """The largest ‖Ψ(y*) − Ψ(y)‖ that is found, starting from the ranking with all relevant documents last."""
    found = [0.0]
    for begin, end in pairwise(data.indptr.tolist()):
        X, relevant = np.asarray(data.X[begin:end], np.float64), data.labels[begin:end] > 0
        if relevant.any() and not relevant.all():
            difference = 2.0 * (X[relevant].mean(axis=0) - X[~relevant].mean(axis=0))
            length = 0.0
            while np.linalg.norm(difference) > length * (1 + 1e-9):
                length = float(np.linalg.norm(difference))
                difference = of_ranking(X, relevant, np.argsort(X @ difference, kind="stable"))
            found.append(length)
    return max(found)


def of_ranking(X: Any, relevant: Any, order: Any) -> Any:
    """Ψ(y*) − Ψ(y) of a ranking: 2/(PN) times the sum of x_g − x_b over pairs with the other document b above g."""
    hit = relevant[order]
    others_above, relevant_below = np.cumsum(~hit), np.cumsum(hit[::-1])[::-1]
    coefficients = np.where(hit, others_above, -relevant_below)
    return 2.0 / (hit.sum() * (~hit).sum()) * (coefficients @ X[order])


if __name__ == "__main__":
    sys.exit(main())
