"""Effectiveness of LambdaMART against LightGBM's LGBMRanker, by the number of leaves, the gain and with random nodes.

Five folds of OHSUMED (LETOR 2.0), MQ2008, ClueWeb09 and a sample of MSLR-WEB10K. For all, each fold uses the learning
rate (one of three) and the number of trees (up to 300) with the best nDCG@10 on its validation part; leaves have at
least 20 documents. LambdaMART has its default gain and factors, or the squared error of the paper without factors, or
that with random nodes (0.7 of documents and features); `study_tree_defaults` compares other settings. Needs the folders
`ohsumed_letor2`, `mq2008`, `clueweb09_webis` and `mslr_sample`, and lightgbm.
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
from study_data import Fold, Shown, Table, mq2008_folds, ohsumed_folds, pooled, read, run_study

Array = npt.NDArray[Any]
Fit = Callable[[Fold, float, int], tuple[float, Array]]

RATES = (0.03, 0.1, 0.3)
TREES = 300
PATIENCE = 50
LEAVES = (2, 4, 10, 20)
MEASURES = ("nDCG@1", "nDCG@3", "nDCG@10", "AP")
CHOOSE = "nDCG@10"
OURS, PAPER, RANDOM, THEIRS = "LambdaMART", "squared error", "squared error, random nodes", "LGBMRanker"
SQUARED = {"gain": "squared", "normalize_queries": False, "nearness": 0.0}
PAIRS = ((OURS, THEIRS), (PAPER, THEIRS), (RANDOM, PAPER))


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, ("ohsumed_letor2", "mq2008", "clueweb09_webis", "mslr_sample"), pages)
    return 0


def pages(root: Path) -> Iterable[Shown]:
    """Train everything, then make both tables."""
    folds = {
        "OHSUMED": ohsumed_folds(root),
        "MQ2008": mq2008_folds(root),
        "ClueWeb09": list(letor_folds([read(root / "clueweb09_webis" / f"S{k}.txt.gz") for k in range(1, 6)])),
        "MSLR sample": mslr_folds(root),
    }
    means: list[list[Any]] = []
    differences: list[list[Any]] = []
    for data, parts in folds.items():
        for leaves in map(str, LEAVES):
            found = {name: tested(name, parts, fit, int(leaves)) for name, fit in FITS.items()}
            for name, one in found.items():
                means.append([data, leaves, name, *(one.means[measure] for measure in MEASURES)])
            for system, other in PAIRS:
                apart = found[system].means[CHOOSE] - found[other].means[CHOOSE]
                differences.append([data, leaves, system, other, apart, *p_values(found[other], found[system])])
    yield {"lightgbm": version("lightgbm"), "test queries": {name: queries(parts) for name, parts in folds.items()}}
    yield Table("means", ["data", "leaves", "method", *MEASURES], means, ["", "", "", *["short"] * len(MEASURES)])
    yield f"Differences in {CHOOSE}; p: two-tailed paired t-test and Wilcoxon over queries.\n"
    head = ["data", "leaves", "system", "against", "difference", "p (t)", "p (Wilcoxon)"]
    yield Table("differences", head, differences, ["", "", "", "", "signed", "p", "p"])


def mslr_folds(root: Path) -> list[Fold]:
    """Read the sample of MSLR-WEB10K in five random folds."""
    names = ("msn1.fold1.train.5k.txt.gz", "mslr.changli.vali.18q.txt.gz")
    parts = [read(root / "mslr_sample" / name) for name in names]
    data = RankingData.concatenate(parts)
    splits = QueryKFold(5, valid_folds=1).split_queries(data)
    return [(data.select(one.train), data.select(one.valid), data.select(one.test)) for one in splits]


def queries(folds: Sequence[Fold]) -> int:
    """Return the number of test queries."""
    return sum(test.n_queries for _, _, test in folds)


# Fitting


def lambdamart(**settings: Any) -> Fit:
    """Return a function that trains LambdaMART: value on validation queries, scores of test documents."""

    def fit(fold: Fold, rate: float, leaves: int) -> tuple[float, Array]:
        train, valid, test = fold
        ranker = LambdaMART(TREES, rate, leaves, patience=PATIENCE, **settings).fit(train, eval_set=valid)
        return value(valid, ranker.predict(valid)), ranker.predict(test)

    return fit


def lgbm_ranker(fold: Fold, rate: float, leaves: int) -> tuple[float, Array]:
    """Train LGBMRanker, likewise."""
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
    return value(valid, scores[0]), scores[1]


FITS: dict[str, Fit] = {
    OURS: lambdamart(),
    PAPER: lambdamart(**SQUARED),
    RANDOM: lambdamart(**SQUARED, randomize_nodes=True),
    THEIRS: lgbm_ranker,
}


def value(data: RankingData, scores: Array) -> float:
    """Return the measure by which everything is chosen."""
    return evaluate(data, scores, measures=[CHOOSE]).means[CHOOSE]


def tested(name: str, folds: Sequence[Fold], fit: Fit, leaves: int) -> Evaluation:
    """Evaluate the test queries of all folds, each fold with the learning rate that is best on its validation part."""
    tables = []
    for fold in folds:
        best = max((fit(fold, rate, leaves) for rate in RATES), key=lambda found: found[0])
        tables.append(evaluate(fold[2], best[1], measures=list(MEASURES)))
    return pooled(name, tables, MEASURES)


def p_values(baseline: Evaluation, system: Evaluation) -> tuple[float, float]:
    """Return the p-values on nDCG@10 of the t-test and of Wilcoxon's test."""
    result = compare([baseline, system], tests=("t", "wilcoxon"), n_resamples=1)
    found = next(one for one in result.differences if one.measure == CHOOSE)
    return found.p["t"], found.p["wilcoxon"]


if __name__ == "__main__":
    sys.exit(main())
