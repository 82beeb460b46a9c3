"""Effectiveness of the whole lambda family with default settings, compared with Ranking SVM.

Five folds of OHSUMED (LETOR 2.0) and MQ2008; the rankers standardise the features themselves. The epoch, the number of
rounds or trees, and Ranking SVM's C are those with the best nDCG@10 on the validation part. Nothing else is tuned.
Needs the folders `ohsumed_letor2` and `mq2008`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rankwright import LambdaBoost, LambdaMART, LambdaRank, McRank, RankingSVM, RankNet, compare, evaluate
from study_data import marked, mq2008_folds, ohsumed_folds, p_text, pooled, run_study, table

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
    """Run the study and print its tables."""
    run_study(__doc__, ("ohsumed_letor2", "mq2008"), _pages)
    return 0


def _pages(root: Path) -> Iterable[str]:
    yield "p: two-tailed Wilcoxon on nDCG@10 per query against RankingSVM, not corrected; seconds: all five folds.\n"
    for name, folds in (("OHSUMED", ohsumed_folds(root)), ("MQ2008", mq2008_folds(root))):
        systems, seconds = [], []
        for ranker, make in RANKERS.items():
            began = time.perf_counter()
            tables = []
            for train, valid, test in folds:
                scores = make().fit(train, eval_set=valid).predict(test)
                tables.append(evaluate(test, scores, measures=MEASURES))
            seconds.append(time.perf_counter() - began)
            systems.append(pooled(ranker, tables, MEASURES))
        only = [pooled(system.name, [system], [CHOOSE]) for system in systems]
        found = compare(only, tests=["wilcoxon"], correction="none", n_resamples=99)
        tested = {one.system: one.p["wilcoxon"] for one in found.differences}
        rows = []
        best = [max(system.means[measure] for system in systems) for measure in MEASURES]
        for system, spent in zip(systems, seconds, strict=True):
            p = p_text(tested[system.name]) if system.name in tested else ""
            values = [marked(system.means[m], top) for m, top in zip(MEASURES, best, strict=True)]
            rows.append([system.name, *values, p, f"{spent:.1f}"])
        yield f"### {name}\n\n" + table(["ranker", *MEASURES, "p", "seconds"], rows)


if __name__ == "__main__":
    raise SystemExit(main())
