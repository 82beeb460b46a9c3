"""Cross-validation against validation data: the same judged queries, used in two ways, and how good the estimate is.

OHSUMED, MQ2008 and ClueWeb09 in five folds: three parts train, one validates, one tests. *Validation* trains on the
three parts and chooses C, or the number of trees, on the fourth. *Cross-validation* takes all four without telling them
apart: it chooses in five folds of their queries, and trains on all of them. Values are nDCG@10, means over the test
queries of all folds, p by the paired t-test. The *estimate* is `CrossValidation.value`, the mean over the five; the
*highest* is the highest mean of any setting, which the choice itself has seen.

Needs the folders of `study_data` and `clueweb09_webis` in the given folder or in RANKWRIGHT_DATA. Prints Markdown;
`--markdown FILE` also writes it to a file.
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
from study_data import Fold, mq2008_folds, ohsumed_folds, p_text, read, run_study, short, signed, table

METHODS: dict[str, Any] = {
    "RankingSVM": RankingSVM("auto"),
    "SVMmap": StructuredSVM("map", "auto", eval_measure="ndcg@10"),
    "LambdaMART": LambdaMART(max_leaves=10),
}
MEASURE = "nDCG@10"


def compare(method: str, folds: list[Fold]) -> list[str]:
    """A row of the table for one method on one data set."""
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
    return [
        method,
        short(float(found["validation"].mean())),
        short(float(found["crossed"].mean())),
        f"{signed(float(apart.mean()))} ({p_text(p_value('t', apart))})",
        short(float(np.mean(estimates))),
        short(float(np.mean(highest))),
        f"{seconds['crossed'] / seconds['validation']:.1f}",
    ]


def pages(root: Path) -> Iterator[str]:
    """The table of each data set."""
    warnings.simplefilter("ignore")
    clueweb = [read(root / "clueweb09_webis" / f"S{part}.txt.gz") for part in range(1, 6)]
    data = {"OHSUMED": ohsumed_folds(root), "MQ2008": mq2008_folds(root), "ClueWeb09": list(letor_folds(clueweb))}
    head = ["method", "validation", "cross-validation", "difference (p)", "estimate", "highest", "CPU time"]
    for name, folds in data.items():
        for ranker in METHODS.values():  # compile, or load compiled code
            few = folds[0][0].select(np.arange(6))
            clone(ranker).set_params(cv=2, **({"n_trees": 2} if hasattr(ranker, "n_trees") else {})).fit(few)
        yield f"### {name}\n\n" + table(head, [compare(method, folds) for method in METHODS])


if __name__ == "__main__":
    run_study(__doc__, ["ohsumed_letor2", "mq2008", "clueweb09_webis"], pages)
