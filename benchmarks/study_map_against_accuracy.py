"""SVMmap against SVMs for ROC area and for accuracy, and against the runs they learn from (SIGIR'07).

TREC-COVID rounds 1 to 3, one feature per submitted run. 50 trials; the paper's 10 queries to train, 5 to validate and
35 to test are scaled to the 30, 35 and 40 queries of a round, and every query plays each role equally often. C is the
decade with the best MAP on the validation queries. A query's average precision is the mean over the trials that test
it. Tests: two-tailed Wilcoxon over queries. Before that, the toy examples of the paper's Tables 1 to 4, and the number
of constraints that its Algorithm 1 adds against Theorem 1. Needs `trec_covid_runs` in the given folder or in
RANKWRIGHT_DATA.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from rankwright import AccuracySVM, Evaluation, QueryTrials, RankingData, StructuredSVM, compare, evaluate
from study_data import ROUNDS, Shown, Table, run_study, trec_covid

Array = npt.NDArray[Any]
GRID = tuple(10.0**power for power in range(-3, 3))
SHARED: dict[str, Any] = {"C": "auto", "C_grid": GRID, "eval_measure": "AP"}
METHODS: dict[str, Callable[[], Any]] = {
    "SVMmap": lambda: StructuredSVM("map", **SHARED),
    "SVMauc": lambda: StructuredSVM("auc", **SHARED),
    "SVMacc": lambda: AccuracySVM(**SHARED),
    "SVMacc2": lambda: AccuracySVM(balance=True, **SHARED),
    "SVMacc3": lambda: AccuracySVM(query_scaling="percentile", **SHARED),
    "SVMacc4": lambda: AccuracySVM(query_scaling="minmax", **SHARED),
}
TOYS = (((1, 0, 0, 0, 0, 1, 1, 0), "ROC area"), ((1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0), "accuracy"))
TRIALS, PAPER = 50, (10, 5, 35)
RUNS = {
    "valid": "best run by validation",
    "labelled": "best run by training and validation",
    "hindsight": "best run in hindsight",
    "second": "second best in hindsight",
}


@dataclass
class Scores:
    """Average precision of every query, summed over the trials that test it; the chosen values of C; warnings."""

    totals: Array
    counts: Array
    picked: Counter[float] = field(default_factory=Counter)
    warned: int = 0

    @classmethod
    def of(cls, n_queries: int) -> Scores:
        """Return empty scores."""
        return cls(np.zeros(n_queries), np.zeros(n_queries))

    def add(self, queries: Array, values: Array) -> None:
        """Add the values of one trial."""
        self.totals[queries] += values
        self.counts[queries] += 1


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, ("trec_covid_runs",), _pages)
    return 0


def _pages(root: Path) -> Iterable[Shown]:
    yield _toy_examples()
    yield _constraints(root)
    sizes: list[list[Any]] = []
    means: list[list[Any]] = []
    picked: list[list[Any]] = []
    for number in ROUNDS:
        data = trec_covid(root, number, sparse=False)
        name, design = f"TREC-COVID {number}", _design(data.n_queries)
        relevant = np.add.reduceat(data.labels >= 1, data.indptr[:-1])
        sizes.append([name, data.n_queries, data.n_features, data.n_docs, float(relevant.mean()), *design])
        scores = _trials(data, design)
        means += _means(name, data, scores)
        picked += [
            [name, method, *(scores[method].picked[C] for C in GRID), scores[method].warned] for method in METHODS
        ]
    head = ["data", "queries", "runs", "documents", "relevant per query", "train", "validate", "test"]
    yield Table("data", head, sizes, ["", *["integer"] * 3, "integer", *["integer"] * 3])
    head = ["data", "method", "MAP", "SVMmap is better by", "lowest", "highest", "wins", "losses", "p", "p, Holm"]
    yield Table("means", head, means, ["", "", "short", *["signed"] * 3, *["integer"] * 2, "p", "p"])
    yield {"trials": TRIALS}
    head = ["data", "method", *(f"{C:g}" for C in GRID), "not converged"]
    yield Table("chosen C", head, picked, ["", "", *["integer"] * (len(GRID) + 1)])


def _toy_examples() -> Table:
    """Tables 1 to 4: of two hypotheses, the one that is better for ROC area or accuracy has the lower MAP."""
    rows: list[list[Any]] = []
    for number, (labels, other) in enumerate(TOYS, 1):
        data = RankingData.from_arrays(np.zeros((len(labels), 1)), labels, group=[len(labels)])
        down = -np.arange(len(labels), dtype=float)
        for name, scores in ((f"{number}, as numbered", down), (f"{number}, reversed", -down)):
            means = evaluate(data, scores, measures=["AP", "AUC", "BestAccuracy"]).means
            rows.append([name, "".join(map(str, labels)), other, *means.values()])
    head = ["example, order", "labels of documents 1, 2, …", "against", "AP", "AUC", "BestAccuracy"]
    return Table("toys", head, rows, ["", "", "", *["short"] * 3])


def _constraints(root: Path) -> Table:
    """Constraints that Algorithm 1 adds for SVMmap, and the fewest that Theorem 1 can allow.

    Its R is the largest ‖Ψ(y*) − Ψ(y)‖, which is at least that of the reversed ideal ranking.
    """
    rows: list[list[Any]] = []
    for number in ROUNDS:
        data = trec_covid(root, number, sparse=False)
        data = data.select(np.flatnonzero(data.has_both(1))[:10])
        bounds = itertools.pairwise(data.indptr.tolist())
        queries = [(data.X[first:last], data.labels[first:last] >= 1) for first, last in bounds]
        R = 2 * max(float(np.linalg.norm(X[good].mean(axis=0) - X[~good].mean(axis=0))) for X, good in queries)
        for C, epsilon in itertools.product((1.0, 10.0, 100.0), (0.1, 0.01, 0.001)):
            settings: dict[str, Any] = {"solver": "n-slack-cutting-plane", "standardize": False}
            ranker = StructuredSVM("map", C, epsilon=epsilon, **settings).fit(data)
            certificate = ranker.training_.certificate
            allowed = max(2 * len(queries) / epsilon, 8 * C * R**2 / epsilon**2)
            rows.append([f"TREC-COVID {number}", C, epsilon, certificate.constraints, certificate.passes, allowed])  # type: ignore[union-attr]
    head = ["data", "C", "ε", "constraints", "passes", "Theorem 1 allows"]
    return Table("constraints", head, rows, ["", "", "", *["integer"] * 3])


def _design(n_queries: int) -> tuple[int, int, int]:
    """Scale the paper's 10, 5 and 35 of 50 queries; the test part takes the remainder."""
    train, valid = (round(part * n_queries / sum(PAPER)) for part in PAPER[:2])
    return train, valid, n_queries - train - valid


