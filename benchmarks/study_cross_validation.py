"""Cross-validation against validation data: the same judged queries, used in two ways, and how good the estimate is.

OHSUMED, MQ2008 and ClueWeb09 in five folds: three parts train, one validates, one tests. *Validation* trains on the
three parts and chooses C, or the number of trees, on the fourth. *Cross-validation* takes all four without telling them
apart: it chooses in five folds of their queries, and trains on all of them. Values are nDCG@10, means over the test
queries of all folds, p by the paired t-test. The *estimate* is `CrossValidation.value`, the mean over the five; the
*highest mean* is that of any setting, which the choice itself has seen. Times are CPU seconds, after compiling.

Needs the folders of `study_data` and `clueweb09_webis` in the given folder or in RANKWRIGHT_DATA. `--results FILE`
writes the figures as data.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwright import LambdaMART, RankingData, RankingSVM, StructuredSVM, evaluate, letor_folds
from rankwright.evaluation.significance import p_value
from study_data import Fold, Shown, Table, mq2008_folds, ohsumed_folds, read, run_study

METHODS: dict[str, Any] = {
    "RankingSVM": RankingSVM("auto"),
    "SVMmap": StructuredSVM("map", "auto", eval_measure="ndcg@10"),
    "LambdaMART": LambdaMART(max_leaves=10),
}
MEASURE = "nDCG@10"
HEAD = ["data", "method", "validation", "cross-validation", "difference", "p", "estimate", "highest mean", "CPU time"]
FORMATS = ["", "", "short", "short", "signed", "p", "short", "short", "times"]


def compare(method: str, folds: list[Fold]) -> list[float]:
    """The figures of one method on one data set."""
    ranker = METHODS[method]
    values: dict[str, list[np.ndarray]] = {"validation": [], "crossed": []}
    seconds = dict.fromkeys(values, 0.0)
    estimates, highest = [], []
    for train, valid, test in folds:
        for way in values:
            began = time.process_time()
            if way == "validation":
                fitted = clone(ranker).fit(train, eval_set=valid)
            else:
                fitted = clone(ranker).set_params(cv=5).fit(RankingData.concatenate([train, valid]))
                estimates.append(fitted.cv_.value)
                highest.append(max(fitted.cv_.means))
            seconds[way] += time.process_time() - began
            values[way].append(evaluate(test, fitted.predict(test), measures=[MEASURE]).values[:, 0])
    found = {way: np.concatenate(some) for way, some in values.items()}
    apart = found["crossed"] - found["validation"]
    means = (found["validation"].mean(), found["crossed"].mean(), apart.mean(), p_value("t", apart))
    return [*means, np.mean(estimates), np.mean(highest), seconds["crossed"] / seconds["validation"]]


def pages(root: Path) -> Iterator[Shown]:
    """One table: every method on every data set."""
    warnings.simplefilter("ignore")
    clueweb = [read(root / "clueweb09_webis" / f"S{part}.txt.gz") for part in range(1, 6)]
    data = {"OHSUMED": ohsumed_folds(root), "MQ2008": mq2008_folds(root), "ClueWeb09": list(letor_folds(clueweb))}
    few = data["OHSUMED"][0][0].select(np.arange(6))
    for ranker in METHODS.values():  # compile, or load compiled code
        clone(ranker).set_params(cv=2, **({"n_trees": 2} if hasattr(ranker, "n_trees") else {})).fit(few)
    rows = [[name, method, *compare(method, folds)] for name, folds in data.items() for method in METHODS]
    yield Table("ways", HEAD, rows, FORMATS)


if __name__ == "__main__":
    run_study(__doc__, ["ohsumed_letor2", "mq2008", "clueweb09_webis"], pages)
