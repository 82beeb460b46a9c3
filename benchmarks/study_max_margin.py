"""Effectiveness of the max-margin rankers on OHSUMED (LETOR 2.0) and MQ2008: five folds, C chosen on validation data.

The papers' convex problems, with the default tolerance. Every C is fitted from scratch, so that one set of fits serves
every rule for choosing C. Means are means of the five fold means, as LETOR publishes them; ties stay in input order and
a query without a relevant document counts 0, as in LETOR's tool (the first table shows it). Needs the folders
`ohsumed_letor2` and `mq2008` in the given folder or in RANKWRIGHT_DATA.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from rankwright import Evaluation, QueryScaler, RankingData, compare, evaluate
from rankwright.maxmargin.cost import DEFAULT_GRID
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM
from study_data import Fold, Shown, Table, mq2008_folds, ohsumed_folds, pooled, run_study

Array = npt.NDArray[Any]
Choice = Callable[[str], str]

HALF_DECADES = tuple(10.0 ** (power / 2) for power in range(-10, 9))
DECADES = HALF_DECADES[::2]
GRIDS = {"default": DEFAULT_GRID, "decades": DECADES, "half decades": HALF_DECADES}
LOSSES = {
    "SVMmap": "map",
    "SVMauc": "auc",
    "SVMndcg@10": "ndcg@10",
    "SVMndcg": "ndcg",
    "SVMmrr@10": "mrr@10",
    "RankingSVM": "pairs",
}
TRAINED = {"map": "AP", "auc": "AUC", "ndcg@10": "nDCG@10", "ndcg": "nDCG", "mrr@10": "RR@10", "pairs": "nDCG@10"}
LETOR = {f"NDCG@{k}": f"nDCG(discount='jk')@{k}" for k in (1, 3, 5, 10)}  # with the discount of LETOR 2.0's tool
SHOWN = {"MAP": "AP", **LETOR, "NDCG@10, log2": "nDCG@10"}
MEASURES = tuple(dict.fromkeys([*SHOWN.values(), *TRAINED.values()]))
RULES: dict[str, Choice] = {
    "the trained measure": lambda loss: TRAINED[loss],
    "MAP": lambda loss: "AP",
    "NDCG@10": lambda loss: "nDCG@10",
}

# Baselines/SingleFeatures_OHSUMED.xls: NDCG@1, @3, @5, @10 and MAP of one feature over all 106 queries. Feature 5 is
# constant within a query, so its figures reveal the order of ties; 10 is the best feature.
PUBLISHED_FEATURES = {
    1: (0.349056603773585, 0.390690923463264, 0.375818897582893, 0.371344027690999, 0.411363884339042),
    5: (0.188679245283019, 0.228549331025085, 0.223645178551959, 0.233235541683826, 0.332658460196802),
    10: (0.509433962264151, 0.471517092496448, 0.453379587578540, 0.441172269657366, 0.442435358300040),
    25: (0.455974842767296, 0.427980503783367, 0.419825631048299, 0.407320212908992, 0.430344111675859),
}
# Baselines/ReferenceAlgs_OHSUMED.ods, sheet Average: MAP and NDCG@1, @3, @5, @10.
PUBLISHED = {
    "RankBoost": (0.4403, 0.4977, 0.4726, 0.4502, 0.4356),
    "Ranking SVM": (0.4469, 0.4952, 0.4649, 0.4579, 0.4411),
    "FRank": (0.4463, 0.5449, 0.4995, 0.4688, 0.4423),
    "ListNet": (0.4496, 0.5231, 0.4777, 0.4662, 0.4489),
    "AdaRank.MAP": (0.4419, 0.5420, 0.4803, 0.4554, 0.4385),
}
EQUAL_QUERIES = "standardised, pairs averaged within queries"
TESTS = ("t", "wilcoxon", "randomization")


@dataclass(frozen=True, eq=False)
class Fit:
    """One model: its C, its values on validation data, and its table on test data."""

    C: float
    valid: dict[str, float]
    test: Evaluation
    zero: bool


Fits = dict[str, dict[str, list[list[Fit]]]]  # by data set and method: of every fold, a fit for every C
Singles = dict[str, tuple[list[str], list[Evaluation]]]  # by data set: of every fold, a feature and its table


def main() -> int:
    """Run the study and print its tables."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # the robustness study counts them
    run_study(__doc__, ("ohsumed_letor2", "mq2008"), _pages)
    return 0


def _pages(root: Path) -> Iterable[Shown]:
    data = {"OHSUMED": ohsumed_folds(root), "MQ2008": mq2008_folds(root)}
    yield _definitions(RankingData.concatenate([test for _, _, test in data["OHSUMED"]]))
    fits = {name: {method: _paths(folds, loss) for method, loss in LOSSES.items()} for name, folds in data.items()}
    singles = {name: _single_features(folds) for name, folds in data.items()}
    yield _means(fits, singles)
    yield Table("published", ["method", "MAP", *LETOR], [[who, *values] for who, values in PUBLISHED.items()], "short")
    yield _significance(fits, singles)
    yield from _variants(data["OHSUMED"], fits["OHSUMED"])
    yield _zero_weights(data, fits)


