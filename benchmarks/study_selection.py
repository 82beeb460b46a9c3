"""How max-margin rankers choose: what the tolerance costs and moves, and by which rule C is best chosen.

The data sets of `study_ramp` without the two largest, two folds each; SVMmap, SVMauc, SVMndcg without cutoff and
Ranking SVM, each in the measure it is chosen by.

1. Tolerance: C by validation, with tolerances from 1e-3 to 1e-6; differences are those from 1e-6.
2. The rule for C: all values of C are cross-validated on training and validation queries, and trained with on all of
   them. Rules: the highest mean; within one standard error of it the smallest C, the largest, or the one nearest to 1;
   and the highest after averaging each mean with its neighbours.

Prints Markdown; `--markdown FILE` also writes it to a file, `--results FILE` writes the figures as data.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import RankingData, RankingSVM, StructuredSVM, evaluate
from rankwright.rankers.cross_validation import cross_validate
from study_data import Fold, Shown, Table, run_study
from study_ramp import every_set

LOSSES = {"SVMmap": "map", "SVMauc": "auc", "SVMndcg-nc": "ndcg", "Ranking SVM": "pairs"}
MEASURES = {"SVMmap": "AP", "SVMauc": "AUC", "SVMndcg-nc": "nDCG", "Ranking SVM": "nDCG@10"}
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)
LARGE = ("cran", "demo")
FOLDS, PASSES = 2, 2000


def main() -> int:
    """Run the study and print its tables."""
    warnings.simplefilter("ignore")
    needed = ("ohsumed_letor2", "mq2008", "mq2007", "clueweb09_webis", "trec_covid_runs", "text", "mslr_sample")
    run_study(__doc__, (*needed, "lightgbm_rank"), pages)
    return 0


def pages(root: Path) -> Iterable[Shown]:
    """Read the data, then one table after the other."""
    data = {name: folds[:FOLDS] for name, folds in every_set(root).items() if name not in LARGE}
    for name in LOSSES:
        ranker(name, C=1.0).fit(data["MQ2008"][0][0])  # compiles
    yield tolerances(data)
    yield rules(data)


def ranker(name: str, **settings: Any) -> Any:
    """Return a ranker by the name of its method."""
    if LOSSES[name] == "pairs":
        return RankingSVM(max_passes=PASSES, **settings)
    return StructuredSVM(LOSSES[name], max_passes=PASSES, **settings)


def value(name: str, fitted: Any, data: RankingData) -> float:
    """Return the mean of the measure that the method is chosen by."""
    return float(evaluate(data, fitted.predict(data), measures=[MEASURES[name]]).means[MEASURES[name]])


def tolerances(data: dict[str, list[Fold]]) -> Table:
    """What the tolerance costs, and what it moves."""
    rows = []
    for name in LOSSES:
        values: dict[float, list[float]] = {tol: [] for tol in TOLERANCES}
        seconds = dict.fromkeys(TOLERANCES, 0.0)
        for train, valid, test in (fold for folds in data.values() for fold in folds):
            for tol in TOLERANCES:
                began = time.process_time()
                fitted = ranker(name, C="auto", tol=tol).fit(train, eval_set=valid)
                seconds[tol] += time.process_time() - began
                values[tol].append(value(name, fitted, test))
        for tol in TOLERANCES:
            moved = np.abs(np.array(values[tol]) - values[TOLERANCES[-1]])
            time_of = seconds[tol] / seconds[TOLERANCES[0]]
            rows.append(
                [name, f"{tol:g}", float(np.mean(values[tol])), float(moved.mean()), float(moved.max()), time_of]
            )
        print(name, file=sys.stderr, flush=True)
    head = ["method", "tol", "test", "mean difference", "largest", "time"]
    return Table("tolerance", head, rows, ["", "", "short", "short", "short", "times"])


def rules(data: dict[str, list[Fold]]) -> Table:
    """What each rule for C gives on the test queries, beside the highest mean."""
    rows = []
    for name in LOSSES:
        gains: dict[str, list[float]] = {}
        for folds in data.values():
            of_set: dict[str, list[float]] = {}
            for train, valid, test in folds:
                both = RankingData.concatenate([train, valid])
                crossed = cross_validate(ranker(name, C="auto"), both, 5)
                tested = [value(name, ranker(name, C=C).fit(both), test) for C in crossed.settings]
                known = ~np.isnan(crossed.values).any(axis=0)
                for rule, at in chosen(crossed.values[:, known], crossed.settings).items():
                    of_set.setdefault(rule, []).append(tested[at])
            for rule, found in of_set.items():
                gains.setdefault(rule, []).append(float(np.mean(found) - np.mean(of_set["highest mean"])))
        rows += [[name, rule, float(np.mean(found)), min(found), max(found)] for rule, found in gains.items()]
        print(name, file=sys.stderr, flush=True)
    head = ["method", "rule", "test, mean", "lowest", "highest"]
    return Table("rules", head, rows, ["", "", "signed", "signed", "signed"])


def chosen(values: Any, settings: Any) -> dict[str, int]:
    """Return the number of the C that each rule takes; `values`: a row for each C, a column for each query."""
    means = values.mean(axis=1)
    best = int(means.argmax())
    behind = values[best] - values
    errors = behind.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    near = np.flatnonzero(behind.mean(axis=1) <= errors + 1e-12)
    padded = np.concatenate([means[:1], means, means[-1:]])
    return {
        "highest mean": best,
        "one standard error, smallest C": int(near[0]),
        "one standard error, largest C": int(near[-1]),
        "one standard error, nearest to 1": int(near[np.abs(np.log(np.array(settings)[near])).argmin()]),
        "averaged with neighbours": int((padded[:-2] + 2 * means + padded[2:]).argmax()),
    }


if __name__ == "__main__":
    sys.exit(main())
