"""Ranking SVM against Ranking SVM for IR (SIGIR'06): weights for pairs (τ), for queries (μ) and both; two solvers.

OHSUMED and MQ2008 in LETOR's folds, TREC-COVID rounds 1 to 3 (submitted runs as features) in five random folds, one of
them for validation. C is the decade with the best nDCG@5 on validation data, each C starting from the previous
solution. NDCG has gain 2^grade − 1 and discount 1/log2(1 + rank), as in the paper; a query without a relevant document
counts 0. Means and tests are over all test queries of the five folds. Needs `ohsumed_letor2`, `mq2008` and
`trec_covid_runs` in the given folder or in RANKWRIGHT_DATA. Prints Markdown; `--markdown FILE` also writes a file.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from rankwright import Comparison, Evaluation, RankingData, RankingSVM, compare, evaluate, rank_pair_weights
from rankwright.evaluation.significance import corrected, p_value
from rankwright.maxmargin.losses import query_pair_weights
from study_data import Fold, all_folds, joined_tests, marked, p_text, pooled, run_study, short, signed, table

Array = npt.NDArray[Any]
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
TESTS_OF_RULES = ("sign", "t")
SHOWN = {"NDCG@1": "nDCG@1", "NDCG@3": "nDCG@3", "NDCG@5": "nDCG@5", "MAP": "AP", "MAP, grade 2": "AP(rel=2)"}
NEAR, MOST_PASSES = 0.01, 3000


def main() -> int:
    """Run the study and print its tables."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # GD often stops at max_passes; a table shows how far off
    run_study(__doc__, ("ohsumed_letor2", "mq2008", "trec_covid_runs"), _pages)
    return 0


def _pages(root: Path) -> Iterable[str]:
    data = all_folds(root)
    yield _weights(data)
    comparisons, rules = {}, []
    for name, folds in data.items():
        systems, costs = {}, {}
        for method, parameters in METHODS.items():
            systems[method], costs[method] = _tested(method, folds, parameters)
        yield _results(name, systems, costs)
        rules.append(_rules(name, folds, systems))
        comparisons[name] = compare([systems["RSVM"], systems["RSVM-IR-QP"]])
    yield _significance(comparisons)
    yield _other_rules(rules)
    yield "## Does gradient descent reach the objective?\n\n" + _descent_in_words()
    for name, folds in data.items():
        yield _descent(name, joined_tests(folds))


def _tested(
    method: str, folds: Sequence[Fold], parameters: dict[str, Any], rule: str = CHOSEN_BY
) -> tuple[Evaluation, list[float]]:
    """Return the values of all test queries, and the C of each fold."""
    tables, costs = [], []
    for train, valid, test in folds:
        ranker = RankingSVM(C="auto", C_grid=GRID, eval_measure=rule, **parameters).fit(train, eval_set=valid)
        tables.append(evaluate(test, ranker.predict(test), measures=list(SHOWN.values())))
        costs.append(ranker.C_)
    return pooled(method, tables, list(SHOWN.values())), costs


def _weights(data: dict[str, list[Fold]]) -> str:
    """Table of τ and μ over all queries of a data set."""
    rows = []
    for name, folds in data.items():
        queries = joined_tests(folds)
        mu = query_pair_weights(queries)
        for over, words in (("both", "with both labels"), ("all", "all, as in the paper")):
            tau = rank_pair_weights(queries, "ndcg@1", over=over)
            rows.append([
                name, str(queries.n_queries), str(queries.n_docs), str(queries.n_features), words,
                *(short(tau[pair]) for pair in ((2.0, 1.0), (2.0, 0.0), (1.0, 0.0))),
                f"{np.median(mu):.3g}", f"{mu.max():.3g}",
            ])  # fmt: skip
    tau_head = ["τ is the mean over queries", "τ(2, 1)", "τ(2, 0)", "τ(1, 0)"]
    head = ["data", "queries", "documents", "features", *tau_head, "μ, median", "μ, largest"]
    about = "Over all queries; training uses the weights of its own fold, of queries with both labels."
    return f"## The weights\n\n{about}\n\n{table(head, rows)}"


def _results(name: str, systems: dict[str, Evaluation], costs: dict[str, list[float]]) -> str:
    means = {method: [system.means[measure] for measure in SHOWN.values()] for method, system in systems.items()}
    best = np.max(list(means.values()), axis=0)
    rows = [
        [method, *(marked(value, top) for value, top in zip(values, best, strict=True)),
         ", ".join(f"{C:g}" for C in costs[method])]
        for method, values in means.items()
    ]  # fmt: skip
    return f"## {name}\n\n{table(['method', *SHOWN, 'C of folds 1–5'], rows)}"


