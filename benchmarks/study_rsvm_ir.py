"""Ranking SVM against Ranking SVM for IR (SIGIR'06): weights for pairs (τ), for queries (μ) and both; two solvers.

OHSUMED and MQ2008 in LETOR's folds, TREC-COVID rounds 1 to 3 (submitted runs as features) in five random folds, one of
them for validation. C is the decade with the best nDCG@5 on validation data, each C starting from the previous
solution. NDCG has gain 2^grade − 1 and discount 1/log2(1 + rank), as in the paper; a query without a relevant document
counts 0. Means and tests are over all test queries of the five folds. Differences are also those with C chosen by
nDCG@1 and by AP. Gradient descent is compared on all queries of a data set, every fit from zero weights, in CPU time on
one thread. Needs `ohsumed_letor2`, `mq2008` and `trec_covid_runs` in the given folder or in RANKWRIGHT_DATA.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rankwright import Evaluation, RankingData, RankingSVM, compare, evaluate, rank_pair_weights
from rankwright.maxmargin.losses import query_pair_weights
from study_data import Fold, Shown, Table, all_folds, joined_tests, pooled, run_study

METHODS: dict[str, dict[str, Any]] = {
    "RSVM": {},
    "RSVM-IR-Rank": {"rank_weights": "ndcg@1"},
    "RSVM-IR-Query": {"query_weights": True},
    "RSVM-IR-QP": {"rank_weights": "ndcg@1", "query_weights": True},
    "RSVM-IR-GD": {"rank_weights": "ndcg@1", "query_weights": True, "solver": "gd"},
}
GRID = tuple(10.0**power for power in range(-6, 3))
CHOSEN_BY = "nDCG@5"
RULES = ("nDCG@1", "nDCG@5", "AP")
TESTS = ("sign", "t", "wilcoxon", "randomization")
SHOWN = {"NDCG@1": "nDCG@1", "NDCG@3": "nDCG@3", "NDCG@5": "nDCG@5", "MAP": "AP", "MAP, grade 2": "AP(rel=2)"}
NEAR, MOST_PASSES = 0.01, 3000


def main() -> int:
    """Run the study and print its tables."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # GD often stops at max_passes; a table shows how far off
    run_study(__doc__, ("ohsumed_letor2", "mq2008", "trec_covid_runs"), _pages)
    return 0


def _pages(root: Path) -> Iterable[Shown]:
    data = all_folds(root)
    yield _weights(data)
    means: list[list[Any]] = []
    differences: list[list[Any]] = []
    for name, folds in data.items():
        for rule in RULES:
            methods = METHODS if rule == CHOSEN_BY else ("RSVM", "RSVM-IR-QP")
            systems = {method: _tested(method, folds, rule) for method in methods}
            if rule == CHOSEN_BY:
                means += [[name, method, *found.means.values(), costs] for method, (found, costs) in systems.items()]
            differences += _differences(name, rule, [systems[method][0] for method in ("RSVM", "RSVM-IR-QP")])
            print(name, rule, file=sys.stderr, flush=True)
    yield Table("means", ["data", "method", *SHOWN, "C of folds 1–5"], means, ["", "", *["short"] * len(SHOWN), ""])
    head = ["data", "C by", "measure", "difference", "lowest", "highest", "wins", "ties", "losses"]
    formats = [*[""] * 3, *["signed"] * 3, *["integer"] * 3, *["p"] * len(TESTS)]
    yield Table("differences", [*head, *(f"p {test}" for test in TESTS)], differences, formats)
    yield {"near": NEAR, "most passes": MOST_PASSES}
    yield _descent(data)


