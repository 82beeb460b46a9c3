"""Effectiveness of the whole lambda family with default settings, compared with Ranking SVM.

Five folds of OHSUMED (LETOR 2.0) and MQ2008; the rankers standardise the features themselves. The epoch, the number of
rounds or trees, and Ranking SVM's C are those with the best nDCG@10 on the validation part. Nothing else is tuned.
Needs the folders `ohsumed_letor2` and `mq2008`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rankwright import Evaluation, LambdaBoost, LambdaMART, LambdaRank, McRank, RankingSVM, RankNet, compare, evaluate
from study_data import Fold, Shown, Table, mq2008_folds, ohsumed_folds, pooled, run_study

MEASURES = ("nDCG@1", "nDCG@3", "nDCG@10", "AP")
CHOOSE = "nDCG@10"
RANKERS: dict[str, Callable[[], Any]] = {
    "RankingSVM": lambda: RankingSVM(C="auto", eval_measure=CHOOSE),
    "RankNet, linear": lambda: RankNet(hidden=0, eval_measure=CHOOSE),
    "RankNet": lambda: RankNet(eval_measure=CHOOSE),
    "LambdaRank, linear": lambda: LambdaRank(hidden=0, eval_measure=CHOOSE),
    "LambdaRank": lambda: LambdaRank(eval_measure=CHOOSE),
    "LambdaBoost": lambda: LambdaBoost(eval_measure=CHOOSE),
    "LambdaMART, 4 leaves, random nodes": lambda: LambdaMART(max_leaves=4, randomize_nodes=True, eval_measure=CHOOSE),
    "LambdaMART": lambda: LambdaMART(eval_measure=CHOOSE),
    "McRank": lambda: McRank(eval_measure=CHOOSE),
    "McRank, ordinal": lambda: McRank(link="ordinal", eval_measure=CHOOSE),
}


def main() -> int:
    """Run the study and print its table."""
    run_study(__doc__, ("ohsumed_letor2", "mq2008"), pages)
    return 0


def pages(root: Path) -> Iterable[Shown]:
    """Train every ranker on both data sets."""
    yield "p: two-tailed Wilcoxon on nDCG@10 per query against RankingSVM, not corrected; seconds: CPU, all folds.\n"
    rows: list[list[Any]] = []
    for data, folds in (("OHSUMED", ohsumed_folds(root)), ("MQ2008", mq2008_folds(root))):
        found = {ranker: tested(ranker, folds) for ranker in RANKERS}
        only = [pooled(ranker, [system], [CHOOSE]) for ranker, (system, _) in found.items()]
        compared = compare(only, tests=["wilcoxon"], correction="none", n_resamples=99)
        p = {one.system: one.p["wilcoxon"] for one in compared.differences}
        for ranker, (system, seconds) in found.items():
            rows.append([data, ranker, *(system.means[measure] for measure in MEASURES), p.get(ranker), seconds])
    yield Table(
        "means",
        ["data", "method", *MEASURES, "p", "seconds"],
        rows,
        ["", "", *["short"] * len(MEASURES), "p", "1 digits"],
    )


def tested(ranker: str, folds: Sequence[Fold]) -> tuple[Evaluation, float]:
    """Train on every fold; return the values of all test queries, and CPU seconds, compiling not counted."""
    train, valid, _ = folds[0]
    RANKERS[ranker]().fit(valid, eval_set=train)
    began = time.process_time()
    tables = []
    for train, valid, test in folds:
        scores = RANKERS[ranker]().fit(train, eval_set=valid).predict(test)
        tables.append(evaluate(test, scores, measures=MEASURES))
    seconds = time.process_time() - began
    return pooled(ranker, tables, MEASURES), seconds


if __name__ == "__main__":
    raise SystemExit(main())