def _significance(comparisons: dict[str, Comparison]) -> str:
    names = {measure: shown for shown, measure in SHOWN.items()}
    found = [(name, d) for name, result in comparisons.items() for d in result.differences]
    adjusted = corrected([d.p["sign"] for _, d in found])
    rows = [
        [name, names[d.measure], signed(d.difference), f"{signed(d.interval[0])} … {signed(d.interval[1])}",
         f"{d.wins}/{d.ties}/{d.losses}", *(p_text(d.p[test]) for test in ("sign", "t", "wilcoxon", "randomization")),
         p_text(p)]
        for (name, d), p in zip(found, adjusted, strict=True)
    ]  # fmt: skip
    head = ["data", "measure", "difference", "95 % interval", "wins/ties/losses", "sign", "t", "Wilcoxon",
            "randomisation", f"sign, Holm over {len(found)}"]  # fmt: skip
    better = sum(d.difference > 0 for _, d in found)
    below = {test: sum(d.p[test] < 0.05 for _, d in found) for test in ("sign", "t", "wilcoxon", "randomization")}
    counts = ", ".join(f"{test} {count}" for test, count in below.items())
    return (
        f"## RSVM-IR-QP against RSVM\n\nTwo-tailed p-values, corrected only in the last column. The mean is higher "
        f"in {better} of {len(found)} rows; p < .05, in either direction: {counts}; after Holm's correction of the "
        f"sign test over all rows: {sum(p < 0.05 for p in adjusted)}.\n\n{table(head, rows)}"
    )


def _rules(name: str, folds: Sequence[Fold], systems: dict[str, Evaluation]) -> list[tuple[list[str], Array]]:
    """RSVM-IR-QP minus RSVM for other rules to choose C: a row of the table, and the p-values of its differences."""
    lines = []
    for rule in RULES:
        plain, weighted = (
            systems[method] if rule == CHOSEN_BY else _tested(method, folds, METHODS[method], rule)[0]
            for method in ("RSVM", "RSVM-IR-QP")
        )
        apart = (weighted.values - plain.values).T
        p = np.array([[p_value(test, column) for test in TESTS_OF_RULES] for column in apart])
        cells = [signed(float(column.mean())) + "*" * bool(of[0] < 0.05) for column, of in zip(apart, p, strict=True)]
        lines.append(([name, rule, *cells, *(p_text(value) for value in p[0])], p))
    return lines


def _other_rules(rules: Sequence[list[tuple[list[str], Array]]]) -> str:
    lines = [line for part in rules for line, _ in part]
    p = np.concatenate([values for part in rules for _, values in part])
    cells = [cell for line in lines for cell in line[2 : 2 + len(SHOWN)]]
    above = sum(cell.startswith("+") and cell != "+.0000" for cell in cells)
    starred = [sum(cell.startswith(sign) and cell.endswith("*") for cell in cells) for sign in "+−"]
    head = ["data", "C by", *SHOWN, *(f"NDCG@1: p, {test}" for test in TESTS_OF_RULES)]
    return (
        f"## RSVM-IR-QP minus RSVM, by the rule that chooses C\n\nAbove 0 in {above} of {len(cells)} cells. *: p < .05 "
        f"by the sign test, not corrected: {starred[0]} above 0, {starred[1]} below; by the t-test p < .05 in "
        f"{int((p[:, 1] < 0.05).sum())} cells.\n\n{table(head, lines)}"
    )


# Gradient descent


def _descent_in_words() -> str:
    return (
        "RSVM-IR (τ and μ) on all queries, every fit from zero weights, one thread, CPU time. QP: passes and seconds "
        "to a certified gap of 0.1 %. GD to 1 %: passes and seconds until its objective is at most "
        f"{100 * NEAR:g} % above QP's (at most {MOST_PASSES} passes). GD to its own stop (`max_passes=200`): "
        "passes, and how far its objective is above QP's.\n"
    )


def _descent(name: str, data: RankingData) -> str:
    parameters = METHODS["RSVM-IR-QP"]
    RankingSVM(**parameters, max_passes=2).fit(data)  # compile before timing
    rows = []
    for C in GRID:
        qp, qp_seconds = _timed(RankingSVM(C=C, **parameters), data)
        goal = (1 + NEAR) * qp.objective_
        near = RankingSVM(
            C=C, **parameters, solver="gd", tol=1e-12, max_passes=MOST_PASSES, callback=lambda c, g=goal: c.primal <= g
        )
        _, near_seconds = _timed(near, data)
        alone, _ = _timed(RankingSVM(C=C, **parameters, solver="gd"), data)
        reached = near.objective_ <= goal
        rows.append([
            f"{C:g}", str(qp.n_passes_), f"{qp_seconds:.2f}",
            f"{near.n_passes_}" if reached else f"not in {near.n_passes_}", f"{near_seconds:.2f}",
            str(alone.n_passes_), f"{100 * (alone.objective_ / qp.objective_ - 1):+.2f} %".replace("-", "−"),
        ])  # fmt: skip
    head = ["C", "QP: passes", "seconds", "GD to 1 %: passes", "seconds", "GD to its own stop: passes", "objective"]
    return f"### {name}\n\n{table(head, rows)}"


def _timed(ranker: RankingSVM, data: RankingData) -> tuple[RankingSVM, float]:
    began = time.process_time()
    ranker.fit(data)
    return ranker, time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
