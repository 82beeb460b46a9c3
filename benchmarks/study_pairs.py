"""The looks at the data of SIGIR'06 (Figures 1, 5, 6 and 8), and its gradient descent with a fixed η, on OHSUMED.

Pairs by labels and by query; Ranking SVM against models of some of its pairs alone; two queries in the plane of their
principal components; nDCG by depth on these two queries; the objective that a fixed η reaches. All over the 106 queries
of OHSUMED (the test parts of LETOR's five folds), pairs also for MQ2008. Needs `ohsumed_letor2` and `mq2008` in the
given folder or in RANKWRIGHT_DATA. Prints Markdown; `--markdown FILE` also writes a file. The picture of two queries
goes to docs/images.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from rankwright import PairModels, RankingData, RankingSVM, curve_measures, evaluate, pair_models, pair_summary
from rankwright import query_curves as curves_of
from rankwright.rankers.facts import Kind
from study_data import joined_tests, mq2008_folds, ohsumed_folds, run_study, short, table

EXAMPLE = ("12", "50")  # the paper's queries
COSTS = (1e-4, 1e-2, 1.0)
RATES = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
IR: dict[str, Any] = {"rank_weights": "ndcg@1", "query_weights": True}
DEPTHS = (1, 5, 10, 15, 20, 25, 30)
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "sigir06-pairs.png"


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, ("ohsumed_letor2", "mq2008"), _pages)
    return 0


def _pages(root: Path) -> Iterable[str]:
    data = {"OHSUMED": joined_tests(ohsumed_folds(root)), "MQ2008": joined_tests(mq2008_folds(root))}
    for name, queries in data.items():
        yield _pairs(name, queries)
    ohsumed = data["OHSUMED"]
    found = {C: pair_models(ohsumed, C, queries=EXAMPLE) for C in COSTS}
    yield _models(found)
    yield _plane(found[COSTS[1]])
    yield _example(ohsumed)
    yield _rates(ohsumed)


def _pairs(name: str, data: RankingData) -> str:
    counts = pair_summary(data)
    by_labels = [
        [f"{row.higher:g} over {row.lower:g}", f"{row.pairs:,}", f"{row.pairs / counts.pairs:.1%}", str(row.queries)]
        for row in counts.rank_pairs
    ]
    by_query = [[f"{part.low:,}–{part.high:,}", str(part.queries)] for part in counts.ranges]
    return (
        f"## Pairs of {name}\n\n{counts.pairs:,} pairs; per query: median {counts.pairs_per_query.median:,.0f}, most "
        f"{counts.pairs_per_query.max:,.0f}; queries without pairs: {counts.queries_without_pairs}; the tenth of the "
        f"queries with most pairs has {counts.top_share:.1%}.\n\n"
        f"{table(['labels', 'pairs', 'share', 'queries'], by_labels)}\n"
        f"{table(['pairs of the query', 'queries'], by_query)}"
    )


def _models(found: dict[float, PairModels]) -> str:
    """Agreement of Ranking SVM and of Ranking SVM for IR with models of some pairs alone, for several C."""
    head = ["model of", "share of the pairs", *(f"{name}, C = {C:g}" for C in found for name in ("RSVM", "RSVM-IR"))]
    parts = [(models.all_pairs, *models.by_labels, *models.groups) for models in found.values()]
    rows = [
        [rows[0].part, f"{rows[0].share:.1%}", *(short(value) for row in rows for value in (row.rsvm, row.rsvm_ir))]
        for rows in zip(*parts, strict=True)
    ]
    ranks = []
    for C, models in found.items():
        pairs = [row.pairs for row in models.by_query]
        for field in ("rsvm", "rsvm_ir"):
            test = spearmanr(pairs, [getattr(row, field) for row in models.by_query])
            name = {"rsvm": "RSVM", "rsvm_ir": "RSVM-IR"}[field]
            ranks.append(f"{name} at C = {C:g}: {test.statistic:+.2f} (p = {test.pvalue:.2g})")
    return (
        f"## Whose pairs decide\n\n{table(head, rows)}\n"
        f"Rank correlation (Spearman) of a query's number of pairs with its agreement: {'; '.join(ranks)}."
    )


def _plane(models: PairModels) -> str:
    models.plot(PICTURE)
    plane = models.plane
    angles = plane.degrees(plane.by_labels) | plane.degrees(plane.by_query)
    rows = [[name, f"{angle:.0f}°"] for name, angle in angles.items() if angle > 1e-3]
    share = f"{100 * plane.explained:.0f} % of the variance"
    return f"## Queries 12 and 50 in a plane ({share})\n\n{table(['model', 'angle with RSVM'], rows)}"


def _example(data: RankingData) -> str:
    """The paper's Figure 6: trained and evaluated on queries 12 and 50."""
    both = data.select(np.array([data.query_ids.tolist().index(query) for query in EXAMPLE]))
    measures = curve_measures("nDCG@10", max(DEPTHS))
    rows = []
    for C in COSTS:
        systems = [
            evaluate(both, RankingSVM(C, **weights).fit(both).predict(both), measures=measures, name=name)
            for name, weights in {"RSVM": {}, "RSVM-IR": IR}.items()
        ]
        curves = curves_of(systems)
        for s, name in enumerate(curves.systems):
            means = [short(float(curves.means[s, curves.depths.index(depth)])) for depth in DEPTHS]
            rows.append([f"{C:g}", name, *means])
    return f"## nDCG@N on queries 12 and 50\n\n{table(['C', 'method', *(f'N = {depth}' for depth in DEPTHS)], rows)}"


def _rates(data: RankingData) -> str:
    """How far above the certified objective gradient descent ends after at most 200 passes."""
    rows = []
    for C in COSTS:
        best = RankingSVM(C, **IR, tol=1e-5, max_passes=2000)
        best.fit_data(data)
        cells = [_excess(RankingSVM(C, **IR, solver="gd", learning_rate=eta), data, best.objective_) for eta in RATES]
        rows.append([f"{C:g}", _excess(RankingSVM(C, **IR, solver="gd"), data, best.objective_), *cells])
    head = ["C", "line search", *(f"η = {eta:g}" for eta in RATES)]
    return (
        "## Gradient descent with a fixed η\n\nObjective of RSVM-IR above the certified optimum, and passes (at most "
        f"200).\n\n{table(head, rows)}"
    )


def _excess(ranker: RankingSVM, data: RankingData, optimum: float) -> str:
    notices = ranker.fit_data(data).notices
    told = f"{100 * (ranker.objective_ / optimum - 1):.2f} % ({ranker.n_passes_})"
    return f"too large: {told}" if any(notice.kind is Kind.OVERFLOW for notice in notices) else told


if __name__ == "__main__":
    sys.exit(main())