# Training and choosing


def _ranker(loss: str, **parameters: Any) -> StructuredSVM | RankingSVM:
    if loss == "pairs":
        return RankingSVM(**parameters)
    return StructuredSVM(loss, bound="hinge", feature_map="mrr" if loss.startswith("mrr") else None, **parameters)


def _paths(folds: Sequence[Fold], loss: str, **parameters: Any) -> list[list[Fit]]:
    """Fit every C of the finest grid, per fold."""
    return [[_fit(fold, loss, C, **parameters) for C in HALF_DECADES] for fold in folds]


def _fit(fold: Fold, loss: str, C: float, **parameters: Any) -> Fit:
    train, valid, test = fold
    weights = parameters.pop("weights", None)
    ranker = _ranker(loss, C=C, **parameters).fit(train, query_weight=None if weights is None else weights(train))
    on_valid = evaluate(valid, ranker.predict(valid), measures=MEASURES).means
    return Fit(C, on_valid, evaluate(test, ranker.predict(test), measures=MEASURES), not ranker.coef_.any())


def _chosen(paths: list[list[Fit]], measure: str, grid: Sequence[float] = HALF_DECADES) -> list[Fit]:
    """Return the best fit on validation data per fold; the smallest C wins ties."""
    allowed = [[fit for fit in path if np.isclose(grid, fit.C, rtol=1e-9, atol=0).any()] for path in paths]
    return [max(path, key=lambda fit: fit.valid[measure]) for path in allowed]


def _mean(tables: Sequence[Evaluation], measure: str) -> float:
    """Return the mean of the fold means."""
    return float(np.mean([table.means[measure] for table in tables]))


def _single_features(folds: Sequence[Fold]) -> tuple[list[str], list[Evaluation]]:
    """Return, per fold, the feature (or its negative) with the highest training MAP, and its table on test data."""
    names, tables = [], []
    for train, _, test in folds:
        signed = [(sign, j) for j in range(train.n_features) for sign in (1, -1)]
        aps = [evaluate(train, sign * train.X[:, j], measures=["AP"]).means["AP"] for sign, j in signed]
        sign, j = signed[int(np.argmax(aps))]
        names.append(f"{'−' if sign < 0 else ''}{j + 1}")
        tables.append(evaluate(test, sign * test.X[:, j], measures=MEASURES))
    return names, tables


# Tables


def _definitions(data: RankingData) -> Table:
    """Largest differences from the published figures of single features, by definition."""
    rows: list[list[Any]] = []
    by_id = replace(data, doc_ids=np.char.mod("%09d", np.arange(data.n_docs)))
    for ties, version in (("input order", data), ("reverse input order", by_id)):
        for gain, discount, rel in itertools.product(("exponential", "linear"), ("jk", "log2"), (1, 2)):
            if rel == 2 and (gain, discount) != ("exponential", "jk"):
                continue
            ndcg = [f"nDCG(gain={gain}, discount={discount})@{k}" for k in (1, 3, 5, 10)]
            off = np.zeros(len(ndcg) + 1)
            for j, published in PUBLISHED_FEATURES.items():
                means = evaluate(version, data.X[:, j - 1], measures=[*ndcg, f"AP(rel={rel})"]).means
                off = np.maximum(off, np.abs(np.array(list(means.values())) - published))
            rows.append([ties, gain, discount, str(rel), *off.tolist()])
    head = ["ties", "gain", "discount", "MAP from grade", *LETOR, "MAP"]
    return Table("definitions", head, rows, ["", "", "", "", *["short"] * 5])


def _means(fits: Fits, singles: Singles) -> Table:
    """Means of the fold means, by the rule that chooses C."""
    rows: list[list[Any]] = []
    for name, methods in fits.items():
        for rule, measure in RULES.items():
            for method, paths in methods.items():
                chosen = _chosen(paths, measure(LOSSES[method]))
                found = [_mean([fit.test for fit in chosen], wanted) for wanted in SHOWN.values()]
                rows.append([name, rule, method, *found, ", ".join(f"{fit.C:.2g}" for fit in chosen)])
        features, tables = singles[name]
        found = [_mean(tables, wanted) for wanted in SHOWN.values()]
        rows.append([name, "", "best single feature", *found, f"features {', '.join(features)}"])
    head = ["data", "C by", "method", *SHOWN, "C of folds 1–5"]
    return Table("means", head, rows, ["", "", "", *["short"] * len(SHOWN), ""])


def _significance(fits: Fits, singles: Singles) -> Table:
    """Every method against the best single features, on all test queries of the five folds; Holm's correction."""
    measures = ("AP", "nDCG@10")
    rows: list[list[Any]] = []
    for name, methods in fits.items():
        systems = [pooled("best single feature", singles[name][1], measures)]
        for method, paths in methods.items():
            chosen = _chosen(paths, TRAINED[LOSSES[method]])
            systems.append(pooled(method, [fit.test for fit in chosen], measures))
        rows += [
            [name, d.system, d.measure, d.difference, *d.interval, d.wins, d.ties, d.losses]
            + [d.p_corrected[test] for test in TESTS]
            for d in compare(systems, tests=TESTS).differences
        ]
    head = ["data", "method", "measure", "difference", "lowest", "highest", "wins", "ties", "losses"]
    formats = ["", "", "", *["signed"] * 3, *["integer"] * 3, *["p"] * len(TESTS)]
    return Table("against the best feature", [*head, *(f"p {test}" for test in TESTS)], rows, formats)


