"""Effectiveness of LambdaMART against LightGBM's LGBMRanker, by the number of leaves and with random nodes.

Five folds of OHSUMED (LETOR 2.0), MQ2008, ClueWeb09 and a sample of MSLR-WEB10K. For both programs, each fold uses the
learning rate (one of three) and the number of trees (up to 300) with the best nDCG@10 on its validation part.
LambdaMART chooses splits by squared error here, as in the paper; `study_tree_defaults` compares gains. Needs the
folders `ohsumed_letor2`, `mq2008`, `clueweb09_webis` and `mslr_sample`, and lightgbm.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright import Evaluation, LambdaMART, QueryKFold, RankingData, compare, evaluate, letor_folds
from study_data import Fold, mq2008_folds, ohsumed_folds, p_text, pooled, read, run_study, table

Array = npt.NDArray[Any]
Fit = Callable[[Fold, float, int], tuple[float, Array]]

RATES = (0.03, 0.1, 0.3)
TREES = 300
PATIENCE = 50
LEAVES = (2, 4, 10, 20)
MEASURES = ("nDCG@1", "nDCG@3", "nDCG@10", "AP")
CHOOSE = "nDCG@10"


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, ("ohsumed_letor2", "mq2008", "clueweb09_webis", "mslr_sample"), _pages)
    return 0


def _pages(root: Path) -> Iterable[str]:
    folds = {
        "OHSUMED": ohsumed_folds(root),
        "MQ2008": mq2008_folds(root),
        "ClueWeb09": list(letor_folds([read(root / "clueweb09_webis" / f"S{k}.txt.gz") for k in range(1, 6)])),
        "MSLR sample": mslr_folds(root),
    }
    yield (
        f"lightgbm {version('lightgbm')}, one thread each; at least 20 documents per leaf; up to {TREES} trees and "
        f"learning rates {', '.join(map(str, RATES))}, both chosen by {CHOOSE} on validation data. p: two-tailed "
        "paired t-test and Wilcoxon on nDCG@10 per query.\n"
    )
    yield _against_lightgbm(folds)
    yield _leaves(folds)


def mslr_folds(root: Path) -> list[Fold]:
    """Read the sample of MSLR-WEB10K in five random folds."""
    names = ("msn1.fold1.train.5k.txt.gz", "mslr.changli.vali.18q.txt.gz")
    parts = [read(root / "mslr_sample" / name) for name in names]
    data = RankingData.concatenate(parts)
    splits = QueryKFold(5, valid_folds=1).split_queries(data)
    return [(data.select(one.train), data.select(one.valid), data.select(one.test)) for one in splits]


# Fitting


def _rankwright(random_nodes: bool = False) -> Fit:
    def fit(fold: Fold, rate: float, leaves: int) -> tuple[float, Array]:
        train, valid, test = fold
        paper = {"gain": "squared", "normalize_queries": False, "nearness": 0.0}
        ranker = LambdaMART(TREES, rate, leaves, randomize_nodes=random_nodes, patience=PATIENCE, **paper)
        ranker.fit(train, eval_set=valid)
        return _value(valid, ranker.predict(valid)), ranker.predict(test)

    return fit


def _lightgbm(fold: Fold, rate: float, leaves: int) -> tuple[float, Array]:
    import lightgbm

    train, valid, test = fold
    ranker = lightgbm.LGBMRanker(
        n_estimators=TREES, learning_rate=rate, num_leaves=leaves, min_child_samples=20, n_jobs=1, verbose=-1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker.fit(
            train.X,
            train.labels.astype(int),
            group=train.sizes,
            eval_set=[(valid.X, valid.labels.astype(int))],
            eval_group=[valid.sizes],
            eval_at=[10],
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )
        scores = [part.to_caller_order(np.asarray(ranker.predict(part.X))) for part in (valid, test)]
    return _value(valid, scores[0]), scores[1]


def _value(data: RankingData, scores: Array) -> float:
    return evaluate(data, scores, measures=[CHOOSE]).means[CHOOSE]


def _tested(name: str, folds: Sequence[Fold], fit: Fit, leaves: int) -> Evaluation:
    """Evaluate the test queries of all folds, each fold with the learning rate that is best on its validation part."""
    tables = []
    for fold in folds:
        best = max((fit(fold, rate, leaves) for rate in RATES), key=lambda found: found[0])
        tables.append(evaluate(fold[2], best[1], measures=list(MEASURES)))
    return pooled(name, tables, MEASURES)


# Tables


def _against_lightgbm(folds: dict[str, list[Fold]]) -> str:
    rows = []
    for data, parts in folds.items():
        for leaves in (10, 20):
            ours = _tested("LambdaMART", parts, _rankwright(), leaves)
            theirs = _tested("LGBMRanker", parts, _lightgbm, leaves)
            t, wilcoxon = _p(theirs, ours)
            for found, p in ((ours, (p_text(t), p_text(wilcoxon))), (theirs, ("", ""))):
                rows.append([data, str(leaves), found.name or "", *_means(found), *p])
    head = ["data", "leaves", "ranker", *MEASURES, "p (t)", "p (Wilcoxon)"]
    return f"## Against LightGBM\n\n{table(head, rows)}"


def _leaves(folds: dict[str, list[Fold]]) -> str:
    rows = []
    for data, parts in folds.items():
        for leaves in LEAVES:
            plain = _tested("plain", parts, _rankwright(), leaves)
            random = _tested("random", parts, _rankwright(random_nodes=True), leaves)
            cells = [f"{plain.means['nDCG@10']:.4f}", f"{random.means['nDCG@10']:.4f}"]
            rows.append([data, str(leaves), *cells, *map(p_text, _p(plain, random))])
    head = ["data", "leaves", "nDCG@10", "with random nodes", "p (t)", "p (Wilcoxon)"]
    return f"## Leaves, and random nodes (0.7 of documents and features)\n\n{table(head, rows)}"


def _means(found: Evaluation) -> list[str]:
    return [f"{found.means[measure]:.4f}" for measure in MEASURES]


def _p(baseline: Evaluation, system: Evaluation) -> tuple[float, float]:
    """Return the p-values on nDCG@10 of the t-test and of Wilcoxon's test."""
    result = compare([baseline, system], tests=("t", "wilcoxon"), n_resamples=1)
    found = next(one for one in result.differences if one.measure == CHOOSE)
    return found.p["t"], found.p["wilcoxon"]


if __name__ == "__main__":
    sys.exit(main())