def _tested(method: str, folds: Sequence[Fold], rule: str) -> tuple[Evaluation, str]:
    """Return the values of all test queries, and the C of each fold, chosen by a measure."""
    parameters = METHODS[method]
    tables, costs = [], []
    for train, valid, test in folds:
        ranker = RankingSVM(C="auto", C_grid=GRID, eval_measure=rule, **parameters).fit(train, eval_set=valid)
        tables.append(evaluate(test, ranker.predict(test), measures=list(SHOWN.values())))
        costs.append(f"{ranker.C_:g}")
    return pooled(method, tables, list(SHOWN.values())), ", ".join(costs)


def _differences(name: str, rule: str, systems: Sequence[Evaluation]) -> list[list[Any]]:
    """RSVM-IR-QP minus RSVM, with two-tailed p-values, not corrected."""
    names = {measure: shown for shown, measure in SHOWN.items()}
    return [
        [
            name,
            rule,
            names[d.measure],
            d.difference,
            *d.interval,
            d.wins,
            d.ties,
            d.losses,
            *(d.p[test] for test in TESTS),
        ]
        for d in compare(systems, tests=TESTS).differences
    ]


def _weights(data: dict[str, list[Fold]]) -> Table:
    """τ and μ over all queries of a data set; training uses those of its own fold, of queries with both labels."""
    rows: list[list[Any]] = []
    for name, folds in data.items():
        queries = joined_tests(folds)
        mu = query_pair_weights(queries)
        sizes = queries.n_queries, queries.n_docs, queries.n_features
        for over in ("both", "all"):
            tau = rank_pair_weights(queries, "ndcg@1", over=over)
            pairs = [tau[pair] for pair in ((2.0, 1.0), (2.0, 0.0), (1.0, 0.0))]
            rows.append([name, over, *sizes, *pairs, float(np.median(mu)), float(mu.max())])
    head = [
        "data",
        "τ over",
        "queries",
        "documents",
        "features",
        "τ(2, 1)",
        "τ(2, 0)",
        "τ(1, 0)",
        "μ, median",
        "μ, largest",
    ]
    formats = ["", "", *["integer"] * 3, *["short"] * 3, *["1 digits"] * 2]
    return Table("weights", head, rows, formats)


def _descent(data: dict[str, list[Fold]]) -> Table:
    """RSVM-IR by QP to the certificate, by GD until its objective is 1 % above QP's, and by GD until it stops.

    The last column says how far GD's objective is above QP's in the end.
    """
    parameters = METHODS["RSVM-IR-QP"]
    rows: list[list[Any]] = []
    for name, folds in data.items():
        queries = joined_tests(folds)
        RankingSVM(**parameters, max_passes=2).fit(queries)  # compile before timing
        for C in GRID:
            qp, qp_seconds = _timed(RankingSVM(C=C, **parameters), queries)
            goal = (1 + NEAR) * qp.objective_
            descent: dict[str, Any] = {"C": C, "solver": "gd", **parameters}
            stops = {"tol": 1e-12, "max_passes": MOST_PASSES, "callback": lambda c, goal=goal: c.primal <= goal}
            near, seconds = _timed(RankingSVM(**descent, **stops), queries)  # type: ignore[arg-type]
            alone, _ = _timed(RankingSVM(**descent), queries)
            found = [qp.n_passes_, qp_seconds, near.n_passes_, near.objective_ <= goal, seconds]
            rows.append([name, C, qp.gap_, *found, alone.n_passes_, alone.objective_ / qp.objective_ - 1])
    head = [
        *("data", "C", "QP: gap", "QP: passes", "QP: seconds", "GD to 1 %: passes", "reached", "GD to 1 %: seconds"),
        *("GD to its own stop: passes", "objective"),
    ]
    formats = [
        "",
        "2 significant",
        "2 significant",
        "integer",
        "2 digits",
        "integer",
        "",
        "2 digits",
        "integer",
        "percent",
    ]
    return Table("descent", head, rows, formats)


def _timed(ranker: RankingSVM, data: RankingData) -> tuple[RankingSVM, float]:
    ranker._tries_others = ranker._proves = False  # only training is timed
    began = time.process_time()
    ranker.fit(data)
    return ranker, time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