def _variants(folds: list[Fold], standardised: dict[str, list[list[Fit]]]) -> Iterable[Table]:
    """SVMmap and RankingSVM on OHSUMED by scaling, grid of C and rule for C, and with the best C in hindsight."""
    scaled = {kind: [_scaled(fold, QueryScaler(kind)) for fold in folds] for kind in ("minmax", "zscore")}
    versions = {
        "standardised": lambda loss: None,
        EQUAL_QUERIES: lambda loss: _paths(folds, loss, weights=_one_over_pairs),
        "raw": lambda loss: _paths(folds, loss, standardize=False),
        "min–max per query": lambda loss: _paths(scaled["minmax"], loss, standardize=False),
        "z-scores per query": lambda loss: _paths(scaled["zscore"], loss, standardize=False),
    }
    shown = ("AP", LETOR["NDCG@10"])
    choices: list[list[Any]] = []
    best: list[list[Any]] = []
    for method, (version, make) in itertools.product(("SVMmap", "RankingSVM"), versions.items()):
        if method == "SVMmap" and version == EQUAL_QUERIES:
            continue
        paths = make(LOSSES[method]) or standardised[method]
        for (grid, values), rule in itertools.product(GRIDS.items(), ("MAP", "NDCG@10")):
            tables = [fit.test for fit in _chosen(paths, RULES[rule](LOSSES[method]), values)]
            choices.append([method, version, grid, rule, *(_mean(tables, measure) for measure in shown)])
        curve = [[C, *(_mean([path[at].test for path in paths], measure) for measure in shown)]
                 for at, C in enumerate(HALF_DECADES)]  # fmt: skip
        best.append([method, version, *max(curve, key=lambda line: line[1])])
    formats = ["short", "short"]
    yield Table("choices", ["method", "features", "grid", "C by", "MAP", "NDCG@10"], choices, [*[""] * 4, *formats])
    yield Table("hindsight", ["method", "features", "C", "MAP", "NDCG@10"], best, ["", "", "2 significant", *formats])


def _one_over_pairs(data: RankingData) -> dict[Any, float]:
    """Return weights that give every query the same total, whatever its number of pairs; 1 on average."""
    pairs = []
    for start, stop in itertools.pairwise(data.indptr.tolist()):
        counts = np.unique(data.labels[start:stop], return_counts=True)[1].astype(float)
        pairs.append((counts.sum() ** 2 - (counts**2).sum()) / 2)
    weights = np.array([1.0 / n if n else 0.0 for n in pairs])
    return dict(zip(data.query_ids.tolist(), (weights / weights[weights > 0].mean()).tolist(), strict=True))


def _scaled(fold: Fold, scaler: QueryScaler) -> Fold:
    train, valid, test = fold
    return scaler.transform(train), scaler.transform(valid), scaler.transform(test)


def _zero_weights(data: dict[str, list[Fold]], fits: Fits) -> Table:
    """Fits of clipped losses whose best weights are 0, and a likely reason.

    With a query's ten highest-scoring non-relevant documents on top, the loss of SVMndcg@10 and SVMmrr@10 is 1, and the
    margin is positive only if the mean of the relevant scores (NDCG) or the lowest relevant score (MRR) is above the
    mean of those ten. The last column is the share of training queries with at least ten non-relevant documents for
    which this is so, with the scores of SVMmap at C = 1.
    """
    rows: list[list[Any]] = []
    for name, folds in data.items():
        ranker = StructuredSVM("map", C=1.0)
        wins: dict[str, list[bool]] = {"SVMndcg@10": [], "SVMmrr@10": []}
        relevant = []
        for train, _, _ in folds:
            scores = ranker.fit(train).predict(train)
            for start, stop in itertools.pairwise(train.indptr.tolist()):
                good = train.labels[start:stop] >= 1
                if not good.any() or (~good).sum() < 10:
                    continue
                top_bad = np.sort(scores[start:stop][~good])[::-1][:10].mean()
                relevant.append(int(good.sum()))
                wins["SVMndcg@10"].append(scores[start:stop][good].mean() > top_bad)
                wins["SVMmrr@10"].append(scores[start:stop][good].min() > top_bad)
        for method, won in wins.items():
            zero = [fit.zero for path in fits[name][method] for fit in path]
            rows.append([name, method, sum(zero), len(zero), float(np.mean(relevant)), float(np.mean(won))])
    head = ["data", "method", "fits with all weights 0", "fits", "relevant per query", "hinge can fall below 1"]
    return Table("weights of 0", head, rows, ["", "", "integer", "integer", "1 digits", "percent"])


if __name__ == "__main__":
    sys.exit(main())
