"""The looks at the data of SIGIR'06 (Figures 1, 5, 6 and 8), and its gradient descent with a fixed η, on OHSUMED.

Pairs by labels and by query; the weights τ over the queries with both labels, and over all; Ranking SVM against models
of some of its pairs alone; two queries in the plane of their principal components; nDCG by depth on these two queries;
the objective that a fixed η reaches. All over the 106 queries of OHSUMED (the test parts of LETOR's five folds), pairs
and τ also for MQ2008. Needs `ohsumed_letor2` and `mq2008` in the given folder or in RANKWRIGHT_DATA. The picture of two
queries goes to docs/images.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from rankwright import PairModels, RankingData, RankingSVM, curve_measures, evaluate, pair_models, pair_summary
from rankwright import query_curves as curves_of
from rankwright.maxmargin.losses import rank_pair_weights
from rankwright.rankers.facts import Kind
from study_data import Shown, Table, joined_tests, mq2008_folds, ohsumed_folds, run_study

EXAMPLE = ("12", "50")  # the paper's queries
COSTS = (1e-4, 1e-2, 1.0)
RATES = (None, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)  # None: line search
IR: dict[str, Any] = {"rank_weights": "ndcg@1", "query_weights": True}
EXACT: dict[str, Any] = {"tol": 1e-6, "max_passes": 2000}
DEPTHS = (1, 5, 10, 15, 20, 25, 30)
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "sigir06-pairs.png"


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, ("ohsumed_letor2", "mq2008"), pages)
    return 0


def pages(root: Path) -> Iterable[Shown]:
    """All tables."""
    data = {"OHSUMED": joined_tests(ohsumed_folds(root)), "MQ2008": joined_tests(mq2008_folds(root))}
    ohsumed = data["OHSUMED"]
    yield from counts_of(data)
    yield taus(data)
    yield other_taus(data)
    found = {f"{C:g}": pair_models(ohsumed, C, queries=EXAMPLE, **EXACT) for C in COSTS}
    yield from whose_pairs(found)
    yield from plane(found[f"{COSTS[1]:g}"])
    yield example(ohsumed)
    yield rates(ohsumed)


def counts_of(data: Mapping[str, RankingData]) -> Iterable[Table]:
    """Documents by label, pairs by labels, and queries by their number of pairs."""
    sets, labels, rank_pairs, ranges = [], [], [], []
    for name, queries in data.items():
        counts = pair_summary(queries)
        spread = counts.pairs_per_query
        sets.append([
            name, queries.n_queries, counts.pairs, counts.queries_without_pairs, spread.median, spread.max,
            counts.top_share,
        ])  # fmt: skip
        labels += [[name, f"{label:g}", int((queries.labels == label).sum())] for label in np.unique(queries.labels)]
        for pair in counts.rank_pairs:
            rank_pairs.append([name, f"{pair.higher:g} over {pair.lower:g}", pair.pairs, pair.pairs / counts.pairs])
        ranges += [[name, f"{part.low:,}–{part.high:,}", part.queries] for part in counts.ranges]
    head = ["data", "queries", "pairs", "without pairs", "median", "most", "share of a tenth"]
    yield Table("data", head, sets, ["", *["integer"] * 5, "percent"])
    yield Table("documents", ["data", "label", "documents"], labels, ["", "", "integer"])
    yield Table("pairs", ["data", "labels", "pairs", "share"], rank_pairs, ["", "", "integer", "percent"])
    yield Table("ranges", ["data", "pairs of the query", "queries"], ranges, ["", "", "integer"])


def taus(data: Mapping[str, RankingData]) -> Table:
    """Mean drops of nDCG@1, over the queries with both labels and over all."""
    rows = []
    for name, queries in data.items():
        both, over_all = (rank_pair_weights(queries, over=over) for over in ("both", "all"))
        rows += [[name, f"{a:g} over {b:g}", both[a, b], over_all[a, b]] for a, b in sorted(both, reverse=True)]
    return Table("tau", ["data", "labels", "with both labels", "all queries"], rows, "short")


def other_taus(data: Mapping[str, RankingData]) -> Table:
    """Agreement of Ranking SVM for IR with itself when τ is a mean over all queries."""
    rows = []
    for name, queries in data.items():
        weights, query = rank_pair_weights(queries, over="all"), queries.query_of_row()
        for C in COSTS:
            settings = (IR, IR | {"rank_weights": weights})
            scores = [RankingSVM(C, **one, **EXACT).fit(queries).predict(queries) for one in settings]
            default, other = (found - (np.bincount(query, found) / queries.sizes)[query] for found in scores)
            rows.append([name, f"{C:g}", float(default @ other / np.sqrt((default @ default) * (other @ other)))])
    return Table("agreement by tau", ["data", "C", "agreement"], rows, ["", "", "short"])


def whose_pairs(found: Mapping[str, PairModels]) -> Iterable[Table]:
    """Agreement of Ranking SVM and of Ranking SVM for IR with models of some pairs alone, for several C."""
    rows, ranks = [], []
    for C, models in found.items():
        parts = (models.all_pairs, *models.by_labels, *models.groups)
        rows += [[C, row.part, row.share, row.rsvm, row.rsvm_ir] for row in parts]
        pairs = [row.pairs for row in models.by_query]
        for method, field in (("RSVM", "rsvm"), ("RSVM-IR", "rsvm_ir")):
            test = spearmanr(pairs, [getattr(row, field) for row in models.by_query])
            ranks.append([C, method, test.statistic, test.pvalue])
    head = ["C", "model of", "share of the pairs", "RSVM", "RSVM-IR"]
    yield Table("agreement", head, rows, ["", "", "percent", "short", "short"])
    yield Table("number of pairs", ["C", "method", "correlation", "p"], ranks, ["", "", "signed", "p"])


def plane(models: PairModels) -> Iterable[Shown]:
    """Angles with the model of all pairs in the plane of two queries, which is drawn as well."""
    models.plot(PICTURE)
    flat = models.plane
    angles = flat.degrees(flat.by_labels) | flat.degrees(flat.by_query)
    pairs = {query: models.of(f"query {query}").pairs for query in EXAMPLE}
    yield {"explained": flat.explained, "pairs of examples": pairs}
    yield Table("plane", ["model", "angle"], [[name, angle] for name, angle in angles.items()], ["", "1 digits"])


def example(data: RankingData) -> Table:
    """The paper's Figure 6: trained and evaluated on queries 12 and 50."""
    both = data.select(np.array([data.query_ids.tolist().index(query) for query in EXAMPLE]))
    measures = curve_measures("nDCG@10", max(DEPTHS))
    rows = []
    for C in COSTS:
        systems = [
            evaluate(both, RankingSVM(C, **weights, **EXACT).fit(both).predict(both), measures=measures, name=name)
            for name, weights in {"RSVM": {}, "RSVM-IR": IR}.items()
        ]
        curves = curves_of(systems)
        for s, name in enumerate(curves.systems):
            means = [float(curves.means[s, curves.depths.index(depth)]) for depth in DEPTHS]
            rows.append([f"{C:g}", name, *means])
    return Table("example", ["C", "method", *(f"N = {depth}" for depth in DEPTHS)], rows, "short")


def rates(data: RankingData) -> Table:
    """How far above the certified objective gradient descent ends after at most 200 passes."""
    rows = []
    for C in COSTS:
        best = RankingSVM(C, **IR, **EXACT)
        best.fit_data(data)
        for rate in RATES:
            ranker = RankingSVM(C, **IR, solver="gd", learning_rate=rate)
            notices = ranker.fit_data(data).notices
            too_large = any(notice.kind is Kind.OVERFLOW for notice in notices)
            eta = "line search" if rate is None else f"{rate:.0e}".replace("e-0", "e-")
            rows.append([f"{C:g}", eta, ranker.objective_ / best.objective_ - 1, ranker.n_passes_, too_large])
    return Table(
        "rates", ["C", "η", "above the optimum", "passes", "too large"], rows, ["", "", "percent", "integer", ""]
    )


if __name__ == "__main__":
    sys.exit(main())