def _trials(data: RankingData, design: tuple[int, int, int]) -> dict[str, Scores]:
    train, valid, test = design
    scores = {name: Scores.of(data.n_queries) for name in (*METHODS, *RUNS.values())}
    of_runs = np.column_stack([_precision(data, data.X[:, run]) for run in range(data.n_features)])
    ranked = np.argsort(-of_runs.mean(axis=0), kind="stable")
    for split in QueryTrials(TRIALS, train=train, valid=valid, test=test).split_queries(data):
        parts = data.select(split.train), data.select(split.valid), data.select(split.test)
        for name, make in METHODS.items():
            scores[name].add(split.test, _learned(make(), parts, scores[name]))
        labelled = np.concatenate([split.train, split.valid])
        chosen = {
            "valid": of_runs[split.valid].mean(axis=0).argmax(),
            "labelled": of_runs[labelled].mean(axis=0).argmax(),
            "hindsight": ranked[0],
            "second": ranked[1],
        }
        for rule, run in chosen.items():
            scores[RUNS[rule]].add(split.test, of_runs[split.test, run])
    return scores


def _learned(ranker: Any, parts: tuple[RankingData, ...], scores: Scores) -> Array:
    train, valid, test = parts
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        ranker.fit(train, eval_set=valid)
    scores.warned += any(issubclass(one.category, ConvergenceWarning) for one in caught)
    scores.picked[ranker.C_] += 1
    return _precision(test, ranker.predict(test))


def _precision(data: RankingData, scores: Array) -> Array:
    return evaluate(data, scores, measures=["AP"]).column("AP")


def _means(name: str, data: RankingData, scores: dict[str, Scores]) -> list[list[Any]]:
    """SVMmap against everything else, query by query."""
    form = evaluate(data, np.zeros(data.n_docs), measures=["AP"])
    systems = [
        Evaluation(form.query_ids, form.measures, (one.totals / one.counts)[:, None], form.definitions, system)
        for system, one in scores.items()
    ]
    means = {system.name: system.means["AP"] for system in systems}
    rows: list[list[Any]] = [[name, "SVMmap", means["SVMmap"], *[None] * 7]]
    for d in compare(systems, baseline="SVMmap", tests=("wilcoxon",)).differences:
        low, high = d.interval
        p = d.p["wilcoxon"], d.p_corrected["wilcoxon"]
        rows.append([name, d.system, means[d.system], -d.difference, -high, -low, d.losses, d.wins, *p])
    return rows


if __name__ == "__main__":
    sys.exit(main())
